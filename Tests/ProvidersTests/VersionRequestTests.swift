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
}
