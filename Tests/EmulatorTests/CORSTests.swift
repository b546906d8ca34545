import Basics
import Emulator
import TestSupport
import Testing

/// What pages of other origins may ask, and that a bucket remembers it.
@Suite struct CORSTests {
    private static let rule: CORSRule = {
        var rule = CORSRule()
        (rule.id, rule.maxAge) = ("one rule", 60)
        (rule.origins, rule.methods) = (["http://*.example.com", "https://one.org"], ["PUT", "GET"])
        (rule.headers, rule.exposed) = (["x-cos-*", "Content-Type"], ["ETag"])
        return rule
    }()

    struct Question: CustomTestStringConvertible, Sendable {
        var origin = "http://a.example.com"
        var method = "PUT"
        var headers: [String] = []
        let isAllowed: Bool

        var testDescription: String { "\(method) from \(origin) with \(headers): \(isAllowed)" }
    }

    @Test(arguments: [
        Question(isAllowed: true), Question(origin: "https://one.org", method: "GET", isAllowed: true),
        Question(origin: "http://.example.com", isAllowed: true),
        Question(headers: ["X-COS-Meta-a", "content-type"], isAllowed: true),
        Question(origin: "https://one.org.evil.com", isAllowed: false),
        Question(origin: "http://example.com", isAllowed: false), Question(origin: "", isAllowed: false),
        Question(origin: "https://a.example.com", isAllowed: false), Question(method: "DELETE", isAllowed: false),
        Question(method: "put", isAllowed: false), Question(headers: ["Content-Type", "other"], isAllowed: false),
    ])
    func rulesAllowWhatTheyName(question: Question) {
        let isAllowed = Self.rule.allows(origin: question.origin, method: question.method, headers: question.headers)
        #expect(isAllowed == question.isAllowed)
    }

    @Test func oneStarStandsForOverlappingNothing() {
        var rule = Self.rule
        rule.origins = ["http://aba*aba"]
        #expect(!rule.allows(origin: "http://aba", method: "GET"))
        #expect(rule.allows(origin: "http://abaaba", method: "GET"))
    }

    @Test func aBucketKeepsItsRules() throws {
        let directory = try TemporaryDirectory()
        do {
            let library = try ObjectLibrary(directory: directory.path)
            try library.createBucket("bucket", region: "r", now: Timestamp(seconds: 1))
            var bare = CORSRule()
            (bare.origins, bare.methods) = (["*"], ["GET"])
            try library.bucket("bucket").setCORS([Self.rule, bare])
        }
        let rules = try ObjectLibrary(directory: directory.path).bucket("bucket").record.cors
        #expect(rules.first == Self.rule)
        #expect(rules.count == 2)
        #expect(rules.last?.origins == ["*"])
        #expect(rules.last?.maxAge == nil)
    }
}
