import Basics
import Emulator
import ObjectStorage
import TestSupport
import Testing

/// Versions of objects, through the stores of the providers that have them.
@Suite struct VersionsTests {
    private static let dialects: [Dialect] = [.s3, .oss, .cos]

    private func withVersions(
        _ dialect: Dialect, change: @escaping (inout EmulatorOptions) -> Void = { $0.keepsVersions = true },
        _ body: (Bucket) async throws -> Void
    ) async throws {
        try await withEmulator(dialect, change: change) { _, server in
            try await body(Bucket(fixture: Fixture(store: try server.store(), server: server)))
        }
    }

    private func content(_ bucket: Bucket, _ name: ByteString, _ version: String) async throws -> [UInt8] {
        let sink = CollectingSink()
        _ = try await bucket.store.get(GetRequest(bucket.key(name), version: version), into: sink)
        return sink.bytes
    }

    @Test(arguments: dialects) func theVersionsOfAKeyAreListedNewestFirst(_ dialect: Dialect) async throws {
        try await withVersions(dialect) { bucket in
            let first = try #require(try await bucket.put("k", [1]).versionID)
            let second = try #require(try await bucket.put("k", [2, 2]).versionID)
            try await bucket.put("k2")
            try await bucket.store.delete(bucket.key("k"), ifMatch: nil)
            let found = try await bucket.store.versions(of: bucket.key("k"))
            #expect(found.map(\.isDeleteMarker) == [true, false, false])
            #expect(found.map(\.isLatest) == [true, false, false])
            #expect(found.dropFirst().map(\.id) == [second, first])
            #expect(found.map(\.version.size) == [0, 2, 1])
            #expect(found.allSatisfy { $0.key == bucket.key("k") && $0.version.modified > .epoch })
        }
    }

    @Test(arguments: dialects) func aListingPagesAndGroups(_ dialect: Dialect) async throws {
        try await withVersions(dialect) { bucket in
            let names: [ByteString] = ["a b", "d/1", "d/2", "ü+%"]
            for name in names { for byte in 0..<3 { try await bucket.put(name, [UInt8(byte)]) } }
            for limit in [1, 2, 5, 100] {
                var request = VersionsRequest(prefix: bucket.prefix, limit: limit)
                var keys: [ByteString] = []
                while true {
                    let page = try await bucket.store.versions(request)
                    keys += page.versions.map { $0.key.bytes.dropFirst(bucket.prefix.count) }
                    guard let next = page.next else { break }
                    request.cursor = next
                }
                #expect(keys == names.flatMap { [$0, $0, $0] }, "pages of \(limit)")
            }
            let page = try await bucket.store.versions(
                VersionsRequest(prefix: bucket.prefix, delimiter: UInt8(ascii: "/"), startAfter: bucket.prefix + "a b"))
            #expect(page.commonPrefixes == [bucket.key("d/")])
            #expect(Set(page.versions.map(\.key)) == [bucket.key("ü+%")])
        }
    }

    @Test(arguments: dialects) func aVersionIsReadAndCopied(_ dialect: Dialect) async throws {
        try await withVersions(dialect) { bucket in
            let metadata = ObjectMetadata(contentType: "text/plain", user: ["m": "1"])
            let first = try #require(try await bucket.put("k", [1, 2, 3], metadata: metadata).versionID)
            try await bucket.put("k", [4])
            let info = try await bucket.store.head(bucket.key("k"), version: first)
            #expect(info.version.size == 3 && info.version.versionID == first)
            #expect(try await content(bucket, "k", first) == [1, 2, 3])
            _ = try await bucket.store.copy(
                CopyRequest(CopySource(bucket.key("k"), version: first), to: bucket.key("other")))
            #expect(try await bucket.content("other") == [1, 2, 3])
            #expect(await failure { try await content(bucket, "k", "0123456789abcdef0123456789abcdef") } == .notFound)
            let missing = await failure { try await bucket.store.head(bucket.key("k"), version: "no-such") }
            #expect(missing == .notFound)
        }
    }

