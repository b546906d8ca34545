import Foundation
import ObjectStorage
import Settings
import Testing

struct OptionTextTests {
    @Test func manualPageHasTheTable() throws {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardized
        let page = try String(contentsOf: root.appendingPathComponent("man/pailfs.1"), encoding: .utf8)
        #expect(page.contains(OptionTable.manualText), "man/pailfs.1 must hold this:\n\(OptionTable.manualText)")
    }

    @Test func manualPageNamesWhatCanChangeWhileMounted() throws {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardized
        let page = try String(contentsOf: root.appendingPathComponent("man/pailfs.1"), encoding: .utf8)
        let names =
            ".Cm \(OptionTable.liveNames.dropLast().joined(separator: " , ")) No and Cm \(OptionTable.liveNames.last ?? "") ."
        #expect(page.contains(names), "man/pailfs.1 must hold this:\n\(names)")
    }

    @Test func manualPageHasNoOtherOptions() throws {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardized
        let page = try String(contentsOf: root.appendingPathComponent("man/pailfs.1"), encoding: .utf8)
        let lines = page.split(separator: "\n")
        let section = lines.drop { $0 != ".Sh OPTIONS" }.dropFirst().prefix { !$0.hasPrefix(".Sh ") }
        let names = section.filter { $0.hasPrefix(".It Cm ") }.map { $0.split(separator: " ")[2] }
        #expect(Set(names) == Set(OptionTable.options.filter(\.isListed).map { $0.name[...] }))
    }

    @Test func exampleOfTheFilesPageIsAFile() throws {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardized
        let page = try String(contentsOf: root.appendingPathComponent("man/pailfs.conf.5"), encoding: .utf8)
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
        let example = lines.drop { !$0.hasPrefix(".Bd") }.dropFirst().prefix { $0 != ".Ed" }.joined(separator: "\n")
        let file = try ConfigFile(parsing: example, path: "example")
        for (url, expected) in [("s3://backups", 5), ("oss://photos/raw", 4), ("s3://other", 3)] {
            let entries = file.entries(for: try BucketURL(parsing: url))
            let sources = OptionSources(files: [(path: "example", entries: entries)], optionLists: [], environment: [:])
            _ = try MountSettings(sources.options)
            #expect(sources.options.count == expected, "\(url): \(entries)")
        }
    }

    @Test func helpNamesEveryOptionInEightyColumns() {
        let lines = OptionTable.helpText.split(separator: "\n")
        #expect(lines.allSatisfy { $0.count <= 80 })
        for option in OptionTable.options where option.isListed {
            #expect(lines.contains { $0.hasPrefix("  \(option.name)") })
            #expect(option.help.hasSuffix("."))
        }
    }

    @Test func environmentNamesFollowFromTheNames() {
        let names = OptionTable.options.filter(\.isListed).map(\.environmentName)
        #expect(names.contains("PAILFS_CACHE_DIR") && names.contains("PAILFS_ALLOW_OTHER"))
        #expect(Set(names).count == names.count)
    }
}
