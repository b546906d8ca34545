import Basics
import Glibc
import Synchronization

/// A server on a loopback port of the kernel's choice that does exactly what a test tells it, well-behaved or not.
///
/// One thread a connection. The port is closed with the last reference; connections end with their handlers.
package final class LocalServer: Sendable {
    package let port: Int
    private let listener: Int32
    private let accepted = Mutex(0)

    /// How many connections came so far.
    package var connections: Int { accepted.withLock { $0 } }

    /// `serve` is called for each connection, on a thread of its own, and closes it by returning.
    package init(serving serve: @escaping @Sendable (LocalConnection) -> Void) {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (descriptor, size) = (listener, length)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0 && listen(descriptor, 64) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        precondition(isListening, "no loopback port: errno \(errno)")
        port = Int(UInt16(bigEndian: address.sin_port))
        startThread(name: "test-server") { [weak self] in
            while true {
                let connection = accept(descriptor, nil, nil)
                guard connection >= 0 else {
                    // Here and not in `deinit`: the number must not be another server's while this thread uses it.
                    close(descriptor)
                    return
                }
                self?.accepted.withLock { $0 += 1 }
                startThread(name: "test-connection") { serve(LocalConnection(connection)) }
            }
        }
    }

    /// Answers each request, body read whole, over kept connections.
    package convenience init(answering answer: @escaping @Sendable (LocalRequest) -> LocalAnswer) {
        self.init(serving: { connection in
            while var request = connection.readRequest() {
                request.body = connection.readBody(request)
                connection.send(answer(request), to: request)
            }
        })
    }

    /// Refuses connections from now on, and wakes the thread.
    deinit { shutdown(listener, Int32(SHUT_RDWR)) }
}

/// A request as it came over the wire.
package struct LocalRequest: Sendable {
    package var method: String
    /// As sent, with the query.
    package var target: String
    package var headers: [(name: String, value: String)]
    package var body: [UInt8] = []

    /// The first value of a header; names are compared without case.
    package subscript(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
    package var contentLength: Int { self["content-length"].flatMap(Int.init) ?? 0 }
    /// The target without its query.
    package var path: String { String(target.prefix { $0 != "?" }) }
    package var query: String { String(target.drop { $0 != "?" }.dropFirst()) }
}

package struct LocalAnswer: Sendable {
    package var status: Int
    package var headers: [(String, String)]
    package var body: [UInt8]

    package init(_ status: Int, _ headers: [(String, String)] = [], body: String = "") {
        self.init(status, headers, bytes: Array(body.utf8))
    }

    package init(_ status: Int, _ headers: [(String, String)] = [], bytes: [UInt8]) {
        (self.status, self.headers, body) = (status, headers, bytes)
    }
}

/// The server's end of one connection; used by its thread alone.
package final class LocalConnection {
    private let descriptor: Int32
    private var buffered: [UInt8] = []

    fileprivate init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Request line and headers; nil when the client closed.
    package func readRequest() -> LocalRequest? {
        while true {
            if let end = Self.endOfHead(buffered) {
                let head = String(decoding: buffered[..<end], as: UTF8.self)
                buffered.removeFirst(end + 4)
                var lines = head.split(separator: "\r\n", omittingEmptySubsequences: false)
                let words = lines.removeFirst().split(separator: " ")
                guard words.count == 3 else { return nil }
                let headers = lines.map { line in
                    let name = line.prefix { $0 != ":" }
                    return (name: String(name), value: String(line.dropFirst(name.count + 1).drop { $0 == " " }))
                }
                return LocalRequest(method: String(words[0]), target: String(words[1]), headers: headers)
            }
            guard receive() else { return nil }
        }
    }

    /// The body that Content-Length announces, or what came of it.
    package func readBody(_ request: LocalRequest) -> [UInt8] {
        while buffered.count < request.contentLength, receive() {}
        let body = Array(buffered.prefix(request.contentLength))
        buffered.removeFirst(body.count)
        return body
    }

    /// Reads and forgets up to `count` bytes; returns how many came.
    package func skip(_ count: Int) -> Int {
        var skipped = 0
        while skipped < count {
            if buffered.isEmpty, !receive() { break }
            let taken = min(buffered.count, count - skipped)
            if taken == buffered.count { buffered = [] } else { buffered.removeFirst(taken) }
            skipped += taken
        }
        return skipped
    }

    /// False when the client has gone.
    @discardableResult
    package func write(_ text: String) -> Bool { write(Array(text.utf8)) }

    @discardableResult
    package func write(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let piece = UnsafeRawBufferPointer(rebasing: rest)
                let count = Glibc.send(descriptor, piece.baseAddress, piece.count, Int32(MSG_NOSIGNAL))
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }

    package func send(_ answer: LocalAnswer, to request: LocalRequest) {
        var head = "HTTP/1.1 \(answer.status) Test\r\n"
        for (name, value) in answer.headers { head += "\(name): \(value)\r\n" }
        if !answer.headers.contains(where: { $0.0.lowercased() == "content-length" }), answer.status != 204 {
            head += "Content-Length: \(answer.body.count)\r\n"
        }
        write(Array((head + "\r\n").utf8) + (request.method == "HEAD" ? [] : answer.body))
    }

    /// Breaks the connection with a reset instead of an orderly end when it closes.
    package func resetOnClose() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
    }

    /// Returns when the client has closed.
    package func waitForClose() { while receive() { buffered = [] } }

    private func receive() -> Bool {
        var room = [UInt8](repeating: 0, count: 256 << 10)
        let count = recv(descriptor, &room, room.count, 0)
        guard count > 0 else { return false }
        buffered += room[..<count]
        return true
    }

    private static func endOfHead(_ bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4 else { return nil }
        return (0...(bytes.count - 4)).first { bytes[$0] == 13 && bytes[$0 + 1] == 10 && bytes[$0 + 2] == 13 }
    }
}
