import Basics
import HTTP
import ObjectStorage
import Providers
import Synchronization
import TestSupport

/// A store that talks to a server of the test's own making, and every request that server got.
final class FamilyFixture: Sendable {
    let store: FamilyStore
    private let settings: FamilyStore.Settings
    private let engine: HTTPEngine
    let server: LocalServer
    let time = ManualTime()
    private let log: Log

    private final class Log: Sendable {
        let requests = Mutex<[LocalRequest]>([])
    }

    var requests: [LocalRequest] { log.requests.withLock { $0 } }

    /// `answer` is given the number of the request, from 0, and the request. Unless it `tellsVersions` the bucket has none.
    init(
        profile: FamilyProfile = .known, anonymous: Bool = false, tellsVersions: Bool = false,
        credentials: (any CredentialsProvider)? = nil,
        _ configure: (inout FamilyStore.Settings) -> Void = { _ in },
        answer: @escaping @Sendable (Int, LocalRequest) -> LocalAnswer
    ) throws {
        let log = Log()
        self.log = log
        server = LocalServer { request in
            if !tellsVersions, request.query == "versioning=" {
                return LocalAnswer(200, body: "<VersioningConfiguration/>")
            }
            let number = log.requests.withLock { requests in
                requests.append(request)
                return requests.count - 1
            }
            return answer(number, request)
        }
        var settings = FamilyStore.Settings(bucket: "bucket", profile)
        settings.endpoint = "http://127.0.0.1:\(server.port)"
        configure(&settings)
        var options = HTTPOptions(userAgent: "pailfs-test")
        options.proxy = ""
        engine = HTTPEngine(options)
        self.settings = settings
        store = try FamilyStore(
            settings, credentials: credentials ?? FixedCredentials(anonymous ? nil : Self.credentials), engine: engine,
            time: time)
    }

    private static let credentials = Credentials(accessKeyID: "ID", secretKey: Secret("SECRET"))

    /// What lists the account's buckets.
    func directory() throws -> FamilyDirectory {
        try FamilyDirectory(
            settings, credentials: FixedCredentials(Self.credentials), engine: engine, time: time)
    }

    /// The error a call ends with, if it does.
    func error(_ call: (FamilyStore) async throws(ObjectStoreError) -> Void) async -> ObjectStoreError? {
        do throws(ObjectStoreError) { try await call(store) } catch { return error }
        return nil
    }
}

/// Credentials that become others when they are refused.
final class EndingCredentials: CredentialsProvider {
    let token: String?
    private let renewals = Mutex(0)

    init(token: String?) { self.token = token }

    func current() -> Credentials? {
        let number = renewals.withLock { $0 }
        return Credentials(
            accessKeyID: "ID\(number)", secretKey: Secret("SECRET"), sessionToken: token.map { Secret($0) })
    }

    func replace(_ used: Credentials?, after refusal: CredentialsRefusal) -> Bool {
        renewals.withLock { $0 += 1 }
        return true
    }
}

extension FamilyProfile {
    /// The generic one of a server that needs no second look.
    static var known: FamilyProfile {
        var profile = FamilyProfile.generic
        profile.isOfAnyMaker = false
        return profile
    }
}

extension LocalAnswer {
    static func error(
        _ status: Int, _ code: String, _ more: String = "", headers: [(String, String)] = [], message: String = "why"
    ) -> Self {
        LocalAnswer(status, headers, body: "<Error><Code>\(code)</Code><Message>\(message)</Message>\(more)</Error>")
    }
}
