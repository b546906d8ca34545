import Glibc
import Synchronization

/// Ports on loopback for programs that must be told theirs; all differ, also from those of earlier calls.
///
/// They lie below the range from which the kernel serves `bind` to port 0 and `connect`
/// (`net.ipv4.ip_local_port_range`, 32768 at the least by default), so that no other test's socket gets one of them
/// between this call and the start of the program.
package func unusedPorts(_ count: Int) -> [Int] {
    nextPort.withLock { next in
        var ports: [Int] = []
        for _ in 0..<12_000 where ports.count < count {
            // Test processes that run at the same time begin at other places.
            let port = 20_000 + (Int(getpid()) * 64 + next) % 12_000
            next += 1
            if TakenPort(port) != nil { ports.append(port) }
        }
        precondition(ports.count == count, "no \(count) unused loopback ports from 20000 to 31999")
        return ports
    }
}

private let nextPort = Mutex(0)

/// Whether a connection to the loopback port is accepted.
package func isListening(on port: Int) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    return withLoopbackAddress(port) { connect(descriptor, $0, $1) == 0 }
}

private func withLoopbackAddress<Result>(
    _ port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
) -> Result {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    return withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
}

/// A loopback port on which nothing listens, and on which nothing else can while this lives: connections are refused.
package final class TakenPort {
    package let number: Int
    private let descriptor: Int32

    /// `nil` if another socket has it; 0 for any that is unused.
    package init?(_ wanted: Int = 0) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let socket = descriptor
        var bound = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound =
            withLoopbackAddress(wanted) { bind(socket, $0, $1) == 0 }
            && withUnsafeMutablePointer(to: &bound) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) == 0 }
            }
        number = Int(UInt16(bigEndian: bound.sin_port))
        guard isBound else {
            close(descriptor)
            return nil
        }
    }

    deinit { close(descriptor) }
}
