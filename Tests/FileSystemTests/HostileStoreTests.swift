import Basics
import FileSystem
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// What programs see of a store that means harm.
@Suite struct HostileStoreTests {
    /// Makes something else of every page.
    private struct Listings: Interceptor {
        let change: @Sendable (ListingPage) -> ListingPage

        func intercept<Answer: Sendable>(
            _ context: RequestContext, settle: Settlement<Answer>?,
            _ attempt: () async throws(ObjectStoreError) -> Answer
        ) async throws(ObjectStoreError) -> Answer {
            let answer = try await attempt()
            guard let page = answer as? ListingPage, let changed = change(page) as? Answer else { return answer }
            return changed
        }
    }

    private func tree(_ change: @escaping @Sendable (ListingPage) -> ListingPage) async throws -> MountedTree {
        let store = MemoryStore()
        for key in ["a", "b", "dir/c"] {
            _ = try await store.put(PutRequest(ObjectKey(ByteString(key))), body: MemorySource([1]))
        }
        return try MountedTree(over: InterceptedStore(store, Listings(change: change)))
    }

    @Test(.timeLimit(.minutes(5)))
    func aListingWithoutEndEndsInAnError() async throws {
        let tree = try await tree { page in
            var page = page
            page.next = ListingCursor(ByteString(RandomID.hex()))
            return page
        }
        await #expect(throws: MountedTree.Failure.self) { try await tree.names("") }

    }

    @Test func keysThatWereNotAskedForAreRefused() async throws {
        let tree = try await tree { page in
            var page = page
            if !page.objects.isEmpty { page.objects[0].key = "elsewhere/x" }
            page.commonPrefixes = page.commonPrefixes.map { _ in ObjectKey("../") }
            return page
        }
        // A name that leads out of the tree is escaped as any other.
        let names = try await tree.names("")
        #expect(!names.contains("..") && !names.contains("../"), "\(names)")

    }

    @Test func pagesInAnyOrderAreRead() async throws {
        let tree = try await tree { page in
            var page = page
            page.objects.reverse()
            return page
        }
        #expect(Set(try await tree.names("")) == ["a", "b", "dir"])

    }

    /// Ceph and Kodo send pages without anything on them that are not the last.
    @Test func pagesWithNothingOnThemAreNotTheEnd() async throws {
        let count = EmptyPages()
        let tree = try await tree { page in
            guard count.isNext() else { return page }
            return ListingPage(next: ListingCursor(""))
        }
        let error = await #expect(throws: MountedTree.Failure.self) { try await tree.removeDirectory("dir") }
        #expect(error?.kind == .notEmpty)
        #expect(try await tree.load("b") == [1])
        #expect(try await tree.load("dir/c") == [1])
    }
}

/// Every other page.
private final class EmptyPages: Sendable {
    private let pages = Mutex(0)

    func isNext() -> Bool {
        pages.withLock { pages in
            pages += 1
            return !pages.isMultiple(of: 2)
        }
    }
}
