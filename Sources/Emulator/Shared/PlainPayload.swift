import Basics
import Digests
import NIOCore

/// What the refusals of a plain body are made of: an `AnswerError`.
///
/// A protocol, since Swift 6.2 crashes in a debug build on an `async` function that throws a generic type of known size.
protocol PayloadFailure: Error {
    init(_ error: StorageError)
    static var incompleteBody: Self { get }
    static var documentTooLarge: Self { get }
    static var malformedXML: Self { get }
    static var missingLength: Self { get }
    static var entityTooLarge: Self { get }
    static var badDigest: Self { get }
    /// The digest of a `Content-MD5` header; nil without one.
    static func contentMD5(_ request: ServerRequest) throws(Self) -> [UInt8]?
}

extension AnswerError: PayloadFailure {}

/// A body that comes as it is, with `Content-MD5` at most: that of every provider but Amazon.
struct PlainPayload<Failure: PayloadFailure> {
    let body: RequestBody
    let request: ServerRequest
    /// Most bytes of a document a client may send.
    static var largestDocument: Int { 8 << 20 }

    /// Streams the body into a new content file of `bucket`; `limit` in bytes. `Content-MD5` is checked.
    func receive(
        into bucket: Bucket, limit: Int64, hasher: (any Digest)? = nil
    ) async throws(Failure) -> ReceivedContent {
        let expected = try Failure.contentMD5(request)
        let length = request.contentLength
        guard length != nil || request.hasHeader("transfer-encoding") else { throw .missingLength }
        guard length ?? 0 <= limit else { throw .entityTooLarge }
        var receiver = ContentReceiver(into: bucket, hasher: hasher)
        var size: Int64 = 0
        while let chunk = try await next() {
            size += Int64(chunk.readableBytes)
            guard size <= limit else { throw .entityTooLarge }
            do { try receiver.take(chunk) } catch { throw Failure(error) }
        }
        let received: ReceivedContent
        do { received = try receiver.finish() } catch { throw Failure(error) }
        guard expected == nil || expected == received.md5 else { throw .badDigest }
        return received
    }

    /// The whole of a document; `Content-MD5` is checked.
    func collect() async throws(Failure) -> [UInt8] {
        let expected = try Failure.contentMD5(request)
        let bytes: [UInt8]
        do { bytes = try await body.collect(limit: Self.largestDocument) } catch {
            throw error == .tooLarge ? .documentTooLarge : .incompleteBody
        }
        guard expected == nil || expected == MD5.of(bytes) else { throw .badDigest }
        return bytes
    }

    /// The document's root, which must be `name`.
    func document(_ name: String) async throws(Failure) -> XMLElement {
        guard let root = XMLReader.parse(try await collect()), root.name == name else { throw .malformedXML }
        return root
    }

    private func next() async throws(Failure) -> ByteBuffer? {
        do { return try await body.next() } catch { throw .incompleteBody }
    }
}
