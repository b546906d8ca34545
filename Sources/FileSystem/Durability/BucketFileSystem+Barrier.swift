import Basics
import Commits
package import Metadata
import Synchronization

/// fsync of a directory, `pailfs flush` and the end of a mount: every file below a directory is made durable or committed.
///
/// A few files at a time; the failure of one does not keep the others from being tried. syncfs(2) does not come here: the kernel
/// does not send it to an ordinary FUSE server.
extension BucketFileSystem {
    /// Files that are committed at the same time.
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
                // The bytes are on this disk, as was acknowledged, but the store refuses them.
                if let failure = file.state.withLock({ $0.life.isDirty ? $0.failures.unheard : nil }) { throw failure }
            }
            if let first = failures.first { throw first.error }
        }
    }

    /// Commits the dirty files at or below `ino`, whatever `durable` says. Returns those that are not stored, and why.
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

    /// Makes the file durable. If that needs local space, waits until other files give some back.
    func makeDurableWaitingForSpace(_ file: ActiveFile) async throws(FileSystemError) {
        try await waitingForSpace(file, givesSpace: true) { [self] () async throws(FileSystemError) in
            try await makeDurable(file)
        }
    }

    /// The same for the commit alone.
    func commitWaitingForSpace(_ file: ActiveFile) async throws(FileSystemError) {
        try await waitingForSpace(file, givesSpace: true) { [self] () async throws(FileSystemError) in
            try await commit(file)
        }
    }

    /// Sends the waiting removals at or below `ino` to the store.
    func sendRemovals(below ino: InodeNumber) async {
        guard let key = (try? metadata.key(of: ino)) ?? nil else { return }
        await jobs.sendRemovals(at: key)
    }

    /// The failures by path, for messages.
    func unstored(_ failures: [(file: ActiveFile, error: FileSystemError)]) -> [UnstoredFile] {
        failures.map { UnstoredFile(path: path(of: $0.file.ino), reason: $0.error.reason) }.sorted {
            $0.path < $1.path
        }
    }

    /// Starts `store(below:)` without waiting for it. Returns the number of dirty files.
    package func startStoring(below ino: InodeNumber) -> Int {
        let dirty = dirty(below: ino)
        rooms.pool.start { [self] in _ = await store(below: ino) }
        return dirty.count
    }

    /// The number of files at or below `ino` with changes that are not in the bucket.
    package func dirtyFiles(below ino: InodeNumber) -> Int { dirty(below: ino).count }

    /// The files whose present state the bucket does not have, and how many bytes of them have to be sent yet.
    package var unsent: (files: Int, bytes: Int64) {
        let dirty = files.dirty
        let bytes = dirty.reduce(into: Int64(0)) { sum, file in
            let (draft, size) = file.state.withLock { ($0.life.draft, $0.attributes.size) }
            sum += max(0, size - (draft?.commit.progress.sentBytes ?? 0))
        }
        return (dirty.count, bytes)
    }

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

    /// The error of the first file that failed because the store is away. Its mutex is a leaf.
    private final class Outage: Sendable {
        let error = Mutex<FileSystemError?>(nil)
    }

    /// Runs `act` for every file that is still active when its turn comes, and returns the failures. Holds no file before or
    /// after its turn: it may have a descriptor. Once a file fails because the store is away, the dirty files after it fail with
    /// that error, untried: the time for all does not grow with their number.
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
