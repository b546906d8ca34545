import CLinux
import Glibc

/// One end of a connection between a holder and its keeper: lines of JSON, some with descriptors beside them. Owns its socket, and
/// the descriptors that have arrived until they are taken. Used by one thread.
struct KeeperConnection {
    /// The result of one receive.
    enum Arrival {
        case nothing
        case line([UInt8])
        /// The peer has closed its end, or has sent what is no line.
        case end
    }

    let socket: Int32
    private var bytes: [UInt8] = []
    private(set) var descriptors: [Int32] = []

    /// Bytes of a line; a path has at most 4,096, and JSON may write each with six.
    private static let longestLine = 32 << 10
    private static let mostDescriptors: Int32 = 2

    init(_ socket: Int32) { self.socket = socket }

    /// Receives once, which waits unless the socket can be read.
    mutating func receive() -> Arrival {
        var chunk = [UInt8](repeating: 0, count: 4096)
        var (found, count) = ([Int32](repeating: -1, count: Int(Self.mostDescriptors)), Int32(0))
        let size = linux_socket_receive_descriptors(socket, &chunk, chunk.count, &found, Self.mostDescriptors, &count)
        descriptors += found.filter { $0 >= 0 }
        guard size > 0, count <= Self.mostDescriptors, descriptors.count <= Self.mostDescriptors else { return .end }
        bytes += chunk[..<size]
        guard let newline = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            return bytes.count <= Self.longestLine ? .nothing : .end
        }
        let line = Array(bytes[..<newline])
        bytes.removeSubrange(...newline)
        return .line(line)
    }

    /// The descriptors that have arrived; the caller owns them from then on.
    mutating func takeDescriptors() -> [Int32] {
        defer { descriptors = [] }
        return descriptors
    }

    /// False when the peer does not take the message. The descriptors stay this process's own, too.
    @discardableResult
    func send(_ content: some Codable & Sendable, _ descriptors: [Int32] = []) -> Bool {
        guard let line = ControlLine.encode(content) else { return false }
        let text = line + [UInt8(ascii: "\n")]
        let sent = linux_socket_send_descriptors(socket, text, text.count, descriptors, Int32(descriptors.count))
        guard sent > 0 else { return false }
        return sent == text.count || sendRest(text[sent...])
    }

    private func sendRest(_ text: ArraySlice<UInt8>) -> Bool {
        var rest = text
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes { linux_socket_send(socket, $0.baseAddress, $0.count) }
            guard sent > 0 else { return false }
            rest = rest.dropFirst(sent)
        }
        return true
    }

    /// Closes the socket and the descriptors that were not taken.
    mutating func end() {
        for descriptor in takeDescriptors() { close(descriptor) }
        close(socket)
    }
}
