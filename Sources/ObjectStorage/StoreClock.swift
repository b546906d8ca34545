import Basics

/// How far a store's clock is behind ours, as its answers to our writes tell: what the store dates is compared with what
/// happened here. An answer that was long on its way makes it more, which costs a question and hides nothing.
struct StoreClock: Sendable {
    /// What is taken for it before anything is known.
    private static let first = Duration.seconds(5)
    /// Stores tell times in whole seconds, rounded down.
    private static let resolution = Duration.seconds(1)
    /// Clocks are set: what was learned counts for so long.
    private static let lifetime = Duration.seconds(600)

    private var learned: (behind: Duration, at: Timestamp)?

    /// An answer that has come at `now` tells the store's time.
    mutating func learn(_ told: Timestamp, at now: Timestamp) {
        let behind = now - told
        if let learned, behind < learned.behind, now >= learned.at, now - learned.at < Self.lifetime { return }
        learned = (behind, now)
    }

    /// Whether what the store dates `modified` may have been stored since `moment` here.
    func mayBe(_ modified: Timestamp, since moment: Timestamp) -> Bool {
        modified == .epoch || modified + Self.resolution + (learned?.behind ?? Self.first) >= moment
    }
}
