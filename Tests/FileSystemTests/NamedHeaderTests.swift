import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Headers that files get for their names by the option `header-for`.
@Suite struct NamedHeaderTests {
    private static let rules = [
        "*.gz: Content-Encoding: gzip", "*.gz: Content-Type: x/gz", "static/*: Cache-Control: public",
        "*: Cache-Control: no-store", "*.gz: x-amz-meta-team: red", "*.z: x-amz-meta-team: blue",
    ]

    private func tree(
        _ capabilities: Capabilities = Capabilities(), partSize: Int64 = 8 << 20,
        durability: MountPolicy.Durability = .remote
    ) async throws -> MountedTree {
        let tree = try MountedTree(capabilities: capabilities, durability: durability, partSize: partSize)
        tree.policy.contentTypes = ContentTypes(table: Array("application/gzip gz\ntext/html html".utf8))
        tree.policy.headerRules = try Self.rules.map { try #require(HeaderRule($0)) }
        try await tree.remount()
        return tree
    }

    private func headers(_ key: ObjectKey, _ tree: MountedTree) throws -> ObjectMetadata {
        try #require(tree.store.info(key)).metadata
    }

    @Test(.rule("create.header")) func aNewFileHasTheHeadersOfItsName() async throws {
        let tree = try await tree()
        try await tree.makeDirectory("static")
        for name in ["a.gz", "static/b.html"] { try await tree.store(name, [1]) }
        let packed = try headers("a.gz", tree)
        #expect(packed.contentEncoding == "gzip" && packed.contentType == "x/gz" && packed.user["team"] == "red")
        #expect(packed.cacheControl == "no-store")
        let page = try headers("static/b.html", tree)
        #expect(page.cacheControl == "public" && page.contentType == "text/html" && page.contentEncoding == nil)
        #expect(page.user["team"] == nil)
        try await tree.symlink("link.gz", "a.gz")
        for key in ["static/", "link.gz.rclonelink"] as [ObjectKey] {
            #expect(try headers(key, tree).cacheControl == nil && headers(key, tree).contentEncoding == nil)
        }
    }

    @Test func aFileInPartsHasTheHeadersOfItsName() async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try await tree(capabilities, partSize: 16 << 10)
        try await tree.store("a.gz", Array(repeating: 7, count: 100_000))
        #expect(tree.store.count(.createUpload) == 1)
        #expect(try headers("a.gz", tree).contentEncoding == "gzip" && headers("a.gz", tree).user["team"] == "red")
    }

    @Test(.rule("create.header")) func aHeaderThatAProgramHasSetStays() async throws {
        let tree = try await tree()
        var stored = ObjectMetadata(contentType: "x/own", user: ["team": "green"])
        stored.cacheControl = "max-age=1"
        tree.store.setObject("a.gz", [1], metadata: stored)
        try await tree.store("a.gz", [2, 3])
        var now = try headers("a.gz", tree)
        #expect(now.contentType == "x/own" && now.cacheControl == "max-age=1" && now.user["team"] == "green")
        #expect(now.contentEncoding == "gzip")
        try await tree.rename("a.gz", to: "a.z")
        now = try headers("a.z", tree)
        #expect(now.contentType == "x/own" && now.cacheControl == "max-age=1" && now.user["team"] == "green")
    }

    @Test(.rule("create.header")) func aRenameChangesTheHeadersThatComeFromTheName() async throws {
        let tree = try await tree()
        try await tree.makeDirectory("static")
        try await tree.store("a.tmp", [1])
        try await tree.rename("a.tmp", to: "a.gz")
        #expect(try headers("a.gz", tree).contentEncoding == "gzip" && headers("a.gz", tree).contentType == "x/gz")
        try await tree.rename("a.gz", to: "static/a.z")
        let now = try headers("static/a.z", tree)
        #expect(now.user["team"] == "blue" && now.cacheControl == "public")
        #expect(now.contentEncoding == "gzip", "no rule fits the new name")
    }

    @Test func aFileThatIsRenamedBeforeItIsStoredHasTheHeadersOfItsLastName() async throws {
        let tree = try await tree()
        let file = try await tree.open("a.gz", OpenFlags(reads: true, writes: true), create: true)
        try await tree.write(file, [1], at: 0)
        try await tree.rename("a.gz", to: "a.z")
        try await tree.close(file)
        #expect(try headers("a.z", tree).user["team"] == "blue" && headers("a.z", tree).contentEncoding == nil)
        #expect(tree.store.count(.copy) == 0)
    }

    @Test func anAcknowledgedFileHasItsHeadersAfterACrash() async throws {
        let tree = try await tree(durability: .local)
        let away = ObjectStoreError(.unreachable, .put, message: "the store is away")
        tree.store.fault = { operation, _ in operation == .put ? away : nil }
        try await tree.store("a.gz", [1, 2])
        tree.crash()
        tree.store.fault = nil
        tree.policy.headerRules = []
        try await tree.mountAgain()
        _ = await tree.system.store(below: .root)
        #expect(try headers("a.gz", tree).contentEncoding == "gzip" && headers("a.gz", tree).user["team"] == "red")
    }
}
