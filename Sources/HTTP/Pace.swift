import Basics

/// One direction of an engine's bodies at a bounded rate: a bucket of tokens, one a byte, that fills with time. Belongs to the
/// engine's thread.
///
/// A transfer takes tokens for the bytes it transfers; it pauses when there are none, and resumes when there are. The transfer
/// with the fewest bytes so far resumes first, so that a small read does not wait for big transfers that began before it.
final class Pace {
    /// Bytes a second; nil sets no limit, and no transfer pauses.
    private var rate: Int64?
    /// May be negative: bytes that have arrived cannot be refused.
    private var tokens = 0.0
    private var filled: Duration
    private let now: () -> Duration
    private var paused: [Waiting] = []

    private struct Waiting {
        let transfer: Transfer
        let moved: Int64
    }

    /// `now` is any monotonic clock.
    init(now: @escaping () -> Duration) {
        self.now = now
        filled = now()
    }

    /// The share of one transfer at a time: large enough to be worth a wake-up, small enough that others soon follow.
    private func quantum(_ rate: Int64) -> Int { max(16 << 10, Int(clamping: rate / 50)) }

    /// Takes over a changed limit.
    func setRate(_ new: Int64?) {
        guard new != rate else { return }
        if let new { tokens = min(max(tokens, 0), Double(quantum(new))) }
        (rate, filled) = (new, now())
    }

    /// How many bytes a transfer that has transferred `moved` may transfer now; at 0 it has to wait until `resume` starts it.
    func allowance(for transfer: Transfer, moved: Int64) -> Int {
        guard let rate else { return .max }
        fill(rate)
        if tokens >= 1, !paused.contains(where: { $0.moved < moved }) { return max(Int(tokens), 1) }
        paused.append(Waiting(transfer: transfer, moved: moved))
        return 0
    }

    /// Counts transferred bytes.
    func take(_ bytes: Int) { if rate != nil { tokens -= Double(bytes) } }

    /// Removes a transfer that has ended.
    func forget(_ transfer: Transfer) { paused.removeAll { $0.transfer === transfer } }

    /// Resumes transfers as far as there are tokens: `start` may request an allowance at once.
    func resume(_ start: (Transfer) -> Void) {
        guard !paused.isEmpty else { return }
        guard let rate else {
            let all = paused
            paused = []
            for waiting in all { start(waiting.transfer) }
            return
        }
        fill(rate)
        let share = quantum(rate)
        // A transfer may take less than its share at once: each counts as if it took all of it.
        var turns = Int(tokens) / share
        while turns > 0, let index = paused.indices.min(by: { paused[$0].moved < paused[$1].moved }) {
            turns -= 1
            start(paused.remove(at: index).transfer)
        }
    }

    /// How long until there is something to resume; nil when no transfer waits.
    var untilResume: Duration? {
        guard !paused.isEmpty, let rate else { return nil }
        fill(rate)
        return .seconds(max(0.001, (Double(quantum(rate)) - tokens) / Double(rate)))
    }

    private func fill(_ rate: Int64) {
        let time = now()
        let elapsed = (time - filled) / .seconds(1)
        filled = time
        // Unused time is not accumulated.
        tokens = min(tokens + elapsed * Double(rate), Double(max(2 * quantum(rate), Int(clamping: rate / 10))))
    }
}
