import Basics
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix

/// One request with the way to answer it; made by the connection for the task that serves it.
struct Exchange: Sendable {
    let request: ServerRequest
    let body: RequestBody
    let channel: any Channel
    let isKeptAlive: Bool
    let isFromLoopback: Bool

    /// Files up to this size are read and sent with the head at once; larger ones go by sendfile(2).
    private static let smallBody: Int64 = 64 << 10
    /// The most bytes handed to one sendfile(2) run; the last run starts when the log line is written.
    private static let regionSize: Int64 = 8 << 20
    /// The same where a rate is kept: the first bytes come soon, and the ones after them cost few wake-ups.
    private static let firstPacedRegion: Int64 = 64 << 10

    /// Sends the whole answer; `beforeEnd` runs before its last bytes leave, so that whoever has read an answer
    /// finds its line in the log. Throws when the client went away.
    func send(_ response: ServerResponse, beforeEnd: @escaping @Sendable () -> Void) async throws {
        let mustClose = !isKeptAlive || body.awaitsDemand || response.omitsLength
        let head = HTTPServerResponsePart.head(makeHead(response, closing: mustClose))
        switch response.body {
        case .none, .promised:
            beforeEnd()
            try await finish([head], closing: mustClose)
        case .bytes(let bytes):
            beforeEnd()
            try await finish([head, .body(.byteBuffer(ByteBuffer(bytes: bytes)))], closing: mustClose)
        case .content(let content, let range) where range.length <= Self.smallBody:
            var buffer = ByteBuffer()
            buffer.reserveCapacity(Int(range.length))
            try content.forEachPiece(of: range) { (piece) throws(StorageError) in
                buffer.writeBytes(piece)
            } onError: {
                $0
            }
            beforeEnd()
            try await finish([head, .body(.byteBuffer(buffer))], closing: mustClose)
        case .content(let content, let range):
            try await stream(content, range, head: head, closing: mustClose, beforeEnd: beforeEnd)
        }
    }

    /// Sends the answer through `shaping`, piece by piece; `beforeEnd` gets the bytes sent of the body.
    func send(
        _ response: ServerResponse, through shaping: BodyShaping, cutIsReset: Bool, time: any TimeSource,
        beforeEnd: @escaping @Sendable (Int64) -> Void
    ) async throws {
        let mustClose = !isKeptAlive || body.awaitsDemand || response.omitsLength
        let head = HTTPServerResponsePart.head(makeHead(response, closing: mustClose))
        var pace = shaping.pace(now: time.uptime())
        if case .content(let content, let range) = response.body, shaping.keepsBytes {
            return try await stream(content, range, head: head, closing: mustClose, pace, time) {
                beforeEnd(range.length)
            }
        }
        try await write([head])
        var sent: Int64 = 0
        for piece in pieces(of: response.body) {
            var chunk = try piece()
            let outcome = shaping.apply(to: &chunk, at: sent)
            sent += Int64(chunk.readableBytes)
            if let pause = pace?.pause(for: chunk.readableBytes, now: time.uptime()) {
                try await time.sleep(for: pause)
            }
            try await write([.body(.byteBuffer(chunk))])
            if outcome == .cut {
                beforeEnd(sent)
                return await end(resetting: cutIsReset)
            }
        }
        beforeEnd(sent)
        try await finish([], closing: mustClose)
    }

    /// Ends the connection: with a reset as a crashed peer would, or in order.
    func end(resetting: Bool) async {
        if resetting {
            let socket = channel as? any SocketOptionProvider
            try? await socket?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
        }
        try? await channel.close().get()
    }

    private func makeHead(_ response: ServerResponse, closing: Bool) -> HTTPResponseHead {
        var headers = HTTPHeaders(response.headers.map { ($0.name, $0.value) })
        if response.status != 204, response.status != 304, !response.omitsLength {
            headers.add(name: "Content-Length", value: String(response.body.length))
        }
        if closing { headers.add(name: "Connection", value: "close") }
        return HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: response.status), headers: headers)
    }

    private func stream(
        _ content: Content, _ range: ByteRange, head: HTTPServerResponsePart, closing: Bool, _ pace: Pace? = nil,
        _ time: any TimeSource = SystemTime(), beforeEnd: @escaping @Sendable () -> Void
    ) async throws {
        var parts = [head]
        var pace = pace
        var regionSize = min(pace?.region ?? Self.regionSize, pace == nil ? .max : Self.firstPacedRegion)
        let segments = content.segments(in: range)
        for (index, segment) in segments.enumerated() {
            let handle = try Self.handle(for: try content.open(segment))
            defer { try? handle.close() }
            var offset: Int64 = 0
            while offset < segment.length {
                let length = min(regionSize, segment.length - offset)
                if let pause = pace?.pause(for: Int(length), now: time.uptime()) { try await time.sleep(for: pause) }
                regionSize = pace?.region ?? Self.regionSize
                let start = Int(segment.offset + offset)
                let region = FileRegion(fileHandle: handle, readerIndex: start, endIndex: start + Int(length))
                parts.append(.body(.fileRegion(region)))
                offset += length
                let isLast = index == segments.count - 1 && offset == segment.length
                if isLast {
                    beforeEnd()
                    try await finish(parts, closing: closing)
                } else {
                    try await write(parts)
                }
                parts = []
            }
        }
    }

    private static func handle(for file: File) throws -> NIOFileHandle {
        let descriptor = dup(file.rawDescriptor)
        guard descriptor >= 0 else { throw FileError(errno: errno, operation: "duplicate", path: file.path) }
        return NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: descriptor)
    }

    private func pieces(of body: ServerResponse.Body) -> [() throws -> ByteBuffer] {
        let size: Int64 = 64 << 10
        switch body {
        case .none, .promised: return []
        case .bytes(let bytes):
            return stride(from: 0, to: bytes.count, by: Int(size)).map { start in
                { ByteBuffer(bytes: bytes[start..<min(bytes.count, start + Int(size))]) }
            }
        case .content(let content, let range):
            return stride(from: range.lowerBound, to: range.upperBound, by: Int(size)).map { start in
                {
                    var buffer = ByteBuffer()
                    try content.forEachPiece(of: start..<min(range.upperBound, start + size)) {
                        (piece) throws(StorageError) in
                        buffer.writeBytes(piece)
                    } onError: {
                        $0
                    }
                    return buffer
                }
            }
        }
    }

    /// Writes in one go on the event loop and waits until it is with the kernel.
    private func write(_ parts: [HTTPServerResponsePart]) async throws {
        let channel = channel
        try await channel.eventLoop.flatSubmit {
            let last = parts.count - 1
            for part in parts.prefix(last) { channel.write(part, promise: nil) }
            return channel.writeAndFlush(parts[last])
        }.get()
    }

    private func finish(_ parts: [HTTPServerResponsePart], closing: Bool) async throws {
        body.discard()
        try await write(parts + [.end(nil)])
        guard closing else { return }
        // Closing while the client still sends would reset the connection and could cost it the answer.
        if !body.isEnded, !body.awaitsDemand {
            let channel = channel
            channel.eventLoop.scheduleTask(in: .seconds(2)) { channel.close(promise: nil) }
        } else {
            try await channel.close().get()
        }
    }
}
