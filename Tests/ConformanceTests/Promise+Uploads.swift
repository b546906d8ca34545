import Basics
import ObjectStorage
import Testing

extension Promise {

    private static func send(
        _ content: [UInt8], _ number: Int, to upload: UploadID, _ name: ByteString, in bucket: Bucket
    ) async throws(ObjectStoreError) -> UploadedPart {
        try await bucket.store.uploadPart(
            PartRequest(bucket.key(name), upload, number: number), body: MemorySource(content))
    }

    private static func begin(
        _ name: ByteString, in bucket: Bucket, metadata: ObjectMetadata = ObjectMetadata()
    ) async throws(ObjectStoreError) -> UploadID {
        try await bucket.store.createUpload(PutRequest(bucket.key(name), metadata: metadata))
    }

    private static func complete(
        _ name: ByteString, _ upload: UploadID, _ parts: [UploadedPart], _ condition: WriteCondition? = nil,
        in bucket: Bucket
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await bucket.store.completeUpload(bucket.key(name), upload, parts: parts, condition: condition)
    }

    private static func listed(
        _ name: ByteString, _ upload: UploadID, in bucket: Bucket
    ) async throws(ObjectStoreError) -> [UploadedPart] {
        try await bucket.store.listParts(bucket.key(name), upload).map(\.asListed)
    }