    @Test(arguments: dialects) func aDeleteMarkerHasNothingToRead(_ dialect: Dialect) async throws {
        try await withVersions(dialect) { bucket in
            try await bucket.put("k", [1])
            try await bucket.store.delete(bucket.key("k"), ifMatch: nil)
            let marker = try #require(try await bucket.store.versions(of: bucket.key("k")).first)
            #expect(await failure { try await content(bucket, "k", marker.id) } == .notFound)
            do throws(ObjectStoreError) {
                _ = try await bucket.store.head(bucket.key("k"), version: marker.id)
                Issue.record("a delete marker was read")
            } catch { #expect(error.kind == .notFound && error.code == ObjectStoreError.deleteMarker) }
            try await bucket.store.delete(bucket.key("k"), version: marker.id)
            #expect(try await bucket.content("k") == [1])
            try await bucket.store.delete(bucket.key("k"), version: marker.id)
        }
    }

    @Test(arguments: dialects) func aRestoredVersionHasItsHeadersTagsAndClass(_ dialect: Dialect) async throws {
        try await withVersions(dialect) { bucket in
            let (store, key) = (bucket.store, bucket.key("k"))
            let storageClass = try #require(store.capabilities.storageClasses.dropFirst().first)
            let metadata = ObjectMetadata(contentType: "text/plain", user: ["m": "1"])
            let first = try #require(
                try await store.put(
                    PutRequest(key, metadata: metadata, storageClass: storageClass), body: MemorySource([1, 2])
                ).versionID)
            try await store.setTags(of: key, to: ["t": "1"])
            try await bucket.put("k", [3])
            try await store.delete(key, ifMatch: nil)
            let answer = try await store.restoreVersion(key, first)
            #expect(answer.versionID != nil && answer.versionID != first)
            let got = try await bucket.get("k")
            #expect(got.bytes == [1, 2] && got.answer.info.version.versionID == answer.versionID)
            #expect(got.answer.info.metadata.user == ["m": "1"])
            #expect(got.answer.info.metadata.contentType == "text/plain")
            #expect(got.answer.info.storageClass == storageClass)
            #expect(try await store.tags(of: key) == ["t": "1"])
            #expect(await failure { try await store.restoreVersion(key, "no-such") } == .notFound)
        }
    }

    /// The size of the version, not that of the latest.
    @Test func theLengthThatAHEADOfAVersionLacksIsFound() async throws {
        try await withEmulator(.s3, change: { $0.keepsVersions = true }) { emulator, server in
            let bucket = Bucket(fixture: Fixture(store: try server.store(), server: server))
            let first = try #require(try await bucket.put("k", [1, 2, 3]).versionID)
            try await bucket.put("k", [4])
            emulator.setFaults([try FaultSpec(parsing: "kind=head-without-length")])
            #expect(try await bucket.store.head(bucket.key("k"), version: first).version.size == 3)
        }
    }

    /// The link itself, not the object that it leads to.
    @Test func aRestoredLinkIsALink() async throws {
        try await withVersions(.oss) { bucket in
            let (store, key) = (bucket.store, bucket.key("k"))
            let link = try await store.putSymlink(
                PutRequest(key, metadata: ObjectMetadata(user: ["m": "1"])), target: bucket.key("none").bytes)
            try await bucket.put("k", [1])
            _ = try await store.restoreVersion(key, try #require(link.versionID))
            let restored = try await store.link(at: key)
            #expect(restored.target == bucket.key("none").bytes && restored.metadata.user == ["m": "1"])
        }
    }

    @Test(arguments: dialects) func aBucketSaysWhetherItKeepsVersions(_ dialect: Dialect) async throws {
        try await withVersions(dialect) { bucket in
            let versioning = try await bucket.store.versioning()
            #expect(versioning == .enabled)
        }
        try await withVersions(dialect, change: { _ in }) { bucket in
            #expect(try await bucket.store.versioning() == .never)
            try await bucket.put("k")
            let found = try await bucket.store.versions(of: bucket.key("k"))
            #expect(found.map(\.id) == [StoredVersion.null] && found[0].version.versionID == nil)
        }
    }

    @Test(arguments: [Dialect.kodo, .cssp]) func aStoreWithoutVersionsSaysSoWithoutARequest(
        _ dialect: Dialect
    ) async throws {
        try await withVersions(dialect) { bucket in
            let (store, key) = (bucket.store, bucket.key("k"))
            #expect(!store.capabilities.versions)
            #expect(await failure { try await store.versioning() } == .notSupported)
            #expect(await failure { try await store.versions(VersionsRequest()) } == .notSupported)
            #expect(await failure { try await store.head(key, version: "1") } == .notSupported)
            #expect(await failure { try await store.delete(key, version: "1") } == .notSupported)
            #expect(await failure { try await store.restoreVersion(key, "1") } == .notSupported)
            #expect(await failure { try await content(bucket, "k", "1") } == .notSupported)
            let copy = CopyRequest(CopySource(key, version: "1"), to: bucket.key("o"))
            #expect(await failure { try await store.copy(copy) } == .notSupported)
        }
    }
}
