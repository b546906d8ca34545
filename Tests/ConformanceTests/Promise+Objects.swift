import Basics
import Digests
import ObjectStorage
import Testing

extension Bucket {
    /// What the store tells of the whole object to somebody who reads a part of it.
    func checksums(_ name: ByteString) async throws(ObjectStoreError) -> [CheckedPart] {
        let info = try await get(name, 10..<20).answer.info
        if let checksum = info.checksum { return [CheckedPart(size: info.version.size, checksum)] }
        return try await store.checksums(of: key(name), info.version)
    }

    func expect(_ bytes: [UInt8], toComeTo parts: [CheckedPart], sourceLocation: SourceLocation = #_sourceLocation) {
        if parts.isEmpty { return }
        #expect(parts.reduce(0) { $0 + $1.size } == Int64(bytes.count), sourceLocation: sourceLocation)
        var rest = bytes[...]
        for part in parts {
            var digest = part.checksum.begin()
            digest.update(Array(rest.prefix(Int(part.size))))
            #expect(digest.finish() == part.checksum.digest, "\(part.checksum.name)", sourceLocation: sourceLocation)
            rest = rest.dropFirst(Int(part.size))
        }
    }
}

extension Promise {
    static let everyHeader: ObjectMetadata = {
        var metadata = ObjectMetadata(
            contentType: "text/plain; charset=utf-8",
            user: ["mode": "33188", "name": "a%20b ; c=\"d\", e", "empty": "0"])
        metadata.cacheControl = "max-age=60, private"
        metadata.contentDisposition = "attachment; filename=\"a b.txt\""
        metadata.contentEncoding = "br"
        metadata.contentLanguage = "de, en"
        metadata.expires = "Wed, 21 Oct 2065 07:28:00 GMT"
        return metadata
    }()

