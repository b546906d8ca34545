/// What a mount did a second between two reports.
struct StatusRates: Sendable, Hashable {
    /// Bytes.
    var sent: Double
    var received: Double
    /// By operation; without operations that had no requests.
    var requests: [String: Double]

    /// nil when there are no rates: the reports are of two processes, which count from zero each, or of one moment.
    init?(from earlier: MountStatus, to later: MountStatus, after elapsed: Duration) {
        let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
        guard seconds > 0, earlier.pid == later.pid, earlier.since == later.since, let before = earlier.traffic,
            let now = later.traffic, now.sentBytes >= before.sentBytes, now.receivedBytes >= before.receivedBytes
        else { return nil }
        sent = Double(now.sentBytes - before.sentBytes) / seconds
        received = Double(now.receivedBytes - before.receivedBytes) / seconds
        requests = [:]
        for (name, figures) in later.requests ?? [:] {
            let more = figures.requests - (earlier.requests?[name]?.requests ?? 0)
            if more > 0 { requests[name] = Double(more) / seconds }
        }
    }
}
