import Basics
import Digests
import NIOCore

/// Bytes that arrived and were digested.
struct ReceivedContent {
    let content: Content
    let md5: [UInt8]
    /// Of the digest that was asked for.
    let digest: [UInt8]?
}

/// Writes bytes as they arrive into a new content file and digests them on the way. Owned by the task that receives.
struct ContentReceiver {
    private let writer: ContentWriter
    private var md5 = MD5()
    private var hasher: (any Digest)?

    /// `hasher` is fed besides MD5.
    init(into bucket: Bucket, hasher: (any Digest)? = nil) {
        writer = bucket.newContent()
        self.hasher = hasher
    }

    mutating func take(_ chunk: ByteBuffer) throws(StorageError) {
        let bytes = chunk.readableBytesSpan
        md5.update(bytes)
        hasher?.update(bytes)
        try writer.write(bytes)
    }

    func finish() throws(StorageError) -> ReceivedContent {
        ReceivedContent(content: try writer.finish(), md5: md5.finish(), digest: hasher?.finish())
    }
}

extension Content {
    /// The MD5 of the bytes of `range`, and what `hasher` makes of them; reads them all.
    func digest(_ range: ByteRange, with hasher: (any Digest)? = nil) throws(StorageError) -> (
        md5: [UInt8], digest: [UInt8]?
    ) {
        var md5 = MD5()
        var hasher = hasher
        try forEachPiece(of: range) { (piece) throws(StorageError) in
            md5.update(piece)
            hasher?.update(piece)
        } onError: {
            $0
        }
        return (md5.finish(), hasher?.finish())
    }
}

extension AnswerError {
    /// The digest of a `Content-MD5` header; nil without one.
    static func contentMD5(_ request: ServerRequest) throws(AnswerError) -> [UInt8]? {
        guard let text = request.header("content-md5") else { return nil }
        guard let digest = Base64.decode(text), digest.count == 16 else { throw invalidDigest }
        return digest
    }
}
