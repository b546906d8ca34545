import Basics
import FuseBridge
import Glibc

/// `pailfs restart`: the worker of a mount ends, and the program that is installed now serves it.
enum Restarting {
    /// Returns when the new worker answers.
    static func run(_ path: String) throws(CommandError) {
        let (mountpoint, owner) = try find(path)
        let records = MountRecord.all(of: mountpoint)
        func impossible(_ reason: String) -> CommandError {
            CommandError("the worker of \(mountpoint.path) cannot be replaced: \(reason)")
        }
        let hasEnded = impossible("its holder has ended; unmount it, and mount it again")
        guard let holder = records.filter(\.isAlive).compactMap(\.process).first else {
            guard records.isEmpty else { throw hasEnded }
            if let owner, owner != LocalFileStatus.ourUser {
                throw impossible("another user mounted it; run this as that user")
            }
            throw impossible(
                "its process cannot be found from here; run this with the XDG_RUNTIME_DIR of the session that mounted it, "
                    + "and with the path where it was mounted first")
        }
        // Without a holder, the worker keeps the record locked.
        if kill(holder, 0) != 0, errno == ESRCH { throw hasEnded }
        guard let before = worker(of: holder) else {
            throw impossible("it was mounted with restart=no; unmount it, and mount it again")
        }
        guard kill(holder, SIGUSR2) == 0 else {
            throw CommandError(
                "the holder (process \(holder)) cannot be signalled: \(String(cString: strerror(errno)))")
        }
        for _ in 0..<patience {
            if let worker = worker(of: holder), worker != before { return try waitForAnswer(on: mountpoint) }
            usleep(10_000)
        }
        throw CommandError("the process that serves \(mountpoint.path) has not ended yet; see the log")
    }

    /// The mount at a path or with a name, and the user that made it, if the kernel names one.
    private static func find(_ path: String) throws(CommandError) -> (Mountpoint, owner: UInt32?) {
        if HandedConnection.isName(path) { return (try MountPlace(path).mountpoint, nil) }
        do throws(FuseError) {
            let mountpoint = try Mountpoint(existing: path)
            guard let mounted = mountpoint.mounted, mounted.type == "fuse.pailfs" else {
                throw FuseError(
                    "\(mountpoint.path) is not a mount of pailfs; \"findmnt -t fuse.pailfs\" lists the mounts")
            }
            return (mountpoint, mounted.owner)
        } catch { throw CommandError(error) }
    }

    private static func waitForAnswer(on mountpoint: Mountpoint) throws(CommandError) {
        guard !mountpoint.isHanded else {
            _ = try MountPlace(mountpoint.path).ask(.status, within: .seconds(30))
            return
        }
        // The kernel answers statvfs(2) from no cache, and waits until a worker serves the mount again.
        var figures = statvfs()
        guard statvfs(mountpoint.path, &figures) == 0 else {
            throw CommandError("\(mountpoint.path) does not answer: \(String(cString: strerror(errno)))")
        }
    }

    /// The most hundredths of a second to wait.
    private static let patience = 3000

    /// The child that serves the mount, from /proc/PID/task/PID/children (proc_pid_task(5)).
    private static func worker(of holder: pid_t) -> pid_t? {
        let file = open("/proc/\(holder)/task/\(holder)/children", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        // Reads with one call: the kernel makes the list anew for each.
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(file, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(separator: " ").first
            .flatMap { pid_t($0) }
    }
}
