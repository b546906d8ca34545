package import Basics
package import Journaling
import Synchronization

/// A removal that a program was told is done.
package struct AcknowledgedRemoval: Sendable {
    /// Its row in the journal.
    package let id: IntentID
    package let record: RemovalRecord
    /// Called once that is so; with true when something else may be at the key by now.
    let settled: @Sendable (Bool) -> Void

    package init(id: IntentID, record: RemovalRecord, settled: @escaping @Sendable (Bool) -> Void) {
        (self.id, self.record, self.settled) = (id, record, settled)
    }
}

/// Removals one soon after the other, as `rm -r` makes them, that wait to leave for the store many to a request.
///
/// Each has its row in the journal, flushed before it comes here: what a crash leaves is the next start's to do. They leave
/// when they fill a request, when no other has come for a moment, and before anything else is done at their keys. What leaves
/// before it fills a request is what waited when that began: others, which come meanwhile, wait for their own. A leaf lock; who
/// sends holds `sending` alone.
final class RemovalBatch: Sendable {
    private struct State {
        var waiting: [AcknowledgedRemoval] = []
        /// Of those that wait and those under way.
        var keys: Set<ByteString> = []
        /// How many have come so far; the last of `waiting` was that number.
        var added = 0
        var inARow = 0
        var last = Duration.zero
        var isTimed = false
    }

    /// Removals that go by themselves before one waits for others.
    private static let mostAlone = 2
    /// Further apart they are not in a row.
    private static let longestPause = Duration.seconds(1)
    /// Without another one for so long they leave.
    static let idle = Duration.milliseconds(100)
    /// So long the first one waits at most.
    static let patience = Duration.seconds(5)

    let sending = TaskGate()
    private let state = Mutex(State())

    /// A file was removed, at that uptime.
    func noteRemoval(at now: Duration) {
        state.withLock { state in
            state.inARow = now - state.last <= Self.longestPause ? state.inARow + 1 : 1
            state.last = now
        }
    }

    /// Whether one removed now may wait for others.
    func isInARow(at now: Duration) -> Bool {
        state.withLock { $0.inARow >= Self.mostAlone && now - $0.last <= Self.longestPause }
    }

    /// The store refused some: the next program is to hear so itself.
    func endRow() { state.withLock { $0.inARow = 0 } }

    /// Answers how many wait, and whether the caller has to see to it that they leave in time.
    func add(_ removal: AcknowledgedRemoval) -> (count: Int, isFirst: Bool) {
        state.withLock { state in
            state.waiting.append(removal)
            state.added += 1
            state.keys.insert(removal.record.key)
            defer { state.isTimed = true }
            return (state.waiting.count, !state.isTimed)
        }
    }

    /// Whether one is at `key`, or below it if that is a directory's.
    func touches(_ key: ByteString) -> Bool {
        state.withLock { state in
            if state.keys.isEmpty { return false }
            guard key.isEmpty || key.hasSuffix("/") else { return state.keys.contains(key) }
            return state.keys.contains { $0.hasPrefix(key) }
        }
    }

    /// How many have left or are on their way, and how many have come; nil if none waits, and then who saw to it that they leave
    /// need not any more.
    func waiting() -> (left: Int, added: Int)? {
        state.withLock { state in
            guard state.waiting.isEmpty else { return (state.added - state.waiting.count, state.added) }
            state.isTimed = false
            return nil
        }
    }

    /// How many have come so far.
    var added: Int { state.withLock { $0.added } }

    /// The first of them, if they fill a request of `most` or one of the first `added` is among them; else none.
    func take(_ most: Int, ofFirst added: Int) -> [AcknowledgedRemoval] {
        state.withLock { state in
            guard state.waiting.count >= most || state.added - state.waiting.count < added else { return [] }
            let taken = Array(state.waiting.prefix(most))
            state.waiting.removeFirst(taken.count)
            return taken
        }
    }

    /// They are done, or jobs of the queue.
    func finished(_ removals: [AcknowledgedRemoval]) {
        state.withLock { state in for removal in removals { state.keys.remove(removal.record.key) } }
    }
}

/// Removals in a row.
extension JobQueue {
    /// A program has removed a file.
    package func noteRemoval() { removals.noteRemoval(at: time.uptime()) }

    /// Whether the next one may wait for others.
    package var isRemovingInARow: Bool { removals.isInARow(at: time.uptime()) }

    /// Takes a removal whose row is in the journal, flushed. Waits while too many others have not left yet.
    package func gather(_ removal: AcknowledgedRemoval) async {
        let (count, isFirst) = removals.add(removal)
        if isFirst { pool.start { [self] in await sendRemovalsInTime() } }
        let batch = runner.removalBatch
        // One task for each request that is full, unless this one has to wait.
        if count % batch != 0, count < 4 * batch { return }
        let sending = pool.start { [self] in await sendWaiting(ofFirst: 0) }
        if count >= 4 * batch { await sending.value }
    }

    /// Returns when none at `key`, or below it if that is a directory's, waits any more: the object is gone, or its removal is
    /// a job that is tried again. A signal to a program does not end it.
    package func sendRemovals(at key: ByteString = "") async {
        guard removals.touches(key) else { return }
        let added = removals.added
        await pool.start { [self] in await sendWaiting(ofFirst: added) }.value
    }

    /// Whether one at `key`, or below it if that is a directory's, waits or is on its way.
    package func hasRemovals(at key: ByteString) -> Bool { removals.touches(key) }

    /// Sends what fills requests, and the first `added` that ever came.
    private func sendWaiting(ofFirst added: Int) async {
        await removals.sending.enterRegardless(alone: true)
        defer { removals.sending.leave(alone: true) }
        while true {
            let taken = removals.take(runner.removalBatch, ofFirst: added)
            if taken.isEmpty { return }
            await send(taken)
            removals.finished(taken)
        }
    }

    private func sendRemovalsInTime() async {
        // The first one that waits, and for how long.
        var (seen, first, waited) = (0, 0, Duration.zero)
        while let (left, added) = removals.waiting() {
            if left != first { (first, waited) = (left, .zero) }
            if added == seen || waited >= RemovalBatch.patience { await sendRemovals() }
            seen = added
            do { try await time.sleep(for: RemovalBatch.idle) } catch { return }
            waited += RemovalBatch.idle
        }
    }

    private func send(_ taken: [AcknowledgedRemoval]) async {
        let outcomes = await runner.finish(removals: taken.map { ($0.id, $0.record) })
        for removal in taken {
            switch outcomes[removal.id] ?? .done {
            case .done: removal.settled(false)
            case .left: removal.settled(true)
            case .refused(let reason):
                removals.endRow()
                let job = JournalContents.Job(intent: .removal(removal.record), items: [])
                add(removal.id, .removal, removal.record.key, because: reason) {
                    [runner] () async throws(CommitError) in
                    try await runner.finish(removal.id, job)
                    removal.settled(true)
                }
            }
        }
    }
}
