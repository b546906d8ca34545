import Basics
import CLinux
import FoundationEssentials
import Glibc

/// Lines of JSON on a local socket, with limits of length and time that hold for any peer.
enum ControlLine {
    static let version = 1
    /// Bytes of a request; a path has at most a few thousand.
    static let longestRequest = 64 << 10
    /// Bytes of an answer.
    static let longestAnswer = 16 << 20

    /// Why a line did not come.
    enum Failure: Error {
        case ended
        case tooLong
        case tooLate
        case broken(Int32)
        /// `isWanted` became false while the reader waited.
        case unwanted
    }

    /// How often a wait checks `isWanted`.
    private static let slice = 200

    /// Reads up to the first newline. Without a deadline it waits as long as `isWanted` returns true.
    static func read(
        _ socket: Int32, atMost limit: Int, within deadline: Duration?, isWanted: () -> Bool = { true }
    ) throws(Failure) -> [UInt8] {
        let time = SystemTime()
        let end = deadline.map { time.uptime() + $0 }
        var line: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        _ = linux_socket_timeouts(socket, Int32(slice), 10_000)
        while true {
            if let end, time.uptime() >= end { throw .tooLate }
            if !isWanted() { throw .unwanted }
            let count = linux_socket_receive(socket, &chunk, chunk.count)
            if count == 0 { throw .ended }
            if count < 0 {
                if -count == Int(EAGAIN) { continue }
                throw .broken(Int32(-count))
            }
            if let newline = chunk[..<count].firstIndex(of: UInt8(ascii: "\n")) {
                line += chunk[..<newline]
                if line.count > limit { throw .tooLong }
                return line
            }
            line += chunk[..<count]
            if line.count > limit { throw .tooLong }
        }
    }

    /// False when the peer does not take the line.
    @discardableResult
    static func write(_ line: [UInt8], to socket: Int32) -> Bool {
        var rest = (line + [UInt8(ascii: "\n")])[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { linux_socket_send(socket, $0.baseAddress, $0.count) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// nil for a value that JSON cannot hold.
    static func encode(_ content: some Codable & Sendable) -> [UInt8]? {
        (try? JSONEncoder().encode(ControlEnvelope(content))).map { Array($0) }
    }

    /// nil for a line that is no such message of this version.
    static func decode<Content: Codable & Sendable>(_ line: [UInt8]) -> Content? {
        guard let envelope = try? JSONDecoder().decode(ControlEnvelope<Content>.self, from: Data(line)),
            envelope.version == version
        else { return nil }
        return envelope.content
    }
}
