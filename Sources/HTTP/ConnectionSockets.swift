import CCurl
import Glibc

/// The sockets of connections, by local port: that port is all that libcurl tells of the connection of a request that is under way.
///
/// Belongs to the engine's thread, and lives as long as the engine. A socket that was closed stays here until its port or its
/// number is another's; it is never found, as its port is compared.
final class ConnectionSockets {
    private var byPort: [UInt16: CInt] = [:]
    /// Made, and perhaps not bound to a port yet.
    private var made: [CInt] = []

    func add(_ socket: curl_socket_t) {
        if made.count >= 64 { settle() }
        made.append(socket)
    }

    /// The socket of the connection from that port of this machine; nil when it is not known.
    func find(localPort: CInt) -> CInt? {
        let wanted = UInt16(truncatingIfNeeded: localPort)
        settle()
        guard let socket = byPort[wanted] else { return nil }
        guard Self.port(of: socket) == wanted else {
            byPort[wanted] = nil
            return nil
        }
        return socket
    }

    private func settle() {
        for socket in made { if let port = Self.port(of: socket) { byPort[port] = socket } }
        made = []
    }

    private static func port(of socket: CInt) -> UInt16? {
        // Port and family are at the same places for both versions of IP.
        var address = sockaddr_in6()
        var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &size) }
        }
        guard status == 0, [AF_INET, AF_INET6].contains(CInt(address.sin6_family)), address.sin6_port != 0 else {
            return nil
        }
        return UInt16(bigEndian: address.sin6_port)
    }

    /// Bytes that were sent and that the other end has not acknowledged. tcp(7): SIOCOUTQ
    static func unacknowledgedBytes(of socket: CInt) -> Int64 {
        var bytes: CInt = 0
        return ioctl(socket, UInt(TIOCOUTQ), &bytes) == 0 ? Int64(bytes) : 0
    }
}
