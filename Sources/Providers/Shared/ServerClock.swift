import Basics
import HTTP

/// The difference between the server's clock and this machine's, from its answers: signatures are valid for some minutes of the
/// server's time.
struct ServerClock: Sendable {
    /// The server's clock minus this machine's.
    private(set) var offset = Duration.zero

    /// Takes over the server's clock from an answer that came `now`, when it differs from the signed time by more than
    /// `tolerance`.
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
    /// The server's clock at the time of the answer.
    var date: Timestamp? { headers["Date"].flatMap { Timestamp(httpDate: $0) } }
}
