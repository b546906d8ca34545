import Basics
import Digests
import Foundation
import HTTP
import ObjectStorage
import Providers
import Testing

extension Promise {
    /// What is asked of Swift-shaped stores besides: their large objects are made of others.
    static let largeObjects: [Promise] = [
        Promise("A large object is copied, described anew, and leaves no segments") { bucket in
            let size = Int(bucket.capabilities.smallestPart)
            let bytes = content(size + 1000)
            let upload = try await bucket.upload("large", bytes, partSize: size)
            let info = try await bucket.head("large")
            let digests = [Array(bytes[..<size]), Array(bytes[size...])].map { Hex.encode(MD5.of($0)) }
            #expect(info.version.etag.text == Hex.encode(MD5.of(digests.joined())))
            #expect(try await bucket.list().entries.map(\.version) == [info.version])
            #expect(try await bucket.segments(of: upload).count == 2)
            // Metadata changes in place, and content with it stays.
            let metadata = ObjectMetadata(contentType: "x/y", user: ["mode": "33024"])
            let answer = try await bucket.store.updateMetadata(
                bucket.key("large"), to: metadata, ifMatch: info.version.etag)
            let got = try await bucket.get("large", condition: .ifMatch(answer.etag))
            #expect(got.bytes == bytes && got.answer.info.metadata == metadata)
            // A copy is an object of its own.
            let source = CopySource(bucket.key("large"), ifMatch: answer.etag)
            let copy = try await bucket.store.copy(CopyRequest(source, to: bucket.key("copy")))
            let isPlain = bucket.differences.copiesBecomePlain
            #expect(copy.etag == (isPlain ? ETag(Hex.encode(MD5.of(bytes))) : info.version.etag))
            try await bucket.store.delete(bucket.key("large"), ifMatch: nil)
            #expect(try await bucket.segments(of: upload).isEmpty)
            #expect(try await bucket.content("copy") == bytes)
            // Nor does one that is replaced leave any.
            let other = try await bucket.upload("copy", bytes, partSize: size)
            try await bucket.put("copy", [1])
            #expect(try await bucket.segments(of: other).isEmpty)
        },
        Promise("Large objects of other tools are listed with their size, read, and left alone") { bucket in
            guard let server = bucket.fixture.server else { return }
            try await bucket.put("seg/01", Array("hello".utf8))
            try await bucket.put("seg/02", Array("world".utf8))
            let path = "\(server.bucket)/\(bucket.prefix)seg/0"
            let byPrefix = HTTPHeaders([("X-Object-Manifest", path), ("Content-Type", "a/b")])
            #expect(try await bucket.request(.put, "prefix", byPrefix).status == 201)
            let elements = ["hello", "world"].enumerated().map { index, text in
                let etag = bucket.differences.checksManifests ? "" : ", \"etag\": \"\(Hex.encode(MD5.of(text)))\""
                return "{\"path\": \"/\(path)\(index + 1)\"\(etag)}"
            }
            let manifest = "[\(elements.joined(separator: ", "))]"
            let named = try await bucket.request(
                .put, "named", HTTPHeaders([("Content-Type", "a/b")]), query: "?multipart-manifest=put",
                body: Array(manifest.utf8))
            #expect(named.status == 201)
            let listed = try await bucket.list().entries
            for name in ["prefix", "named"] as [ByteString] {
                let info = try await bucket.head(name)
                #expect(info.version.size == 10)
                #expect(info.version.etag == ETag("ae802c1f58f394d46485b7da18c56e9b"))
                #expect(listed.first { $0.key == bucket.key(name) }?.version == info.version)
                if bucket.differences.endsRangesByPrefix || name == "named" {
                    let got = try await bucket.get(name, 3..<7, condition: .ifMatch(info.version.etag))
                    #expect(got.bytes == Array("lowo".utf8) && got.answer.info == info)
                }
                #expect(try await bucket.content(name) == Array("helloworld".utf8))
                let metadata = ObjectMetadata(contentType: "x/y", user: ["a": "b"])
                _ = try await bucket.store.updateMetadata(bucket.key(name), to: metadata, ifMatch: nil)
                #expect(try await bucket.get(name).answer.info.metadata == metadata)
                #expect(try await bucket.content(name) == Array("helloworld".utf8))
            }
            let keys = [bucket.key("prefix"), bucket.key("named")]
            #expect(try await bucket.store.deleteMany(keys).isEmpty)
            #expect(try await bucket.list().objects == ["seg/01", "seg/02"])
        },
        Promise("The container tells what is in it") { bucket in
            try await bucket.put("object", [1, 2, 3])
            let usage = try await bucket.store.usage()
            #expect(usage.objects >= 1 && usage.bytes >= 3)
        },
        Promise("The container keeps metadata and who may read it") { bucket in
            let store = bucket.store
            #expect(store.capabilities.bucketProperties)
            try await store.changeBucket(BucketChange(metadata: ["color": "red", "size": "1"], readers: ".r:*"))
            try await store.changeBucket(BucketChange(metadata: ["size": "2"]))
            var usage = try await store.usage()
            #expect(usage.metadata["color"] == "red" && usage.metadata["size"] == "2")
            #expect(usage.readers == ".r:*")
            try await store.changeBucket(BucketChange(metadata: ["color": "", "size": ""], readers: ""))
            usage = try await store.usage()
            #expect(usage.metadata["color"] == nil && usage.metadata["size"] == nil && usage.readers == nil)
            await #expect(throws: ObjectStoreError.self) {
                try await store.changeBucket(BucketChange(metadata: ["long": String(repeating: "x", count: 257)]))
            }
        },
    ]
}

extension Bucket {
    /// Makes an object of two parts.
    fileprivate func upload(
        _ name: ByteString, _ bytes: [UInt8], partSize: Int
    ) async throws(ObjectStoreError) -> UploadID {
        let upload = try await store.createUpload(PutRequest(key(name)))
        var parts: [UploadedPart] = []
        for (index, piece) in [bytes[..<partSize], bytes[partSize...]].enumerated() {
            let part = PartRequest(key(name), upload, number: index + 1)
            parts.append(try await store.uploadPart(part, body: MemorySource(Array(piece))))
        }
        _ = try await store.completeUpload(key(name), upload, parts: parts, condition: nil)
        return upload
    }

    /// The names of an upload's segments that are there.
    fileprivate func segments(of upload: UploadID) async throws -> [Substring] {
        let isReal = fixture.server?.dialect == .swift
        let container = isReal ? "conformance_segments" : "conformance"
        let answer = try await request(
            .get, nil, query: "?prefix=\(isReal ? ".pailfs" : ".cssp-parts")/\(upload)/", container: container)
        return String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
    }

    /// A request that no store of ours makes.
    fileprivate func request(
        _ method: HTTPMethod, _ name: ByteString?, _ headers: HTTPHeaders = HTTPHeaders(), query: String = "",
        body: [UInt8] = [], container: String? = nil
    ) async throws -> HTTPResponse {
        let server = try #require(fixture.server)
        let container = container ?? server.bucket
        let key = name.map { prefix + $0 }
        let resource = ByteString("/\(container)") + (key.map { "/" + $0 } ?? "")
        var head = SwiftRequestHead(method, resource, headers)
        let address = try await server.authenticator().authorize(&head)
        let request = HTTPRequest(
            method, address.origin, target: address.path(container, key) + query, headers: head.headers)
        return try await server.engine.execute(request, body: method == .get ? nil : MemorySource(body))
    }
}
