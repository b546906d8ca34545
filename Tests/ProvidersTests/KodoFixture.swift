import Basics
import HTTP
import ObjectStorage
import Providers
import Synchronization
import TestSupport

/// A Kodo store that talks to a server of the test's own making, which plays every service, and what that server got.
final class KodoFixture: Sendable {
    let store: KodoStore
    let server: LocalServer
    let time = ManualTime()
    private let log: Log

    private final class Log: Sendable {
        let requests = Mutex<[LocalRequest]>([])
    }

    var requests: [LocalRequest] { log.requests.withLock { $0 } }
    /// The targets of all requests without their queries.
    var paths: [String] { requests.map(\.path) }

    /// `answer` is given the number of the request, from 0, and the request; nil answers a region query with this server.
    init(
        _ configure: (inout KodoStore.Settings, Int) -> Void = { _, _ in },
        answer: @escaping @Sendable (Int, LocalRequest) -> LocalAnswer?
    ) throws {
        let log = Log()
        self.log = log
        server = LocalServer { request in
            let number = log.requests.withLock { requests in
                requests.append(request)
                return requests.count - 1
            }
            return answer(number, request) ?? .regions(request["host"] ?? "")
        }
        var settings = KodoStore.Settings(bucket: "bucket")
        settings.client.endpoint = "http://127.0.0.1:\(server.port)"
        configure(&settings, server.port)
        var options = HTTPOptions(userAgent: "pailfs-test")
        options.proxy = ""
        let credentials = Credentials(accessKeyID: "ID", secretKey: Secret("SECRET"))
        store = try KodoStore(
            settings, credentials: FixedCredentials(credentials), engine: HTTPEngine(options), time: time)
    }

    /// The error a call ends with, if it does.
    func error(_ call: (KodoStore) async throws(ObjectStoreError) -> Void) async -> ObjectStoreError? {
        do throws(ObjectStoreError) { try await call(store) } catch { return error }
        return nil
    }
}

extension LocalAnswer {
    /// The answer of a region query that places every service at `host`.
    static func regions(_ host: String, up: String? = nil, more: String = "") -> LocalAnswer {
        let here = "{\"domains\":[\"\(host)\"]}"
        return .kodo(
            "{\"hosts\":[{\"region\":\"z0\",\"ttl\":3600,\"up\":{\"domains\":[\"\(up ?? host)\"]},\"io\":\(here),\"rs\":\(here),"
                + "\"rsf\":\(here)\(more)}]}")
    }

    static func kodo(_ body: String, _ status: Int = 200, headers: [(String, String)] = []) -> LocalAnswer {
        LocalAnswer(status, [("X-Reqid", "REQUEST")] + headers, body: body)
    }

    static func refusal(_ status: Int, _ message: String, headers: [(String, String)] = []) -> LocalAnswer {
        .kodo("{\"error\":\"\(message)\"}", status, headers: headers)
    }
}
