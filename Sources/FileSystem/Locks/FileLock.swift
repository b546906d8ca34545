import Basics
import Metadata
import ObjectStorage

/// A file that a call has alone: no other call changes its bytes, its attributes or its name, and no uncommitted file copies its
/// object. Functions that need this take the lock as a parameter.
///
/// The lock ends with this value. A file that is neither open nor dirty then leaves the table of active files.
struct FileLock: ~Copyable {
    let file: ActiveFile
    private let files: ActiveFiles

    fileprivate init(_ file: ActiveFile, in files: ActiveFiles) { (self.file, self.files) = (file, files) }

    deinit {
        file.writing.leave(alone: true)
        files.forgetIfIdle(file)
    }
}

/// The locks of a rename.
struct RenameLocks: ~Copyable {
    /// Of what is renamed, and of what it replaces; nil of what is not active.
    let source, target: FileLock?
}

extension BucketFileSystem {
    /// Waits until it has the file alone. Files that copy its object are committed first. With `interrupting` an upload in the
    /// background stops for this.
    ///
    /// Locks: none of a file.
    /// Throws: EINTR; what a commit of a copy throws.
    func lock(_ file: ActiveFile, interrupting: Bool = true) async throws(FileSystemError) -> FileLock {
        while true {
            if interrupting { file.interruptUpload(isAway: watch.isAway) }
            let lock = try await enter(file)
            guard let key = try? key(of: file.ino), isCopied(key) else { return lock }
            _ = consume lock
            try await commitCopies(of: key)
        }
    }

    /// The lock if it is free and nothing copies the file's object.
    func tryLock(_ file: ActiveFile) -> FileLock? {
        guard file.writing.tryEnter(alone: true) else { return nil }
        let lock = FileLock(file, in: files)
        if let key = try? key(of: file.ino), isCopied(key) { return nil }
        return lock
    }

    /// The locks of a rename, taken in the order of the inode numbers. A target that copies the source is not committed first: it
    /// loses its name.
    func lock(renaming source: ActiveFile?, over target: ActiveFile?) async throws(FileSystemError) -> RenameLocks {
        while true {
            for file in [source, target] { file?.interruptUpload(isAway: watch.isAway) }
            let locks = try await enter(source, target)
            let copies = [target, source].compactMap { file -> (ObjectKey, [ActiveFile])? in
                guard let file, let key = try? key(of: file.ino) else { return nil }
                let copies = self.copies(of: key).filter { $0 !== target }
                return copies.isEmpty ? nil : (key, copies)
            }
            if copies.isEmpty { return locks }
            _ = consume locks
            for (key, files) in copies { try await commit(files, copiesOf: key) }
        }
    }

    private func enter(_ file: ActiveFile) async throws(FileSystemError) -> FileLock {
        do { try await file.writing.enter(alone: true) } catch { throw .interrupted }
        return FileLock(file, in: files)
    }

    private func enter(
        _ source: ActiveFile?, _ target: ActiveFile?
    ) async throws(FileSystemError) -> RenameLocks {
        guard let source else {
            if let target { return RenameLocks(source: nil, target: try await enter(target)) }
            return RenameLocks(source: nil, target: nil)
        }
        guard let target else { return RenameLocks(source: try await enter(source), target: nil) }
        if source.ino < target.ino {
            let lock = try await enter(source)
            return RenameLocks(source: lock, target: try await enter(target))
        }
        let lock = try await enter(target)
        return RenameLocks(source: try await enter(source), target: lock)
    }
}
