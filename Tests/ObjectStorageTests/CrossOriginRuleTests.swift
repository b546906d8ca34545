import ObjectStorage
import Testing

@Suite struct CrossOriginRuleTests {
    private static let rule = CrossOriginRule(
        origins: ["https://*.example.com", "https://one.org"], methods: ["GET", "PUT"],
        headers: ["x-oss-*", "Content-Type"])

    struct Row: CustomTestStringConvertible, Sendable {
        var origin = "https://a.example.com"
        var method = "PUT"
        var headers: [String] = []
        let mismatch: CrossOriginRule.Mismatch?

        var testDescription: String { "\(method) from \(origin) with \(headers)" }
    }

    @Test(arguments: [
        Row(mismatch: nil), Row(origin: "https://one.org", mismatch: nil),
        Row(headers: ["X-OSS-Meta-a", "content-type"], mismatch: nil),
        Row(origin: "https://example.com", mismatch: .origin), Row(origin: "http://one.org", mismatch: .origin),
        Row(method: "DELETE", mismatch: .method), Row(method: "put", mismatch: .method),
        Row(headers: ["content-type", "other"], mismatch: .header("other")),
        // The first part that does not fit is named.
        Row(origin: "https://b.org", method: "DELETE", mismatch: .origin),
    ])
    func theFirstPartThatARuleDoesNotAllowIsNamed(row: Row) {
        let request = PreflightRequest(origin: row.origin, method: row.method, headers: row.headers)
        #expect(Self.rule.mismatch(request) == row.mismatch)
    }

    @Test func aStarDoesNotLetStartAndEndOverlap() {
        let rule = CrossOriginRule(origins: ["aba*aba"], methods: ["*"])
        #expect(rule.mismatch(PreflightRequest(origin: "aba", method: "GET")) == .origin)
        #expect(rule.mismatch(PreflightRequest(origin: "abaaba", method: "GET")) == nil)
    }
}
