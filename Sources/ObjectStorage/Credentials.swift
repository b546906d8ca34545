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

/// What requests are signed with.
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

/// Where credentials come from, asked before each request.
package protocol CredentialsProvider: Sendable {
    /// The ones to use now; nil asks anonymously. Cheap unless they have to be renewed.
    func current() async throws(ObjectStoreError) -> Credentials?
    /// The store refused the current ones: the next call gets new ones if there are any.
    func invalidate()
}

/// Credentials that never change, or none.
package struct FixedCredentials: CredentialsProvider {
    private let credentials: Credentials?

    package init(_ credentials: Credentials?) { self.credentials = credentials }

    package func current() -> Credentials? { credentials }
    package func invalidate() {}
}
