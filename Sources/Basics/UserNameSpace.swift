import CLinux
import Glibc

/// The user ids that are mapped in this process's user name space. user_namespaces(7)
///
/// In a container that an ordinary user has started, users of the machine that are not mapped have no id: stat(2) reports the
/// overflow id for each of them, the machine's root included.
package struct UserNameSpace: Sendable {
    private let mapped: [ClosedRange<UInt64>]
    private let overflow: UInt32

    /// The name space of this process.
    package static let current = UserNameSpace(
        map: text(of: "/proc/self/uid_map") ?? "0 0 4294967295",
        overflow: text(of: "/proc/sys/kernel/overflowuid").flatMap { UInt32($0.trimmed) } ?? 65534)

    /// From the lines of /proc/PID/uid_map: an id here, the id outside, and how many follow each other.
    package init(map: String, overflow: UInt32) {
        self.overflow = overflow
        mapped = map.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ").compactMap { UInt64($0) }
            guard fields.count == 3, fields[2] > 0 else { return nil }
            return fields[0]...(fields[0] + (fields[2] - 1))
        }
    }

    /// Whether some users of the machine have no id here.
    package var isPartial: Bool { mapped.reduce(0) { $0 + $1.count } < UInt32.max }

    /// Whether a user with this id, as stat(2) reports it, may be one without an id here.
    func mayBeUnmapped(_ user: UInt32) -> Bool { user == overflow && isPartial }

    /// Whether a user with this id is certainly one without an id here.
    func isUnmapped(_ user: UInt32) -> Bool { user == overflow && !mapped.contains { $0.contains(UInt64(user)) } }

    private static func text(of path: String) -> String? {
        guard let bytes = try? File(path).read(atMost: 64 << 10) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension LocalFileStatus {
    /// Whether the owner of the file at `path`, which has this status, has no id in this process's user name space.
    package func isOwnerUnmapped(at path: String, _ space: UserNameSpace = .current) -> Bool {
        guard space.mayBeUnmapped(owner) else { return false }
        if space.isUnmapped(owner) { return true }
        // Another user has the overflow id as its own. Root of a name space may act as the owner of files of mapped users;
        // O_NOATIME needs such a right. open(2), capabilities(7)
        guard Self.ourUser == 0 else { return false }
        let status = linux_try_as_owner(path)
        return status == -EPERM || status == -EACCES
    }

    /// Whether only `user`, root and users outside the user name space could have put it at `path`. Users outside are not
    /// trusted with a directory that every user may write: there the owner may be any of them.
    /// Requires: `path` has no symbolic links.
    package func isTrusted(
        by user: UInt32 = ourUser, at path: String, _ space: UserNameSpace = .current
    ) -> Bool {
        if isTrusted(by: user) { return true }
        guard isOwnerUnmapped(at: path, space), let place = try? LocalFileStatus(of: Directory.parent(of: path)) else {
            return false
        }
        return place.permissions & 0o022 == 0
    }
}
