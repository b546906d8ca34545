/// How an engine connects; fixed for its life.
package struct HTTPOptions: Sendable, Hashable {
    package var userAgent: String
    /// A PEM file of trusted certificates instead of the system's.
    package var caFile: String?
    package var clientCertificate: ClientCertificate?
    /// `http://host:port`; nil takes the environment's (`https_proxy`, `no_proxy`), an empty text none.
    package var proxy: String?
    /// Limit for name, connection and TLS together.
    package var connectTimeout = Duration.seconds(10)
    /// Most time without a byte in either direction.
    package var stallTimeout = Duration.seconds(60)
    /// Most time without an acknowledgement of the sent bytes, or without room for more at the server: then the path is dead; a
    /// server that works on its answer still acknowledges. Shorter than the time after which a request is given up, so that it
    /// can be retried through another connection, and longer where the user allows servers to stall.
    var acknowledgement: Duration { min(max(.seconds(20), stallTimeout / 3), stallTimeout * 2 / 3) }
    /// Most time of one transfer, even while bytes move; nil sets no limit.
    package var transferTimeout: Duration?
    /// `https://` URL of a resolver for names over HTTPS (RFC 8484) instead of the system's.
    package var dnsOverHTTPS: String?
    /// Most requests in flight; others wait in order.
    package var maxConnections = 64
    /// Most requests in flight to one origin.
    package var maxConnectionsPerOrigin = 64

    package init(userAgent: String = "pailfs") { self.userAgent = userAgent }
}

/// PEM files with which this machine authenticates itself to servers that ask for it.
package struct ClientCertificate: Sendable, Hashable {
    package var file: String
    /// nil where the file of the certificate has the key too.
    package var keyFile: String?

    package init(file: String, keyFile: String?) { (self.file, self.keyFile) = (file, keyFile) }
}
