package import Basics
package import HTTP
package import ObjectStorage

/// A token and what it is for: what a login gives.
package struct SwiftToken: Sendable {
    package var storageURL: String
    package var token: Secret
    /// nil is never.
    package var expires: Timestamp?

    package init(storageURL: String, token: Secret, expires: Timestamp?) {
        (self.storageURL, self.token, self.expires) = (storageURL, token, expires)
    }
}

/// Signs in with a token, got by a login before it is needed and again before it ends or when it is refused
/// (swift.md section 2.3). One login at a time, whoever needs it; the storage URL is read anew with each.
package struct TokenAuthenticator: SwiftAuthenticator {
    package typealias Login = @Sendable () async throws(ObjectStoreError) -> SwiftToken

    private static let header = "X-Auth-Token"
    private let session: RenewingCredentials

    package init(time: any TimeSource, login: @escaping Login) {
        session = RenewingCredentials(margin: .seconds(120), time: time) { () async throws(ObjectStoreError) in
            Self.credentials(try await login())
        }
    }

    /// A ready token, which nothing renews.
    package init(fixed token: SwiftToken, time: any TimeSource) {
        session = RenewingCredentials(margin: .zero, time: time) { () in Self.credentials(token) }
    }

    private static func credentials(_ token: SwiftToken) -> Credentials {
        Credentials(accessKeyID: token.storageURL, secretKey: token.token, expires: token.expires)
    }

    package func authorize(_ head: inout SwiftRequestHead) async throws(ObjectStoreError) -> StorageAddress {
        guard let current = try await session.current() else {
            throw ObjectStoreError(
                .credentialsRejected, .checkAccess, code: "NoToken", message: "the login returned no token")
        }
        guard let address = StorageAddress(current.accessKeyID) else {
            throw ObjectStoreError(
                .malformedAnswer, .checkAccess, code: "StorageURL",
                message: "the login returned the storage URL \(current.accessKeyID), which is not a URL")
        }
        head.headers[Self.header] = current.secretKey.revealed
        return address
    }

    package func learn(
        from response: HTTPResponse, to head: SwiftRequestHead
    ) async throws(ObjectStoreError) -> Bool {
        guard let current = try await session.current() else { return false }
        // Another request that was refused has logged in since.
        if current.secretKey.revealed != head.headers[Self.header] { return true }
        // A token has the rights of its user as they were at the login.
        guard response.status == 401 else { return (try? await session.replace(current, after: .unexplained)) ?? false }
        return try await session.replace(current, after: .named)
    }
}
