import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import Synchronization
import TestSupport

/// A Swift-shaped store that talks to a server of the test's own making, and every request that server got.
final class SwiftFixture: Sendable {
    let store: SwiftStore
    let server: LocalServer
    let time = ManualTime()
    private let log: Log

    private final class Log: Sendable {
        let requests = Mutex<[LocalRequest]>([])
    }

    var requests: [LocalRequest] { log.requests.withLock { $0 } }
    /// Method and target of each request.
    var lines: [String] { requests.map { "\($0.method) \($0.target)" } }

    /// `answer` is given the number of the request, from 0, and the request. `authenticator` nil takes a ready token.
    init(
        profile: SwiftProfile = .swift, _ configure: (inout SwiftStore.Settings) -> Void = { _ in },
        authenticator: ((StorageAddress, any TimeSource) -> any SwiftAuthenticator)? = nil,
        answer: @escaping @Sendable (Int, LocalRequest) -> LocalAnswer
    ) throws {
        let log = Log()
        self.log = log
        server = LocalServer { request in
            let number = log.requests.withLock { requests in
                requests.append(request)
                return requests.count - 1
            }
            return answer(number, request)
        }
        var settings = SwiftStore.Settings(container: "c")
        settings.profile = profile
        settings.server = .openStack
        configure(&settings)
        let url = "http://127.0.0.1:\(server.port)/v1/AUTH_test"
        let token = SwiftToken(storageURL: url, token: Secret("token"), expires: nil)
        let address = StorageAddress(url)
        let time = self.time
        let chosen = address.flatMap { authenticator?($0, time) } ?? TokenAuthenticator(fixed: token, time: time)
        store = SwiftStore(settings, authenticator: chosen, engine: Self.engine(), time: time)
    }

    static func engine() -> HTTPEngine {
        var options = HTTPOptions(userAgent: "pailfs-test")
        options.proxy = ""
        return HTTPEngine(options)
    }

    /// The error a call ends with, if it does.
    func error(_ call: (SwiftStore) async throws(ObjectStoreError) -> Void) async -> ObjectStoreError? {
        do throws(ObjectStoreError) { try await call(store) } catch { return error }
        return nil
    }
}

extension LocalAnswer {
    /// The headers of a plain object.
    static func object(_ content: String, _ more: [(String, String)] = []) -> [(String, String)] {
        [
            ("Etag", Hex.encode(MD5.of(content))), ("Last-Modified", "Tue, 14 Nov 2023 22:13:21 GMT"),
            ("X-Timestamp", "1700000000.36050"), ("Content-Type", "a/b"),
        ] + more
    }

    /// What a PUT of `request`'s body is answered with.
    static func stored(_ request: LocalRequest) -> LocalAnswer {
        LocalAnswer(201, [("Etag", Hex.encode(MD5.of(request.body)))])
    }
}
