import Basics
import Digests
import NIOCore

/// Reads a request's body as what it says it is: takes off the framing, checks chunk signatures and the signed hash.
/// Owned by the task that answers.
package final class PayloadReader {
    private let body: RequestBody
    private let expectedLength: Int64?
    private let expectedHash: String?
    private var decoder: AWSChunkedDecoder?
    private var signer: ChunkSigner?
    private var hasher: SHA256?
    private var chunkSignature: String?
    private var received: Int64 = 0
    private var isFinished = false
    /// After the end: what came behind the last chunk.
    package private(set) var trailers: [Field] = []
    /// The length of the plain bytes; nil when the client does not say.
    let length: Int64?

    package init(_ body: RequestBody, _ request: ServerRequest, _ payload: S3Authorization.Payload) {
        self.body = body
        switch payload {
        case .plain:
            (expectedHash, length) = (nil, request.contentLength)
        case .hashed(let hash):
            (expectedHash, length) = (hash, request.contentLength)
            hasher = SHA256()
        case .chunked(let signer, _):
            expectedHash = nil
            length = request.header("x-amz-decoded-content-length").flatMap { Int64($0) }
            self.signer = signer
            decoder = AWSChunkedDecoder()
            if signer != nil { hasher = SHA256() }
        }
        expectedLength = decoder == nil ? nil : length
    }

    /// The next plain bytes; nil when the body ended and everything about it was right.
    func next() async throws(S3Error) -> ByteBuffer? {
        while !isFinished {
            if decoder != nil, let data = try takeFromDecoder() { return data }
            let chunk: ByteBuffer?
            do { chunk = try await body.next() } catch { throw .incompleteBody }
            guard let chunk else {
                try finish()
                return nil
            }
            guard decoder == nil else {
                decoder?.feed(chunk)
                continue
            }
            hasher?.update(chunk.readableBytesSpan)
            received += Int64(chunk.readableBytes)
            return chunk
        }
        return nil
    }

    package func collect(limit: Int) async throws(S3Error) -> [UInt8] {
        var bytes: [UInt8] = []
        while let chunk = try await next() {
            guard bytes.count + chunk.readableBytes <= limit else {
                throw .documentTooLarge
            }
            bytes += chunk.readableBytesView
        }
        return bytes
    }

    private func takeFromDecoder() throws(S3Error) -> ByteBuffer? {
        while let event = try decoder?.next() {
            switch event {
            case .chunk(let size, let signature):
                chunkSignature = signature
                if size == 0 { try checkChunk() }
            case .data(let data):
                hasher?.update(data.readableBytesSpan)
                received += Int64(data.readableBytes)
                return data
            case .chunkEnd: try checkChunk()
            case .trailers(let fields): try take(fields)
            }
        }
        return nil
    }

    private func checkChunk() throws(S3Error) {
        guard signer != nil, let hasher else { return }
        self.hasher = SHA256()
        guard let chunkSignature, signer?.accepts(chunkSignature, dataHash: hasher.finish()) == true else {
            throw Self.badChunk
        }
    }

    private func take(_ fields: [Field]) throws(S3Error) {
        trailers = fields.filter { $0.name != "x-amz-trailer-signature" }
        guard let signer, !trailers.isEmpty else { return }
        guard let signature = fields.first(where: { $0.name == "x-amz-trailer-signature" })?.value,
            signer.accepts(signature, trailers: trailers)
        else { throw Self.badChunk }
    }

    private func finish() throws(S3Error) {
        isFinished = true
        if let decoder, !decoder.isFinished { throw .incompleteBody }
        if let expectedLength, expectedLength != received { throw .incompleteBody }
        if let expectedHash, let hasher, Hex.encode(hasher.finish()) != expectedHash {
            throw S3Error(
                400, "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
                elements: [
                    Field("ClientComputedContentSHA256", expectedHash),
                    Field("S3ComputedContentSHA256", Hex.encode(hasher.finish())),
                ])
        }
    }

    private static let badChunk = S3Error(
        403, "SignatureDoesNotMatch", "The signature of a chunk of the body does not match its bytes.")
}
