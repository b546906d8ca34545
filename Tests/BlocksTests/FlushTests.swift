import Basics
import ObjectStorage
import SQLite
import Synchronization
import TestSupport
import Testing

@testable import Blocks

/// Who returns from a flush may rely on the rows, whoever writes them.
@Suite(.timeLimit(.minutes(1))) struct FlushTests {
    /// What another process would find.
    private static func rows(_ database: Database) -> Int64 {
        let count = try? database.read { (connection) throws(SQLiteError) in
            let count = try connection.prepare("SELECT count(*) FROM chunks")
            _ = try count.step()
            return count.int64(0)
        }
        return count ?? -1
    }

    @Test func aFlushReturnsAfterTheOneThatHasTakenTheRows() async throws {
        let store = MemoryStore()
        let version = store.setObject("a", content(1 << 20))
        var options = BlockOptions()
        options.flushInterval = .seconds(3600)
        let fixture = try Fixture(store, time: ManualTime(), options: options)
        let cache = fixture.cache
        let index = try Database(.file(fixture.directory.path("blocks.db")), migrations: BlockCache.migrations)
        defer { index.close() }
        let object = cache.open("a", version)
        _ = try await fixture.read(object, 0..<1 << 20)
        await fixture.settle()
        try #require(Self.rows(index) == 0)
        // The first flush has taken what is to be written, and waits for the object to tell its rows.
        let (isHeld, mayGo, first, second) = (Semaphore(), Semaphore(), Semaphore(), Semaphore())
        startThread(name: "holder") {
            object.state.withLock { _ in
                isHeld.signal()
                mayGo.wait()
            }
        }
        isHeld.wait()
        startThread(name: "first") {
            cache.flush()
            first.signal()
        }
        _ = first.wait(for: .milliseconds(50))
        let seen = Mutex<Int64?>(nil)
        startThread(name: "second") {
            cache.flush()
            seen.withLock { $0 = Self.rows(index) }
            second.signal()
        }
        _ = second.wait(for: .milliseconds(200))
        mayGo.signal()
        while seen.withLock({ $0 }) == nil { _ = second.wait(for: .milliseconds(10)) }
        #expect(seen.withLock { $0 } ?? 0 > 0)
    }
}
