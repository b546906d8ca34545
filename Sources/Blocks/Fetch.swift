import Basics
import Synchronization

/// One GET in flight: receives into a pooled buffer and wakes readers as their bytes arrive.
///
/// The transport's thread is the only writer of the buffer. Readers see only bytes below the published count, and those are
/// never written again. The last byte is not published before the fetch is vouched for, and no byte of a whole object's
/// fetch. Its mutex is a leaf. Readers keep the fetch alive, and the fetch its buffer.
final class Fetch: ByteSink {
    private struct State {
        var buffer: Buffer?
        /// Bytes of the current attempt.
        var received = 0
        var failure: BlockError?
        var task: Task<Void, Never>?
        var isCancelled = false
    }

    let chunk: Int
    let blocks: Range<Int>
    /// The bytes of the object it brings.
    let range: ByteRange
    /// Asks for the whole object and holds its bytes back until they are verified.
    let isWhole: Bool
    /// The value of `Judgement.round` when the fetch began.
    let round: Int
    /// Each waiter waits for a count of bytes, and gets the error if they do not arrive.
    private let state = Monitor<State, Int, BlockError?>(State())
    private let published = Atomic<Int>(0)
    /// Bytes that readers have taken from the buffer; bytes taken twice count twice.
    let taken = Atomic<Int64>(0)

    private let doubted = Atomic<Bool>(false)

    init(chunk: Int, blocks: Range<Int>, range: ByteRange, isWhole: Bool, round: Int = 0) {
        (self.chunk, self.blocks, self.range, self.isWhole, self.round) = (chunk, blocks, range, isWhole, round)
    }

    /// The fetch failed because its bytes were not right: its readers fetch them again.
    var isDoubted: Bool { doubted.load(ordering: .acquiring) }
    func doubt() { doubted.store(true, ordering: .releasing) }

    var count: Int { Int(range.length) }

    /// The end of the published bytes, an offset in the object.
    var publishedEnd: Int64 { range.lowerBound + Int64(published.load(ordering: .acquiring)) }

    // MARK: The fetching side

    func attach(_ task: Task<Void, Never>) {
        let isCancelled = state.withLock { state in
            state.task = task
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    func cancel() {
        let task = state.withLock { state in
            state.isCancelled = true
            return state.task
        }
        task?.cancel()
    }

    func begin(with buffer: Buffer) { state.withLock { $0.buffer = buffer } }

    func receive(_ bytes: RawSpan) throws(ByteTransferError) {
        let (buffer, offset) = state.withLock { ($0.buffer, $0.received) }
        guard let buffer, bytes.byteCount <= count - offset else {
            throw ByteTransferError(errno: 5, reason: "the store sent more bytes than were requested")
        }
        // A second attempt brings bytes that readers may already have: they must be the same, and stay untouched.
        let known = max(0, min(bytes.byteCount, published.load(ordering: .relaxed) - offset))
        guard buffer.holds(bytes.extracting(first: known), at: offset) else {
            throw ByteTransferError(errno: 5, reason: "the store sent other bytes at a retry than before")
        }
        buffer.write(bytes.extracting(droppingFirst: known), at: offset + known)
        advance(to: offset + bytes.byteCount)
    }

    func restart() { state.withLock { $0.received = 0 } }

    /// Whether all requested bytes have arrived.
    var isFilled: Bool { state.withLock { $0.received == count } }

    /// Publishes every byte: the fetch is vouched for.
    func publishAll() {
        state.change { _, queue in
            published.store(count, ordering: .releasing)
            queue.answer { _ in .some(nil) }
        }
    }

    func fail(_ error: BlockError) {
        state.change { state, queue in
            state.failure = error
            queue.answer { _ in error }
        }
    }

    private func advance(to received: Int) {
        state.change { state, queue in
            state.received = received
            let shown = min(received, count - 1)
            guard !isWhole, shown > published.load(ordering: .relaxed) else { return }
            published.store(shown, ordering: .releasing)
            queue.answer { $0 <= shown ? .some(nil) : nil }
        }
    }

    // MARK: The reading side

    /// The buffer that holds the published bytes.
    var buffer: Buffer? { state.withLock { $0.buffer } }

    /// Returns once the bytes up to `end`, an offset in the object, are published.
    func wait(upTo end: Int64) async throws(BlockError) {
        let count = Int(end - range.lowerBound)
        if published.load(ordering: .acquiring) >= count { return }
        let failure = await state.wait(whenCancelled: .cancelled) { state, _ in
            if published.load(ordering: .acquiring) >= count { return .answer(nil) }
            if let failure = state.failure { return .answer(failure) }
            return .wait(count)
        }
        if let failure { throw failure }
    }
}
