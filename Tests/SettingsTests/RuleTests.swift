import Foundation
import Testing

/// Tests prove the rules of pailfs-semantics(7) and carry their names: the trait `rule` in Swift, a comment in Python.
struct RuleTests {
    /// Each name that a test carries, with the files of those tests.
    private func carried() throws -> [String: Set<String>] {
        let tests = Repository.root.appendingPathComponent("Tests")
        var carried: [String: Set<String>] = [:]
        for folder in try FileManager.default.contentsOfDirectory(atPath: tests.path) where folder.hasSuffix("Tests") {
            let names = try FileManager.default.contentsOfDirectory(
                atPath: tests.appendingPathComponent(folder).path)
            for name in names where name != "RuleTests.swift" {
                let file = tests.appendingPathComponent(folder).appendingPathComponent(name)
                for rule in try rules(in: file) { carried[rule, default: []].insert("\(folder)/\(name)") }
            }
        }
        return carried
    }

    private func rules(in file: URL) throws -> [String] {
        switch file.pathExtension {
        case "swift":
            // The trait's arguments are the literals up to its closing parenthesis.
            return try String(contentsOf: file, encoding: .utf8).components(separatedBy: ".rule(").dropFirst()
                .flatMap { text in
                    text.prefix { $0 != ")" }.split(separator: "\"", omittingEmptySubsequences: false).enumerated()
                        .filter { !$0.offset.isMultiple(of: 2) }.map { String($0.element) }
                }
        case "py":
            return try String(contentsOf: file, encoding: .utf8).components(separatedBy: "# rule: ").dropFirst()
                .flatMap { text in
                    text.prefix { $0 != "\n" }.split { ", ".contains($0) }.map(String.init)
                }
        default: return []
        }
    }

    @Test func eachRuleIsProvedByATest() throws {
        let carried = try carried()
        for rule in try Repository.rules() { #expect(carried[rule] != nil, "no test carries \(rule)") }
    }

    @Test func testsCarryRulesOfThePage() throws {
        let (rules, carried) = (Set(try Repository.rules()), try carried())
        #expect(carried.count > 80)
        for (rule, files) in carried {
            #expect(rules.contains(rule), "\(files.sorted()): pailfs-semantics(7) has no \(rule)")
        }
    }
}
