import Basics
import Settings
import Synchronization

/// One line on standard error when the store has not answered for two seconds; at most one for a command.
final class SilenceNotice: Sendable {
    static let patience = Duration.seconds(2)

    private let hasSaid = Atomic(false)

    /// `limit` is how long requests are tried. If that is short, the line is left out: the error follows soon.
    func say(_ request: MountRequest, limit: Duration) {
        guard limit > Self.patience * 2, !hasSaid.exchange(true, ordering: .relaxed) else { return }
        let place = request.settings.endpoint ?? "the provider's own endpoint"
        Entry.say(
            "pailfs: the store at \(place) has not answered for \(DurationText.format(Self.patience)); "
                + "pailfs tries it for \(DurationText.format(limit))")
    }
}
