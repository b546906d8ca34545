import Basics
import FuseBridge
import Glibc
import Journaling

/// A mount that is unmounted and whose process still stores its files.
enum LeavingMount {
    /// Whether `process` had a mount on `mountpoint` that is not mounted any more. False for processes of other mount namespaces:
    /// their mounts are not visible here.
    static func isLeaving(_ process: pid_t, mountpoint: String) -> Bool {
        guard !MountRecord.isGone(process), isPailfs(process) else { return false }
        if HandedConnection.isName(mountpoint) {
            // The mount table does not show it; its process records that it stores the rest.
            let records = MountRecord.all(of: Mountpoint(handed: mountpoint))
            return records.contains { $0.process == process && $0.isStoring }
        }
        if let theirs = nameSpace(of: "\(process)"), theirs != nameSpace(of: "self") { return false }
        return MountTable.current().entry(at: ByteString(mountpoint))?.type != "fuse.pailfs"
    }

    /// The error of a command that finds the directory of such a mount in use; nil when another process uses it.
    static func error(_ error: JournalingError) -> CommandError? {
        guard case .held(_, let process?, let mountpoint?) = error, isLeaving(process, mountpoint: mountpoint) else {
            return nil
        }
        return CommandError(
            "\(mountpoint) is unmounted, and process \(process) still stores what was written to it; try again when that has "
                + "ended")
    }

    /// Whether the process is one of this program.
    static func isPailfs(_ process: pid_t) -> Bool {
        guard let name = try? File("/proc/\(process)/comm").read(atMost: 16) else { return false }
        return String(decoding: name, as: UTF8.self) == "pailfs\n"
    }

    /// nil when the link may not be read.
    private static func nameSpace(of process: String) -> String? {
        var bytes = [CChar](repeating: 0, count: 64)
        let count = readlink("/proc/\(process)/ns/mnt", &bytes, bytes.count)
        guard count > 0 else { return nil }
        return String(decoding: bytes[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
