import ObjectStorage
import Testing

@Suite struct BucketNameTests {
    @Test(arguments: [
        ("bucket", true), ("my-bucket-1", true), ("ab", false), (String(repeating: "a", count: 64), false),
        ("Bucket", false), ("under_score", false), ("-bucket", false), ("bucket-", false), ("a.b", false),
    ])
    func namesOfLettersDigitsAndHyphensAreAllowed(_ name: String, _ isAllowed: Bool) {
        #expect((BucketNameRule().problem(name) == nil) == isAllowed)
    }

    @Test(arguments: [("a.b.c", true), ("a..b", false), ("192.168.5.4", false), (".ab", false)])
    func dotsAreAllowedWhereTheStoreAllowsThem(_ name: String, _ isAllowed: Bool) {
        var rule = BucketNameRule()
        rule.allowsDots = true
        #expect((rule.problem(name) == nil) == isAllowed)
    }

    @Test func theNumberOfTheAccountEndsTheName() {
        var rule = BucketNameRule()
        rule.end = .exactly("-1250000000")
        #expect(rule.problem("photos-1250000000") == nil)
        #expect(rule.problem("photos")?.hasSuffix("write photos-1250000000") == true)
        rule.end = .anyNumber
        #expect(rule.problem("photos-1250000000") == nil)
        #expect(rule.problem("photos") != nil && rule.problem("photos-new") != nil)
    }

    @Test func containersHaveAlmostAnyName() {
        var rule = BucketNameRule()
        (rule.isRestricted, rule.length) = (false, 1...256)
        #expect(rule.problem("Ein Behälter_1") == nil)
        #expect(rule.problem(String(repeating: "a", count: 257)) != nil)
    }
}
