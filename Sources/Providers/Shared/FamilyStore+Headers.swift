import Basics
import Digests
import HTTP
import ObjectStorage
import Synchronization

/// Parts of requests.
extension FamilyStore {
    static func add(_ condition: ReadCondition?, to headers: inout HTTPHeaders) {
        switch condition {
        case .ifMatch(let etag): headers["If-Match"] = "\"\(etag.text)\""
        case .ifNoneMatch(let etag): headers["If-None-Match"] = "\"\(etag.text)\""
        case nil: break
        }
    }

    func add(
        _ asked: AskedCondition?, _ call: Call, to headers: inout HTTPHeaders
    ) async throws(ObjectStoreError) {
        switch asked?.condition {
        case .absent:
            switch profile.createOnly {
            case .ifNoneMatch:
                guard capabilities.putIfAbsent else { throw notSupported(call, "conditional writes of new objects") }
                headers["If-None-Match"] = "*"
            case .header(let name):
                // The header has no effect in a bucket that has or had versioning: a HEAD is needed.
                if try await hasVersions() { try await requireAbsent(call) }
                headers[name] = "true"
            }
        case .match(let etag):
            guard capabilities.putIfMatch else { throw notSupported(call, "conditional overwrites") }
            headers["If-Match"] = asked?.spelling.text(of: etag)
        case nil: break
        }
    }

    private func requireAbsent(_ call: Call) async throws(ObjectStoreError) {
        guard let key = call.key else { return }
        do { _ = try await head(key, condition: nil) } catch {
            if error.kind == .notFound { return }
            throw error
        }
        throw ObjectStoreError(
            .preconditionFailed, call.operation, key: key, code: "FileAlreadyExists",
            message: "the object already exists")
    }

    func add(_ metadata: ObjectMetadata, to headers: inout HTTPHeaders) {
        headers["Content-Type"] = metadata.contentType
        headers["Cache-Control"] = metadata.cacheControl
        headers["Content-Disposition"] = metadata.contentDisposition
        headers["Content-Encoding"] = metadata.contentEncoding
        headers["Content-Language"] = metadata.contentLanguage
        headers["Expires"] = metadata.expires
        for (name, value) in metadata.user.sorted(by: { $0.key < $1.key }) {
            headers[profile.header("meta-\(profile.metadataNames.encode(name))")] = value
        }
    }

    /// `size` is the object's length, where it is known.
    func addNewObject(_ request: PutRequest, size: Int64?, to headers: inout HTTPHeaders) {
        add(request.metadata, to: &headers)
        addDefaults(storageClass: request.storageClass, size: size, to: &headers)
    }

    /// Adds the mount's options for every object that this process writes, copies included: none of them is inherited.
    func addDefaults(storageClass: String?, size: Int64?, to headers: inout HTTPHeaders) {
        headers[profile.header("storage-class")] = settings.storageClass.name(storageClass, size: size)
        headers[profile.header(profile.aclHeader)] = settings.acl
        headers[profile.header("server-side-encryption")] = settings.encryption
        headers[profile.header(profile.encryptionKeyHeader)] = settings.encryptionKey
        if let name = profile.encryptionContextHeader { headers[profile.header(name)] = settings.encryptionContext }
        addCustomerKey(to: &headers)
    }

    /// Restates properties that an object has and a copy loses. The key and the context of the mount's options are dropped with
    /// an encryption other than the mount's.
    func restate(_ headers: [(name: String, value: String)], in call: inout HTTPHeaders) {
        let mode = headers.first { $0.name == profile.header("server-side-encryption") }?.value
        if let mode, mode != settings.encryption {
            call[profile.header(profile.encryptionKeyHeader)] = nil
            if let name = profile.encryptionContextHeader { call[profile.header(name)] = nil }
        }
        for header in headers { call[header.name] = header.value }
    }

