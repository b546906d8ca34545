import Basics
import Commits
import Journaling
import Logging
import ObjectStorage
import TestSupport
import Testing

/// What a worker that takes over a mount asks of a store that does not answer.
@Suite(.timeLimit(.minutes(1))) struct RecoveryPatienceTests {
    private let store = MemoryStore()
    private let journal: Journal
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        journal = try Journal(path: directory.path("journal.db"))
    }

    private func recovery() -> Recovery {
        Recovery(
            store: store, journal: journal, isRestart: true, patience: .milliseconds(20), time: SystemTime(),
            logger: Logger(label: "patience"))
    }

    private func beginRemoval() throws {
        let etag = store.setObject("a", [1]).etag.text
        let removal = RemovalRecord(key: "a", etag: etag, commits: [])
        try journal.write([.job(journal.newID(), .removal(removal), items: [])], flushed: true)
    }

    @Test(.rule("crash.serving")) func aSilentStoreIsAskedForNothingElse() async throws {
        try beginRemoval()
        let gate = store.hold(.checkAccess)
        defer { gate.open() }
        let plan = try await recovery().run()
        #expect(plan.isStoreAway)
        #expect(plan.left.count == 1)
        #expect(store.count(.head) == 0)
        #expect(store.content("a") == [1])
    }

    @Test func aStoreThatRefusesToListIsNotAway() async throws {
        try beginRemoval()
        store.fault = { operation, key in
            guard operation == .checkAccess else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, status: 403, message: "no")
        }
        let plan = try await recovery().run()
        #expect(!plan.isStoreAway)
        #expect(plan.left.isEmpty)
        #expect(store.content("a") == nil)
    }

    @Test(.rule("crash.serving")) func nothingIsAskedWhenNothingWasUnderWay() async throws {
        _ = try await recovery().run()
        #expect(store.requests.isEmpty)
    }
}
