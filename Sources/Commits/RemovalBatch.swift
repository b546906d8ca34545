package import Basics
package import Journaling
import Synchronization

/// A removal whose call has returned success.
package struct AcknowledgedRemoval: Sendable {
    /// Its row in the journal.
    package let id: IntentID
    package let record: RemovalRecord
    /// Called when the removal is carried out; with true when another object may be at the key by now.
    let settled: @Sendable (Bool) -> Void

    package init(id: IntentID, record: RemovalRecord, settled: @escaping @Sendable (Bool) -> Void) {
        (self.id, self.record, self.settled) = (id, record, settled)
    }
}

/// Removals one soon after the other, as `rm -r` makes them, which wait to be sent many to a request.
///
/// Each has its row in the journal, flushed before it comes here. They are sent when they fill a request, when no other has been
/// added for a moment, and before anything else is done at their keys. A request that is not full takes those that waited when
/// the sending began; those added meanwhile wait for their own. A leaf lock; the sender holds `sending` alone.
/// After a crash: the next start carries out the rows that are left.
final class RemovalBatch: Sendable {
    private struct State {
        var waiting: [AcknowledgedRemoval] = []
        /// The keys of those that wait and those under way.
        var keys: Set<ByteString> = []
        /// How many were added so far; the last of `waiting` was that number.
        var added = 0
        var inARow = 0
        var last = Duration.zero
        var isTimed = false
    }

    /// How many are sent at once before one waits for others.
    private static let mostAlone = 2
    /// Removals further apart are not in a row.
    private static let longestPause = Duration.seconds(1)
    /// When no other one is added for so long, they are sent.
    static let idle = Duration.milliseconds(100)
    /// The longest time that the first one waits.
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

    /// The store refused some: the next removals are not acknowledged before the store answers.
    func endRow() { state.withLock { $0.inARow = 0 } }

    /// Adds a removal. Returns how many wait, and whether the caller has to start the task that sends them in time.
    func add(_ removal: AcknowledgedRemoval) -> (count: Int, isFirst: Bool) {
        state.withLock { state in
            state.waiting.append(removal)
            state.added += 1
            state.keys.insert(removal.record.key)
            defer { state.isTimed = true }
            return (state.waiting.count, !state.isTimed)
        }
    }

    /// Whether a removal is at `key`, or below it if that is a directory's.
    func touches(_ key: ByteString) -> Bool {
        state.withLock { state in
            if state.keys.isEmpty { return false }
            guard key.isEmpty || key.hasSuffix("/") else { return state.keys.contains(key) }
            return state.keys.contains { $0.hasPrefix(key) }
        }
    }

    /// How many were sent or are being sent, and how many were added; nil if none waits, and then the task that sends them in
    /// time has to end.
    func waiting() -> (left: Int, added: Int)? {
        state.withLock { state in
            guard state.waiting.isEmpty else { return (state.added - state.waiting.count, state.added) }
            state.isTimed = false
            return nil
        }
    }

    /// How many were added so far.
    var added: Int { state.withLock { $0.added } }

    /// Takes the first of them, if they fill a request of `most` or one of the first `added` is among them; else none.
    func take(_ most: Int, ofFirst added: Int) -> [AcknowledgedRemoval] {
        state.withLock { state in
            guard state.waiting.count >= most || state.added - state.waiting.count < added else { return [] }
            let taken = Array(state.waiting.prefix(most))
            state.waiting.removeFirst(taken.count)
            return taken
        }
    }

    /// To be called when removals are done, or are jobs of the queue.
    func finished(_ removals: [AcknowledgedRemoval]) {
        state.withLock { state in for removal in removals { state.keys.remove(removal.record.key) } }
    }
}

/// Removals in a row.
extension JobQueue {
    /// A program has removed a file.
    package func noteRemoval() { removals.noteRemoval(at: time.uptime()) }

    /// Whether the next removal may wait for others.
    package var isRemovingInARow: Bool { removals.isInARow(at: time.uptime()) }

    /// Takes a removal whose row is in the journal, flushed. Waits while too many others have not been sent yet.
    package func gather(_ removal: AcknowledgedRemoval) async {
        let (count, isFirst) = removals.add(removal)
        if isFirst { pool.start { [self] in await sendRemovalsInTime() } }
        let batch = runner.removalBatch
        // One task for each request that is full, unless this call has to wait.
        if count % batch != 0, count < 4 * batch { return }
        let sending = pool.start { [self] in await sendWaiting(ofFirst: 0) }
        if count >= 4 * batch { await sending.value }
    }

    /// Sends the removals at `key`, or below it if that is a directory's. Returns when each of them is carried out, or is a job
    /// that is retried. A signal to a program does not end the wait.
    package func sendRemovals(at key: ByteString = "") async {
        guard removals.touches(key) else { return }
        let added = removals.added
        await pool.start { [self] in await sendWaiting(ofFirst: added) }.value
    }

    /// Whether a removal at `key`, or below it if that is a directory's, waits or is being sent.
    package func hasRemovals(at key: ByteString) -> Bool { removals.touches(key) }

    /// Sends full requests, and the first `added` removals that ever came.
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
