import Basics
import CLinux
import Glibc
import Settings

/// Serves the figures of a mount to a collector: `GET` of any path, one request a connection.
///
/// Implements the small part of HTTP/1.0 (RFC 1945) that this takes, so that pailfs needs no server library: it reads a bounded
/// head and no body, and the answer ends with the connection. Owns the socket, and its name where it has one, from `init` to
/// `stop`.
final class MetricsServer: Sendable {
    /// Limits of a request's head: its bytes, and the time it may take.
    private static let longestHead = 8 << 10
    private static let patience = Duration.seconds(5)

    private let place: MetricsPlace
    private let server: ConnectionServer

    /// Listens at `place`. Throws when it cannot.
    init(at place: MetricsPlace, _ figures: @escaping @Sendable () -> String) throws(CommandError) {
        self.place = place
        let socket: Int32
        switch place {
        case .socket(let path):
            let name = String(path.reversed().prefix { $0 != "/" }.reversed())
            let directory = String(path.dropLast(name.count))
            Self.removeSocket(path)
            socket = linux_local_listen(directory, name, 16)
        case .loopback(let address, let port): socket = linux_port_listen(address, port, 16)
        case .everywhere(let port):
            // A socket of IPv6 takes connections of IPv4, too, where the machine has both.
            let both = linux_port_listen("::", port, 16)
            socket = both == -EAFNOSUPPORT ? linux_port_listen("0.0.0.0", port, 16) : both
        }
        guard socket >= 0 else {
            throw CommandError(
                "metrics cannot be served at \(place): \(String(cString: strerror(-socket))); set metrics to another place"
            )
        }
        server = ConnectionServer(socket, name: "metrics") { peer, isWanted in
            Self.serve(peer, figures, isWanted)
        }
    }

    /// Ends all connections.
    func stop() {
        if case .socket(let path) = place { Self.removeSocket(path) }
        server.stop()
    }

    /// Removes the socket of an earlier process, and nothing that is no socket.
    private static func removeSocket(_ path: String) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return }
        try? File.remove(path)
    }

    private static func serve(_ peer: Int32, _ figures: () -> String, _ isWanted: () -> Bool) {
        guard let method = readMethod(peer, isWanted) else { return }
        let answer: String
        if method == "GET" || method == "HEAD" {
            let body = figures()
            answer =
                head("200 OK", type: "text/plain; version=0.0.4; charset=utf-8", length: body.utf8.count)
                + (method == "GET" ? body : "")
        } else {
            answer = head("405 Method Not Allowed", type: "text/plain", length: 0)
        }
        var rest = Array(answer.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { linux_socket_send(peer, $0.baseAddress, $0.count) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    private static func head(_ status: String, type: String, length: Int) -> String {
        "HTTP/1.0 \(status)\r\nContent-Type: \(type)\r\nContent-Length: \(length)\r\nConnection: close\r\n\r\n"
    }

    /// Reads up to the empty line at the head's end; nil if that does not come in time, or is no request.
    private static func readMethod(_ peer: Int32, _ isWanted: () -> Bool) -> String? {
        let time = SystemTime()
        let end = time.uptime() + patience
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 2048)
        _ = linux_socket_timeouts(peer, 200, 5000)
        while time.uptime() < end, isWanted(), bytes.count <= longestHead {
            let count = linux_socket_receive(peer, &chunk, chunk.count)
            if count == -Int(EAGAIN) { continue }
            guard count > 0 else { return nil }
            bytes += chunk[..<count]
            let text = String(decoding: bytes, as: UTF8.self).replacing("\r\n", with: "\n")
            guard text.contains("\n\n") else { continue }
            let words = text.prefix { $0 != "\n" }.split(separator: " ")
            return words.count == 3 && words[2].hasPrefix("HTTP/1.") ? String(words[0]) : nil
        }
        return nil
    }
}
