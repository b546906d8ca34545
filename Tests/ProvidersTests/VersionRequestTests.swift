import Basics
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// Requests about versions, and what the store takes from the answers.
@Suite(.timeLimit(.minutes(5))) struct VersionRequestTests {
    private static let object = [("ETag", "\"e\""), ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT")]

    /// The version `null` can be replaced between the HEAD and the copy.
    @Test(arguments: [(FamilyProfile.aws, "x-amz-"), (.oss, "x-oss-"), (.cos, "x-cos-")])
    func aRestoredVersionIsTheOneThatWasLookedAt(_ profile: FamilyProfile, _ prefix: String) async throws {
        let fixture = try FamilyFixture(profile: profile) {
            $0.region = "cn-north"
        } answer: { _, request in
            if request.method == "HEAD" { return LocalAnswer(200, Self.object, body: "hello") }
            if request.method == "GET" { return LocalAnswer(403) }
            return LocalAnswer(200, body: "<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>")
        }
        _ = try await fixture.store.restoreVersion("k", "null")
        let copy = try #require(fixture.requests.last)
        #expect(copy["\(prefix)copy-source"]?.hasSuffix("/k?versionId=null") == true)
        #expect(copy["\(prefix)copy-source-if-match"] == "\"e\"")
        #expect(copy["if-match"] == nil)
    }

    /// The message of a command depends on it: restoring is a request for the latest version.
    @Test func anErrorSaysThatItIsOfAVersion() async throws {
        let fixture = try FamilyFixture { _, _ in
            LocalAnswer(403, body: "<Error><Code>InvalidObjectState</Code></Error>")
        }
        let errors = [
            await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.copy(CopyRequest(CopySource("k", version: "1"), to: "d"))
            },
            await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.get(GetRequest("k", version: "1"), into: CollectingSink())
            },
            await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.copy(CopyRequest(CopySource("k"), to: "d"))
            },
        ]
        #expect(
            errors.map { $0?.kind } == [
                .archived(restoring: false), .archived(restoring: false), .archived(restoring: false),
            ])
        #expect(errors.map { $0?.isOfVersion } == [true, true, false])
    }

    @Test func theChecksumsOfAVersionAreAskedOfTheVersion() async throws {
        let fixture = try FamilyFixture { _, _ in
            LocalAnswer(200, Self.object + [("x-amz-checksum-crc32", "AAAAAA==")], body: "hello")
        }
        let version = ObjectVersion(etag: ETag("e"), size: 5, modified: .epoch)
        let past = PastStore(fixture.store, .version("1"))
        #expect(try await past.checksums(of: "k", version).map(\.size) == [5])
        #expect(fixture.requests.map(\.query) == ["versionId=1"])
    }

    private static func versions(_ elements: [(kind: String, key: String, id: String, second: Int)]) -> LocalAnswer {
        let text = elements.map { element in
            "<\(element.kind)><Key>\(element.key)</Key><VersionId>\(element.id)</VersionId><IsLatest>false</IsLatest>"
                + "<LastModified>2024-01-01T00:00:0\(element.second).000Z</LastModified></\(element.kind)>"
        }
        return LocalAnswer(200, body: "<ListVersionsResult>\(text.joined())</ListVersionsResult>")
    }

    /// The order of the document is that of the writes, whatever the clocks of the server's machines say.
    @Test func versionsOfAKeyKeepTheOrderOfTheDocument() async throws {
        let fixture = try FamilyFixture { _, _ in
            Self.versions([
                ("Version", "k", "3", 1), ("DeleteMarker", "k", "2", 5), ("Version", "k", "1", 4),
                ("Version", "j", "1", 0),
            ])
        }
        let page = try await fixture.store.versions(VersionsRequest())
        #expect(page.versions.map(\.key) == ["j", "k", "k", "k"])
        #expect(page.versions.map(\.id) == ["1", "3", "2", "1"])
    }

    @Test func deleteMarkersBehindAllVersionsGoBetweenThem() async throws {
        let fixture = try FamilyFixture { _, _ in
            Self.versions([
                ("Version", "k", "3", 5), ("Version", "k", "1", 1), ("Version", "l", "1", 2),
                ("DeleteMarker", "k", "2", 3),
                ("DeleteMarker", "l", "2", 9),
            ])
        }
        let page = try await fixture.store.versions(VersionsRequest())
        #expect(page.versions.map { "\($0.key)\($0.id)" } == ["k3", "k2", "k1", "l2", "l1"])
    }

    /// Servers with a bucket that never kept versions.
    @Test func aVersionWithoutAnIDIsNull() async throws {
        let fixture = try FamilyFixture { _, _ in Self.versions([("Version", "k", "", 1)]) }
        let page = try await fixture.store.versions(VersionsRequest())
        #expect(page.versions.map(\.id) == [StoredVersion.null] && page.versions[0].version.versionID == nil)
    }
}
