import Basics
import CCurl

/// Both directions of an engine at their rates. Belongs to the engine's thread.
final class Pacing {
    enum Direction: CaseIterable {
        case send, receive

        /// The mask of libcurl (curl_easy_pause(3)).
        var mask: CInt { self == .send ? CURLPAUSE_SEND : CURLPAUSE_RECV }
    }

    private let send: Pace
    private let receive: Pace

    init(now: @escaping () -> Duration = { SystemTime().uptime() }) {
        (send, receive) = (Pace(now: now), Pace(now: now))
    }

    private func pace(_ direction: Direction) -> Pace { direction == .send ? send : receive }

    /// Takes over the present limits.
    func follow(_ limits: TrafficLimits) {
        send.setRate(limits.upload)
        receive.setRate(limits.download)
    }

    func allowance(_ direction: Direction, for transfer: Transfer, moved: Int64) -> Int {
        pace(direction).allowance(for: transfer, moved: moved)
    }

    func take(_ direction: Direction, _ bytes: Int) { pace(direction).take(bytes) }

    func resume() {
        for direction in Direction.allCases { pace(direction).resume { $0.resume(direction) } }
    }

    /// How long until `resume` has something to do; nil when no transfer waits.
    var untilResume: Duration? { [send.untilResume, receive.untilResume].compactMap(\.self).min() }

    func forget(_ transfer: Transfer) {
        send.forget(transfer)
        receive.forget(transfer)
    }
}
