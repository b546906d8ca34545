import Basics
import Metadata
import ObjectStorage
import TestSupport
import Testing

@testable import FileSystem

/// Listings without the objects that only open handles need.
@Suite struct PendingDeletionTests {
    private func store(_ keys: [String]) -> MemoryStore {
        var capabilities = Capabilities()
        capabilities.listPage = 2
        let store = MemoryStore(capabilities: capabilities, time: ManualTime())
        for key in keys { store.setObject(ObjectKey(key), [1]) }
        return store
    }

    private func pendingDeletions(_ keys: [ObjectKey]) -> PendingDeletions {
        let pendingDeletions = PendingDeletions()
        let attributes = Attributes(kind: .file, size: 1, mtime: .epoch, version: nil)
        for (index, key) in keys.enumerated() {
            pendingDeletions[key] = ActiveFile(
                ino: InodeNumber(rawValue: UInt64(index) + 2),
                state: ActiveFile.State(attributes: attributes, life: FileLife(opening: nil)))
        }
        return pendingDeletions
    }

    @Test(arguments: 1...5)
    func whoAsksForSoManyKeysLearnsOfSoMany(_ limit: Int) async throws {
        let store = store(["d/", "d/a", "d/b", "d/c", "d/x", "d/y"])
        let page = try await store.list(
            ListRequest(prefix: "d/", limit: limit), without: pendingDeletions(["d/a", "d/b", "d/c"]))
        #expect(page.objects.prefix(limit).map(\.key) == Array(["d/", "d/x", "d/y"].prefix(limit)))
    }

    @Test(arguments: [false, true])
    func aPrefixWithNothingElseBelowIsNone(untilEmptyPage: Bool) async throws {
        let store = store(["a/gone", "b/gone", "b/stays", "c", "d/e/gone", "d/e/gone too"])
        store.listsUntilEmptyPage = untilEmptyPage
        let pendingDeletions = pendingDeletions(["a/gone", "b/gone", "d/e/gone", "d/e/gone too", "nowhere"])
        var request = ListRequest(delimiter: UInt8(ascii: "/"))
        var names: [ObjectKey] = []
        while true {
            let page = try await store.list(request, without: pendingDeletions)
            names += page.objects.map(\.key) + page.commonPrefixes
            guard let next = page.next else { break }
            request.cursor = next
        }
        #expect(names.sorted { $0.bytes < $1.bytes } == ["b/", "c"])
    }
}
