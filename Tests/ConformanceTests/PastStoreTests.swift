import Basics
import Emulator
import ObjectStorage
import TestSupport
import Testing

/// The bucket as it was, from listings of versions of any page size.
@Suite struct PastStoreTests {
    private static let dialects: [Dialect] = [.s3, .oss, .cos]

    /// A bucket whose keys were written and deleted before, at and after a time; the store of that time.
    private func withPast(_ dialect: Dialect, _ body: (Bucket, PastStore) async throws -> Void) async throws {
        let time = ManualTime()
        try await withEmulator(dialect, change: { ($0.keepsVersions, $0.time) = (true, time) }) { _, server in
            let bucket = Bucket(fixture: Fixture(store: try server.store(time: time), server: server))
            for round in 1...5 {
                for name in ["a", "d/a", "z"] as [ByteString] { try await bucket.put(name, [UInt8(round)]) }
                switch round {
                case 2:
                    try await bucket.put("d/gone")
                    try await bucket.put("e/gone")
                    try await bucket.put("b")
                case 3:
                    for name in ["d/gone", "e/gone"] as [ByteString] {
                        try await bucket.store.delete(bucket.key(name), ifMatch: nil)
                    }
                case 4:
                    try await bucket.put("f/later")
                    try await bucket.put("later")
                    try await bucket.store.delete(bucket.key("b"), ifMatch: nil)
                default: break
                }
                time.advance(by: .seconds(10))
            }
            // In the third round.
            let then = time.now() + .seconds(-30)
            try await body(bucket, PastStore(bucket.store, .at(then)))
        }
    }

    private func content(_ name: ByteString, _ bucket: Bucket, _ store: PastStore) async throws -> [UInt8] {
        let sink = CollectingSink()
        _ = try await store.get(GetRequest(bucket.key(name)), into: sink)
        return sink.bytes
    }

    @Test(arguments: dialects) func listingsShowWhatWas(_ dialect: Dialect) async throws {
        try await withPast(dialect) { bucket, past in
            for limit in [1, 2, 3, 5, 1000] {
                let flat = try await list(ListRequest(prefix: bucket.prefix, limit: limit), bucket, past)
                #expect(flat == ["a", "b", "d/a", "z"], "pages of \(limit)")
                let slash = UInt8(ascii: "/")
                let top = try await list(
                    ListRequest(prefix: bucket.prefix, delimiter: slash, limit: limit), bucket, past)
                #expect(Set(top) == ["a", "b", "d/", "z"], "groups in pages of \(limit)")
                #expect(top.count == 4)
            }
            let rest = ListRequest(prefix: bucket.prefix, startAfter: bucket.prefix + "b")
            #expect(try await list(rest, bucket, past) == ["d/a", "z"])
        }
    }

    private func list(_ request: ListRequest, _ bucket: Bucket, _ store: PastStore) async throws -> [ByteString] {
        var request = request
        var names: [ByteString] = []
        for _ in 0..<100 {
            let page = try await store.list(request)
            let keys = page.objects.map(\.key) + page.commonPrefixes
            names += keys.map { $0.bytes.dropFirst(bucket.prefix.count) }
            guard let next = page.next else { return names }
            request.cursor = next
        }
        Issue.record("the listing does not end")
        return names
    }

    @Test(arguments: dialects) func objectsAreReadAsTheyWere(_ dialect: Dialect) async throws {
        try await withPast(dialect) { bucket, past in
            // By a key that no listing has shown, and by one that a listing has.
            #expect(try await content("a", bucket, past) == [3])
            _ = try await past.list(ListRequest(prefix: bucket.prefix))
            #expect(try await content("z", bucket, past) == [3])
            let info = try await past.head(bucket.key("b"), condition: nil)
            #expect(info.version.size == 7)
            for name in ["d/gone", "e/gone", "later", "f/later", "never"] as [ByteString] {
                #expect(await failure { try await past.head(bucket.key(name), condition: nil) } == .notFound)
                #expect(await failure { try await content(name, bucket, past) } == .notFound)
            }
            let now = try await bucket.head("a").version.etag
            #expect(
                await failure { try await past.head(bucket.key("a"), condition: .ifMatch(now)) }
                    == .preconditionFailed)
        }
    }

    @Test func whatWasIsNotChanged() async throws {
        try await withPast(.s3) { bucket, past in
            let key = bucket.key("a")
            #expect(
                await failure { try await past.put(PutRequest(key), body: MemorySource([1])) } == .notSupported)
            #expect(await failure { try await past.delete(key, ifMatch: nil) } == .notSupported)
            #expect(await failure { try await past.copy(CopyRequest(CopySource(key), to: key)) } == .notSupported)
            #expect(await failure { try await past.createUpload(PutRequest(key)) } == .notSupported)
            let version = try await past.versions(of: key)[0].id
            #expect(await failure { try await past.delete(key, version: version) } == .notSupported)
            #expect(await failure { try await past.restoreVersion(key, version) } == .notSupported)
            #expect(try await bucket.content("a") == [5])
        }
    }

    @Test(arguments: dialects) func aBucketThatKeepsNoVersionsHasNoPast(_ dialect: Dialect) async throws {
        try await withEmulator(dialect) { _, server in
            let past = PastStore(try server.store(), .at(Timestamp(seconds: 1_700_000_000)))
            #expect(await failure { try await past.checkAccess() } == .invalidRequest)
        }
        try await withPast(dialect) { _, past in try await past.checkAccess() }
    }
}
