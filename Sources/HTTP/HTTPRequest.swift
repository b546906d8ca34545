package enum HTTPMethod: String, Sendable, Hashable {
    case get = "GET"
    case head = "HEAD"
    case put = "PUT"
    case post = "POST"
    case delete = "DELETE"
    case options = "OPTIONS"

    /// Whether it changes nothing at the server (RFC 9110 section 9.2.1).
    var isSafe: Bool {
        switch self {
        case .get, .head, .options: true
        case .put, .post, .delete: false
        }
    }
}

/// Scheme, host and port: the target of a connection.
package struct HTTPOrigin: Sendable, Hashable, CustomStringConvertible {
    /// https rather than http.
    package var isSecure: Bool
    /// A name or address; IPv6 addresses in brackets.
    package var host: String
    /// nil is the scheme's own port.
    package var port: Int?

    package init(isSecure: Bool, host: String, port: Int? = nil) {
        (self.isSecure, self.host) = (isSecure, host)
        self.port = port == (isSecure ? 443 : 80) ? nil : port
    }

    /// Host and port as the Host header has them; the scheme's own port is left out.
    package var authority: String { port.map { "\(host):\($0)" } ?? host }
    package var description: String { "\(isSecure ? "https" : "http")://\(authority)" }
}

/// One request. It is sent without any change, as signatures cover the bytes.
package struct HTTPRequest: Sendable, Hashable {
    package var method: HTTPMethod
    package var origin: HTTPOrigin
    /// Path and query, percent-encoded, from the slash on. Dot segments and double slashes stay.
    package var target: String
    /// `Host` and `Content-Length` are added when absent; `Expect` is sent by `expectsRefusal` alone.
    package var headers: HTTPHeaders
    /// Most time without a byte in either direction; nil takes the engine's.
    package var stallTimeout: Duration?
    /// Most time for name, connection and TLS; nil takes the engine's, which is never exceeded.
    package var connectTimeout: Duration?
    /// The body is not sent before the server asks for it, or a second has passed: a refusal costs no bytes (RFC 9110 section
    /// 10.1.1).
    package var expectsRefusal = false
    /// Sent straight to the origin, even if the engine has a proxy: for services of this machine.
    package var avoidsProxy = false
    /// Most bytes of a body that is collected instead of delivered.
    package var collectLimit = 1 << 20

    package init(_ method: HTTPMethod, _ origin: HTTPOrigin, target: String, headers: HTTPHeaders = HTTPHeaders()) {
        (self.method, self.origin, self.target, self.headers) = (method, origin, target, headers)
    }
}

/// One answer, with the body unless it went to a sink.
package struct HTTPResponse: Sendable, Hashable {
    package var status: Int
    package var headers = HTTPHeaders()
    /// The collected bytes: the whole body, or the beginning of an error document past the limit.
    package var body: [UInt8] = []
    /// Bytes that the sink received.
    package var delivered: Int64 = 0

    package init(status: Int, headers: HTTPHeaders = HTTPHeaders(), body: [UInt8] = []) {
        (self.status, self.headers, self.body) = (status, headers, body)
    }

    package var isSuccess: Bool { (200..<300).contains(status) }
}

/// The use of a response body, decided when the headers have arrived.
package enum BodyUse: Sendable, Hashable {
    /// To the sink as it arrives; collected when there is no sink.
    case deliver
    /// Into the response, up to the request's limit.
    case collect
    /// Not wanted: the transfer ends here, successfully, and its connection is closed.
    case refuse
}
