import Basics
import Digests
import FuseBridge
import Glibc

/// A small file for the process that serves a mount: locked while the process lives; at its end it holds the names of the files
/// that were not stored. `pailfs unmount` waits for the lock and then reads them.
///
/// Lies in a directory of the user's own, named by the mountpoint and the process, which is the holder if there is one: the lock
/// then belongs to the holder and its workers together. A killed process leaves the file behind, unlocked; the next mount removes
/// it.
struct MountRecord: Sendable {
    private let file: File

    private static let finished = "finished"
    private static let storing = "storing "

    // MARK: the process that serves

    /// Makes the record of `process` and removes those of dead ones.
    init(for mountpoint: Mountpoint, process: pid_t) throws(FileError) {
        let directory = Self.directory
        try Directory.create(directory)
        let status = try LocalFileStatus(of: directory)
        guard status?.owner == LocalFileStatus.ourUser, Self.isTrusted(directory) else {
            throw FileError(
                errno: EPERM, operation: "use the directory",
                path: "\(directory), which another user owns or can change")
        }
        for path in Self.paths(of: mountpoint) where Self.isLeft(path) { try? File.remove(path) }
        // Records of mounts elsewhere, too: there may never be another mount on those mountpoints.
        for path in Self.paths(of: nil) where Self.process(of: path).map(Self.isGone) ?? false && Self.isLeft(path) {
            try? File.remove(path)
        }
        let path = "\(directory)/\(Self.prefix(of: mountpoint))\(process)"
        try File.remove(path)
        file = try File(path, .readWrite, create: .exclusive)
        _ = try file.tryLock()
    }

    /// The record of an earlier worker, whose lock belongs to `descriptor` and stays with it.
    init(inherited descriptor: Int32) throws(FileError) {
        var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/fd/\(descriptor)", &bytes, bytes.count - 1)
        guard count > 0 else { throw FileError(errno: errno, operation: "find", path: "the record of the mount") }
        file = try File(String(decoding: bytes[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self), .readWrite)
    }

    /// The lock lasts as long as a process has this descriptor.
    var descriptor: Int32 { file.rawDescriptor }

    /// Writes the unstored files and deletes the record; a process that waits for it has it open. Overwrites the record of a
    /// worker that died while it wrote.
    func finish(_ unstored: [String]) {
        let text = Array((([Self.finished] + unstored).joined(separator: "\n") + "\n").utf8)
        try? file.write(text, at: 0)
        try? file.truncate(to: Int64(text.count))
        try? File.remove(file.path)
    }

    /// Writes how many files, and how many of their bytes, are still to be stored.
    func tellProgress(_ unsent: (files: Int, bytes: Int64)) {
        let text = Array("\(Self.storing)\(unsent.files) \(unsent.bytes)\n".utf8)
        try? file.write(text, at: 0)
        try? file.truncate(to: Int64(text.count))
    }

    /// Whether a process of the mount has written its result to the record of this descriptor.
    static func isFinished(_ descriptor: Int32) -> Bool {
        var bytes = [UInt8](repeating: 0, count: finished.utf8.count)
        return pread(descriptor, &bytes, bytes.count, 0) == bytes.count && bytes.elementsEqual(finished.utf8)
    }

    // MARK: the process that waits

    private init(_ file: File) { self.file = file }

    /// The records of a user's processes that serve or served a mount here, or anywhere, and have not finished.
    static func all(of mountpoint: Mountpoint?, user: UInt32 = LocalFileStatus.ourUser) -> [MountRecord] {
        paths(of: mountpoint, user).compactMap { path in open(path, user).map { MountRecord($0) } }
    }

    /// The users whose records this one may read: for root all that may have some, otherwise only this user.
    static var readableUsers: [UInt32] {
        let ours = LocalFileStatus.ourUser
        guard ours == 0 else { return [ours] }
        let sessions = ((try? Directory.names(in: "/run/user")) ?? []).map(\.description)
        let starts = ((try? Directory.names(in: "/tmp")) ?? []).map(\.description).filter { $0.hasPrefix("pailfs-") }
        return Set(sessions.compactMap { UInt32($0) } + starts.compactMap { UInt32($0.dropFirst(7)) } + [0]).sorted()
    }

    /// The process in the record's name: the holder, or the one that serves the mount.
    var process: pid_t? { Self.process(of: file.path) }

    /// Whether the process still has the lock.
    var isAlive: Bool { (try? file.tryLock()) == false }

    /// Signals the process to end as if its mount were gone everywhere.
    ///
    /// The process number is part of a file name that the user could have changed: only a process of that user is signalled.
    func endProcess(of user: UInt32 = LocalFileStatus.ourUser) {
        guard isAlive, let process, LeavingMount.isPailfs(process), Self.user(of: process) == user else { return }
        kill(process, SIGTERM)
    }

    /// The real user of a process, from its status (proc_pid_status(5)).
    private static func user(of process: pid_t) -> UInt32? {
        guard let bytes = try? File("/proc/\(process)/status").read(atMost: 4096) else { return nil }
        let line = String(decoding: bytes, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("Uid:") }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { UInt32($0) }
    }

    /// Waits for the process to end. Returns the files that it could not store, one line each; nil if it died before it wrote
    /// them. `progress` is called with the remaining files and bytes, every two seconds if they have changed.
    func waitForEnd(_ progress: (_ files: Int, _ bytes: Int64) -> Void) -> [String]? {
        var (turns, told) = (0, (files: 0, bytes: Int64(0)))
        while (try? file.tryLock()) == false {
            usleep(10_000)
            turns += 1
            guard turns % 200 == 0, let unsent = lines?.first.flatMap({ Self.unsent(in: $0) }), unsent.files > 0,
                unsent != told
            else { continue }
            progress(unsent.files, unsent.bytes)
            told = unsent
        }
        guard let lines, lines.first == Self.finished else { return nil }
        return Array(lines.dropFirst())
    }

    private var lines: [String]? {
        guard let size = try? file.size, let bytes = try? file.read(0..<size) else { return nil }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// The numbers in a line of `tellProgress`.
    private static func unsent(in line: String) -> (files: Int, bytes: Int64)? {
        guard line.hasPrefix(storing) else { return nil }
        let words = line.dropFirst(storing.count).split(separator: " ")
        guard words.count == 2, let files = Int(words[0]), let bytes = Int64(words[1]) else { return nil }
        return (files, bytes)
    }

    /// Whether the process has its last files to store, after the end of the mount.
    var isStoring: Bool { lines?.first.flatMap { Self.unsent(in: $0) } != nil }

    // MARK: places

    static var directory: String {
        if geteuid() == 0, access("/run", W_OK) == 0 { return "/run/pailfs" }
        let runtime = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) }
        if let runtime, runtime.hasPrefix("/"), access(runtime, W_OK) == 0 { return runtime + "/pailfs" }
        let places = temporaryDirectories(of: geteuid())
        // In /tmp any user may have made the directory.
        return places.first(where: isUsable) ?? places[0]
    }

