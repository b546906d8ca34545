import Basics

/// One direction of an engine's bodies at a bounded rate: a bucket of tokens, one a byte, that fills with time. Belongs to the
/// engine's thread.
///
/// A transfer takes tokens for what it moves; when there are none it pauses, and goes on when there are. First goes the one that
/// has moved the fewest bytes, so that a small read does not wait for big transfers that began before it.
final class Pace {
    /// Bytes a second; nil sets no limit, and nobody waits.
    private var rate: Int64?
    /// May be less than none: what has arrived cannot be refused.
    private var tokens = 0.0
    private var filled: Duration
    private let now: () -> Duration
    private var paused: [Waiting] = []

    private struct Waiting {
        let transfer: Transfer
        let moved: Int64
    }

    /// `now` is any clock that runs on.
    init(now: @escaping () -> Duration) {
        self.now = now
        filled = now()
    }

    /// What one transfer gets at a time: so much that a wake-up is worth it, so little that others soon follow.
    private func quantum(_ rate: Int64) -> Int { max(16 << 10, Int(clamping: rate / 50)) }

    /// Follows a limit that was changed.
    func setRate(_ new: Int64?) {
        guard new != rate else { return }
        if let new { tokens = min(max(tokens, 0), Double(quantum(new))) }
        (rate, filled) = (new, now())
    }

    /// How many bytes a transfer that has moved `moved` may move now; 0 makes it wait until `resume` calls for it.
    func allowance(for transfer: Transfer, moved: Int64) -> Int {
        guard let rate else { return .max }
        fill(rate)
        if tokens >= 1, !paused.contains(where: { $0.moved < moved }) { return max(Int(tokens), 1) }
        paused.append(Waiting(transfer: transfer, moved: moved))
        return 0
    }

    /// Bytes that moved.
    func take(_ bytes: Int) { if rate != nil { tokens -= Double(bytes) } }

    /// A transfer that has ended waits no more.
    func forget(_ transfer: Transfer) { paused.removeAll { $0.transfer === transfer } }

    /// Lets those go on for whom there are tokens: `start` may ask for an allowance at once.
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
        // Not all of them take what they could at once: each counts as one that does.
        var turns = Int(tokens) / share
        while turns > 0, let index = paused.indices.min(by: { paused[$0].moved < paused[$1].moved }) {
            turns -= 1
            start(paused.remove(at: index).transfer)
        }
    }

    /// How long until there is something to resume; nil when nobody waits.
    var untilResume: Duration? {
        guard !paused.isEmpty, let rate else { return nil }
        fill(rate)
        return .seconds(max(0.001, (Double(quantum(rate)) - tokens) / Double(rate)))
    }

    private func fill(_ rate: Int64) {
        let time = now()
        let elapsed = (time - filled) / .seconds(1)
        filled = time
        // Time in which nobody moved anything is not made up for.
        tokens = min(tokens + elapsed * Double(rate), Double(max(2 * quantum(rate), Int(clamping: rate / 10))))
    }
}