    /// The three headers of SSE-C, which every request on such an object needs (COS, "Server-Side Encryption").
    func addCustomerKey(to headers: inout HTTPHeaders, copySource: Bool = false) {
        guard let key = settings.customerKey?.revealed, let bytes = Base64.decode(key) else { return }
        let prefix = profile.header((copySource ? "copy-source-" : "") + "server-side-encryption-customer-")
        headers[prefix + "algorithm"] = "AES256"
        headers[prefix + "key"] = key
        headers[prefix + "key-MD5"] = Base64.encode(MD5.of(bytes))
    }

    func addTrafficLimit(to headers: inout HTTPHeaders) {
        if let limit = settings.trafficLimit { headers[profile.header("traffic-limit")] = String(limit) }
    }

    func addCopySource(
        _ source: CopySource, _ call: Call, to headers: inout HTTPHeaders
    ) async throws(ObjectStoreError) {
        let bucket = PercentEncoding.encode(source.bucket?.name ?? settings.bucket ?? "")
        let key = PercentEncoding.encode(source.key.bytes, keepingSlash: true)
        switch profile.copySource {
        case .path(let start): headers[profile.header("copy-source")] = "\(start)\(bucket)/\(key)"
        case .host:
            let own = source.bucket == nil ? source.key : call.key ?? source.key
            var region = source.bucket?.region
            if region == nil { region = try await self.region(listing: own) }
            guard let region else {
                throw ObjectStoreError(
                    .invalidRequest, call.operation, key: call.key, code: "NoRegion",
                    message: "copies at \(profile.name) need the bucket's region; set region=")
            }
            headers[profile.header("copy-source")] = "\(bucket).\(profile.endpoints.host(region: region))/\(key)"
        }
        if let version = source.version {
            guard capabilities.versions else { throw notSupported(call, "versions of objects") }
            let name = profile.header("copy-source")
            headers[name] = (headers[name] ?? "") + "?versionId=\(PercentEncoding.encode(version))"
        }
        if let etag = source.ifMatch {
            headers[profile.header("copy-source-if-match")] = ETagSpelling.quoted.text(of: etag)
        }
        addCustomerKey(to: &headers, copySource: true)
    }

    /// Adds the body's checksums. Over plain HTTP a small body is signed as well where signatures cover bodies; for a large one
    /// that would take another pass over its bytes.
    func seal(_ call: inout Call, _ body: any ByteSource) throws(ObjectStoreError) -> BodyDigests {
        let isSecure = learned.withLock { $0.endpoint.origin.isSecure }
        let isSigned = signer.coversBody && !isSecure && body.count <= 1 << 20
        let crc: (any Digest)? =
            switch profile.checksum {
            case .none: nil
            case .crc64nvme: CRC64NVME()
            case .crc64ecma: settings.verifiesChecksums ? CRC64ECMA() : nil
            }
        let digests: BodyDigests
        do {
            digests = try BodyDigests(of: body, sha256: isSigned, crc64: crc)
        } catch {
            throw ObjectStoreError(
                .local(errno: error.errno), call.operation, key: call.key, code: "Local", message: error.reason)
        }
        call.headers["Content-MD5"] = Base64.encode(digests.md5)
        if profile.checksum == .crc64nvme, let crc = digests.crc64 {
            call.headers["x-amz-checksum-crc64nvme"] = Base64.encode(crc)
        }
        call.payload = digests.sha256.map { .sha256($0) } ?? .unsigned
        return digests
    }

    /// The namespace attribute of request documents, with a space in front.
    var xmlns: String { profile.namespace.map { " xmlns=\"\($0)\"" } ?? "" }

    func invalid(_ call: Call, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(.invalidRequest, call.operation, key: call.key, code: "InvalidRequest", message: reason)
    }

    func notSupported(_ call: Call, _ what: String) -> ObjectStoreError {
        ObjectStoreError(
            .notSupported, call.operation, key: call.key, code: "NotSupported",
            message: "this store does not support \(what)")
    }
}
