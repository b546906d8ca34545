import Basics
import CFuse3
import CLinux
import Glibc

/// The connection of a mount that another process has made, and whose descriptor it has handed to this process: it opened
/// /dev/fuse, passed that descriptor to mount(2), and answered nothing.
///
/// Owns nothing: the descriptor belongs to the process. This process cannot unmount; the connection ends when the mount's owner
/// unmounts, or when the last copy of the descriptor is closed. Such a mount has no path here, so it has a name, which stands
/// where other mounts have their mountpoint: `/dev/fd/N`, or `fuse-socket:` and the path of the socket that the descriptor came
/// through (`Mountpoint.isHanded`).
package struct HandedConnection: Sendable, Hashable {
    package let descriptor: Int32

    /// The numbers of the descriptor in processes of this program that another one has started: without a holder and with one.
    package enum Inherited {
        package static let process: Int32 = 4
        package static let worker = HeldConnection.Descriptor.device
    }

    package init(_ descriptor: Int32) { self.descriptor = descriptor }

    private static let folder = "/dev/fd/"
    private static let socketMark = "fuse-socket:"

    /// Whether a name stands for a mount whose connection was handed in; no resolved path looks like it.
    package static func isName(_ text: String) -> Bool {
        text.hasPrefix(folder) || text.hasPrefix(socketMark + "/")
    }

    /// The number in `/dev/fd/N`; nil for other text.
    package static func number(in text: String) -> Int32? {
        guard text.hasPrefix(folder) else { return nil }
        let digits = text.dropFirst(folder.count)
        return digits.allSatisfy { $0.isASCII && $0.isNumber } ? Int32(digits) : nil
    }

    /// The name of a mount whose descriptor came through the socket at `path`, which is absolute.
    package static func name(ofSocket path: String) -> String { socketMark + path }

    /// Throws unless the kernel waits for a server on this connection. Afterwards the descriptor blocks, and is closed on exec.
    /// `name` is that of the mount, for messages.
    package func check(as name: String) throws(FuseError) {
        func unusable(_ reason: String, _ remedy: String) -> FuseError { Self.unusable(name, reason, remedy) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw unusable("is not open", "start pailfs with that descriptor of /dev/fuse open")
        }
        guard linux_is_fuse_device(&status) != 0 else {
            throw unusable(
                "is not /dev/fuse but \(Self.kind(status.st_mode))",
                "hand in the descriptor of /dev/fuse that was given to mount(2)")
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK)
        // mount(2) queues INIT before it returns.
        let events = linux_poll(descriptor, Self.patienceMilliseconds)
        if events & POLLERR != 0 {
            // Nothing can be read from it: only the reason is of interest.
            var byte = UInt8(0)
            guard read(descriptor, &byte, 1) < 0, errno == EPERM else {
                throw unusable("belongs to a mount that is gone", "mount again, and hand in the new descriptor")
            }
            throw unusable("belongs to no mount", "call mount(2) with it (fd=N) before pailfs starts")
        }
        guard events & POLLIN != 0 else { throw Self.isTaken(name) }
    }

    /// The error for a connection whose INIT another process has read.
    private static func isTaken(_ name: String) -> FuseError {
        unusable(
            name, "belongs to a mount that another process serves or has served",
            "mount again, and hand the new descriptor to pailfs alone")
    }

    private static let patienceMilliseconds: Int32 = 1000

    private static func unusable(_ name: String, _ reason: String, _ remedy: String) -> FuseError {
        FuseError("\(name) cannot be served: its descriptor \(reason); \(remedy)")
    }

    private static func kind(_ mode: mode_t) -> String {
        switch mode & S_IFMT {
        case S_IFDIR: "a directory"
        case S_IFREG: "a file"
        case S_IFIFO: "a pipe"
        case S_IFSOCK: "a socket"
        case S_IFCHR: "another device"
        default: "something else"
        }
    }

    // MARK: the mount

    /// The lines of the mount table that are this connection's mount. Empty where the kernel does not name the connection
    /// (/proc/self/fdinfo shows it since Linux 6.17) or the mount is in another mount namespace.
    package var mounts: [MountEntry] {
        guard let text = readFile("/proc/self/fdinfo/\(descriptor)") else { return [] }
        return Self.mounts(of: text, in: .current())
    }

    static func mounts(of text: ByteString, in table: MountTable) -> [MountEntry] {
        let words = text.description.split(whereSeparator: \.isWhitespace)
        guard let name = words.firstIndex(of: "fuse_connection:"), name + 1 < words.count else { return [] }
        return table.entries.filter { $0.device == "0:\(words[name + 1])" }
    }

    /// Whether the mount's own options have the kernel check permissions; false where they cannot be seen.
    var kernelChecksPermissions: Bool { mounts.contains { $0.checksPermissions } }

    /// Answers the kernel's INIT with `session`, and gives the connection to the holder, if there is one. Where the options of the
    /// mount do not show it, the kernel is asked to check permissions: another process decided about default_permissions.
    func begin(
        _ session: OpaquePointer, held: HeldConnection?, mountpoint: Mountpoint, record: Int32
    ) throws(FuseError) {
        guard fuse_session_mount(session, Self.folder + "\(descriptor)") == 0 else {
            throw FuseError("libfuse does not accept the connection to the kernel: \(LibraryLog.lastMessage)")
        }
        let needsChecks = !kernelChecksPermissions
        if needsChecks { linux_held_want_checks() }
        let connection = if let held { held } else { try HeldConnection.withoutHolder() }
        connection.attach(descriptor)
        try held?.handOver(descriptor, of: mountpoint, record: record)
        guard try connection.greet(session) else { throw Self.isTaken(mountpoint.path) }
        guard !needsChecks || connection.checksPermissions else {
            throw FuseError(
                "the kernel does not check permissions on the mount of \(mountpoint.path); mount with default_permissions"
            )
        }
    }
}
