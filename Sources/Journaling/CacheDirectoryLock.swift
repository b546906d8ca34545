import Basics

/// The right of one process to use a directory of a mount, held from before anything in it is opened to the end of the mount.
///
/// It is flock(2) on the file `lock` in the directory, so the kernel releases it however the process ends; the file itself
/// stays. Its text, pid and mountpoint, is for the error message of a second process and means nothing without the lock. The
/// descriptor is closed on exec: take the lock in the process that serves the mount, not in one that starts it.
package final class CacheDirectoryLock: Sendable {
    package let directory: String
    private let (pid, mountpoint): (Int32, String)
    private let file: File

    /// Creates the directory for its owner alone, and takes the lock or throws at once.
    package init(directory: String, pid: Int32, mountpoint: String) throws(JournalingError) {
        (self.directory, self.pid, self.mountpoint) = (directory, pid, mountpoint)
        try Self.prepare(directory)
        do throws(FileError) {
            file = try File(directory + "/lock", .readWrite, create: .ifMissing)
            if try file.tryLock() {
                try file.truncate(to: 0)
                try file.write(Array("\(pid)\n\(mountpoint)\n".utf8), at: 0)
                return
            }
        } catch { throw .file(error) }
        throw Self.holder(of: file, in: directory)
    }

    /// Whether the locked file is still in the directory: without it another process could lock the directory. True when a
    /// failing disk gives no answer.
    package var isInPlace: Bool {
        do {
            return try LocalFileStatus(of: directory + "/lock")?.identity == LocalFileStatus(of: file).identity
        } catch { return true }
    }

    /// Takes the same lock again after the directory was deleted, and makes the directory.
    package func taken() throws(JournalingError) -> CacheDirectoryLock {
        try CacheDirectoryLock(directory: directory, pid: pid, mountpoint: mountpoint)
    }

    /// Makes sure that `directory` is a directory of this user that others cannot enter.
    private static func prepare(_ directory: String) throws(JournalingError) {
        let status: LocalFileStatus?
        do throws(FileError) {
            if try LocalFileStatus(of: directory) == nil { try Directory.create(directory, lasting: true) }
            status = try LocalFileStatus(of: directory)
        } catch { throw .file(error) }
        guard let status, status.kind == .directory else { throw .notADirectory(directory: directory) }
        guard status.owner == LocalFileStatus.ourUser else { throw .foreign(directory: directory, owner: status.owner) }
        guard status.permissions & 0o077 != 0 else { return }
        do throws(FileError) { try Directory.setPermissions(0o700, of: directory) } catch { throw .file(error) }
    }

    /// The error with the text of the lock's holder, which is missing when it has only just taken the lock.
    private static func holder(of file: File, in directory: String) -> JournalingError {
        let text = String(decoding: (try? file.read(0..<8192)) ?? [], as: UTF8.self)
        let lines = text.split(separator: "\n", maxSplits: 1)
        // The mountpoint may hold line breaks of its own.
        let mountpoint = lines.count > 1 ? String(lines[1].dropLast()) : nil
        return .held(directory: directory, pid: lines.first.flatMap { Int32($0) }, mountpoint: mountpoint)
    }
}
