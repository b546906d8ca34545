package import Basics
import Digests
package import HTTP
package import ObjectStorage
import Synchronization

/// A bucket of a store that speaks Amazon S3's protocol or one of its shape, driven by a profile.
///
/// Holds no object data. What it learns while it runs (the bucket's region, the server's clock, a listing version that
/// works, how the server treats conditions) is in its mutex, a leaf, and lives as long as the mount. Makes each request once; only a wrong region, a wrong
/// clock and refused credentials are corrected here, once each and for each credentials, because they need the signature
/// made anew.
package final class FamilyStore: ObjectStore {
    package struct Settings: Sendable {
        /// nil for the service itself, which lists buckets and nothing else.
        package var bucket: String?
        package var profile: FamilyProfile
        /// URL or host of the store; nil is the provider's own of the region.
        package var endpoint: String?
        package var region: String?
        package var addressing: FamilyProfile.Addressing?
        /// nil signs as the profile does.
        package var signer: (any RequestSigner)?
        /// Class of new objects; nil leaves it to the store.
        package var storageClass: String?
        /// Canned ACL of new objects.
        package var acl: String?
        /// An object that is replaced, copied or renamed keeps its ACL, unless there is an `acl`; one request more.
        package var keepsACL: Bool
        /// How the store encrypts new objects (`AES256`, `aws:kms`, `KMS`, `cos/kms`), with which key, in which context.
        package var encryption: String?
        package var encryptionKey: String?
        package var encryptionContext: String?
        /// 32 bytes in base64 that the store encrypts with and forgets (SSE-C): needed again for every read.
        package var customerKey: Secret?
        /// Bits a second of one transfer.
        package var trafficLimit: Int?
        /// Compare the checksums that the store tells, ETags that are an MD5 among them, with the bytes, on top of lengths.
        package var verifiesChecksums = true
        /// Ask again where the store points to, if that is a host of the provider's own.
        package var followsRedirects = false
        /// Sent with every request, and signed.
        package var headers: [(name: String, value: String)] = []
        /// Called once for each quirk of the server, from the request that met it.
        package var onQuirk: (@Sendable (StoreQuirk) -> Void)?

        package init(bucket: String?, _ profile: FamilyProfile) {
            (self.bucket, self.profile) = (bucket, profile)
            keepsACL = profile.restatesACL
        }
    }

    struct Learned: Sendable {
        /// nil until the store has told it, where nothing else does.
        var region: String?
        var endpoint: FamilyEndpoint
        var clock = ServerClock()
        var list: FamilyProfile.ListVersion
        /// nil until somebody wanted to know, where it matters.
        var hasVersions: Bool?
        /// What the bucket can do, as far as it is another thing than what the store can.
        var capabilities: Capabilities
        var conduct = Conduct()
        /// For presigning, which cannot wait for new ones.
        var credentials: Credentials?
        /// What HEAD requests have just told.
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

    /// Throws when endpoint or settings cannot be used; asks nobody anything yet.
    package init(
        _ settings: Settings, credentials: any CredentialsProvider, engine: HTTPEngine, time: any TimeSource
    ) throws(ObjectStoreError) {
        let profile = settings.profile
        (self.settings, self.profile) = (settings, profile)
        (self.credentials, self.engine, self.time) = (credentials, engine, time)
        signer = settings.signer ?? profile.signer
        errors = FamilyErrors(profile: profile)
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

    /// What one request is made of, before it is signed.
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

    /// Sends the call and returns a successful answer; every other one is thrown, a 200 with the document of an error too.
    func send(
        _ call: Call, body: (any ByteSource)? = nil, sink: (any ByteSink)? = nil,
        use: @escaping @Sendable (HTTPResponse) -> BodyUse = { $0.isSuccess ? .deliver : .collect }
    ) async throws(ObjectStoreError) -> HTTPResponse {
        var corrected: Set<Correction> = []
        while true {
            let region = learned.withLock { $0.region }
            let (response, current) = try await exchange(call, body, sink, use)
            let document = errors.document(response)
            if response.isSuccess, document == nil {
                if call.method == .put || call.method == .post { learned.withLock { $0.conduct.refusesWrites = false } }
                // What removes something has nothing to tell when it is done: a page is a gateway's, whatever its status.
                let begin = call.method == .delete ? response.body.first { $0 > UInt8(ascii: " ") } : nil
                guard begin != UInt8(ascii: "<") else { throw malformed(call, response, "the answer is a web page") }
                return response
            }
            let error = errors.error(response, call.operation, call.key, document: document)
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
                // The service itself is in no region that it could tell.
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

    /// Bytes that may be sent for nothing.
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

    /// Asks the store for the bucket's region, signed in the way that does not need it (oss.md section 1).
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
            // Who signs for no region is refused by some stores whatever he asks, and by none for that reason alone.
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

    /// How long the store may be silent over work of its own; nil takes the engine's limit.
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
        // A policy may allow listings below a prefix and no other.
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

    /// The bucket's region; nil where the store does not tell. Where it is not known yet, a listing that begins with `key` tells it.
    func region(listing key: ObjectKey) async throws(ObjectStoreError) -> String? {
        if let region = learned.withLock({ $0.region }) { return region }
        try await checkAccess(below: key.bytes)
        return learned.withLock { $0.region }
    }

    /// Whether the bucket has or had versions; the same.
    func hasVersions() async throws(ObjectStoreError) -> Bool {
        if let known = learned.withLock({ $0.hasVersions }) { return known }
        return try await learnVersioning()
    }

    private func learnVersioning() async throws(ObjectStoreError) -> Bool {
        let hasVersions = try await askForVersions()
        learned.withLock { learned in
            learned.hasVersions = hasVersions
            learned.capabilities.putIfAbsent = profile.capabilities.putIfAbsent && !hasVersions
        }
        return hasVersions
    }

    private func askForVersions() async throws(ObjectStoreError) -> Bool {
        var call = Call(.checkAccess, .get)
        call.query = [QueryItem("versioning")]
        let response: HTTPResponse
        do throws(ObjectStoreError) { response = try await send(call) } catch {
            // Whoever may not ask goes by the rule; what is overwritten in such a bucket is kept as a version.
            guard error.kind == .accessDenied || error.kind == .notSupported else { throw error }
            return false
        }
        // Whoever does not know looks.
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
        let request = signedRequest(wanted.use == .put ? .put : .get, key, query, .unsigned, learned)
        query = signer.presign(request, with: credentials, lifetime: wanted.lifetime)
        return "\(learned.endpoint.origin)\(request.path)?\(query.map(\.text).joined(separator: "&"))"
    }

    // MARK: Answers

    /// Reads a document, or says that it cannot be understood.
    func read<Value>(
        _ call: Call, _ response: HTTPResponse, _ body: ([UInt8]) throws(XMLError) -> Value
    ) throws(ObjectStoreError) -> Value {
        do { return try body(response.body) } catch {
            throw malformed(call, response, "the answer is not valid XML: \(error)", isFinal: error.isFinal)
        }
    }

    /// `isFinal` says that the next answer would be the same.
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
