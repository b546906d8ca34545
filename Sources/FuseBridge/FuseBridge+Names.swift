import Basics
import CFuse3
import CLinux
import FileSystem
import Metadata

// Requests about names: lookups, and calls that make, rename and remove entries.

extension FuseBridge {
    func lookup(_ request: consuming FuseRequest, _ name: ByteString, in parent: InodeNumber) {
        answerEntry(request, fileSystem.lookup(name, in: parent))
    }

    func forget(_ request: consuming FuseRequest, _ ino: InodeNumber, count: UInt64) {
        fileSystem.forget(ino, count: count)
        request.end()
    }

    func forget(_ request: consuming FuseRequest, _ forgotten: UnsafeBufferPointer<fuse_forget_data>) {
        for entry in forgotten { fileSystem.forget(InodeNumber(rawValue: entry.ino), count: entry.nlookup) }
        request.end()
    }

    /// A regular file is created, closed and so committed; a bucket cannot hold any other node.
    func makeNode(_ request: consuming FuseRequest, _ name: ByteString, in parent: InodeNumber, mode: mode_t) {
        let (typeMask, regular): (mode_t, mode_t) = (0o170000, 0o100000)
        guard mode & typeMask == regular || mode & typeMask == 0 else { return request.refuse(EPERM) }
        let caller = Caller(request.handle)
        let isRepeated = HeldConnection.isRepeated
        answerLater(
            request,
            { [fileSystem] in
                let created = await fileSystem.create(
                    name, in: parent, mode: UInt16(truncatingIfNeeded: mode & 0o7777),
                    flags: OpenFlags(reads: false, writes: true, exclusive: !isRepeated), caller: caller
                ).value()
                guard case .success(let file) = created, let ino = file.entry.status?.ino else {
                    return created.map(\.entry)
                }
                let flushed = await fileSystem.flush(ino, handle: file.open.handle) { false }.value()
                _ = await fileSystem.release(ino, handle: file.open.handle).value()
                if case .failure(let error) = flushed {
                    fileSystem.forget(ino, count: 1)
                    return .failure(error)
                }
                return .success(file.entry)
            },
            replyWithEntry)
    }

    func makeDirectory(_ request: consuming FuseRequest, _ name: ByteString, in parent: InodeNumber, mode: mode_t) {
        let caller = Caller(request.handle)
        let mode = UInt16(truncatingIfNeeded: mode & 0o7777)
        let outcome = fileSystem.makeDirectory(name, in: parent, mode: mode, caller: caller)
            .repeated(HeldConnection.isRepeated) { [self] in await existing(name, in: parent, .directory, $0) }
        answerEntry(request, outcome)
    }

    func symlink(
        _ request: consuming FuseRequest, _ name: ByteString, in parent: InodeNumber, to target: ByteString
    ) {
        let caller = Caller(request.handle)
        let outcome = fileSystem.symlink(name, in: parent, target: target, caller: caller)
            .repeated(HeldConnection.isRepeated) { [self] error in
                guard let entry = await existing(name, in: parent, .symlink, error), let ino = entry.status?.ino,
                    case .success(target) = await fileSystem.readLink(ino).value()
                else { return nil }
                return entry
            }
        answerEntry(request, outcome)
    }

    func unlink(_ request: consuming FuseRequest, _ name: ByteString, in parent: InodeNumber) {
        let outcome = fileSystem.unlink(name, in: parent)
            .repeated(HeldConnection.isRepeated) { $0.kind == .notFound ? () : nil }
        answer(request, outcome) { request, _ in request.succeed() }
    }

    func removeDirectory(_ request: consuming FuseRequest, _ name: ByteString, in parent: InodeNumber) {
        let outcome = fileSystem.removeDirectory(name, in: parent)
            .repeated(HeldConnection.isRepeated) { $0.kind == .notFound ? () : nil }
        answer(request, outcome) { request, _ in request.succeed() }
    }

    /// `flags` are renameat2(2)'s; of them a bucket supports RENAME_NOREPLACE.
    func rename(
        _ request: consuming FuseRequest, _ name: ByteString, in parent: InodeNumber, to newName: ByteString,
        in newParent: InodeNumber, flags: UInt32
    ) {
        let noReplace: UInt32 = 1
        guard flags & ~noReplace == 0 else { return request.refuse(EINVAL) }
        if HeldConnection.isRepeated, fileSystem.hasCompletedRename(name, in: parent, to: newName, in: newParent) {
            return request.succeed()
        }
        let outcome = fileSystem.rename(
            name, in: parent, to: newName, in: newParent, noReplace: flags & noReplace != 0
        ).repeated(HeldConnection.isRepeated) { [self] error in
            // The source is gone and the target is there.
            let isDone = error.kind == .notFound || error.kind == .exists
            guard isDone, await entry(name, in: parent) == nil else { return nil }
            return await entry(newName, in: newParent).map { _ in () }
        }
        answer(request, outcome) { request, _ in request.succeed() }
    }

    private func answerEntry(_ request: consuming FuseRequest, _ outcome: Outcome<EntryReply>) {
        answer(request, outcome, replyWithEntry)
    }

    /// If the kernel did not take the entry, it holds no reference to the inode: the lookup is taken back.
    private var replyWithEntry: Reply<EntryReply> {
        { [fileSystem] request, entry in
            if !request.entry(entry), let ino = entry.status?.ino { fileSystem.forget(ino, count: 1) }
        }
    }
}
