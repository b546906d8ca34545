import CLinux
import Glibc

/// The numbers that this process's user name space has for users. user_namespaces(7)
///
/// In a container that an ordinary user has started, the users of the machine that the container was not given have no
/// number: stat(2) reports the overflow number for each of them, the machine's root included.
package struct UserNameSpace: Sendable {
    private let mapped: [ClosedRange<UInt64>]
    private let overflow: UInt32

    /// The one this process is in.
    package static let current = UserNameSpace(
        map: text(of: "/proc/self/uid_map") ?? "0 0 4294967295",
        overflow: text(of: "/proc/sys/kernel/overflowuid").flatMap { UInt32($0.trimmed) } ?? 65534)

    /// From the lines of /proc/PID/uid_map: a number here, the number outside, and how many follow each other.
    package init(map: String, overflow: UInt32) {
        self.overflow = overflow
        mapped = map.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ").compactMap { UInt64($0) }
            guard fields.count == 3, fields[2] > 0 else { return nil }
            return fields[0]...(fields[0] + (fields[2] - 1))
        }
    }

    /// Whether some users of the machine have no number here.
    package var isPartial: Bool { mapped.reduce(0) { $0 + $1.count } < UInt32.max }

    /// Whether a user with this number, as stat(2) reports it, may be one who has no number here.
    func mayBeUnmapped(_ user: UInt32) -> Bool { user == overflow && isPartial }

    /// Whether a user with this number is one who has none here.
    func isUnmapped(_ user: UInt32) -> Bool { user == overflow && !mapped.contains { $0.contains(UInt64(user)) } }

    private static func text(of path: String) -> String? {
        guard let bytes = try? File(path).read(atMost: 64 << 10) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension LocalFileStatus {
    /// Whether the owner of what is at `path`, which has this status, has no number in this process's user name space.
    package func isOwnerUnmapped(at path: String, _ space: UserNameSpace = .current) -> Bool {
        guard space.mayBeUnmapped(owner) else { return false }
        if space.isUnmapped(owner) { return true }
        // Another user has the overflow number as its own. Root of a name space may do what the owner may, with files of
        // the users who have a number in it; O_NOATIME is such a thing. open(2), capabilities(7)
        guard Self.ourUser == 0 else { return false }
        let status = linux_try_as_owner(path)
        return status == -EPERM || status == -EACCES
    }

    /// Whether nobody but `user`, root and users outside the user name space could put it at `path`, to which no symbolic
    /// link leads. What every user may write to is no place for the latter: there the owner may be any of them.
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
