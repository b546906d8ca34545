import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// The option `header`.
@Suite(.timeLimit(.minutes(5))) struct MountHeaderTests {
    /// What says that the requester pays has to be signed, and to go with every request.
    @Test func aHeaderOfTheMountIsSignedWithEveryRequest() async throws {
        let etag = "\"\(Hex.encode(MD5.of([1])))\""
        let fixture = try FamilyFixture {
            $0.headers = [("x-amz-request-payer", "requester")]
        } answer: { _, request in
            if request.query.contains("list-type") { return LocalAnswer(200, body: "<ListBucketResult/>") }
            return request["x-amz-copy-source"] == nil
                ? LocalAnswer(200, [("ETag", etag)], bytes: request.method == "PUT" ? [] : [1])
                : LocalAnswer(200, body: "<CopyObjectResult><ETag>\(etag)</ETag></CopyObjectResult>")
        }
        let store = fixture.store
        _ = try await store.list(ListRequest(prefix: ""))
        _ = try await store.put(PutRequest("k"), body: MemorySource([1]))
        _ = try await store.head("k", condition: nil)
        _ = try await store.get(GetRequest("k"), into: CollectingSink())
        _ = try await store.copy(CopyRequest(CopySource("k"), to: "l"))
        try await store.delete("k", ifMatch: nil)
        #expect(Set(fixture.requests.map(\.method)) == ["GET", "PUT", "HEAD", "DELETE"])
        for request in fixture.requests {
            #expect(request["x-amz-request-payer"] == "requester")
            #expect(request["authorization"]?.contains("x-amz-request-payer") == true, "\(request.method)")
        }
    }
}
