import Basics
import CLinux
import FuseBridge
import Glibc

/// A local socket at which `pailfs mount` waits for a mount that another process has made: one connection, one message of JSON
/// (`HandedMessage`), and beside it the descriptor (SCM_RIGHTS in unix(7)).
///
/// The socket exists while `receive` waits.
struct FuseSocket {
    private let path: String
    private let patience: Duration

    /// Most bytes of a message: as many as a request of the control socket.
    private static let longestMessage = ControlLine.longestRequest
    private static let defaultPatience = Duration.seconds(120)

    /// `patience` is the text of --fuse-socket-wait.
    init(_ path: String, within patience: String?) throws(CommandError) {
        guard !path.isEmpty else { throw CommandError("--fuse-socket needs a path; name a socket to make") }
        self.path = MountRequest.absolute(path)
        guard let patience else {
            self.patience = Self.defaultPatience
            return
        }
        guard let duration = DurationText.parse(patience), duration > .zero else {
            throw CommandError("--fuse-socket-wait is \(patience); write a duration above 0 such as 90s or 5m")
        }
        self.patience = duration
    }

    /// Waits for the message. Sets its variables in the environment; its options come after those of the command line.
    func receive(url: String?, options: [String]) throws(CommandError) -> HandedMount {
        let (bytes, descriptor) = try message()
        let (place, lists): (String, [String])
        do throws(CommandError) {
            let message = try HandedMessage(bytes)
            (place, lists) = (try message.url(given: url), try message.options())
            for variable in message.env {
                let parts = variable.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                setenv(String(parts[0]), String(parts[1]), 1)
            }
        } catch { throw refused(error.message) }
        return try HandedMount(
            url: place, name: HandedConnection.name(ofSocket: path), options: options + lists, descriptor: descriptor)
    }

    /// The whole message, and the one descriptor that came with it, from the first connection through which something comes:
    /// another process that looks for one that waits here closes its connection at once.
    private func message() throws(CommandError) -> (bytes: [UInt8], descriptor: Int32) {
        let end = SystemTime().uptime() + patience
        let socket = try LocalListener.listen(at: path, backlog: 1)
        defer {
            close(socket)
            try? File.remove(path)
        }
        while true {
            guard linux_poll(socket, Self.milliseconds(until: end)) & POLLIN != 0 else {
                throw CommandError(
                    "no process sent a message to \(path) within \(DurationText.format(patience)); start the one that mounts, "
                        + "or set --fuse-socket-wait")
            }
            let peer = linux_local_accept(socket)
            guard peer >= 0 else { throw LocalListener.cannotListen(path, -peer) }
            defer { close(peer) }
            if let message = try message(from: peer, until: end) { return message }
        }
    }

    /// nil when the connection ends without a byte.
    private func message(
        from peer: Int32, until end: Duration
    ) throws(CommandError) -> (bytes: [UInt8], descriptor: Int32)? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        var (descriptor, count) = (Int32(-1), Int32(0))
        while !HandedMessage.isWhole(bytes) {
            guard linux_poll(peer, Self.milliseconds(until: end)) > 0 else {
                throw refused("it is incomplete after \(DurationText.format(patience)); send one object of JSON")
            }
            let size = linux_socket_receive_descriptors(peer, &chunk, chunk.count, &descriptor, 1, &count)
            guard size >= 0 else { throw refused(String(cString: strerror(Int32(-size)))) }
            if size == 0 {
                if bytes.isEmpty { return nil }
                break
            }
            bytes += chunk[..<size]
            guard bytes.count <= Self.longestMessage else {
                throw refused("it is longer than \(ByteSize.format(Int64(Self.longestMessage)))")
            }
        }
        guard count == 1 else {
            throw refused("it has \(count == 0 ? "no descriptor" : "\(count) descriptors"); send the one of /dev/fuse")
        }
        return (bytes, descriptor)
    }

    private func refused(_ reason: String) -> CommandError {
        CommandError("the message that came through \(path) cannot be used: \(reason)")
    }

    private static func milliseconds(until end: Duration) -> Int32 {
        Int32(clamping: max(0, Int64((end - SystemTime().uptime()) / .milliseconds(1))))
    }
}
