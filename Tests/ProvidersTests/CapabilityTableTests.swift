import Basics
import Foundation
import ObjectStorage
import Providers
import Testing

/// What README and manual say that each store can do, made from the code.
@Suite struct CapabilityTableTests {
    private static let stores: [(name: String, capabilities: Capabilities)] = [
        ("S3", FamilyProfile.aws.capabilities), ("OSS", FamilyProfile.oss.capabilities),
        ("COS", FamilyProfile.cos.capabilities), ("Kodo", KodoStore.limits),
        ("CSSP", capabilities(of: .cssp)), ("Swift", capabilities(of: .swift)),
    ]

    /// Where the store's own look goes before a creation, the server does not see to it.
    private static func capabilities(of profile: SwiftProfile) -> Capabilities {
        var capabilities = profile.capabilities
        capabilities.putIfAbsent = capabilities.putIfAbsent && !profile.looksBeforeCreating
        return capabilities
    }

    private typealias Row = (name: String, cell: @Sendable (Capabilities) -> String)

    private static let rows: [Row] = [
        ("largest object", { ByteSize.format($0.largestObject) }),
        ("parts", { "\($0.mostParts) of \(ByteSize.format($0.smallestPart)) to \(ByteSize.format($0.largestPart))" }),
        ("key, bytes", { "\($0.longestKey)" }),
        ("attributes, bytes", { "\($0.metadataBudget)" }),
        ("names a listing page", { "\($0.listPage)" }),
        ("deletes a request", { "\($0.deleteBatch)" }),
        ("create only if absent", { checked($0.putIfAbsent) }),
        ("replace only what was read", { checked($0.putIfMatch) }),
        ("rename of a file", { $0.move ? "1 request" : "copy, delete" }),
        ("copies parts at the store", { yes($0.partCopy) }),
        ("new attributes", { $0.metadataUpdate == .inPlace ? "in place" : "copy onto itself" }),
        ("symbolic links", { $0.symlinks ? "name.rclonelink; its own are read" : "name.rclonelink" }),
        ("access control lists", { yes($0.accessControl) }),
        ("tags", { yes($0.tags) }),
        ("storage classes", { yes(!$0.storageClasses.isEmpty) }),
        ("restore of archived objects", { yes($0.restore) }),
        ("df shows what is used", { yes($0.usage) }),
    ]

    private static func yes(_ can: Bool) -> String { can ? "yes" : "-" }
    /// By the store in the same act, or by a HEAD of ours right before.
    private static func checked(_ can: Bool) -> String { can ? "by the store" : "HEAD before" }

    private static var markdown: String {
        var lines = ["| | " + stores.map(\.name).joined(separator: " | ") + " |"]
        lines.append("|" + String(repeating: "---|", count: stores.count + 1))
        for row in rows {
            lines.append("| \(row.name) | " + stores.map { row.cell($0.capabilities) }.joined(separator: " | ") + " |")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// One list for each store: seven columns are too many for a terminal.
    private static var manual: String {
        stores.map { store in
            ".It \(store.name)\n" + rows.map { "\($0.name): \($0.cell(store.capabilities));\n" }.joined().dropLast(2)
                + ".\n"
        }.joined()
    }

    private func text(_ name: String) throws -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
        return try String(contentsOf: root.appendingPathComponent(name), encoding: .utf8)
    }

    @Test func theReadmeHasTheTable() throws {
        #expect(try text("README.md").contains(Self.markdown), "README.md must hold this:\n\(Self.markdown)")
    }

    @Test func theManualHasTheTable() throws {
        #expect(try text("man/pailfs.1").contains(Self.manual), "man/pailfs.1 must hold this:\n\(Self.manual)")
    }
}
