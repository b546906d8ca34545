package import Basics
import Glibc

/// One line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
package struct MountEntry: Sendable, Hashable {
    /// `major:minor`, as the mount's backing device information is named in sysfs.
    package var device: String
    package var mountpoint: ByteString
    /// `fuse.pailfs` for a mount of this program.
    package var type: String
    /// The source of the mount: the bucket URL for a mount of this program.
    package var source: ByteString
    /// The user that made a FUSE mount; nil for others.
    package var owner: UInt32?
    /// Whether the kernel checks permissions on a FUSE mount by mode, owner and group (default_permissions).
    package var checksPermissions = false
}

extension MountEntry {
    /// What stands for a mount of pailfs that was handed in, which has no line under its name. `owner` is the user that serves it.
    package init(handed mountpoint: Mountpoint, owner: UInt32) {
        self.init(
            device: "", mountpoint: ByteString(mountpoint.path), type: "fuse.pailfs", source: "", owner: owner)
    }
}

/// The mounts that this process sees.
package struct MountTable: Sendable {
    package let entries: [MountEntry]

    /// Reads the kernel's table; empty where there is no /proc.
    package static func current() -> MountTable {
        guard let text = readFile("/proc/self/mountinfo") else { return MountTable(text: "") }
        return MountTable(text: text)
    }

    package init(text: ByteString) {
        entries = text.bytes.split(separator: UInt8(ascii: "\n")).compactMap { line in
            let fields = line.split(separator: UInt8(ascii: " "))
            // Optional fields end with a lone dash; type and source follow it.
            guard fields.count > 6,
                let dash = fields[6...].firstIndex(where: { $0.elementsEqual([UInt8(ascii: "-")]) }),
                fields.count > dash + 2
            else { return nil }
            let options = fields.count > dash + 3 ? String(decoding: fields[dash + 3], as: UTF8.self) : ""
            let words = options.split(separator: ",")
            let owner = words.first { $0.hasPrefix("user_id=") }
            return MountEntry(
                device: String(decoding: fields[2], as: UTF8.self), mountpoint: Self.unescaped(fields[4]),
                type: String(decoding: fields[dash + 1], as: UTF8.self), source: Self.unescaped(fields[dash + 2]),
                owner: owner.flatMap { UInt32($0.dropFirst("user_id=".count)) },
                checksPermissions: words.contains("default_permissions"))
        }
    }

    /// The mount on `path` now, the last of several on one place.
    package func entry(at path: ByteString) -> MountEntry? { entries.last { $0.mountpoint == path } }

    /// The mount that the file at `path` belongs to: the one on the nearest directory at or above it.
    package func entry(holding path: ByteString) -> MountEntry? {
        var nearest: MountEntry?
        for entry in entries {
            let isAbove =
                entry.mountpoint == "/" || path == entry.mountpoint || path.hasPrefix(entry.mountpoint + "/")
            if isAbove, entry.mountpoint.count >= nearest?.mountpoint.count ?? 0 { nearest = entry }
        }
        return nearest
    }

    /// Blank, tab, newline and backslash are written as `\ooo`.
    private static func unescaped(_ field: ArraySlice<UInt8>) -> ByteString {
        var bytes: [UInt8] = []
        var rest = field
        while let byte = rest.popFirst() {
            let digits = rest.prefix(3)
            if byte == UInt8(ascii: "\\"), digits.count == 3,
                let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 8)
            {
                bytes.append(value)
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return ByteString(bytes)
    }
}

/// A small file of /proc, /sys or /etc, whole; nil if it cannot be read.
func readFile(_ path: String) -> ByteString? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 16)
    while true {
        let count = read(descriptor, &chunk, chunk.count)
        if count < 0, errno == EINTR { continue }
        guard count >= 0 else { return nil }
        if count == 0 { return ByteString(bytes) }
        bytes += chunk[..<count]
    }
}
