import Basics
import ObjectStorage
import Testing

@Suite struct HeaderRuleTests {
    @Test(
        "a rule is for the files that its pattern stands for",
        arguments: [
            ("*.gz: Content-Encoding: gzip", "d/a.gz", true), ("*.gz: Content-Encoding: gzip", "d.gz/a", false),
            ("/static/**: Cache-Control: public", "static/a/b", true),
            ("static/*: Cache-Control: public", "static/a/b", false),
            ("static/*: Cache-Control: public", "x/static/a", false),
            ("a\\:b: Expires: 0", "d/a:b", true), ("a\\\\: Expires: 0", "a\\", true),
            ("[ab].c:x-oss-meta-team:red", "b.c", true),
        ])
    func patterns(text: String, key: String, fits: Bool) throws {
        #expect(try #require(HeaderRule(text)).fits(ObjectKey(ByteString(key))) == fits)
    }

    @Test func aRuleHasAStoredHeaderAndItsValue() throws {
        let type = try #require(HeaderRule("*.js:  content-TYPE :text/javascript; q=\"a:b\" "))
        #expect(type.header == .standard(.contentType) && type.value == "text/javascript; q=\"a:b\"")
        for prefix in ["x-amz-meta-", "X-OSS-Meta-", "x-cos-meta-", "x-qn-meta-", "X-Object-Meta-"] {
            #expect(try #require(HeaderRule("*: \(prefix)Team: Red")).header == .metadata("team"))
        }
    }

    @Test(arguments: [
        "", "*.gz", "*.gz: gzip", "*.gz: Content-Encoding:", "*.gz: Content-Encoding:  ", ": Expires: 0",
        "d/: Expires: 0", "[a: Expires: 0", "*: X-Team: red", "*: Authorization: x", "*: x-amz-meta-: red",
        "*: x-amz-meta-a.b: red", "*: x-amz-meta-\(String(repeating: "n", count: 41)): red", "*: Expires: \u{e4}",
        "*: Expires: a\nb", "*\\: Expires: 0",
    ])
    func anotherTextIsNoRule(_ text: String) { #expect(HeaderRule(text) == nil) }
}
