import Basics

/// How far a store's clock is behind this machine's, learnt from answers to this mount's writes, so that the store's times can be
/// compared with local ones. A slow answer makes the difference larger, which costs a HEAD and hides nothing.
struct StoreClock: Sendable {
    /// The assumed difference before any answer.
    private static let first = Duration.seconds(5)
    /// Stores give times in whole seconds, rounded down.
    private static let resolution = Duration.seconds(1)
    /// Clocks are adjusted: a learnt difference is used for so long.
    private static let lifetime = Duration.seconds(600)

    private var learned: (behind: Duration, at: Timestamp)?

    /// Learns from an answer with the store's time `told`, which came at `now`.
    mutating func learn(_ told: Timestamp, at now: Timestamp) {
        let behind = now - told
        if let learned, behind < learned.behind, now >= learned.at, now - learned.at < Self.lifetime { return }
        learned = (behind, now)
    }

    /// Whether an object with the store's time `modified` may have been stored since the local time `moment`.
    func mayBe(_ modified: Timestamp, since moment: Timestamp) -> Bool {
        modified == .epoch || modified + Self.resolution + (learned?.behind ?? Self.first) >= moment
    }
}
