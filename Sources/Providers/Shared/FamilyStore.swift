package import Basics
import Digests
package import HTTP
package import ObjectStorage
import Synchronization

/// A bucket of a store with Amazon S3's protocol or a similar one, driven by a profile.
///
/// Holds no object data. Locks: facts learnt while it runs (the bucket's region, the server's clock, the listing version that
/// works, how the server treats conditions) are in its mutex, a leaf, and live as long as the mount. Sends each request once;
/// only a wrong region, a wrong clock and refused credentials are corrected here, once each and for each credentials, because
/// they need a new signature.
package final class FamilyStore: ObjectStore {
    package struct Settings: Sendable {
        /// nil for the service itself, which lists buckets and nothing else.
        package var bucket: String?
        package var profile: FamilyProfile
        /// URL or host of the store; nil is the provider's own host of the region.
        package var endpoint: String?
        package var region: String?
        package var addressing: FamilyProfile.Addressing?
        /// nil takes the profile's.
        package var signer: (any RequestSigner)?
        package var storageClass = NewObjectClass()
        /// Canned ACL of new objects.
        package var acl: String?
        /// Whether an object that is replaced, copied or renamed keeps its ACL, unless `acl` is set; costs one more request.
        package var keepsACL: Bool
        /// How the store encrypts new objects (`AES256`, `aws:kms`, `KMS`, `cos/kms`), with which key, in which context.
        package var encryption: String?
        package var encryptionKey: String?
        package var encryptionContext: String?
        /// 32 bytes in base64, the key with which the store encrypts and which it does not keep (SSE-C): every read must send
        /// it.
        package var customerKey: Secret?
        /// Bits a second of one transfer.
        package var trafficLimit: Int?
        /// Whether checksums from the store, ETags that are an MD5 among them, are compared with the bytes, on top of lengths.
        package var verifiesChecksums = true
        /// Whether redirects are followed, to hosts of the provider only.
        package var followsRedirects = false
        /// Whether every request says that its sender pays for it.
        package var requesterPays = false
        /// A request of the store to an application's server for each uploaded file; only OSS has it.
        package var callback: UploadPolicy.Callback?
        /// Headers of every request; they are signed.
        package var headers: [(name: String, value: String)] = []
        /// Called once for each quirk of the server, from the request that met it.
        package var onQuirk: (@Sendable (StoreQuirk) -> Void)?

        package init(bucket: String?, _ profile: FamilyProfile) {
            (self.bucket, self.profile) = (bucket, profile)
            keepsACL = profile.restatesACL
        }
    }

    struct Learned: Sendable {
        /// nil until the store has returned it, where nothing else determines it.
        var region: String?
        var endpoint: FamilyEndpoint
        var clock = ServerClock()
        var list: FamilyProfile.ListVersion
        /// nil until it was requested.
        var hasVersions: Bool?
        /// The bucket's capabilities, which may differ from those of the profile.
        var capabilities: Capabilities
        var conduct = Conduct()
        /// For presigning, which cannot wait for a renewal.
        var credentials: Credentials?
        /// The results of recent HEAD requests.
        var looks = LRU<ObjectKey, Look>(capacity: 64)
    }

    let profile: FamilyProfile
    let settings: Settings
    let signer: any RequestSigner
    let errors: FamilyErrors
    let documents: FamilyDocuments
    let engine: HTTPEngine
    let credentials: any CredentialsProvider
    let time: any TimeSource
    let learned: Mutex<Learned>

    /// Throws when endpoint or settings cannot be used; sends no request.
    package init(
        _ settings: Settings, credentials: any CredentialsProvider, engine: HTTPEngine, time: any TimeSource
    ) throws(ObjectStoreError) {
        let profile = settings.profile
        (self.settings, self.profile) = (settings, profile)
        (self.credentials, self.engine, self.time) = (credentials, engine, time)
        signer = settings.signer ?? profile.signer
        errors = FamilyErrors(profile: profile, hasCustomerKey: settings.customerKey != nil)
        documents = FamilyDocuments(
            plusIsSpace: profile.plusIsSpace, encodesTokens: profile.encodesTokens,
            standardClass: profile.standardClass)
        let rules = profile.endpoints
        let place =
            settings.endpoint ?? (settings.bucket == nil && settings.region == nil ? rules.everyRegion : nil)
        let told = place.flatMap { rules.region(ofHost: FamilyEndpoint.host(of: $0)) }
        let region = settings.region ?? told ?? profile.region
        let endpoint = try FamilyEndpoint(
            settings.endpoint, bucket: settings.bucket, region: region, addressing: settings.addressing,
            profile: profile)
        learned = Mutex(
            Learned(region: region, endpoint: endpoint, list: profile.list, capabilities: profile.capabilities))
        try checkSettings(endpoint)
    }

    package var capabilities: Capabilities { learned.withLock { $0.capabilities } }

    // MARK: One request

    /// The parts of a request before it is signed.
    struct Call {
        var operation: ObjectStoreError.Operation
        var method: HTTPMethod
        var key: ObjectKey?
        var query: [QueryItem] = []
        var headers = HTTPHeaders()
        var payload = SignedRequest.Payload.empty
        var isSigned = true
        /// Most bytes of an answer that is a document.
        var collectLimit = 1 << 20

        init(_ operation: ObjectStoreError.Operation, _ method: HTTPMethod, _ key: ObjectKey? = nil) {
            (self.operation, self.method, self.key) = (operation, method, key)
        }
    }

    /// Sends the call and returns a successful answer; throws for any other, also for an error document in a 200.
    func send(
        _ call: Call, body: (any ByteSource)? = nil, sink: (any ByteSink)? = nil,
        use: @escaping @Sendable (HTTPResponse) -> BodyUse = { $0.isSuccess ? .deliver : .collect }
    ) async throws(ObjectStoreError) -> HTTPResponse {
        var corrected: Set<Correction> = []
        while true {
            let region = learned.withLock { $0.region }
            let (response, current) = try await exchange(call, body, sink, use)
            let document = errors.document(response)
            if response.isSuccess, document == nil || document.map({ isOfCallback(response, $0) }) == true {
                if call.method == .put || call.method == .post { learned.withLock { $0.conduct.refusesWrites = false } }
                // A successful delete has no document: a web page comes from a gateway, whatever its status.
                let begin = call.method == .delete ? response.body.first { $0 > UInt8(ascii: " ") } : nil
                guard begin != UInt8(ascii: "<") else { throw malformed(call, response, "the answer is a web page") }
                return response
            }
            var error = errors.error(response, call.operation, call.key, document: document)
            error.isOfVersion = namesVersion(call)
            // COS misses a delete marker that is named by its version.
            if error.kind == .notFound, error.isOfVersion,
                response.headers[profile.header("delete-marker")] == "true"
            {
                error = error.ofDeleteMarker
            }
            if error.kind == .metadataTooLarge { learnMetadataLimit(error) }
            if error.kind == .accessDenied, [.put, .createUpload, .uploadPart].contains(error.operation) {
                learned.withLock { $0.conduct.refusesWrites = true }
            }
            guard corrected.insert(Correction(error.kind, current)).inserted, corrected.count <= Correction.most,
                try await correct(error, response, document, signedFor: region, with: current)
            else { throw error }
            sink?.restart()
        }
    }

    private func exchange(
        _ call: Call, _ body: (any ByteSource)?, _ sink: (any ByteSink)?,
        _ use: @escaping @Sendable (HTTPResponse) -> BodyUse
    ) async throws(ObjectStoreError) -> (HTTPResponse, Credentials?) {
        let current = call.isSigned ? try await credentials.current() : nil
        var signer = self.signer
        if current != nil, signer.needsRegion, learned.withLock({ $0.region }) == nil {
            if settings.bucket != nil {
                try await locate()
            } else if let locator = profile.locator {
                // The service itself has no region that it could return.
                signer = locator
            }
        }
        return (try await exchange(call, signer: signer, current, body, sink, use), current)
    }

    private func exchange(
        _ call: Call, signer: any RequestSigner, _ current: Credentials?, _ body: (any ByteSource)? = nil,
        _ sink: (any ByteSink)? = nil,
        _ use: @escaping @Sendable (HTTPResponse) -> BodyUse = { _ in .collect }
    ) async throws(ObjectStoreError) -> HTTPResponse {
        let learned = self.learned.withLock { learned in
            if call.isSigned { learned.credentials = current }
            return learned
        }
        var headers = call.headers
        if settings.requesterPays { headers[profile.header(Self.payer)] = Self.requester }
        for header in settings.headers { headers[header.name] = header.value }
        headers["Host"] = learned.endpoint.origin.authority
        let signed = signedRequest(call.method, call.key, call.query, call.payload, learned)
        if let current { signer.sign(&headers, signed, with: current) }
        let query = call.query.sorted().map(\.text).joined(separator: "&")
        let target = query.isEmpty ? signed.path : "\(signed.path)?\(query)"
        var request = HTTPRequest(call.method, learned.endpoint.origin, target: target, headers: headers)
        request.stallTimeout = Self.patience(with: call.operation)
        request.collectLimit = call.collectLimit
        request.expectsRefusal = learned.conduct.refusesWrites && body.map { $0.count > Self.cheapBody } ?? false
        do { return try await engine.execute(request, body: body, sink: sink, bodyUse: use) } catch {
            throw FamilyErrors.error(error, call.operation, call.key)
        }
    }

    /// Amazon S3 User Guide, "Using Requester Pays buckets"; OSS, "Pay-by-requester".
    private static let (payer, requester) = ("request-payer", "requester")

    /// Most bytes of a body that is sent without waiting for a possible refusal.
    private static let cheapBody: Int64 = 64 << 10

    private func signedRequest(
        _ method: HTTPMethod, _ key: ObjectKey?, _ query: [QueryItem], _ payload: SignedRequest.Payload,
        _ learned: Learned
    ) -> SignedRequest {
        SignedRequest(
            method, host: learned.endpoint.origin.authority, path: learned.endpoint.path(key),
            bucket: settings.bucket, key: key, query: query, payload: payload, region: learned.region ?? "",
            at: time.now() + learned.clock.offset)
    }

    /// Requests the bucket's region from the store, with a signature that does not need it (OSS, "Regions and endpoints").
    private func locate() async throws(ObjectStoreError) {
        var call = Call(.checkAccess, .get)
        call.query = [QueryItem("location")]
        guard let locator = profile.locator, settings.bucket != nil else {
            throw ObjectStoreError(
                .invalidRequest, .checkAccess, code: "NoRegion",
                message: "\(profile.name) requests are signed for a region; set region=")
        }
        let response = try await exchange(call, signer: locator, try await credentials.current())
        let document = errors.document(response)
        guard response.isSuccess, document == nil else {
            let error = errors.error(response, call.operation, nil, document: document)
            // Some stores refuse any request signed without a region, and none refuses it for that reason alone.
            guard [.accessDenied, .invalidRequest, .notSupported].contains(error.kind) else { throw error }
            throw ObjectStoreError(
                error.kind, .checkAccess, status: error.status, code: error.code,
                message: "the store does not return the bucket's region (\(error.message)); set region=",
                requestID: error.requestID)
        }
        let text = try read(call, response) { body throws(XMLError) in try FamilyDocuments.rootText(body) }
        let region = text.hasPrefix(profile.locationPrefix) ? text.dropFirst(profile.locationPrefix.count) : text[...]
        guard !region.isEmpty else { throw malformed(call, response, "the answer has no location") }
        learned.withLock { $0.region = String(region) }
    }

    /// How long the store may take without an answer for such an operation; nil takes the engine's limit.
    private static func patience(with operation: ObjectStoreError.Operation) -> Duration? {
        switch operation {
        case .copy, .uploadPartCopy, .completeUpload, .updateMetadata: .seconds(300)
        default: nil
        }
    }

    // MARK: Requests without an object

    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        var call = Call(.checkAccess, .get)
        call.query = [QueryItem("max-keys", "1")]
        // A policy may allow listings below one prefix only.
        if !prefix.isEmpty { call.query.append(QueryItem("prefix", prefix)) }
        if learned.withLock({ $0.list }) == .two { call.query.append(QueryItem("list-type", "2")) }
        let response: HTTPResponse
        do throws(ObjectStoreError) { response = try await send(call) } catch {
            guard error.kind == .notSupported, learned.withLock({ $0.list }) == .two else { throw error }
            learned.withLock { $0.list = .one }
            return try await checkAccess(below: prefix)
        }
        _ = try read(call, response) { [documents] body throws(XMLError) in try documents.list(body) }
        if let region = response.headers[profile.header("bucket-region")], !region.isEmpty {
            learned.withLock { $0.region = $0.region ?? region }
        }
        if case .header = profile.createOnly { _ = try await learnVersioning() }
    }

    /// The bucket's region; nil where the store does not return it. If it is not known yet, a listing with the prefix `key`
    /// shows it.
    func region(listing key: ObjectKey) async throws(ObjectStoreError) -> String? {
        if let region = learned.withLock({ $0.region }) { return region }
        try await checkAccess(below: key.bytes)
        return learned.withLock { $0.region }
    }

    /// Whether the bucket has or had versioning; requested once.
    func hasVersions() async throws(ObjectStoreError) -> Bool {
        if let known = learned.withLock({ $0.hasVersions }) { return known }
        return try await learnVersioning()
    }

    private func learnVersioning() async throws(ObjectStoreError) -> Bool {
        let hasVersions = try await askForVersions()
        learn(hasVersions: hasVersions)
        return hasVersions
    }

    /// Where a header creates objects, it has no effect in a bucket with versions.
    func learn(hasVersions: Bool) {
        learned.withLock { learned in
            learned.hasVersions = hasVersions
            guard case .header = profile.createOnly else { return }
            learned.capabilities.putIfAbsent = profile.capabilities.putIfAbsent && !hasVersions
        }
    }

    private func askForVersions() async throws(ObjectStoreError) -> Bool {
        var call = Call(.checkAccess, .get)
        call.query = [QueryItem("versioning")]
        let response: HTTPResponse
        do throws(ObjectStoreError) { response = try await send(call) } catch {
            // Without permission the rule is used: an object that is overwritten in such a bucket is kept as a version.
            guard error.kind == .accessDenied || error.kind == .notSupported else { throw error }
            return false
        }
        // If the answer is not understood, a HEAD is sent.
        return (try? FamilyDocuments.hasVersions(response.body)) ?? true
    }

    package func presign(_ wanted: PresignRequest) throws(ObjectStoreError) -> String {
        let key = wanted.key
        let learned = self.learned.withLock { $0 }
        guard let credentials = learned.credentials else {
            throw ObjectStoreError(
                .notSupported, .presign, key: key,
                message: "signing a URL needs credentials; set PAILFS_ACCESS_KEY_ID and PAILFS_SECRET_ACCESS_KEY")
        }
        if let longest = signer.longestLifetime, wanted.lifetime > longest {
            throw ObjectStoreError(
                .invalidRequest, .presign, key: key,
                message: "a signed URL of this store works for \(longest.components.seconds / 86_400) days at most")
        }
        var query = wanted.overrides.map { QueryItem("response-\($0.rawValue)", $1) }
        if let process = wanted.process {
            switch profile.processing {
            case .parameter(let name): query.append(QueryItem(name, process))
            case .names:
                query += process.split(separator: "&").map { item in
                    let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(
                        String.init)
                    return QueryItem(pair[0], pair.count > 1 ? pair[1] : "")
                }
            case nil: throw .lacking(.presign, key, "processing of objects")
            }
        }
        // A parameter, as no header is signed.
        if settings.requesterPays { query.append(QueryItem(profile.header(Self.payer), Self.requester)) }
        let request = signedRequest(wanted.use == .put ? .put : .get, key, query, .unsigned, learned)
        query = signer.presign(request, with: credentials, lifetime: wanted.lifetime)
        return "\(learned.endpoint.origin)\(request.path)?\(query.map(\.text).joined(separator: "&"))"
    }

    // MARK: Answers

    /// Parses a document, or throws an error that it is malformed.
    func read<Value>(
        _ call: Call, _ response: HTTPResponse, _ body: ([UInt8]) throws(XMLError) -> Value
    ) throws(ObjectStoreError) -> Value {
        do { return try body(response.body) } catch {
            throw malformed(call, response, "the answer is not valid XML: \(error)", isFinal: error.isFinal)
        }
    }

    /// `isFinal`: a retry would get the same answer.
    func malformed(
        _ call: Call, _ response: HTTPResponse, _ reason: String, isFinal: Bool = false
    ) -> ObjectStoreError {
        ObjectStoreError(
            .malformedAnswer, call.operation, key: call.key, status: response.status,
            code: isFinal ? ObjectStoreError.unusableAnswer : "MalformedAnswer",
            message: reason, requestID: errors.requestID(response))
    }

    func integrity(_ call: Call, _ response: HTTPResponse, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(
            .integrity, call.operation, key: call.key, status: response.status, code: "ChecksumMismatch",
            message: reason, requestID: errors.requestID(response))
    }
}
