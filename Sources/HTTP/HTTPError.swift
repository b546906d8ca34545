import Basics

/// Why a request got no whole answer. An answer with an error status is an answer.
package struct HTTPError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable, Hashable {
        /// Name not resolved or connection not made: nothing was sent.
        case unreachable
        /// The connection broke after it was made; the server may have acted.
        case interrupted
        /// No byte in either direction for the time allowed; the server may have acted.
        case timedOut
        /// The server's certificate or TLS version was refused; nothing was sent.
        case insecure
        case cancelled
        /// The source or the sink failed with this errno.
        case local(errno: Int32)
        /// A body to collect is longer than the request allows.
        case tooLarge
        /// The answer is not HTTP.
        case malformed
        /// The request cannot be sent as it is; nothing was sent.
        case invalidRequest
    }

    package var kind: Kind
    package var message: String

    package init(_ kind: Kind, _ message: String) { (self.kind, self.message) = (kind, message) }

    init(_ error: ByteTransferError) { self.init(.local(errno: error.errno), error.reason) }

    package var description: String { message }
}
