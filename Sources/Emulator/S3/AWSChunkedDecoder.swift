package import NIOCore

/// Takes the `aws-chunked` framing off a body ("Signature calculations for the Authorization header: transferring
/// payload in multiple chunks", Amazon S3 API reference). A pure state machine: bytes in, events out.
package struct AWSChunkedDecoder {
    package enum Event: Equatable {
        /// A chunk begins; 0 announces the end.
        case chunk(size: Int, signature: String?)
        case data(ByteBuffer)
        /// The chunk's data is complete.
        case chunkEnd
        /// Everything after the last chunk.
        case trailers([Field])
    }

    private enum State {
        case header
        case data(remaining: Int)
        case dataEnd
        case trailers([Field])
        case finished
    }

    private var state = State.header
    private var buffer = ByteBuffer()
    private static let longestLine = 16 << 10

    package init() {}

    package var isFinished: Bool {
        if case .finished = state { return true }
        return false
    }

    package mutating func feed(_ bytes: ByteBuffer) {
        if buffer.readableBytes == 0 { buffer = bytes } else { buffer.writeImmutableBuffer(bytes) }
    }

    /// The next event; nil when more bytes are needed.
    package mutating func next() throws(S3Error) -> Event? {
        switch state {
        case .header:
            guard let line = try takeLine() else { return nil }
            let words = line.split(separator: ";")
            guard let first = words.first, let size = Int(first.filter { $0 != " " }, radix: 16), size >= 0 else {
                throw Self.malformed
            }
            let signature = words.dropFirst().first { $0.hasPrefix("chunk-signature=") }.map {
                String($0.dropFirst("chunk-signature=".count))
            }
            state = size == 0 ? .trailers([]) : .data(remaining: size)
            return .chunk(size: size, signature: signature)
        case .data(let remaining):
            guard buffer.readableBytes > 0,
                let data = buffer.readSlice(length: min(remaining, buffer.readableBytes))
            else { return nil }
            let rest = remaining - data.readableBytes
            state = rest == 0 ? .dataEnd : .data(remaining: rest)
            return .data(data)
        case .dataEnd:
            guard let end = buffer.readBytes(length: 2) else { return nil }
            guard end == [0x0d, 0x0a] else { throw Self.malformed }
            state = .header
            return .chunkEnd
        case .trailers(let fields):
            guard let line = try takeLine() else { return nil }
            guard !line.isEmpty else {
                state = .finished
                return .trailers(fields)
            }
            guard let mark = line.firstIndex(of: ":") else { throw Self.malformed }
            let value = line[line.index(after: mark)...].drop { $0 == " " }
            state = .trailers(fields + [Field(line[..<mark].lowercased(), String(value))])
            return try next()
        case .finished:
            guard buffer.readableBytes == 0 else { throw Self.malformed }
            return nil
        }
    }

    private mutating func takeLine() throws(S3Error) -> String? {
        guard let end = buffer.readableBytesView.firstIndex(of: 0x0a) else {
            guard buffer.readableBytes <= Self.longestLine else { throw Self.malformed }
            return nil
        }
        let line = buffer.readString(length: end - buffer.readerIndex) ?? ""
        buffer.moveReaderIndex(forwardBy: 1)
        return line.unicodeScalars.last == "\r"
            ? String(String.UnicodeScalarView(line.unicodeScalars.dropLast())) : line
    }

    private static let malformed = S3Error.incompleteBody
}
