import Basics
import Blocks
import Commits
import Journaling
import Metadata
import ObjectStorage
import Staging
import Synchronization

/// copy_file_range: where a file takes over another file's bytes from its start, the store copies them.
///
/// The target's draft gets the source's version as its base; so its commit is one copy request, or part copies and the parts that
/// were written since. Until then the source is only pinned by its ETag. A call of this mount that changes the source commits the
/// copies first (`lock`); if another host changes it, the target's close fails. For the same reason such a file is committed
/// where others are acknowledged. Everything else, such as ranges that move to another offset, the kernel copies by reading and
/// writing.
extension BucketFileSystem {
    /// The uncommitted files that copy an object, by its key. Locked outside of a file's mutex.
    typealias Copies = Mutex<[ObjectKey: [ActiveFile]]>

    private static let leftToTheKernel = FileSystemError(
        .notSupported, "the kernel copies between different offsets")

    package func copyRange(from source: FileRange, to target: FileRange, count: Int64) -> Outcome<Int64> {
        guard source.offset == target.offset, source.ino != target.ino, source.offset >= 0, count > 0 else {
            return .ready(.failure(Self.leftToTheKernel))
        }
        return later { [self] () async throws(FileSystemError) in
            let from = try fileHandle(source.handle, of: source.ino)
            let to = try fileHandle(target.handle, of: target.ino)
            guard from.flags.reads, to.flags.writes else { throw .badHandle }
            _ = try copyable(from)
            let file = to.file
            return try await waitingForSpace(file) { [self] () async throws(FileSystemError) in
                let pass = try await enterToWrite(file, alone: true, and: source.ino)
                defer { leave(pass) }
                // A call that removes the source's object has this gate alone. No call waits for it inside another file's gate.
                guard from.file.writing.tryEnter() else { throw Self.leftToTheKernel }
                defer { from.file.writing.leave() }
                // The source may have got another key before `names` was entered.
                let object = try copyable(from)
                guard source.offset < object.version.size else { return 0 }
                let end = min(source.offset.addingReportingOverflow(count).partialValue, object.version.size)
                let largest = store.capabilities.limits.largestFile
                guard end <= largest else {
                    throw FileSystemError(.fileTooLarge, "a file has at most \(largest) bytes in this mount (max-size)")
                }
                // A file without a name becomes no object that the store could copy to.
                guard !file.state.withLock({ $0.life.isNameless }) else { throw Self.leftToTheKernel }
                let draft = try draft(of: file)
                guard draft.staged.size == target.offset, !draft.record.hasReachedStore else {
                    throw Self.leftToTheKernel
                }
                if target.offset == 0 {
                    try takeBase(object, file, draft)
                } else if !file.state.withLock({ $0.life.isCopy && $0.life.object.map(object.isSame(as:)) ?? false }) {
                    throw Self.leftToTheKernel
                }
                do throws(StagingError) { try draft.staged.takeBase(upTo: end) } catch {
                    throw FileSystemError(error)
                }
                changed(file, draft)
                return end - source.offset
            }
        }
    }

    /// The source's object, if it is what programs see and the store can copy it to the target; else throws.
    private func copyable(_ handle: FileHandle) throws(FileSystemError) -> CachedObject {
        let (base, epoch, isOther) = handle.file.state.withLock { state in
            (
                state.life.object, state.life.epoch,
                state.life.draft != nil || state.life.isNameless
            )
        }
        guard !isOther, let object = handle.pinned(base, epoch: epoch) else { throw Self.leftToTheKernel }
        let limits = store.capabilities
        // The store refuses to copy, so the bytes have to be sent anyway: the kernel reads them from the cache.
        if limits.quirks.contains(.copiesRefused) { throw Self.leftToTheKernel }
        guard object.version.size <= limits.largestCopy || limits.canCopyParts(ofSize: object.version.size) else {
            throw Self.leftToTheKernel
        }
        return object
    }

    private func takeBase(
        _ object: CachedObject, _ file: ActiveFile, _ draft: ActiveFile.Draft
    ) throws(FileSystemError) {
        try journalled { _ throws(JournalingError) in try draft.record.copies(object.key, object.version) }
        draft.commit.takeBase(BaseObject(object: object, buffers: rooms.buffers))
        let isLinked = file.state.withLock { state in
            // Dirty from here on: a call that looks for copies of the object must not take this file for a stored one.
            state.life.copy(from: object)
            return !state.life.isUnlinked
        }
        if isLinked { remember(copyOf: object.key, file) }
    }

    /// `file` is to be committed before the object `key` changes.
    func remember(copyOf key: ObjectKey, _ file: ActiveFile) {
        copies.withLock { copies in
            Self.forgetStored(&copies)
            for other in copies.keys { copies[other]?.removeAll { $0 === file } }
            copies[key, default: []].append(file)
        }
    }

    /// Removes files that have been stored since they were remembered: no call is to wait for them.
    private static func forgetStored(_ copies: inout [ObjectKey: [ActiveFile]]) {
        for key in copies.keys {
            copies[key]?.removeAll { !$0.isCopy(of: key) }
            if copies[key]?.isEmpty == true { copies[key] = nil }
        }
    }

    /// Commits the files that copy an inode's object, while the object is there.
    ///
    /// Locks: none.
    func commitCopies(ofObject ino: InodeNumber) async throws(FileSystemError) {
        guard !copies.withLock({ $0.isEmpty }), let key = try? key(of: ino) else { return }
        let pass = try await enterNamespace(of: ino)
        defer { namespace.leave(pass) }
        try await commitCopies(of: key)
    }

    /// The uncommitted files that copy an object.
    func copies(of key: ObjectKey) -> [ActiveFile] {
        copies.withLock { copies in
            Self.forgetStored(&copies)
            return copies[key] ?? []
        }
    }

    /// Commits the files that copy an object.
    ///
    /// Locks: none of a file. No directory above the object is renamed meanwhile.
    func commitCopies(of key: ObjectKey) async throws(FileSystemError) {
        try await commit(copies(of: key), copiesOf: key)
    }

    /// The same for every object below a prefix.
    func commitCopies(below prefix: ByteString) async throws(FileSystemError) {
        let waiting = copies.withLock { copies in
            Self.forgetStored(&copies)
            return copies.filter { $0.key.bytes.hasPrefix(prefix) }
        }
        for (key, files) in waiting { try await commit(files, copiesOf: key) }
    }

    /// Commits `copies`. This ends: a file copies only stored objects, so no files copy each other in a circle.
    func commit(_ copies: [ActiveFile], copiesOf key: ObjectKey) async throws(FileSystemError) {
        for file in copies {
            let lock = try await lock(file, interrupting: false)
            if file.isCopy(of: key) { try await commit(lock) }
        }
    }
}

extension ActiveFile {
    /// Whether the file has yet to be stored and needs the object for it.
    func isCopy(of key: ObjectKey) -> Bool {
        state.withLock { $0.life.isCopy && $0.life.isDirty && !$0.life.isUnlinked && $0.life.object?.key == key }
    }
}

extension CachedObject {
    /// Whether both are the same bytes at the store. Its Last-Modified may have been learnt meanwhile.
    fileprivate func isSame(as other: CachedObject) -> Bool {
        key == other.key && version.etag == other.version.etag && version.size == other.version.size
            && version.versionID == other.version.versionID
    }
}
