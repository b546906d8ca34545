import FuseBridge

/// `pailfs status --ready` and `--live`: exit statuses for the probes of a container.
///
/// Neither asks the store: a container must not be restarted because the store is away. `--live` asks no process either: a worker
/// that is being replaced, or has much to do, is alive.
enum StatusProbe {
    /// Throws unless the process of each of these mounts has answered and has a mount to serve.
    /// With `all`, these are all mounts of this user.
    static func requireReady(_ mounts: [MountStatus], all: Bool) throws(CommandError) {
        guard !mounts.isEmpty else { throw noMount }
        for mount in mounts {
            guard mount.state == .serving else {
                throw CommandError(
                    "the process that serves \(mount.mountpoint) does not answer; see the log of the mount")
            }
            if let process = mount.pid, LeavingMount.isLeaving(process, mountpoint: mount.mountpoint) {
                throw CommandError(
                    "\(mount.mountpoint) is unmounted, and process \(process) stores the rest; mount again")
            }
        }
        if all { try requireAnswers(mounts) }
    }

    /// Throws where a living process of this user has a mount that is not among these: a mount that was handed in shows in no mount
    /// table.
    private static func requireAnswers(_ mounts: [MountStatus]) throws(CommandError) {
        for record in MountRecord.all(of: nil) where record.isAlive {
            guard let process = record.process, !mounts.contains(where: { $0.pid == process }) else { continue }
            throw CommandError("process \(process), which holds a mount, does not answer; see the log of the mount")
        }
    }

    /// Throws unless a process of the mount at `path`, or without a path of any mount of this user, lives.
    static func requireLive(_ path: String?) throws(CommandError) {
        let mountpoint: Mountpoint? = if let path { try MountPlace(path).mountpoint } else { nil }
        guard MountRecord.all(of: mountpoint).contains(where: { $0.process != nil && $0.isAlive }) else {
            throw noMount
        }
    }

    private static var noMount: CommandError {
        CommandError("no process of this user serves a mount; start one with \"pailfs mount\"")
    }
}
