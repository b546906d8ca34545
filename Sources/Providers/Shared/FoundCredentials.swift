package import ObjectStorage

/// Credentials, and their source for messages.
package struct FoundCredentials: Sendable, Hashable {
    package var credentials: Credentials
    package var origin: String

    package init(_ credentials: Credentials, _ origin: String) {
        (self.credentials, self.origin) = (credentials, origin)
    }
}

/// The environment, for the search for credentials. An empty variable counts as not set.
struct CredentialVariables: Sendable {
    let environment: [String: String]

    subscript(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }

    var home: String? { self["HOME"] }

    /// A pair of keys with the first token that is set; nil when neither key is set.
    ///
    /// Throws: when one key is set and the other is not: the next source may have another user's.
    func pair(_ id: String, _ secret: String, _ tokens: [String] = []) throws(ObjectStoreError) -> FoundCredentials? {
        guard let keyID = self[id], let key = self[secret] else {
            guard let one = [id, secret].first(where: { self[$0] != nil }) else { return nil }
            throw CredentialProblem.incomplete(
                "\(one) is set and \(one == id ? secret : id) is not; set both, or neither")
        }
        let token = tokens.lazy.compactMap { self[$0] }.first
        return FoundCredentials(
            Credentials(accessKeyID: keyID, secretKey: Secret(key), sessionToken: token.map { Secret($0) }), id)
    }
}

/// Errors of a source that was named, or that has credentials, but cannot be used. The search does not continue with the next
/// source.
enum CredentialProblem {
    static func incomplete(_ message: String) -> ObjectStoreError {
        ObjectStoreError(.credentialsRejected, .checkAccess, code: "IncompleteCredentials", message: message)
    }

    static func unusable(_ message: String) -> ObjectStoreError {
        ObjectStoreError(.credentialsRejected, .checkAccess, code: "UnusableCredentials", message: message)
    }

    static func noProfile(_ name: String, in places: String) -> ObjectStoreError {
        ObjectStoreError(
            .credentialsRejected, .checkAccess, code: "NoProfile",
            message: "the profile \(name) is not in \(places); check its name")
    }

    static func noTokenFile(_ path: String) -> ObjectStoreError {
        ObjectStoreError(
            .credentialsRejected, .checkAccess, code: "NoTokenFile",
            message: "the token file \(path) cannot be read; check its path and permissions")
    }
}
