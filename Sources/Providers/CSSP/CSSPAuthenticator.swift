package import Basics
package import HTTP
package import ObjectStorage
import Synchronization

/// Signs each request by itself. Locks: the offset of the server's clock is in a mutex, a leaf.
package final class CSSPAuthenticator: SwiftAuthenticator {
    /// The least difference of the clocks that counts as the cause of a refusal (CSSP API, authentication).
    private static let tolerance = Duration.seconds(60)

    private let address: StorageAddress
    private let credentials: any CredentialsProvider
    private let time: any TimeSource
    private let signer = CSSPSigner()
    /// The server's clock minus this machine's.
    private let offset = Mutex(Duration.zero)

    /// `address` is the account's: a container's URL without the container.
    package init(_ address: StorageAddress, credentials: any CredentialsProvider, time: any TimeSource) {
        (self.address, self.credentials, self.time) = (address, credentials, time)
    }

    /// Anonymous requests are sent unsigned: public containers answer them.
    package func authorize(_ head: inout SwiftRequestHead) async throws(ObjectStoreError) -> StorageAddress {
        head.headers["Date"] = (time.now() + offset.withLock { $0 }).httpDate
        if let current = try await credentials.current() {
            signer.sign(&head.headers, head.method, resource: head.resource, with: current)
        }
        return address
    }

    package func learn(
        from response: HTTPResponse, to head: SwiftRequestHead
    ) async throws(ObjectStoreError) -> Bool {
        if learnClock(response, head) { return true }
        guard let current = try await credentials.current() else { return false }
        var again = head
        again.headers["Authorization"] = nil
        signer.sign(&again.headers, again.method, resource: again.resource, with: current)
        // Another refused request has replaced the credentials since.
        if again.headers["Authorization"] != head.headers["Authorization"] { return true }
        guard response.status == 401 else {
            return (try? await credentials.replace(current, after: .unexplained)) ?? false
        }
        return try await credentials.replace(current, after: .named)
    }

    private func learnClock(_ response: HTTPResponse, _ head: SwiftRequestHead) -> Bool {
        guard let server = response.headers["Date"].flatMap({ Timestamp(httpDate: $0) }),
            let sent = head.headers["Date"].flatMap({ Timestamp(httpDate: $0) })
        else { return false }
        let error = server - sent
        guard max(error, .zero - error) > Self.tolerance else { return false }
        offset.withLock { $0 = server - time.now() }
        return true
    }
}
