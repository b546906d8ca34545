import Basics
import FoundationEssentials
import HTTP
import ObjectStorage
import Synchronization

/// Sends requests to Kodo's services: finds their hosts, signs, and corrects what an answer shows to be wrong.
///
/// Locks: the learnt facts (hosts, the server's clock, which of several hosts answers) are in a mutex, a leaf; they live as
/// long as the store. Sends each request once; tries another host only where nothing was sent, and another signature only where
/// the clock, the region or the credentials were wrong, once each.
package final class KodoClient: Sendable {
    package struct Settings: Sendable {
        /// The service that returns regions, as URL or host: a private cloud's, or pailstore. nil is Qiniu's.
        package var endpoint: String?
        /// Derives the hosts from a region's name, without a request; ignored with an endpoint.
        package var region: String?
        /// The domain from which objects are read; nil finds one.
        package var domain: String?
        /// Uses https:// for hosts that are named without a scheme.
        package var isSecure = true
        /// Signs the time as well, so that a request cannot be replayed a quarter of an hour later.
        package var signsTime = true
        /// Headers of every request.
        package var headers: [(name: String, value: String)] = []

        package init() {}
    }

    /// The place from which objects are read.
    struct DownloadPlace: Sendable, Hashable {
        let origin: HTTPOrigin
        /// In front of the key: `/`, or the path of `getfile` with bucket and access key.
        let path: String
    }

    private struct Learned {
        var hosts: KodoHosts?
        /// The `uptime` of the time source from which on the hosts are requested again.
        var askAgain = Duration.zero
        var place: DownloadPlace?
        var clock = ServerClock()
        /// How many hosts of a service have failed so far.
        var skipped: [KodoService: Int] = [:]
        /// For presigning, which cannot wait for a renewal.
        var credentials: Credentials?
    }

    let bucket: String
    let settings: Settings
    private let central: [HTTPOrigin]
    private let isSecure: Bool
    private let domain: HTTPOrigin?
    private let credentials: any CredentialsProvider
    private let engine: HTTPEngine
    private let time: any TimeSource
    private let learned = Mutex(Learned())

    /// Throws when endpoint or domain cannot be parsed. `bucket` is empty for the service itself.
    init(
        bucket: String, _ settings: Settings, credentials: any CredentialsProvider, engine: HTTPEngine,
        time: any TimeSource
    ) throws(ObjectStoreError) {
        (self.bucket, self.settings) = (bucket, settings)
        (self.credentials, self.engine, self.time) = (credentials, engine, time)
        func origin(_ name: String, _ text: String) throws(ObjectStoreError) -> HTTPOrigin {
            guard let origin = HTTPOrigin(authority: text, isSecure: settings.isSecure) else {
                throw ObjectStoreError(
                    .invalidRequest, .checkAccess, code: "InvalidEndpoint",
                    message: "the \(name) \(text) cannot be used; write a host, or http:// or https:// and a host")
            }
            return origin
        }
        if let endpoint = settings.endpoint {
            let first = try origin("endpoint", endpoint)
            (central, isSecure) = ([first], first.isSecure)
        } else {
            (central, isSecure) = (KodoHosts.central(isSecure: settings.isSecure), settings.isSecure)
        }
        if let text = settings.domain { domain = try origin("domain", text) } else { domain = nil }
    }

    // MARK: One request

    /// The parts of a request before it is signed.
    struct Call: Sendable {
        enum Authorization: Sendable {
            /// Signs with these bytes as the body.
            case management([UInt8])
            case upload(KodoPutPolicy)
            /// The token is part of the body, which is made when the token is known.
            case form(KodoPutPolicy, @Sendable (_ token: String) -> any ByteSource)
            case download(ObjectKey)
            /// Unsigned, for region queries: the access key alone.
            case query
        }

        var operation: ObjectStoreError.Operation
        var method = HTTPMethod.post
        var service = KodoService.rs
        /// Path and query as they are sent; unused for downloads.
        var target = "/"
        var key: ObjectKey?
        var headers = HTTPHeaders()
        var authorization = Authorization.management([])
        /// Most bytes of an answer that is a document.
        var collectLimit = 1 << 20

        /// Whether the answer may be that of an application's server, which is none of Kodo's documents.
        var isCalledBack: Bool {
            switch authorization {
            case .upload(let policy), .form(let policy, _): policy.callbackUrl != nil
            case .management, .download, .query: false
            }
        }

        init(_ operation: ObjectStoreError.Operation, _ target: String, _ key: ObjectKey? = nil) {
            (self.operation, self.target, self.key) = (operation, target, key)
        }
    }

    /// Sends the call and returns a successful answer; throws for any other, also for an error document in a 200.
    func send(
        _ call: Call, body: (any ByteSource)? = nil, sink: (any ByteSink)? = nil,
        use: @escaping @Sendable (HTTPResponse) -> BodyUse = { $0.isSuccess ? .deliver : .collect }
    ) async throws(ObjectStoreError) -> HTTPResponse {
        var corrected: Set<ObjectStoreError.Kind> = []
        while true {
            let (response, used) = try await exchange(call, body, sink, use)
            if response.isSuccess, call.isCalledBack || !KodoErrors.isError(response) { return response }
            let error = KodoErrors.error(response, call.operation, call.key)
            if error.kind == .serverFault { skipHost(of: call.service) }
            guard corrected.insert(error.kind).inserted,
                try await correct(error, response, call.service, with: used)
            else { throw error }
            sink?.restart()
        }
    }

    private func exchange(
        _ call: Call, _ body: (any ByteSource)?, _ sink: (any ByteSink)?,
        _ use: @escaping @Sendable (HTTPResponse) -> BodyUse
    ) async throws(ObjectStoreError) -> (HTTPResponse, Credentials) {
        let used = try await credentials(for: call)
        let signer = KodoSigner(used)
        var tries = 0
        while true {
            let origins = try await origins(for: call)
            let skipped = learned.withLock { $0.skipped[call.service] ?? 0 }
            let (request, source) = try await signed(call, body, origins[skipped % origins.count], signer)
            do { return (try await engine.execute(request, body: source, sink: sink, bodyUse: use), used) } catch {
                tries += 1
                if error.kind == .unreachable || error.kind == .interrupted || error.kind == .timedOut {
                    skipHost(of: call.service)
                }
                // Nothing was sent, so the next host may be tried at once.
                guard error.kind == .unreachable, tries < origins.count else {
                    throw FamilyErrors.error(error, call.operation, call.key)
                }
            }
        }
    }

    private func credentials(for call: Call) async throws(ObjectStoreError) -> Credentials {
        let current = try await credentials.current()
        learned.withLock { $0.credentials = current }
        guard let current else {
            throw ObjectStoreError(
                .accessDenied, call.operation, key: call.key, code: "NoCredentials",
                message: "Kodo requires keys; set QINIU_ACCESS_KEY and QINIU_SECRET_KEY")
        }
        return current
    }

    private func origins(for call: Call) async throws(ObjectStoreError) -> [HTTPOrigin] {
        if case .download = call.authorization { return [try await place(call.operation).origin] }
        if call.service == .uc { return central }
        return try await hosts(call.operation).origins(call.service)
    }

    /// The signed request, and its body.
    private func signed(
        _ call: Call, _ body: (any ByteSource)?, _ origin: HTTPOrigin, _ signer: KodoSigner
    ) async throws(ObjectStoreError) -> (HTTPRequest, (any ByteSource)?) {
        let now = now()
        var (headers, target, body) = (call.headers, call.target, body)
        for header in settings.headers { headers[header.name] = header.value }
        headers["Host"] = origin.authority
        switch call.authorization {
        case .management(let bytes):
            headers["Content-Type"] = headers["Content-Type"] ?? KodoSigner.form
            if settings.signsTime { headers["X-Qiniu-Date"] = now.iso8601Basic }
            headers["Authorization"] = signer.managementToken(
                call.method, host: origin.authority, target: target, headers: headers, body: bytes)
            if call.method != .get { body = MemorySource(bytes) }
        case .upload(let policy):
            headers["Authorization"] = "UpToken \(try token(policy, signer, call))"
            if body == nil, call.method != .get { body = MemorySource([]) }
        case .form(let policy, let make): body = make(try token(policy, signer, call))
        case .download(let key):
            let place = try await place(call.operation)
            let path = place.path + PercentEncoding.encode(key.bytes, keepingSlash: true)
            let url = signer.download("\(origin)\(path)", until: now + Self.downloadLifetime)
            target = String(url.dropFirst(origin.description.utf8.count))
        case .query: break
        }
        var request = HTTPRequest(call.method, origin, target: target, headers: headers)
        request.stallTimeout = Self.patience(with: call.operation)
        request.collectLimit = call.collectLimit
        return (request, body)
    }

    private static let downloadLifetime = Duration.seconds(3600)
    /// An upload's token must be valid until its last byte was sent.
    private static let uploadLifetime = Duration.seconds(24 * 3600)

    private func token(
        _ policy: KodoPutPolicy, _ signer: KodoSigner, _ call: Call
    ) throws(ObjectStoreError) -> String {
        var policy = policy
        policy.deadline = (now() + Self.uploadLifetime).seconds
        do { return signer.uploadToken(policy: Array(try JSONEncoder().encode(policy))) } catch {
            throw ObjectStoreError(
                .invalidRequest, call.operation, key: call.key, code: "InvalidRequest", message: "\(error)")
        }
    }

    /// How long the store may take without an answer for such an operation; nil takes the engine's limit.
    private static func patience(with operation: ObjectStoreError.Operation) -> Duration? {
        switch operation {
        case .copy, .move, .completeUpload, .updateMetadata, .deleteMany: .seconds(300)
        default: nil
        }
    }

    private func now() -> Timestamp { time.now() + learned.withLock { $0.clock.offset } }

    // MARK: Hosts

    /// The bucket's hosts; requested when unknown or too old. If that fails, an old answer is used.
    private func hosts(_ operation: ObjectStoreError.Operation) async throws(ObjectStoreError) -> KodoHosts {
        let known = learned.withLock { learned in
            learned.hosts.map { (hosts: $0, isFresh: learned.askAgain > time.uptime()) }
        }
        if let known, known.isFresh { return known.hosts }
        if settings.endpoint == nil, let region = settings.region {
            return learn(.of(region: region, isSecure: isSecure), for: .seconds(Int64.max / 4))
        }
        do {
            let hosts = try await askForHosts(operation)
            return learn(hosts, for: .seconds(hosts.lifetime))
        } catch {
            guard let known else { throw error }
            return learn(known.hosts, for: .seconds(60))
        }
    }

    private func learn(_ hosts: KodoHosts, for lifetime: Duration) -> KodoHosts {
        let askAgain = time.uptime() + lifetime
        learned.withLock { ($0.hosts, $0.askAgain) = (hosts, askAgain) }
        return hosts
    }

    private func askForHosts(_ operation: ObjectStoreError.Operation) async throws(ObjectStoreError) -> KodoHosts {
        let accessKey = learned.withLock { $0.credentials?.accessKeyID } ?? ""
        var call = Call(
            operation, "/v4/query?ak=\(PercentEncoding.encode(accessKey))&bucket=\(PercentEncoding.encode(bucket))")
        (call.method, call.service, call.authorization) = (.get, .uc, .query)
        let response: HTTPResponse
        do { response = try await send(call) } catch {
            guard error.status == 612 else { throw error }
            throw ObjectStoreError(
                .noSuchBucket, operation, status: error.status,
                message: "\(error.message): these keys have no bucket \(bucket)", requestID: error.requestID)
        }
        guard let hosts = KodoHosts(json: response.body, isSecure: isSecure) else {
            throw ObjectStoreError(
                .malformedAnswer, operation, status: response.status, code: "MalformedAnswer",
                message: "the answer to the region query of \(bucket) has no hosts",
                requestID: response.headers["X-Reqid"])
        }
        return hosts
    }

    /// The place from which the bucket's objects are read: the configured domain, the bucket's own at the origin, a private
    /// cloud's path, or the first domain bound to the bucket, which may be a cache (Kodo API, download).
    func place(_ operation: ObjectStoreError.Operation) async throws(ObjectStoreError) -> DownloadPlace {
        if let place = place(of: domain == nil ? try await hosts(operation) : nil) { return learn(place) }
        if let place = learned.withLock({ $0.place }) { return place }
        var call = Call(operation, "/v2/domains?tbl=\(PercentEncoding.encode(bucket))")
        (call.method, call.service) = (.get, .uc)
        let response = try await send(call)
        let domains = try? JSONDecoder().decode([String].self, from: Data(response.body))
        guard let origin = domains?.lazy.compactMap({ HTTPOrigin(authority: $0, isSecure: self.isSecure) }).first else {
            throw ObjectStoreError(
                .invalidRequest, operation, code: "NoDomain",
                message: "the bucket \(bucket) has no domain to read from; bind one to it, or set download-domain=HOST"
            )
        }
        return learn(DownloadPlace(origin: origin, path: "/"))
    }

    /// The place, as far as it is known without a request.
    private func place(of hosts: KodoHosts?) -> DownloadPlace? {
        if let domain { return DownloadPlace(origin: domain, path: "/") }
        if let origin = hosts?.download.first { return DownloadPlace(origin: origin, path: "/") }
        guard settings.endpoint != nil, let origin = hosts?.io.first else { return nil }
        let accessKey = learned.withLock { $0.credentials?.accessKeyID } ?? ""
        return DownloadPlace(
            origin: origin, path: "/getfile/\(PercentEncoding.encode(accessKey))/\(PercentEncoding.encode(bucket))/")
    }

    private func learn(_ place: DownloadPlace) -> DownloadPlace {
        learned.withLock { $0.place = place }
        return place
    }

    private func skipHost(of service: KodoService) { learned.withLock { $0.skipped[service, default: 0] += 1 } }

    // MARK: Corrections

    /// Learns from an error what the next try needs; false when there is nothing to learn.
    private func correct(
        _ error: ObjectStoreError, _ response: HTTPResponse, _ service: KodoService, with used: Credentials
    ) async throws(ObjectStoreError) -> Bool {
        switch error.kind {
        case .clockSkew: return learnClock(response, tolerance: .zero)
        case .credentialsExpired:
            // Each request has a token of its own, which expires by the server's clock.
            _ = learnClock(response, tolerance: .seconds(60))
            _ = try await credentials.replace(used, after: .named)
            return true
        case .credentialsRejected: return try await credentials.replace(used, after: .named)
        case .accessDenied: return (try? await credentials.replace(used, after: .unexplained)) ?? false
        case .wrongRegion:
            let right = KodoErrors.rightHost(error).flatMap { HTTPOrigin(authority: $0, isSecure: isSecure) }
            learned.withLock { learned in
                if let right, service == .up { learned.hosts?.up = [right] } else { learned.hosts = nil }
            }
            return settings.endpoint != nil || settings.region == nil || right != nil
        default: return false
        }
    }

    /// Takes over the server's clock when it differs from the signed time by more than `tolerance`.
    private func learnClock(_ response: HTTPResponse, tolerance: Duration) -> Bool {
        let now = time.now()
        return learned.withLock { $0.clock.learn(response, now: now, tolerance: tolerance) }
    }

    // MARK: Without a request

    /// A URL for reading the object, once the place is known from a request. Of the answer's headers it can set only the file
    /// name for a browser (`attname`).
    func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String {
        let key = request.key
        guard request.use == .get else {
            throw .lacking(.presign, key, "URLs to upload with; uploads need a token in a form")
        }
        var query = request.process.map { [PercentEncoding.encode($0, keepingSlash: true)] } ?? []
        if let name = try AttachmentName.of(request) { query.append("attname=\(PercentEncoding.encode(name))") }
        let (known, hosts, credentials) = learned.withLock { ($0.place, $0.hosts, $0.credentials) }
        guard let place = known ?? place(of: hosts), let credentials else {
            throw ObjectStoreError(
                .notSupported, .presign, key: key,
                message: "the domain to read from is not known before the first request")
        }
        let path = place.path + PercentEncoding.encode(key.bytes, keepingSlash: true)
        let url = "\(place.origin)\(path)" + (query.isEmpty ? "" : "?" + query.joined(separator: "&"))
        return KodoSigner(credentials).download(url, until: now() + request.lifetime)
    }
}
