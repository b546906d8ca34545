package import Basics
package import HTTP
package import ObjectStorage

/// The parts of a request that an authenticator needs.
package struct SwiftRequestHead: Sendable {
    package var method: HTTPMethod
    /// `/container` or `/container/object`, not encoded; empty for the account.
    package var resource: ByteString
    package var headers: HTTPHeaders

    package init(_ method: HTTPMethod, _ resource: ByteString, _ headers: HTTPHeaders) {
        (self.method, self.resource, self.headers) = (method, resource, headers)
    }
}

/// Authenticates requests to a Swift-shaped store, and knows the store's address.
package protocol SwiftAuthenticator: Sendable {
    /// Authenticates the request, after a login if necessary, and returns its address.
    func authorize(_ head: inout SwiftRequestHead) async throws(ObjectStoreError) -> StorageAddress
    /// The store answered 401 or 403 to `head` as it was authorized. Returns whether another try may succeed with what was
    /// learnt. Called once a request.
    ///
    /// Throws: the error of credentials that cannot be read again now.
    func learn(from response: HTTPResponse, to head: SwiftRequestHead) async throws(ObjectStoreError) -> Bool
}

/// The address of the containers: the parts of a storage URL.
package struct StorageAddress: Sendable, Hashable {
    package let origin: HTTPOrigin
    /// The account's path as it is sent, without a slash at its end; may be empty.
    package let basePath: String

    /// nil unless `url` is an absolute http or https URL without query and fragment.
    package init?(_ url: String) {
        let pieces = url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard pieces.count >= 3, pieces[1].isEmpty, !url.contains("?"), !url.contains("#") else { return nil }
        let scheme = pieces[0].lowercased()
        guard scheme == "http:" || scheme == "https:" else { return nil }
        let authority = pieces[2]
        var host = authority
        var port: Int?
        if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
            host = authority[..<colon]
            port = Int(authority[authority.index(after: colon)...])
            guard let port, (1...65535).contains(port) else { return nil }
        }
        guard !host.isEmpty, host.utf8.allSatisfy({ (33..<127).contains($0) && $0 != UInt8(ascii: "@") }) else {
            return nil
        }
        var path = pieces.count == 4 ? pieces[3] : ""
        while path.hasSuffix("/") { path = path.dropLast() }
        guard let decoded = PercentEncoding.decode(path) else { return nil }
        origin = HTTPOrigin(isSecure: scheme == "https:", host: String(host), port: port)
        basePath = path.isEmpty ? "" : "/" + PercentEncoding.encode(decoded, keepingSlash: true)
    }

    /// The path of a request, encoded once.
    package func path(_ container: String, _ key: ByteString?) -> String {
        var path = basePath
        if !container.isEmpty { path += "/" + PercentEncoding.encode(container) }
        if let key { path += "/" + PercentEncoding.encode(key, keepingSlash: true) }
        return path.isEmpty ? "/" : path
    }
}
