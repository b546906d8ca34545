import Basics
import Commits
package import Metadata
import Synchronization

/// fsync of a directory, `pailfs flush` and the end of a mount: everything below a place is brought where it belongs.
///
/// Files are done a few at a time, and one that fails keeps no other from being tried. syncfs(2) does not come here: the
/// kernel asks no ordinary FUSE server for it.
extension BucketFileSystem {
    /// Files on their way at the same time.
    private static let barrierWidth = 8

    package func syncDirectory(_ ino: InodeNumber) -> Outcome<Void> {
        if former(ino) != nil { return .success(()) }
        return later { [self] () async throws(FileSystemError) in
            await sendRemovals(below: ino)
            let failures = await each(of: dirty(below: ino)) { [self] file throws(FileSystemError) in
                do throws(FileSystemError) { try await makeDurableWaitingForSpace(file) } catch {
                    if error.kind != .interrupted { remember(error, "fsync", file.ino) }
                    throw error
                }
                // The bytes are on this disk, as was acknowledged, and the store refuses them.
                if let failure = file.state.withLock({ $0.life.isDirty ? $0.failures.unheard : nil }) { throw failure }
            }
            if let first = failures.first { throw first.error }
        }
    }

    /// Brings what is dirty at or below `ino` to the store, whatever `durable` says. Answers what is not there, and why.
    package func store(below ino: InodeNumber) async -> [UnstoredFile] {
        await sendRemovals(below: ino)
        let failures = await each(of: dirty(below: ino)) { [self] file throws(FileSystemError) in
            do throws(FileSystemError) { try await commitWaitingForSpace(file) } catch {
                if error.kind != .interrupted { remember(error, "flush", file.ino) }
                throw error
            }
            files.forgetIfIdle(file)
        }
        return unstored(failures)
    }

    /// A commit may need space itself, which others give back.
    func makeDurableWaitingForSpace(_ file: ActiveFile) async throws(FileSystemError) {
        try await waitingForSpace(file, givesSpace: true) { [self] () async throws(FileSystemError) in
            try await makeDurable(file)
        }
    }

    /// The same of the commit alone.
    func commitWaitingForSpace(_ file: ActiveFile) async throws(FileSystemError) {
        try await waitingForSpace(file, givesSpace: true) { [self] () async throws(FileSystemError) in
            try await commit(file)
        }
    }

    /// What was removed at or below `ino` leaves for the store.
    func sendRemovals(below ino: InodeNumber) async {
        guard let key = (try? metadata.key(of: ino)) ?? nil else { return }
        await jobs.sendRemovals(at: key)
    }

    /// By name, for whoever has to be told.
    func unstored(_ failures: [(file: ActiveFile, error: FileSystemError)]) -> [UnstoredFile] {
        failures.map { UnstoredFile(path: path(of: $0.file.ino), reason: $0.error.reason) }.sorted {
            $0.path < $1.path
        }
    }

    /// The same without waiting for it. Answers how many files are on their way.
    package func startStoring(below ino: InodeNumber) -> Int {
        let dirty = dirty(below: ino)
        rooms.pool.start { [self] in _ = await store(below: ino) }
        return dirty.count
    }

    /// How many files at or below `ino` the bucket does not have as programs see them.
    package func dirtyFiles(below ino: InodeNumber) -> Int { dirty(below: ino).count }

    private func dirty(below ino: InodeNumber) -> [InodeNumber] {
        guard ino != .root else { return files.dirty.map(\.ino) }
        // A directory's key ends in a slash; a file that is gone has none.
        guard let prefix = (try? metadata.key(of: ino)) ?? nil else { return [] }
        let isDirectory = prefix.last == UInt8(ascii: "/")
        return files.dirty.map(\.ino).filter { file in
            if file == ino { return true }
            guard isDirectory, let key = (try? metadata.key(of: file)) ?? nil else { return false }
            return key.hasPrefix(prefix)
        }
    }

    /// What one of many files has failed for because the store is away. Its mutex is a leaf.
    private final class Outage: Sendable {
        let error = Mutex<FileSystemError?>(nil)
    }

    /// Does something to every file that is still there when its turn comes, and answers those it failed for. What is done with a
    /// file is not held here: it may have a descriptor. Once one fails because the store is away, the others fail for the same
    /// reason, untried: the time until that is known does not grow with their number.
    func each(
        of inodes: [InodeNumber], _ act: @escaping @Sendable (ActiveFile) async throws(FileSystemError) -> Void
    ) async -> [(file: ActiveFile, error: FileSystemError)] {
        typealias Failure = (file: ActiveFile, error: FileSystemError)
        var failures: [Failure] = []
        let outage = Outage()
        await withTaskGroup(of: Failure?.self) { group in
            var rest = inodes.makeIterator()
            func addNext() {
                guard let ino = rest.next() else { return }
                group.addTask { [self] in
                    await LockOrder.inChild {
                        guard let file = files.find(ino) else { return nil }
                        if let error = outage.error.withLock({ $0 }), file.isDirty { return (file, error) }
                        do throws(FileSystemError) { try await act(file) } catch {
                            let isOutage = watch.isAway && error.mayPass && error.kind != .interrupted
                            if isOutage { outage.error.withLock { $0 = $0 ?? error } }
                            return (file, error)
                        }
                        return nil
                    }
                }
            }
            for _ in 0..<Self.barrierWidth { addNext() }
            for await failure in group {
                if let failure { failures.append(failure) }
                addNext()
            }
        }
        return failures
    }
}
