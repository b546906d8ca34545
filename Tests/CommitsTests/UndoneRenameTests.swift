import Basics
import Commits
import Journaling
import Logging
import ObjectStorage
import TestSupport
import Testing

/// The process of a mount dies while it renames a directory, and another one goes on with the mount: the program waits still,
/// and its rename is asked for again.
@Suite("The rename of a directory that is asked for again") struct UndoneRenameTests {
    private let store = MemoryStore()
    private let journal: Journal
    private let directory: TemporaryDirectory
    private let keys: [ObjectKey] = ["t/", "t/1", "t/2", "t/s/3"]

    init() throws {
        directory = try TemporaryDirectory()
        journal = try Journal(path: directory.path("journal.db"))
        var items: [ItemRecord] = []
        for key in keys {
            let etag = store.setObject(key, key.bytes.bytes).etag.text
            let version = VersionRecord(
                key, ObjectVersion(etag: ETag(etag), size: Int64(key.bytes.count), modified: .epoch))
            items.append(ItemRecord(source: version, storageClass: nil))
        }
        let intent = JobIntent.tree(from: "t/", to: "u/")
        try journal.write([.job(journal.newID(), intent, items: items)], flushed: true)
    }

    private func recover() async throws -> Recovery.Plan {
        try await Recovery(
            store: store, journal: journal, isRestart: true, time: SystemTime(), logger: Logger(label: "jobs")
        ).run()
    }

    @Test("is taken back as long as every source is there, and nothing of anybody else's with it")
    func undone() async throws {
        for name in ["", "1", "s/3"] {
            _ = try await store.copy(CopyRequest(CopySource(ObjectKey("t/" + name)), to: ObjectKey("u/" + name)))
        }
        _ = store.setObject("u/2", [9])
        let plan = try await recover()
        #expect(plan.left.isEmpty)
        #expect(Set(store.keys) == Set(keys + ["u/2"]))
        #expect(try journal.contents().isEmpty)
    }

    @Test("is finished once a source has gone", .rule("rename.directory"))
    func finished() async throws {
        _ = try await store.copy(CopyRequest(CopySource("t/1"), to: "u/1"))
        try await store.delete("t/1", ifMatch: nil)
        let plan = try await recover()
        #expect(store.keys == ["u/", "u/1", "u/2", "u/s/3"])
        #expect(try journal.contents(after: plan).isEmpty)
    }

    @Test("stays in the journal while the store refuses")
    func refused() async throws {
        _ = try await store.copy(CopyRequest(CopySource("t/1"), to: "u/1"))
        store.fault = { asked, _ in asked == .deleteMany ? Rig.error(.serverFault, .deleteMany) : nil }
        #expect(try await recover().left.count == 1)
        #expect(try journal.contents().jobs.count == 1)
        store.fault = nil
        #expect(try await recover().left.isEmpty)
        #expect(Set(store.keys) == Set(keys))
    }
}
