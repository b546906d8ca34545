import Glibc

/// Ports the kernel gives out now; all are held until all are known, so they differ.
package func unusedPorts(_ count: Int) -> [Int] {
    var sockets: [Int32] = []
    defer { for socket in sockets { close(socket) } }
    return (0..<count).map { _ in
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        sockets.append(descriptor)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        precondition(isBound, "no loopback port: errno \(errno)")
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
