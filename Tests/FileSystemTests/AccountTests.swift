import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Buckets in memory, as an account.
private struct Account: BucketDirectory {
    let stores: [String: MemoryStore]

    func buckets() async throws(ObjectStoreError) -> [BucketEntry] {
        stores.keys.map { BucketEntry(name: $0, created: Timestamp(seconds: 1_600_000_000)) }
    }

    func store(listPage: Int = 1000) -> AccountStore {
        var capabilities = Capabilities()
        capabilities.listPage = listPage
        return AccountStore(self, capabilities: capabilities) { [stores] (entry) throws(ObjectStoreError) in
            guard let store = stores[entry.name] else { throw ObjectStoreError(.noSuchBucket, .list, message: "gone") }
            return store
        }
    }
}

/// A mount of a whole account: every bucket is a directory.
@Suite struct AccountTests {
    private let account: Account
    private let tree: MountedTree

    init() throws {
        account = Account(stores: ["photos": MemoryStore(), "docs": MemoryStore(), "empty": MemoryStore()])
        account.stores["photos"]?.setObject("2024/a.jpg", Array("a".utf8))
        account.stores["docs"]?.setObject("readme", Array("read me".utf8))
        tree = try MountedTree(over: account.store())
    }

    private func kind(_ body: () async throws(MountedTree.Failure) -> Void) async -> FileSystemError.Kind? {
        do throws(MountedTree.Failure) { try await body() } catch { return error.kind }
        return nil
    }

    @Test func everyBucketIsADirectory() async throws {
        #expect(try await tree.names("") == ["docs", "empty", "photos"])
        #expect(try await tree.names("empty").isEmpty)
        #expect(try await tree.load("photos/2024/a.jpg") == Array("a".utf8))
        #expect(try await tree.find("docs").kind == .directory)
        #expect(await kind { () throws(MountedTree.Failure) in _ = try await tree.find("none") } == .notFound)
    }

    @Test func filesAreStoredInTheBucketOfTheirDirectory() async throws {
        try await tree.makeDirectory("empty/sub")
        try await tree.store("empty/sub/new", Array("new".utf8))
        #expect(account.stores["empty"]?.content("sub/new") == Array("new".utf8))
        try await tree.unlink("empty/sub/new")
        #expect(account.stores["empty"]?.content("sub/new") == nil)
    }

    @Test func bucketsAreNeitherMadeNorRemovedNorRenamed() async throws {
        #expect(await kind { () throws(MountedTree.Failure) in try await tree.makeDirectory("new") } == .notPermitted)
        #expect(await kind { () throws(MountedTree.Failure) in try await tree.store("file", [1]) } == .notPermitted)
        #expect(
            await kind { () throws(MountedTree.Failure) in try await tree.removeDirectory("empty") } == .notPermitted)
        #expect(
            await kind { () throws(MountedTree.Failure) in try await tree.rename("docs", to: "papers") }
                == .notPermitted)
        #expect(try await tree.names("") == ["docs", "empty", "photos"])
    }

    @Test(.rule("rename.bucket")) func filesStayInTheirBucket() async throws {
        #expect(
            await kind { () throws(MountedTree.Failure) in try await tree.rename("docs/readme", to: "photos/readme") }
                == .crossDevice)
        try await tree.rename("docs/readme", to: "docs/renamed")
        #expect(account.stores["docs"]?.content("renamed") == Array("read me".utf8))
    }

    @Test func theLastFileOfABucketLeavesNothingBehind() async throws {
        try await tree.unlink("docs/readme")
        #expect(account.stores["docs"]?.keys == [])
        #expect(try await tree.names("docs").isEmpty)
    }

    @Test func aFlatListingGoesThroughAllBucketsInOrder() async throws {
        for index in 0..<5 { account.stores["photos"]?.setObject(ObjectKey("p\(index)"), [1]) }
        let store = account.store(listPage: 2)
        for limit in [1, 2, 3] {
            var request = ListRequest(limit: limit)
            var keys: [String] = []
            while true {
                let page = try await store.list(request)
                keys += page.objects.map(\.key.description)
                guard let next = page.next else { break }
                request.cursor = next
            }
            #expect(
                keys == [
                    "docs/readme", "photos/2024/a.jpg", "photos/p0", "photos/p1", "photos/p2", "photos/p3", "photos/p4",
                ])
        }
    }
}
