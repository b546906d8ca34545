import Basics
import Foundation
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What the manual says that each store can do, made from the code.
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
        ("most parts", { "\($0.mostParts)" }),
        ("smallest part", { ByteSize.format($0.smallestPart) }),
        ("largest part", { ByteSize.format($0.largestPart) }),
        ("key, bytes", { "\($0.longestKey)" }),
        ("attributes, bytes", { "\($0.metadataBudget)" }),
        ("names a listing", { "\($0.listPage)" }),
        ("deletes a request", { "\($0.deleteBatch)" }),
        ("create if absent", { checked($0.putIfAbsent) }),
        ("replace if unchanged", { checked($0.putIfMatch) }),
        ("rename of a file", { $0.move ? "move" : "copy" }),
        ("copy of parts", { yes($0.partCopy) }),
        ("new attributes", { $0.metadataUpdate == .inPlace ? "in place" : "copy" }),
        ("its own links", { yes($0.symlinks) }),
        ("access control lists", { yes($0.accessControl) }),
        ("tags", { yes($0.tags) }),
        ("storage classes", { yes(!$0.storageClasses.isEmpty) }),
        ("restore", { yes($0.restore) }),
        ("use shown by df", { yes($0.usage) }),
        ("bucket metadata", { yes($0.bucketProperties) }),
    ]

    private static func yes(_ can: Bool) -> String { can ? "yes" : "-" }
    /// By the store in the same request, or by a HEAD right before.
    private static func checked(_ can: Bool) -> String { can ? "store" : "HEAD" }

    /// The table as it stands in pailfs-stores(7), in fewer than 78 columns.
    private static var manual: String {
        let head = line("", stores.map(\.name))
        return ([head] + rows.map { row in line(row.name, stores.map { row.cell($0.capabilities) }) })
            .map { $0 + "\n" }.joined()
    }

    private static func line(_ name: String, _ cells: [String]) -> String {
        func padded(_ text: String, _ columns: Int) -> String {
            text + String(repeating: " ", count: max(1, columns - text.count))
        }
        var line = padded(name, 22) + cells.map { padded($0, 9) }.joined()
        while line.hasSuffix(" ") { line.removeLast() }
        return line
    }

    private func text(_ name: String) throws -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
        return try String(contentsOf: root.appendingPathComponent(name), encoding: .utf8)
    }

    @Test func theManualHasTheTable() throws {
        let page = try text("man/pailfs-stores.7")
        #expect(page.contains(Self.manual), "man/pailfs-stores.7 must hold this:\n\(Self.manual)")
        #expect(Self.manual.split(separator: "\n").allSatisfy { $0.count < 78 })
    }

    @Test(.rule("visible.remote")) func listingsLagAsTheManualSays() {
        let lags = Self.stores.map { $0.capabilities.listingLag }
        #expect(lags == [.zero, .zero, .seconds(60), .zero, .seconds(600), .seconds(600)])
    }

    @Test(.rule("conflict.gap", "create.exclusive")) func storesCompareAsTheManualSays() {
        #expect(Self.stores.map(\.capabilities.putIfMatch) == [true, false, false, false, false, false])
        #expect(Self.stores.map(\.capabilities.putIfAbsent) == [true, true, true, true, false, true])
        let ofParts = [FamilyProfile.aws, .r2, .generic, .minio, .ceph].map(\.capabilities.completionCondition)
        #expect(ofParts == [true, true, false, false, false])
    }
}
