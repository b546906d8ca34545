import Foundation
import Settings
import Testing

struct OptionTextTests {
    @Test func manualPageHasTheTable() throws {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardized
        let page = try String(contentsOf: root.appendingPathComponent("man/pailfs.1"), encoding: .utf8)
        #expect(page.contains(OptionTable.manualText), "man/pailfs.1 must hold this:\n\(OptionTable.manualText)")
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
