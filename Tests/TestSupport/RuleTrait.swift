package import Testing

/// The test proves rules of pailfs-semantics(7): `@Test(.rule("rename.replace"))`.
///
/// A failure names them. RuleTests looks that each rule of the page has a test. Tests in Python carry a comment, `# rule: `
/// and the names.
package struct RuleTrait: TestTrait, SuiteTrait, TestScoping {
    package let rules: [String]

    /// Of a suite each test proves them.
    package var isRecursive: Bool { true }

    package var comments: [Comment] { ["pailfs-semantics(7): \(rules.joined(separator: ", "))"] }

    /// Comments of a trait are shown with no failure: they are added to each.
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
