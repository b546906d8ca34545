package import Basics
import Digests
package import HTTP
package import ObjectStorage
import Synchronization

/// A bucket of Amazon S3 or of a store that speaks its protocol, driven by a profile.
///
/// Holds no object data. What it learns while it runs (the bucket's region, the server's clock, a listing version that
/// works) is in its mutex, a leaf, and lives as long as the mount. Makes each request once; only a wrong region, a wrong
/// clock and refused credentials are corrected here, once each, because they need the signature made anew.
package final class S3Store: ObjectStore {
    package struct Settings: Sendable {
        package var bucket: String
        /// URL or host of the store; nil is Amazon's.
        package var endpoint: String?
        package var region: String?
        package var addressing: S3Profile.Addressing?
        /// nil takes the one of the endpoint's host.
        package var profile: S3Profile?
        /// Class of new objects; nil leaves it to the store.
        package var storageClass: String?
        /// Canned ACL of new objects.
        package var acl: String?
        /// Value of `x-amz-server-side-encryption` for new objects, and its KMS key.
        package var encryption: String?
        package var encryptionKey: String?
        /// Sent with every request, and signed.
        package var headers: [(name: String, value: String)] = []

        package init(bucket: String) { self.bucket = bucket }
    }

    struct Learned: Sendable {
        var region: String
        var endpoint: S3Endpoint
        /// What to add to our clock to have the server's.
        var clockOffset = Duration.zero
        var list: S3Profile.ListVersion
        /// For presigning, which cannot wait for new ones.
        var credentials: Credentials?
    }

    package let capabilities: Capabilities
    let profile: S3Profile
    let settings: Settings
    let signer = SigV4Signer()
    let engine: HTTPEngine
    let credentials: any CredentialsProvider
    let time: any TimeSource
    let learned: Mutex<Learned>

    /// Throws when the endpoint cannot be understood; asks nobody anything yet.
    package init(
        _ settings: Settings, credentials: any CredentialsProvider, engine: HTTPEngine, time: any TimeSource
    ) throws(ObjectStoreError) {
        self.settings = settings
        (self.credentials, self.engine, self.time) = (credentials, engine, time)
        let plain = try S3Endpoint(
            settings.endpoint, bucket: settings.bucket, region: settings.region ?? "us-east-1", addressing: .path,
            profile: .generic)
        let profile = settings.profile ?? S3Profile.of(host: plain.origin.host)
        let region = settings.region ?? S3Endpoint.region(ofHost: plain.origin.host) ?? profile.region
        self.profile = profile
        capabilities = profile.capabilities
        let endpoint = try S3Endpoint(
            settings.endpoint, bucket: settings.bucket, region: region, addressing: settings.addressing,
            profile: profile)
        learned = Mutex(Learned(region: region, endpoint: endpoint, list: profile.list))
    }

    // MARK: One request

    /// What one request is made of, before it is signed.
    struct Call {
        var operation: ObjectStoreError.Operation
        var method: HTTPMethod
        var key: ObjectKey?
        var query: [QueryItem] = []
        var headers = HTTPHeaders()
        var payload = SigV4Signer.Payload.empty
        /// Most bytes of an answer that is a document.
        var collectLimit = 1 << 20

        init(_ operation: ObjectStoreError.Operation, _ method: HTTPMethod, _ key: ObjectKey? = nil) {
            (self.operation, self.method, self.key) = (operation, method, key)
        }
    }

    /// Sends the call and returns a successful answer; every other one is thrown.
    func send(
        _ call: Call, body: (any ByteSource)? = nil, sink: (any ByteSink)? = nil,
        use: @escaping @Sendable (HTTPResponse) -> BodyUse = { $0.isSuccess ? .deliver : .collect }
    ) async throws(ObjectStoreError) -> HTTPResponse {
        var corrected: Set<ObjectStoreError.Kind> = []
        while true {
            let region = learned.withLock { $0.region }
            let response = try await exchange(call, body, sink, use)
            if response.isSuccess { return response }
            let document = S3Errors.document(response.body)
            let error = S3Errors.error(response, call.operation, call.key, document: document)
            guard corrected.insert(error.kind).inserted, await correct(error, response, document, region) else {
                throw error
            }
            sink?.restart()
        }
    }

    private func exchange(
        _ call: Call, _ body: (any ByteSource)?, _ sink: (any ByteSink)?,
        _ use: @escaping @Sendable (HTTPResponse) -> BodyUse
    ) async throws(ObjectStoreError) -> HTTPResponse {
        let current = try await credentials.current()
        let learned = self.learned.withLock { learned in
            learned.credentials = current
            return learned
        }
        let path = learned.endpoint.path(call.key)
        var headers = call.headers
        for header in settings.headers { headers[header.name] = header.value }
        headers["Host"] = learned.endpoint.origin.authority
        if let current {
            signer.sign(
                &headers, call.method, path: path, query: call.query, payload: call.payload, with: current,
                region: learned.region, at: time.now() + learned.clockOffset)
        }
        let target = call.query.isEmpty ? path : path + "?" + call.query.sorted().map(\.text).joined(separator: "&")
        var request = HTTPRequest(call.method, learned.endpoint.origin, target: target, headers: headers)
        request.stallTimeout = Self.patience(with: call.operation)
        request.collectLimit = call.collectLimit
        do { return try await engine.execute(request, body: body, sink: sink, bodyUse: use) } catch {
            throw S3Errors.error(error, call.operation, call.key)
        }
    }

    /// How long the store may be silent over work of its own; nil takes the engine's limit.
    private static func patience(with operation: ObjectStoreError.Operation) -> Duration? {
        switch operation {
        case .copy, .uploadPartCopy, .completeUpload, .updateMetadata: .seconds(300)
        default: nil
        }
    }

    /// Learns from an answer what the next try needs; false when nothing can be learned. `used` is the region that the
    /// request was signed for.
    private func correct(
        _ error: ObjectStoreError, _ response: HTTPResponse, _ document: S3Errors.Document?, _ used: String
    ) async -> Bool {
        switch error.kind {
        case .wrongRegion: return learnRegion(response.headers["x-amz-bucket-region"] ?? document?.region, not: used)
        case .clockSkew: return learnClock(response, tolerance: .zero)
        case .accessDenied where document == nil:
            // A HEAD answer does not say that the clock is the reason; servers allow 15 minutes.
            return learnClock(response, tolerance: .seconds(14 * 60))
        case .credentialsExpired:
            credentials.invalidate()
            return true
        case .invalidRequest where response.status == 400 && document == nil:
            // A HEAD answer has no document, but a bucket of another region tells it in a header, or when it is listed.
            if learnRegion(response.headers["x-amz-bucket-region"], not: used) { return true }
            guard error.operation == .head else { return false }
            return (try? await checkAccess()) != nil
        default: return false
        }
    }

    /// Takes the server's clock when it is further than `tolerance` from what was signed.
    private func learnClock(_ response: HTTPResponse, tolerance: Duration) -> Bool {
        guard let server = response.headers["Date"].flatMap({ Timestamp(httpDate: $0) }) else { return false }
        let offset = server - time.now()
        return learned.withLock { learned in
            let error = offset - learned.clockOffset
            guard max(error, .zero - error) > tolerance else { return false }
            learned.clockOffset = offset
            return true
        }
    }

    /// Signs for another region from now on. The host stays, unless it is Amazon's own, whose name holds the region.
    private func learnRegion(_ region: String?, not used: String) -> Bool {
        guard let region, !region.isEmpty, region != used else { return false }
        // Another request may have learned it while this one was under way.
        if learned.withLock({ $0.region }) == region { return true }
        let isAmazons = settings.endpoint.map { S3Profile.of(host: hostPart($0)) == .aws } ?? true
        let endpoint =
            isAmazons
            ? try? S3Endpoint(
                nil, bucket: settings.bucket, region: region, addressing: settings.addressing, profile: profile)
            : learned.withLock { $0.endpoint }
        guard let endpoint else { return false }
        learned.withLock { learned in
            learned.region = region
            learned.endpoint = endpoint
        }
        return true
    }

    private func hostPart(_ endpoint: String) -> String {
        let authority = endpoint.split(separator: "/", omittingEmptySubsequences: true).first {
            !$0.hasSuffix(":")
        }
        return authority.map { String($0.split(separator: ":")[0]) } ?? ""
    }

    // MARK: Requests without an object

    package func checkAccess() async throws(ObjectStoreError) {
        var call = Call(.checkAccess, .get)
        call.query = [QueryItem("list-type", "2"), QueryItem("max-keys", "1")]
        let response = try await send(call)
        _ = try read(call, response) { body throws(XMLError) in try S3Documents.list(body) }
    }

    package func presign(_ key: ObjectKey, lifetime: Duration) throws(ObjectStoreError) -> String {
        let learned = self.learned.withLock { $0 }
        guard let credentials = learned.credentials else {
            throw ObjectStoreError(
                .notSupported, .presign, key: key, message: "anonymous access has nothing to sign with")
        }
        let path = learned.endpoint.path(key)
        let query = signer.presign(
            .get, host: learned.endpoint.origin.authority, path: path, query: [], with: credentials,
            region: learned.region, at: time.now() + learned.clockOffset, lifetime: lifetime)
        return "\(learned.endpoint.origin)\(path)?\(query.map(\.text).joined(separator: "&"))"
    }

    // MARK: Answers

    /// Reads a document, or says that it cannot be understood.
    func read<Value>(
        _ call: Call, _ response: HTTPResponse, _ body: ([UInt8]) throws(XMLError) -> Value
    ) throws(ObjectStoreError) -> Value {
        do { return try body(response.body) } catch {
            throw malformed(call, response, "the answer is no XML that can be read: \(error)")
        }
    }

    func malformed(_ call: Call, _ response: HTTPResponse, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(
            .malformedAnswer, call.operation, key: call.key, status: response.status, code: "MalformedAnswer",
            message: reason, requestID: response.headers["x-amz-request-id"])
    }

    func integrity(_ call: Call, _ response: HTTPResponse, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(
            .integrity, call.operation, key: call.key, status: response.status, code: "ChecksumMismatch",
            message: reason, requestID: response.headers["x-amz-request-id"])
    }
}