    /// Whether this user can make records in a directory, or make the directory: a container may have a read-only root.
    private static func isUsable(_ directory: String) -> Bool {
        guard access(directory, F_OK) != 0 else { return isTrusted(directory) && access(directory, W_OK) == 0 }
        return access(LocalDirectories.nearest(to: directory), W_OK) == 0
    }

    /// Has this process and those that it starts make the records below the cache directory of the mount, where no other place can
    /// be written. Commands find them there if the environment has the directory for them too.
    static func makeRoom(below cacheDirectory: String?) {
        guard let cacheDirectory, !isUsable(directory) else { return }
        setenv(cacheVariable, cacheDirectory, 1)
    }

    private static let cacheVariable = "PAILFS_CACHE_DIR"

    /// The directories for records where there is no session.
    private static func temporaryDirectories(of user: UInt32) -> [String] {
        let home = user == geteuid() ? Entry.environment["HOME"] : Entry.home(of: user)
        let cache = user == geteuid() ? getenv(cacheVariable).map { String(cString: $0) } : nil
        return ["/tmp/pailfs-\(user)"] + (home.map { [$0 + "/.local/state/pailfs/run"] } ?? [])
            + (cache.map { $0.hasPrefix("/") ? [$0 + "/run"] : [] } ?? [])
    }

    /// The directories that may have the records of a user's mounts: some were made in other sessions, and another user's
    /// environment is not known.
    static func directories(of user: UInt32) -> [String] {
        let ours = user == geteuid() ? [directory] : []
        let others =
            ["/run/user/\(user)/pailfs"] + temporaryDirectories(of: user) + (user == 0 ? ["/run/pailfs"] : [])
        return ours + others.filter { !ours.contains($0) }
    }

    /// Whether only `user` and root can write to a directory: in /tmp any user may make one of any name.
    static func isTrusted(_ directory: String, for user: UInt32 = LocalFileStatus.ourUser) -> Bool {
        guard let status = try? LocalFileStatus(of: directory), status.kind == .directory else { return false }
        return status.isTrusted(by: user) && status.permissions & 0o022 == 0
    }

    static func prefix(of mountpoint: Mountpoint) -> String {
        Hex.encode(SHA256.of(mountpoint.path).prefix(16)) + "."
    }

    private static func process(of path: String) -> pid_t? { path.split(separator: ".").last.flatMap { pid_t($0) } }

    /// Whether no process has the number, or one that has ended and whose parent has not waited for it.
    static func isGone(_ pid: pid_t) -> Bool { kill(pid, 0) != 0 && errno == ESRCH || Holder.isZombie(pid) }

    /// Whether no process has locked the record.
    private static func isLeft(_ path: String) -> Bool {
        guard let file = open(path) else { return false }
        return (try? file.tryLock()) == true
    }

    /// nil for a file that belongs neither to `user` nor to root.
    private static func open(_ path: String, _ user: UInt32 = LocalFileStatus.ourUser) -> File? {
        guard let file = try? File(path, .readWrite), let status = try? LocalFileStatus(of: file),
            status.kind == .file, status.isTrusted(by: user)
        else { return nil }
        return file
    }

    private static func paths(of mountpoint: Mountpoint?, _ user: UInt32 = LocalFileStatus.ourUser) -> [String] {
        let prefix = mountpoint.map { ByteString(Self.prefix(of: $0)) } ?? ""
        return directories(of: user).filter { isTrusted($0, for: user) }.flatMap { directory in
            let names = (try? Directory.names(in: directory)) ?? []
            return names.filter { $0.hasPrefix(prefix) }.map { "\(directory)/\($0)" }
        }
    }
}
