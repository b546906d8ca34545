import Basics
import Digests
import NIOCore
import Synchronization

/// Blocks that were made and belong to no file yet, by the context that names them; gone after a restart, as contexts of
/// Kodo may be. Locked by its own mutex, a leaf.
final class KodoBlocks: Sendable {
    struct Block: Sendable {
        let bucket: String
        /// What the block will have, in bytes.
        let size: Int64
        /// What it has so far, in chunks.
        let chunks: [Content]
        let expires: Int64

        var length: Int64 { chunks.reduce(0) { $0 + $1.size } }
    }

    private let blocks = Mutex<[String: Block]>([:])

    /// The context of a new state of a block.
    func add(_ block: Block, now: Timestamp) -> String {
        let context = RandomID.hex()
        blocks.withLock { blocks in
            blocks[context] = block
            // Nobody ends uploads that were given up.
            if blocks.count % 1000 == 0 { blocks = blocks.filter { $0.value.expires > now.seconds } }
        }
        return context
    }

    func block(_ context: String, now: Timestamp) throws(KodoError) -> Block {
        guard let block = blocks.withLock({ $0[context] }), block.expires > now.seconds else { throw .invalidContext }
        return block
    }

    func remove(_ contexts: [String]) {
        blocks.withLock { blocks in
            for context in contexts { blocks[context] = nil }
        }
    }
}

/// Uploads by blocks of 4 MiB, version 1 of the resumable upload (Kodo API, "mkblk" and "mkfile").
extension KodoDialect {
    private static let lifetime: Int64 = 7 * 86400

    func makeBlock(_ call: KodoCall) async throws(KodoError) -> ServerResponse {
        let policy = try authenticator.policy(of: call.request)
        try authenticator.checkDeadline(policy)
        guard let size = call.target.arguments.first.flatMap({ Int64($0) }), (1...QETag.blockSize).contains(size) else {
            throw .invalid("invalid block size")
        }
        return try await add(call, to: policy.bucket, size: size, chunks: [])
    }

    func appendChunk(_ call: KodoCall) async throws(KodoError) -> ServerResponse {
        let policy = try authenticator.policy(of: call.request)
        try authenticator.checkDeadline(policy)
        let words = call.target.arguments
        guard words.count == 2, let offset = Int64(words[1]) else { throw .invalid("invalid path") }
        let block = try blocks.block(String(words[0]), now: options.time.now())
        guard block.bucket == policy.bucket, block.length == offset else { throw .invalidContext }
        let response = try await add(call, to: block.bucket, size: block.size, chunks: block.chunks)
        blocks.remove([String(words[0])])
        return response
    }

    /// Takes the body as the block's next chunk.
    private func add(
        _ call: KodoCall, to name: String, size: Int64, chunks: [Content]
    ) async throws(KodoError) -> ServerResponse {
        var receiver = KodoReceiver(into: try bucket(name))
        try await receiver.take(call.body, length: call.request.contentLength)
        let expires = options.time.now().seconds + Self.lifetime
        let block = KodoBlocks.Block(
            bucket: name, size: size, chunks: chunks + [try receiver.finish()], expires: expires)
        guard block.length <= size, receiver.writer.size > 0 else { throw .invalid("invalid block size") }
        let context = blocks.add(block, now: options.time.now())
        return Self.json([
            "ctx": .string(context),
            // Of this chunk; the hash without its first byte is its SHA-1.
            "checksum": .string(Base64.encode(receiver.hash.finish().dropFirst(), alphabet: .urlSafe)),
            "crc32": .number(Int64(receiver.crc32.value)), "offset": .number(block.length),
            "host": .string("http://\(call.request.header("host") ?? "")"), "expired_at": .number(expires),
        ])
    }

    func makeFile(_ call: KodoCall) async throws(KodoError) -> ServerResponse {
        let policy = try authenticator.policy(of: call.request)
        let upload = try Self.request(call.target.arguments.dropFirst())
        let body: [UInt8]
        do { body = try await call.body.collect(limit: Self.largestDocument) } catch { throw .incompleteBody }
        let contexts = String(decoding: body, as: UTF8.self).split(separator: ",").map(String.init)
        let bucket = try bucket(policy.bucket)
        var receiver = KodoReceiver(into: bucket)
        for (index, context) in contexts.enumerated() {
            let block = try blocks.block(context, now: options.time.now())
            let isLast = index == contexts.count - 1
            guard block.bucket == policy.bucket, block.length == block.size, isLast || block.size == QETag.blockSize
            else { throw .invalidContext }
            for chunk in block.chunks {
                try chunk.forEachPiece(of: 0..<chunk.size) { (piece) throws(KodoError) in
                    try receiver.take(.init(bytes: piece))
                } onError: {
                    KodoError($0)
                }
            }
        }
        guard let size = call.target.arguments.first.flatMap({ Int64($0) }), size == receiver.writer.size, size > 0
        else {
            throw .invalid("invalid file size")
        }
        let etag = Hex.encode(receiver.md5.finish())
        let content = try receiver.finish()
        let response = try store(
            upload, policy, size: size, hash: QETag.text(receiver.hash.finish())
        ) { key, description, condition throws(StorageError) in
            try put(content, as: key, etag: etag, description, condition, policyBucket: bucket.name)
        }
        blocks.remove(contexts)
        return response
    }

    /// `/mimeType/<…>/key/<…>/fname/<…>/x:foo/<…>/x-qn-meta-k/<…>`, in any order.
    private static func request(_ words: ArraySlice<Substring>) throws(KodoError) -> KodoUploadRequest {
        guard let pairs = KodoTarget.pairs(words) else { throw .invalid("invalid arguments") }
        var upload = KodoUploadRequest()
        upload.isByBlocks = true
        for (name, value) in pairs {
            switch name {
            case "key": upload.key = value
            case "mimeType": upload.mimeType = value.description
            case "fname": upload.fileName = value.description
            case _ where name.hasPrefix("x:"): upload.variables.append(Field(name, value.description))
            case _ where name.lowercased().hasPrefix(KodoObjects.metadataPrefix):
                upload.metadata.append(Field(name, value.description))
            default: throw .invalid("invalid argument \(name)")
            }
        }
        return upload
    }
}
