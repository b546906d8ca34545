import Basics
import Metadata
import ObjectStorage
import Synchronization

/// A file that one call holds alone: no other call changes its bytes, its attributes or its name. Functions that need this take
/// the lock as a parameter. No uncommitted file copies the object, unless the caller took the lock to leave the object as it is.
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
    /// The locks of the renamed and of the replaced file; nil for a file that is not active.
    let source, target: FileLock?
}

extension BucketFileSystem {
    /// Waits until the caller has the file alone. Files that copy its object are committed first, unless `keepsObject`, called
    /// with the file locked, says that the caller leaves the object as it is. `interrupting` stops a background upload of the
    /// file.
    ///
    /// Locks: none of a file.
    /// Throws: EINTR; the errors of the copies' commits.
    func lock(
        _ file: ActiveFile, interrupting: Bool = true, unless keepsObject: (ActiveFile) -> Bool = { _ in false }
    ) async throws(FileSystemError) -> FileLock {
        while true {
            if interrupting { file.interruptUpload(isAway: watch.isAway) }
            let lock = try await enter(file)
            if keepsObject(file) { return lock }
            guard let copies = pendingCopies(of: file) else { return lock }
            _ = consume lock
            try await commit(copies.files, copiesOf: copies.key)
        }
    }

    /// The lock if it is free, for a call that leaves the object as it is.
    func tryLock(_ file: ActiveFile) -> FileLock? {
        file.writing.tryEnter(alone: true) ? FileLock(file, in: files) : nil
    }

    /// The locks of a rename, taken in the order of the inode numbers. A target that copies the source is not committed first: it
    /// loses its name.
    func lock(renaming source: ActiveFile?, over target: ActiveFile?) async throws(FileSystemError) -> RenameLocks {
        while true {
            for file in [source, target] { file?.interruptUpload(isAway: watch.isAway) }
            let locks = try await enter(source, target)
            let copies = [target, source].compactMap { file in
                file.flatMap { pendingCopies(of: $0, except: target) }
            }
            if copies.isEmpty { return locks }
            _ = consume locks
            for copies in copies { try await commit(copies.files, copiesOf: copies.key) }
        }
    }

    /// The uncommitted files except `other` that copy the file's object, with its key; nil if there are none. Cheap while no file
    /// copies anything.
    private func pendingCopies(
        of file: ActiveFile, except other: ActiveFile? = nil
    ) -> (key: ObjectKey, files: [ActiveFile])? {
        guard !copies.withLock({ $0.isEmpty }), let key = try? key(of: file.ino) else { return nil }
        let files = copies(of: key).filter { $0 !== other }
        return files.isEmpty ? nil : (key, files)
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
