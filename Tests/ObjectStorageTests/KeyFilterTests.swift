import Basics
import ObjectStorage
import Testing

@Suite struct KeyFilterTests {
    private func filter(_ rules: String...) throws -> KeyFilter {
        let parsed = try rules.map { rule in
            try #require(KeyFilter.Rule(String(rule.dropFirst()), isIncluded: rule.hasPrefix("+")))
        }
        return try #require(KeyFilter(parsed))
    }

    private func hides(_ filter: KeyFilter, _ path: String, isDirectory: Bool? = false) -> Bool {
        let cut = path.utf8.lastIndex(of: UInt8(ascii: "/")).map { path.utf8.index(after: $0) } ?? path.startIndex
        return filter.hides(
            ByteString(String(path[cut...])), in: ByteString(String(path[..<cut])), isDirectory: isDirectory)
    }

    @Test func aPatternWithoutASlashIsForNamesAnywhere() throws {
        let filter = try filter("-*.tmp")
        #expect(hides(filter, "a.tmp") && hides(filter, "d/e/a.tmp") && hides(filter, "d.tmp", isDirectory: true))
        #expect(!hides(filter, "a.tmpx") && !hides(filter, "tmp"))
    }

    @Test func aPatternWithASlashIsForPathsFromTheTop() throws {
        let filter = try filter("-/logs/*.log", "-a/**/z")
        #expect(hides(filter, "logs/x.log") && !hides(filter, "d/logs/x.log") && !hides(filter, "logs/d/x.log"))
        #expect(hides(filter, "a/b/c/z") && !hides(filter, "b/a/c/z"))
    }

    @Test func aSlashAtTheEndIsForDirectories() throws {
        let filter = try filter("-build/")
        #expect(hides(filter, "x/build", isDirectory: true) && !hides(filter, "x/build"))
        #expect(!hides(filter, "x/build", isDirectory: nil), "a file of that name is shown")
        #expect(hides(try self.filter("-build"), "build", isDirectory: nil))
    }

    @Test func theFirstRuleThatFitsCounts() throws {
        let filter = try filter("+keep.tmp", "-*.tmp", "+a.tmp")
        #expect(!hides(filter, "keep.tmp") && hides(filter, "a.tmp") && !hides(filter, "other"))
    }

    @Test func withoutExclusionsOnlyIncludedFilesAreShown() throws {
        let filter = try filter("+*.jpg")
        #expect(hides(filter, "d/a.txt") && !hides(filter, "d/a.jpg") && !hides(filter, "d", isDirectory: true))
        #expect(!hides(filter, "d", isDirectory: nil))
    }

    @Test func whatIsBelowAHiddenDirectoryIsShownWithItOnly() throws {
        let all = try filter("+*.txt", "-*")
        #expect(hides(all, "d", isDirectory: true))
        let withDirectories = try filter("+*.txt", "+*/", "-*")
        #expect(!hides(withDirectories, "d", isDirectory: true) && !hides(withDirectories, "d/a.txt"))
        #expect(hides(withDirectories, "d/a.jpg"))
    }

    @Test(arguments: ["", "/", "[a-", "a\\"]) func aPatternWithAnErrorIsNone(_ text: String) {
        #expect(KeyFilter.Rule(text, isIncluded: true) == nil)
    }
}
