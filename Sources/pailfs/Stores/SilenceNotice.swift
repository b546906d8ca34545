import Basics
import Settings
import Synchronization

/// One line for the person at the terminal when the store has not answered for two seconds; no more than one for a command.
final class SilenceNotice: Sendable {
    static let patience = Duration.seconds(2)

    private let hasSaid = Atomic(false)

    /// `limit` is how long the store is tried. Where that is soon over, the error says it all.
    func say(_ request: MountRequest, limit: Duration) {
        guard limit > Self.patience * 2, !hasSaid.exchange(true, ordering: .relaxed) else { return }
        let place = request.settings.endpoint ?? "the provider's own endpoint"
        Entry.say(
            "pailfs: the store at \(place) has not answered for \(DurationText.format(Self.patience)); "
                + "pailfs tries it for \(DurationText.format(limit))")
    }
}