    static let objects: [Promise] = [
        Promise("An object comes back with its bytes and every header") { bucket in
            let bytes = Array("some content".utf8)
            let answer = try await bucket.put("object", bytes, metadata: bucket.everyHeader)
            let info = try await bucket.head("object")
            #expect(info.metadata == bucket.everyHeader)
            #expect(info.version.etag == answer.etag)
            #expect(info.version.size == 12)
            #expect(abs(info.version.modified.seconds - SystemTime().now().seconds) < 60)
            let got = try await bucket.get("object")
            #expect(got.bytes == bytes)
            #expect(got.answer == GetAnswer(info: info, range: 0..<12))
        },
        Promise("A put replaces the object with its headers") { bucket in
            let first = try await bucket.put("object", [1, 2, 3], metadata: bucket.everyHeader)
            let second = try await bucket.put("object", [4], metadata: ObjectMetadata(contentType: "a/b"))
            #expect(first.etag != second.etag)
            let got = try await bucket.get("object")
            #expect(got.bytes == [4])
            #expect(got.answer.info.metadata == ObjectMetadata(contentType: "a/b"))
        },
        Promise("An empty object is an object") { bucket in
            let answer = try await bucket.put("empty", [])
            let got = try await bucket.get("empty")
            #expect(got.bytes.isEmpty && got.answer.range == 0..<0)
            #expect(got.answer.info.version.etag == answer.etag)
            #expect(await failure { try await bucket.get("empty", 0..<1) } == .invalidRange)
        },
        Promise("A body of megabytes comes back") { bucket in
            let bytes = content(3 << 20 + 17)
            let answer = try await bucket.put("large", bytes)
            let got = try await bucket.get("large")
            #expect(got.bytes == bytes)
            #expect(got.answer.info.version.etag == answer.etag)
        },
        Promise("A missing object is not found") { bucket in
            #expect(await failure { try await bucket.head("missing") } == .notFound)
            #expect(await failure { try await bucket.get("missing") } == .notFound)
            #expect(await failure { try await bucket.get("missing", 0..<1) } == .notFound)
        },
        Promise("A range is delivered exactly, cut at the object's end") { bucket in
            try await bucket.put("object", Array(0..<100), metadata: bucket.everyHeader)
            for (asked, expected) in [
                (0..<1, 0..<1), (10..<20, 10..<20), (99..<100, 99..<100), (90..<200, 90..<100), (0..<100, 0..<100),
            ] as [(ByteRange, ByteRange)] {
                let got = try await bucket.get("object", asked)
                #expect(got.bytes.map(Int64.init) == Array(expected))
                #expect(got.answer.range == expected)
                #expect(got.answer.info.version.size == 100)
                #expect(got.answer.info.metadata == bucket.everyHeader)
            }
        },
        Promise("The answer to a range, or a request of its own, tells what the whole comes to") { bucket in
            let bytes = content(100_000)
            try await bucket.put("object", bytes)
            let told = try await bucket.checksums("object")
            #expect(told.count == 1)
            bucket.expect(bytes, toComeTo: told)
        },
        Promise("A range past the end is invalid") { bucket in
            try await bucket.put("object", Array(0..<100))
            #expect(await failure { try await bucket.get("object", 100..<101) } == .invalidRange)
            #expect(await failure { try await bucket.get("object", 500..<600) } == .invalidRange)
        },
        Promise("Reads answer as their condition says") { bucket in
            let old = try await bucket.put("object", [1]).etag
            let etag = try await bucket.put("object", [2]).etag
            #expect(try await bucket.head("object", .ifMatch(etag)).version.etag == etag)
            #expect(try await bucket.head("object", .ifNoneMatch(old)).version.etag == etag)
            #expect(await failure { try await bucket.head("object", .ifMatch(old)) } == .preconditionFailed)
            #expect(await failure { try await bucket.head("object", .ifNoneMatch(etag)) } == .notModified)
            #expect(try await bucket.get("object", condition: .ifMatch(etag)).bytes == [2])
            #expect(try await bucket.get("object", 0..<1, condition: .ifMatch(etag)).bytes == [2])
            #expect(try await bucket.get("object", condition: .ifNoneMatch(old)).bytes == [2])
            for range in [nil, 0..<1] as [ByteRange?] {
                let stale = await failure { try await bucket.get("object", range, condition: .ifMatch(old)) }
                #expect(stale == .preconditionFailed)
                let same = await failure { try await bucket.get("object", range, condition: .ifNoneMatch(etag)) }
                #expect(same == .notModified)
            }
        },
        Promise("A new object is made only where none is") { bucket in
            guard bucket.capabilities.putIfAbsent else {
                let refused = await failure { try await bucket.put("object", [1], condition: .absent) }
                #expect(refused == .notSupported)
                return
            }
            try await bucket.put("object", [1], condition: .absent)
            #expect(await failure { try await bucket.put("object", [9], condition: .absent) } == .preconditionFailed)
            #expect(try await bucket.content("object") == [1])
        },
        Promise("An object is replaced only when it is the one meant") { bucket in
            let old = try await bucket.put("object", [1]).etag
            guard bucket.capabilities.putIfMatch else {
                let refused = await failure { try await bucket.put("object", [9], condition: .match(old)) }
                #expect(refused == .notSupported)
                #expect(try await bucket.content("object") == [1])
                return
            }
            let etag = try await bucket.put("object", [2], condition: .match(old)).etag
            #expect(
                await failure { try await bucket.put("object", [9], condition: .match(old)) } == .preconditionFailed)
            #expect(try await bucket.content("object") == [2])
            #expect(try await bucket.head("object").version.etag == etag)
            let missing = await failure { try await bucket.put("missing", [9], condition: .match(etag)) }
            #expect(missing == .notFound || missing == .preconditionFailed)
            #expect(await failure { try await bucket.head("missing") } == .notFound)
        },
        Promise("New headers leave the content as it is") { bucket in
            let bytes = Array("some content".utf8)
            let old = try await bucket.put("object", bytes, metadata: bucket.everyHeader).etag
            let metadata = ObjectMetadata(contentType: "text/html", user: ["mode": "33024"])
            let answer = try await bucket.store.updateMetadata(bucket.key("object"), to: metadata, ifMatch: old)
            let got = try await bucket.get("object")
            #expect(got.bytes == bytes)
            #expect(got.answer.info.metadata == metadata)
            #expect(got.answer.info.version.etag == answer.etag)
        },
        Promise("New headers are only for the version meant") { bucket in
            let old = try await bucket.put("object", [1]).etag
            try await bucket.put("object", [2], metadata: bucket.everyHeader)
            let key = bucket.key("object")
            let stale = await failure {
                try await bucket.store.updateMetadata(key, to: ObjectMetadata(), ifMatch: old)
            }
            #expect(stale == .preconditionFailed)
            #expect(try await bucket.head("object").metadata == bucket.everyHeader)
            let missing = await failure {
                try await bucket.store.updateMetadata(bucket.key("missing"), to: ObjectMetadata(), ifMatch: nil)
            }
            #expect(missing == .notFound)
        },
        Promise("An object moves to another key, and only the one meant") { bucket in
            let old = try await bucket.put("from", [1]).etag
            let etag = try await bucket.put("from", [2], metadata: bucket.everyHeader).etag
            try await bucket.put("to", [3])
            let move = { (etag: ETag) in
                CopyRequest(CopySource(bucket.key("from"), ifMatch: etag), to: bucket.key("to"))
            }
            guard bucket.capabilities.move else {
                #expect(await failure { try await bucket.store.move(move(etag)) } == .notSupported)
                return
            }
            #expect(await failure { try await bucket.store.move(move(old)) } == .preconditionFailed)
            #expect(try await bucket.content("to") == [3])
            let answer = try await bucket.store.move(move(etag))
            let got = try await bucket.get("to")
            #expect(got.bytes == [2])
            #expect(got.answer.info.metadata == bucket.everyHeader)
            #expect(got.answer.info.version.etag == answer.etag)
            #expect(await failure { try await bucket.head("from") } == .notFound)
            #expect(await failure { try await bucket.store.move(move(etag)) } == .notFound)
        },
        Promise("A deleted object is gone, and deleting nothing is fine") { bucket in
            try await bucket.put("object")
            try await bucket.store.delete(bucket.key("object"), ifMatch: nil)
            #expect(await failure { try await bucket.head("object") } == .notFound)
            try await bucket.store.delete(bucket.key("object"), ifMatch: nil)
            try await bucket.store.delete(bucket.key("no/such/directory"), ifMatch: nil)
            #expect(try await bucket.store.deleteMany([bucket.key("object")]).isEmpty)
        },
    ]

    /// Bytes that differ from place to place.
    static func content(_ count: Int) -> [UInt8] {
        let block = Array(SHA256.of("conformance")) + Array(MD5.of("of stores")) + [7]
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + block.count)
        while bytes.count < count { bytes += block }
        bytes.removeLast(bytes.count - count)
        return bytes
    }
}
