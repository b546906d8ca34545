package import Basics
import Synchronization

/// A text that is never shown: it prints as dots wherever it ends up.
package struct Secret: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text itself; for signing only.
    package let revealed: String

    package init(_ text: String) { revealed = text }

    package var description: String { "•••" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The keys that sign requests.
package struct Credentials: Sendable, Hashable {
    package var accessKeyID: String
    package var secretKey: Secret
    package var sessionToken: Secret?
    /// When they stop working; nil is never.
    package var expires: Timestamp?

    package init(accessKeyID: String, secretKey: Secret, sessionToken: Secret? = nil, expires: Timestamp? = nil) {
        (self.accessKeyID, self.secretKey) = (accessKeyID, secretKey)
        (self.sessionToken, self.expires) = (sessionToken, expires)
    }
}

extension Credentials {
    /// Throws an error that names the part which no request can carry: keys from secret stores may end with a line break.
    package func requireUsable() throws(ObjectStoreError) {
        let parts = [("key ID", accessKeyID), ("secret", secretKey.revealed), ("token", sessionToken?.revealed ?? "")]
        for (name, text) in parts {
            guard let bad = text.unicodeScalars.first(where: { $0.value < 0x20 || $0.value == 0x7f }) else { continue }
            let what = bad == "\n" || bad == "\r" ? "a line break" : "a control character"
            throw ObjectStoreError(
                .credentialsRejected, .checkAccess, code: "UnusableKey",
                message: "the \(name) of the credentials has \(what) in it; remove it where the key is kept, for "
                    + "example by printf %s instead of echo")
        }
    }
}

/// How a store refused credentials.
package enum CredentialsRefusal: Sendable {
    /// It named the credentials: unknown, wrong, or expired.
    case named
    /// It denied access, mostly for another reason than wrong credentials.
    case unexplained
}

/// The source of credentials; called before each request.
package protocol CredentialsProvider: Sendable {
    /// The present credentials; nil for anonymous requests. Cheap unless they have to be renewed.
    func current() async throws(ObjectStoreError) -> Credentials?
    /// Reads the source again because the store has refused `used`: once for all requests that were refused with these. Returns
    /// true when `current` now returns other credentials, with which the request may be retried.
    ///
    /// Throws: the error of a source that cannot be read now.
    func replace(_ used: Credentials?, after refusal: CredentialsRefusal) async throws(ObjectStoreError) -> Bool
}

/// Credentials that never change, or none.
package struct FixedCredentials: CredentialsProvider {
    private let credentials: Credentials?

    package init(_ credentials: Credentials?) { self.credentials = credentials }

    package func current() -> Credentials? { credentials }
    package func replace(_ used: Credentials?, after refusal: CredentialsRefusal) -> Bool { false }
}
