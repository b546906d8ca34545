package import Testing

/// The test proves rules of pailfs-semantics(7): `@Test(.rule("rename.replace"))`.
///
/// A failure shows the rules. RuleTests checks that each rule of the page has a test. Tests in Python carry the rules in a
/// comment that begins with `# rule: `.
package struct RuleTrait: TestTrait, SuiteTrait, TestScoping {
    package let rules: [String]

    /// A suite's rules apply to each of its tests.
    package var isRecursive: Bool { true }

    package var comments: [Comment] { ["pailfs-semantics(7): \(rules.joined(separator: ", "))"] }

    /// Swift Testing 6.3 does not print the comments of a trait, so each issue gets them.
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        let naming = IssueHandlingTrait.compactMapIssues { issue in
            var issue = issue
            issue.comments += comments
            return issue
        }
        try await naming.provideScope(for: test, testCase: testCase, performing: function)
    }
}

extension Trait where Self == RuleTrait {
    /// Names of rules of pailfs-semantics(7).
    package static func rule(_ rules: String...) -> Self { RuleTrait(rules: rules) }
}
