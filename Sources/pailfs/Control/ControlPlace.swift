import Basics
import CLinux
import FuseBridge
import Glibc

/// Where a mount's control socket is: beside the record of its process.
struct ControlPlace: Sendable, Hashable {
    let directory: String
    let name: String

    private static let suffix = ".control"

    /// The socket of a mount on `mountpoint` that `process` stands for: the holder of the mount, or this process.
    init(of mountpoint: Mountpoint, process: pid_t) {
        directory = MountRecord.directory
        name = MountRecord.prefix(of: mountpoint) + "\(process)" + Self.suffix
    }

    private init(directory: String, name: String) { (self.directory, self.name) = (directory, name) }

    var path: String { "\(directory)/\(name)" }

    /// The process that made it.
    var pid: Int32? { name.dropLast(Self.suffix.count).split(separator: ".").last.flatMap { Int32($0) } }

    /// The sockets of a user's mounts, on one mountpoint or on all, the newest first; dead ones among them.
    static func all(of user: UInt32, on mountpoint: Mountpoint?) -> [ControlPlace] {
        let prefix = mountpoint.map { ByteString(MountRecord.prefix(of: $0)) } ?? ""
        var found: [(place: ControlPlace, made: Timestamp)] = []
        for directory in MountRecord.directories(of: user) {
            // A directory that another user could have written to is skipped.
            guard MountRecord.isTrusted(directory, for: user) else { continue }
            for name in (try? Directory.names(in: directory)) ?? []
            where name.hasPrefix(prefix) && name.hasSuffix(ByteString(suffix)) {
                let place = ControlPlace(directory: directory, name: name.description)
                var status = stat()
                guard lstat(place.path, &status) == 0 else { continue }
                found.append((place, Timestamp(status.st_mtim)))
            }
        }
        return found.sorted { $0.made > $1.made }.map(\.place)
    }

    /// Removes the sockets of killed processes. A process that is not visible from here would still have its record.
    static func removeDead() {
        for place in all(of: LocalFileStatus.ourUser, on: nil) where place.isDead {
            if access(String(place.path.dropLast(suffix.count)), F_OK) != 0 { try? File.remove(place.path) }
        }
    }

    /// Whether the process that made it is gone.
    var isDead: Bool { pid.map(MountRecord.isGone) ?? true }
}
