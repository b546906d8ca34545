import Basics
import HTTP

/// How far the server's clock is from ours, as its answers tell: signatures are good for some minutes of its time.
struct ServerClock: Sendable {
    /// What to add to our clock to have the server's.
    private(set) var offset = Duration.zero

    /// Takes the server's clock from an answer that came `now`, when it is further than `tolerance` from what was signed.
    mutating func learn(_ response: HTTPResponse, now: Timestamp, tolerance: Duration) -> Bool {
        guard let server = response.date else { return false }
        let offset = server - now
        let error = offset - self.offset
        guard max(error, .zero - error) > tolerance else { return false }
        self.offset = offset
        return true
    }
}

extension HTTPResponse {
    /// The server's clock when it answered.
    var date: Timestamp? { headers["Date"].flatMap { Timestamp(httpDate: $0) } }
}
