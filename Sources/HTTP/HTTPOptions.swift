/// How an engine connects; fixed for its life.
package struct HTTPOptions: Sendable, Hashable {
    package var userAgent: String
    /// A PEM file of trusted certificates instead of the system's.
    package var caFile: String?
    package var clientCertificate: ClientCertificate?
    /// `http://host:port`; nil takes the environment's (`https_proxy`, `no_proxy`), an empty text none.
    package var proxy: String?
    /// For name, connection and TLS together.
    package var connectTimeout = Duration.seconds(10)
    /// Most time without a byte in either direction.
    package var stallTimeout = Duration.seconds(60)
    /// Most time without an acknowledgement of what was sent, or without room for more of it at the server: the path is dead then,
    /// which a server that thinks about its answer is not. Shorter than the time after which a request is given up, so that it
    /// can be sent again through another connection, and longer for whoever expects servers to stand still.
    var acknowledgement: Duration { min(max(.seconds(20), stallTimeout / 3), stallTimeout * 2 / 3) }
    /// Most time of one transfer, however it moves; nil sets no end.
    package var transferTimeout: Duration?
    /// `https://` URL of a resolver to ask for names over HTTPS (RFC 8484) instead of the system's.
    package var dnsOverHTTPS: String?
    /// Requests under way at once; others wait in order.
    package var maxConnections = 64
    /// The same to one origin.
    package var maxConnectionsPerOrigin = 64

    package init(userAgent: String = "pailfs") { self.userAgent = userAgent }
}

/// PEM files with which this machine proves who it is to servers that ask for it.
package struct ClientCertificate: Sendable, Hashable {
    package var file: String
    /// nil where the file of the certificate has the key too.
    package var keyFile: String?

    package init(file: String, keyFile: String?) { (self.file, self.keyFile) = (file, keyFile) }
}