    static let uploads: [Promise] = [
        Promise("Parts sent in any order make one object") { bucket in
            let partSize = bucket.partSize
            let bytes = content(partSize + 1000)
            let upload = try await begin("large + odd", in: bucket, metadata: bucket.everyHeader)
            let second = try await send(Array(bytes[partSize...]), 2, to: upload, "large + odd", in: bucket)
            let first = try await send(Array(bytes[..<partSize]), 1, to: upload, "large + odd", in: bucket)
            #expect(try await listed("large + odd", upload, in: bucket) == [first, second].map(\.asListed))
            if bucket.capabilities.listUploads {
                let uploads = try await bucket.store.listUploads(prefix: bucket.prefix)
                let name: ByteString = bucket.differences.encodesPlusInUploads ? "large + odd" : "large   odd"
                #expect(uploads.map(\.key) == [bucket.key(name)])
                #expect(uploads.map(\.upload) == [upload])
            }
            #expect(await failure { try await bucket.head("large + odd") } == .notFound)
            let answer = try await complete("large + odd", upload, [first, second], in: bucket)
            let got = try await bucket.get("large + odd")
            #expect(got.bytes == bytes)
            #expect(got.answer.info.metadata == bucket.everyHeader)
            #expect(got.answer.info.version.etag == answer.etag)
            try await bucket.expectNoUploads()
            #expect(
                try await bucket.get("large + odd", ByteRange(at: Int64(partSize) - 5, count: 10)).bytes
                    == Array(bytes[(partSize - 5)..<(partSize + 5)]))
            bucket.expect(bytes, toComeTo: try await bucket.checksums("large + odd"))
            #expect(try await bucket.list().objects == ["large + odd"])
        },
        Promise("A part sent again replaces the first") { bucket in
            let upload = try await begin("object", in: bucket)
            let old = try await send([1], 1, to: upload, "object", in: bucket)
            let new = try await send([2, 3], 1, to: upload, "object", in: bucket)
            #expect(old.etag != new.etag)
            let held = bucket.differences.forgetsReplacedParts ? [new] : [old, new]
            #expect(Set(try await listed("object", upload, in: bucket)) == Set(held.map(\.asListed)))
            _ = try await complete("object", upload, [new], in: bucket)
            #expect(try await bucket.content("object") == [2, 3])
        },
        Promise("A part is copied out of an object") { bucket in
            let partSize = bucket.partSize
            let bytes = content(partSize + 1000)
            let etag = try await bucket.put("from +%", bytes).etag
            let source = CopySource(bucket.key("from +%"), ifMatch: etag)
            let upload = try await begin("to", in: bucket)
            let part = PartRequest(bucket.key("to"), upload, number: 1)
            guard bucket.capabilities.partCopy, bucket.differences.copiesRanges else {
                let refused = await failure { try await bucket.store.uploadPartCopy(part, from: source, range: 0..<1) }
                #expect(refused == .notSupported)
                return try await bucket.store.abortUpload(bucket.key("to"), upload)
            }
            let first = try await bucket.store.uploadPartCopy(
                part, from: source, range: ByteRange(at: 500, count: Int64(partSize)))
            #expect(first.size == partSize)
            let second = try await send([9], 2, to: upload, "to", in: bucket)
            _ = try await complete("to", upload, [first, second], in: bucket)
            #expect(try await bucket.content("to") == bytes[500..<(500 + partSize)] + [9])
        },
        Promise("A part is copied only from the version meant") { bucket in
            guard bucket.capabilities.partCopy else { return }
            let old = try await bucket.put("from", [1]).etag
            try await bucket.put("from", [2])
            let upload = try await begin("to", in: bucket)
            let part = PartRequest(bucket.key("to"), upload, number: 1)
            let source = CopySource(bucket.key("from"), ifMatch: old)
            let stale = await failure { try await bucket.store.uploadPartCopy(part, from: source, range: 0..<1) }
            #expect(stale == .preconditionFailed)
            let missing = CopySource(bucket.key("missing"))
            let nothing = await failure { try await bucket.store.uploadPartCopy(part, from: missing, range: 0..<1) }
            #expect(nothing == .notFound)
            try await bucket.store.abortUpload(bucket.key("to"), upload)
        },
        Promise("An upload becomes visible only when its condition holds") { bucket in
            let etag = try await bucket.put("object", [1]).etag
            let upload = try await begin("object", in: bucket)
            let part = try await send([2], 1, to: upload, "object", in: bucket)
            let refused = await failure { try await complete("object", upload, [part], .absent, in: bucket) }
            let (canMatch, isHeeded) = (bucket.capabilities.putIfMatch, bucket.capabilities.completionCondition)
            #expect(refused == (isHeeded && bucket.capabilities.putIfAbsent ? .preconditionFailed : .notSupported))
            let other = ETag("00000000000000000000000000000000")
            let stale = await failure { try await complete("object", upload, [part], .match(other), in: bucket) }
            #expect(stale == (isHeeded && canMatch ? .preconditionFailed : .notSupported))
            #expect(try await bucket.content("object") == [1])
            let condition: WriteCondition? = isHeeded && canMatch ? .match(etag) : nil
            _ = try await complete("object", upload, [part], condition, in: bucket)
            #expect(try await bucket.content("object") == [2])
        },
        Promise("The headers of an upload may come with its end") { bucket in
            let upload = try await begin("object", in: bucket)
            let part = try await send([1], 1, to: upload, "object", in: bucket)
            let later = ObjectMetadata(contentType: "text/plain", user: ["mtime": "99.5", "mode": "33188"])
            let key = bucket.key("object")
            guard bucket.capabilities.headersAtCompletion else {
                let refused = await failure {
                    try await bucket.store.completeUpload(key, upload, parts: [part], metadata: later, condition: nil)
                }
                #expect(refused == .notSupported, "headers were taken that are lost")
                return try await bucket.store.abortUpload(key, upload)
            }
            _ = try await bucket.store.completeUpload(key, upload, parts: [part], metadata: later, condition: nil)
            let stored = try await bucket.head("object").metadata
            #expect(stored.contentType == "text/plain")
            #expect(stored.user["mtime"] == "99.5" && stored.user["mode"] == "33188")
        },
        Promise("An aborted upload is gone, and aborting it again is fine") { bucket in
            let key = bucket.key("object")
            let upload = try await begin("object", in: bucket)
            let part = try await send([1], 1, to: upload, "object", in: bucket)
            try await bucket.store.abortUpload(key, upload)
            try await bucket.expectNoUploads()
            #expect(await failure { try await bucket.store.listParts(key, upload) } == .noSuchUpload)
            #expect(await failure { try await send([1], 1, to: upload, "object", in: bucket) } == .noSuchUpload)
            #expect(await failure { try await complete("object", upload, [part], in: bucket) } == .noSuchUpload)
            try await bucket.store.abortUpload(key, upload)
            #expect(await failure { try await bucket.head("object") } == .notFound)
        },
        Promise("A part that was never sent so is rejected") { bucket in
            let upload = try await begin("object", in: bucket)
            let part = try await send([1], 1, to: upload, "object", in: bucket)
            let other = UploadedPart(number: 1, etag: ETag("00000000000000000000000000000000"), size: 1)
            #expect(await failure { try await complete("object", upload, [other], in: bucket) } == .partRejected)
            let missing = UploadedPart(number: 2, etag: part.etag, size: 1)
            #expect(await failure { try await complete("object", upload, [missing], in: bucket) } == .partRejected)
            _ = try await complete("object", upload, [part], in: bucket)
            #expect(try await bucket.content("object") == [1])
        },
        Promise("A small part in front of another is rejected") { bucket in
            guard bucket.capabilities.smallestPart > 1 else { return }
            let upload = try await begin("object", in: bucket)
            let first = try await send([1], 1, to: upload, "object", in: bucket)
            let second = try await send([2], 2, to: upload, "object", in: bucket)
            let refused = await failure { try await complete("object", upload, [first, second], in: bucket) }
            #expect(refused == .partRejected)
            try await bucket.store.abortUpload(bucket.key("object"), upload)
        },
    ]
}

extension Bucket {
    /// A part that may stand in front of another.
    fileprivate var partSize: Int { Int(max(capabilities.smallestPart, 1 << 20)) }

    fileprivate func expectNoUploads() async throws {
        guard capabilities.listUploads else { return }
        #expect(try await store.listUploads(prefix: prefix).isEmpty)
    }
}

extension UploadedPart {
    /// Without the checksum, which answers to parts tell and lists of them do not.
    fileprivate var asListed: UploadedPart { UploadedPart(number: number, etag: etag, size: size) }
}
