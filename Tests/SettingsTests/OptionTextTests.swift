import Foundation
import ObjectStorage
import Settings
import Testing

struct OptionTextTests {
    /// Entries of the manual's list of options: a line with the name, and sentences.
    private func entries(_ text: some StringProtocol) -> [String] {
        var entries: [String] = []
        for line in text.split(separator: "\n") {
            if line.hasPrefix(".It Cm ") {
                entries.append(line + "\n")
            } else if !entries.isEmpty, !line.hasPrefix(".") {
                entries[entries.count - 1] += line + "\n"
            }
        }
        return entries
    }

    /// The section OPTIONS, which has the options in groups.
    private func optionsSection() throws -> [Substring] {
        try Repository.text("man/pailfs-mount.8").split(separator: "\n")
            .drop { $0 != ".Sh OPTIONS" }.dropFirst().prefix { !$0.hasPrefix(".Sh ") }
    }

    @Test func manualPageHasTheTable() throws {
        let section = try optionsSection().drop { !$0.hasPrefix(".Ss ") }.joined(separator: "\n") + "\n"
        #expect(section == OptionTable.manualText, "from .Ss Basic on, OPTIONS must be:\n\(OptionTable.manualText)")
    }

    @Test func manualPageHasTheOptionsInGroups() throws {
        let groups = try optionsSection().filter { $0.hasPrefix(".Ss ") }.map { String($0.dropFirst(4)) }
        #expect(groups == ["Basic", "Cache", "Durability", "Identity", "Network", "One store only"])
    }

    /// A store's section in pailfs-stores(7) names the options that are refused elsewhere.
    @Test func storesPageNamesTheOptionsOfEachStore() throws {
        let page = try Repository.text("man/pailfs-stores.7")
        let sections = [
            "S3": "AMAZON S3 AND ITS PROTOCOL", "OSS": "ALIBABA CLOUD OSS", "COS": "TENCENT CLOUD COS",
            "Kodo": "QINIU KODO", "CSSP": "IFLYTEK CSSP", "Swift": "OPENSTACK SWIFT",
        ]
        for (store, title) in sections {
            let lines = page.split(separator: "\n").drop { $0 != ".Sh \(title)" }.dropFirst()
            let words = lines.prefix { !$0.hasPrefix(".Sh ") }.filter { $0.hasPrefix(".Cm ") }
                .flatMap { $0.split(separator: " ") }
            #expect(!lines.isEmpty, "man/pailfs-stores.7 has no section \(title)")
            for entry in entries(OptionTable.manualText) {
                let only = entry.split(separator: "\n").first { $0.hasPrefix("Only for ") }
                let stores = only?.dropLast().split { " ,".contains($0) } ?? []
                let name = entry.split(separator: "\n")[0].split(separator: " ")[2]
                guard stores.contains(store[...]) else { continue }
                #expect(words.contains(name), "man/pailfs-stores.7, \(title), must name \(name)")
            }
        }
    }

    @Test func manualPageNamesWhatCanChangeWhileMounted() throws {
        let page = try Repository.text("man/pailfs.1")
        let names =
            ".Cm \(OptionTable.liveNames.dropLast().joined(separator: " , ")) No and Cm \(OptionTable.liveNames.last ?? "") ."
        #expect(page.contains(names), "man/pailfs.1 must hold this:\n\(names)")
    }

    @Test func manualPageHasNoOtherOptions() throws {
        let names = try optionsSection().filter { $0.hasPrefix(".It Cm ") }.map { $0.split(separator: " ")[2] }
        #expect(Set(names) == Set(OptionTable.options.filter(\.isListed).map { $0.name[...] }))
    }

    @Test func exampleOfTheFilesPageIsAFile() throws {
        let page = try Repository.text("man/pailfs.conf.5")
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

    /// Options that are of use with another one alone are in the manual.
    @Test func helpNamesEveryOptionAndFitsAScreen() {
        let lines = OptionTable.helpText.split(separator: "\n")
        #expect(lines.count < 35 && lines.allSatisfy { $0.count <= 78 })
        let words = Set(lines.flatMap { $0.split { " =".contains($0) } })
        for option in OptionTable.options where option.isListed && option.base == nil {
            #expect(words.contains(option.name[...]))
        }
    }

    @Test func descriptionsAreThoseOfTheManual() throws {
        let lines = try OptionTable.descriptions(of: []).split(separator: "\n")
        #expect(lines.allSatisfy { $0.count <= 78 })
        for option in OptionTable.options where option.isListed {
            #expect(lines.contains { $0.hasPrefix("  \(option.name)") })
            #expect(option.help.hasSuffix("."))
        }
        #expect(try OptionTable.descriptions(of: ["ro"]) == "  ro\n      Mount read-only.")
        #expect(throws: SettingsError.self) { try OptionTable.descriptions(of: ["no-such"]) }
    }

    @Test func environmentNamesFollowFromTheNames() {
        let names = OptionTable.options.filter(\.isListed).map(\.environmentName)
        #expect(names.contains("PAILFS_CACHE_DIR") && names.contains("PAILFS_ALLOW_OTHER"))
        #expect(Set(names).count == names.count)
    }
}
