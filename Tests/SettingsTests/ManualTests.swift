import Foundation
import Testing

/// README.md and the pages below man/: their form, and that what one of them names is there.
struct ManualTests {
    private func lines(_ name: String) throws -> [Substring] {
        try Repository.text(name).split(separator: "\n", omittingEmptySubsequences: false)
    }

    /// Names of pages, as `pailfs-mount.8`.
    private func pages() throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: Repository.root.appendingPathComponent("man").path))
    }

    @Test func readMeIsShort() throws {
        let page = try lines("README.md")
        #expect(page.count < 200)
        for line in page where line.hasPrefix("|") {
            for cell in line.split(separator: "|") { #expect(cell.count <= 160, "\(cell)") }
        }
    }

    @Test func rulesHaveWellFormedNames() throws {
        let rules = try Repository.rules()
        #expect(rules.count > 80)
        for rule in rules { #expect(rule.wholeMatch(of: /[a-z]+(\.[a-z]+)?/) != nil, "\(rule)") }
    }

    @Test func rulesHaveDifferentNames() throws {
        let rules = try Repository.rules()
        for (rule, count) in Dictionary(rules.map { ($0, 1) }, uniquingKeysWith: +) {
            #expect(count == 1, "\(rule) names \(count) rules")
        }
    }

    @Test func rulesThatThePageNamesAreThere() throws {
        let rules = Set(try Repository.rules())
        var found = 0
        for line in try lines("man/pailfs-semantics.7") where line.hasPrefix(".Pq Li ") {
            for name in line.dropFirst(7).split(whereSeparator: { " ,".contains($0) }) where name != "." {
                found += 1
                #expect(rules.contains(String(name)), "\(line)")
            }
        }
        #expect(found > 10)
    }

    /// A rule, or the first word of several.
    @Test func rulesThatTheReadMeNamesAreThere() throws {
        let rules = try Repository.rules()
        let page = try Repository.text("README.md")
        let names = page.matches(of: /\(((`[a-z.]+`(, )?)+)\)[.;]/).flatMap {
            $0.output.1.split { "`, ".contains($0) }.map(String.init)
        }
        #expect(names.count >= 10)
        for name in names { #expect(rules.contains { $0 == name || $0.hasPrefix(name + ".") }, "\(name)") }
    }

    @Test func thePageOfTheCommandsLeadsToAllOthers() throws {
        let page = try lines("man/pailfs.1")
        let description = page.drop { $0 != ".Sh DESCRIPTION" }.prefix { !$0.hasPrefix(".Ss ") }
        for name in try pages() where name != "pailfs.1" {
            let entry =
                ".It Xr "
                + name.reversed().split(separator: ".", maxSplits: 1).reversed()
                .map { String($0.reversed()) }.joined(separator: " ")
            #expect(description.contains { $0 == entry }, "man/pailfs.1 lacks \(entry)")
        }
    }

    /// The list of questions in pailfs(1) names sections, and rows for a page before them.
    @Test func questionsLeadToSectionsOfThePages() throws {
        let rows = try lines("man/pailfs.1").drop { $0 != ".Ss Questions" }.dropFirst().prefix { !$0.hasPrefix(".S") }
            .filter { $0.hasPrefix(".It ") }.map { $0.dropFirst(4).components(separatedBy: " Ta ") }
        var page: [String] = []
        var found = 0
        for row in rows {
            let section = try #require(row.last)
            if let name = section.wholeMatch(of: /Xr (\S+) (\d)/) {
                page = try lines("man/\(name.output.1).\(name.output.2)").filter { $0.hasPrefix(".S") }
                    .map { String($0.dropFirst(4)) }
            } else if !section.hasPrefix("the ") {
                found += 1
                #expect(page.contains { $0.hasPrefix(section) }, "\(row)")
            }
        }
        #expect(found >= 12)
    }

    /// Also those that README links to.
    @Test func pagesThatOthersNameAreThere() throws {
        let pages = try pages()
        #expect(pages.count == 8)
        for page in pages {
            for match in try Repository.text("man/\(page)").matches(of: /\.?Xr (pail[a-z.-]+) ([0-9])/) {
                #expect(pages.contains("\(match.output.1).\(match.output.2)"), "\(page): \(match.output.0)")
            }
        }
        for match in try Repository.text("README.md").matches(of: /\]\(man\/([^)]+)\)/) {
            #expect(pages.contains(String(match.output.1)), "\(match.output.0)")
        }
    }
}
