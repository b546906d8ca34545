package import Basics
import Digests
import HTTP
package import ObjectStorage

/// Access control, tags, classes, restoring, links and figures (Amazon S3 API, OSS API and COS API).
extension FamilyStore {
    // MARK: Access control

    package func accessControl(of key: ObjectKey) async throws(ObjectStoreError) -> AccessControl {
        try await policy(of: key).access
    }

    private func policy(
        of key: ObjectKey, version: String? = nil
    ) async throws(ObjectStoreError) -> FamilyDocuments.Policy {
        var call = Call(.accessControl, .get, key)
        guard capabilities.accessControl else { throw notSupported(call, "access control lists") }
        call.query = Self.query("acl", version: version)
        let response = try await send(call)
        var policy = try read(call, response) { body throws(XMLError) in try FamilyDocuments.policy(body) }
        // COS has a header that says the list is the bucket's.
        if let canned = response.headers[profile.header("acl")] { policy.access.canned = canned }
        return policy
    }

    /// A canned list is one request; grants are two, as the document must name the owner.
    package func setAccessControl(of key: ObjectKey, to access: AccessControl) async throws(ObjectStoreError) {
        var call = Call(.setAccessControl, .put, key)
        guard capabilities.accessControl else { throw notSupported(call, "access control lists") }
        call.query = [QueryItem("acl")]
        if let canned = access.canned, access.grants.isEmpty {
            guard profile.cannedACLs.isEmpty || profile.cannedACLs.contains(canned) else {
                let known = profile.cannedACLs.sorted().joined(separator: ", ")
                throw invalid(call, "\(canned) is not a canned ACL of \(profile.name); write one of \(known)")
            }
            call.headers[profile.header(profile.aclHeader)] = canned
            _ = try await send(call)
            return
        }
        guard !profile.cannedACL else { throw notSupported(call, "grants for single users") }
        let owner = try await policy(of: key).owner
        let document = FamilyDocuments.policyText(owner: owner, grants: access.grants, xmlns: xmlns)
        _ = try await send(&call, document: document)
    }

    /// Headers that restate an object's own list in a request that would otherwise apply the bucket's.
    func aclHeaders(
        of key: ObjectKey, version: String? = nil
    ) async throws(ObjectStoreError) -> [(name: String, value: String)] {
        guard settings.keepsACL, settings.acl == nil else { return [] }
        let found = try await ifReadable { () async throws(ObjectStoreError) in
            try await policy(of: key, version: version)
        }
        guard let policy = found else { return [] }
        if let canned = policy.access.canned {
            // At Amazon an object without a list of its own is private, regardless of the bucket's list.
            let isDefault = canned == "default" || !profile.restatesACL && canned == "private"
            return isDefault ? [] : [(profile.header(profile.aclHeader), canned)]
        }
        return FamilyDocuments.grantHeaders(
            policy, prefix: profile.header("grant-"), namesOwner: !profile.restatesACL)
    }

    /// Headers that give a new object the tags and the ACL of the object in `request.keeping`.
    func keptHeaders(_ request: PutRequest) async throws(ObjectStoreError) -> [(name: String, value: String)] {
        guard let kept = request.keeping, request.condition != .absent else { return [] }
        return (request.metadata.kept.isTagged ? try await tagHeaders(of: kept) : []) + (try await aclHeaders(of: kept))
    }

    func tagHeaders(
        of key: ObjectKey, version: String? = nil
    ) async throws(ObjectStoreError) -> [(name: String, value: String)] {
        guard capabilities.tags else { return [] }
        let found = try await ifReadable { () async throws(ObjectStoreError) in
            try await tags(of: key, version: version)
        }
        guard let tags = found, !tags.isEmpty else { return [] }
        let text = tags.sorted { $0.key < $1.key }.map { name, value in
            "\(PercentEncoding.encode(name))=\(PercentEncoding.encode(value))"
        }
        return [(profile.header("tagging"), text.joined(separator: "&"))]
    }

    /// nil where the property is missing: credentials for writing an object may not read all of it, and not every server has
    /// it.
    private func ifReadable<Value>(
        _ read: () async throws(ObjectStoreError) -> Value
    ) async throws(ObjectStoreError) -> Value? {
        do throws(ObjectStoreError) { return try await read() } catch {
            switch error.kind {
            case .accessDenied, .notSupported, .notFound: return nil
            default: throw error
            }
        }
    }

    // MARK: Tags

    package func tags(of key: ObjectKey) async throws(ObjectStoreError) -> [String: String] {
        try await tags(of: key, version: nil)
    }

    private func tags(of key: ObjectKey, version: String?) async throws(ObjectStoreError) -> [String: String] {
        var call = Call(.tags, .get, key)
        guard capabilities.tags else { throw notSupported(call, "tags") }
        call.query = Self.query("tagging", version: version)
        let response: HTTPResponse
        do throws(ObjectStoreError) { response = try await send(call) } catch {
            guard error.code == "NoSuchTagSet" || error.code == "NoSuchTagSetError" else { throw error }
            return [:]
        }
        return try read(call, response) { body throws(XMLError) in try FamilyDocuments.tags(body) }
    }

    package func setTags(of key: ObjectKey, to tags: [String: String]) async throws(ObjectStoreError) {
        var call = Call(.setTags, tags.isEmpty ? .delete : .put, key)
        guard capabilities.tags else { throw notSupported(call, "tags") }
        call.query = [QueryItem("tagging")]
        if tags.isEmpty {
            _ = try await send(call)
            return
        }
        var document = "<Tagging\(xmlns)><TagSet>"
        for (name, value) in tags.sorted(by: { $0.key < $1.key }) {
            document += "<Tag><Key>\(XMLText.escape(name))</Key><Value>\(XMLText.escape(value))</Value></Tag>"
        }
        _ = try await send(&call, document: document + "</TagSet></Tagging>")
    }

    // MARK: Classes

    package func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        let call = Call(.setStorageClass, .put, key)
        guard !capabilities.storageClasses.isEmpty else { throw notSupported(call, "storage classes") }
        guard capabilities.storageClasses.contains(storageClass) else {
            let known = capabilities.storageClasses.joined(separator: ", ")
            throw invalid(call, "\(storageClass) is not a storage class of \(profile.name); write one of \(known)")
        }
        let found = try await look(at: key, condition: ifMatch.map { .ifMatch($0) })
        return try await rewrite(key, found, found.info.metadata, storageClass: storageClass)
    }

    package func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError) {
        var call = Call(.restore, .post, key)
        guard capabilities.restore else { throw notSupported(call, "archived objects") }
        call.query = [QueryItem("restore")]
        do throws(ObjectStoreError) {
            guard let days = request.days ?? profile.restoreDays ?? (request.tier == nil ? nil : 1) else {
                _ = try await send(call)
                return
            }
            do throws(ObjectStoreError) { try await restore(call, days, request.tier) } catch {
                guard request.days == nil, error.kind == .invalidRequest else { throw error }
                // An object that Amazon's INTELLIGENT_TIERING has archived is restored for good, and no days may be given
                // (Amazon S3 API, RestoreObject).
                do throws(ObjectStoreError) { try await restore(call, nil, request.tier) } catch let second {
                    throw second.isOfRestoreUnderWay ? second : error
                }
            }
        } catch {
            guard error.isOfRestoreUnderWay else { throw error }
        }
    }

    private func restore(_ call: Call, _ days: Int?, _ tier: String?) async throws(ObjectStoreError) {
        var call = call
        let days = days.map { "<Days>\($0)</Days>" } ?? ""
        let job = tier.map { tier in
            "<\(profile.restoreJob)><Tier>\(XMLText.escape(tier))</Tier></\(profile.restoreJob)>"
        }
        _ = try await send(&call, document: "<RestoreRequest\(xmlns)>\(days)\(job ?? "")</RestoreRequest>")
    }

    // MARK: Links

    package func putSymlink(
        _ request: PutRequest, target: ByteString
    ) async throws(ObjectStoreError) -> PutAnswer {
        var call = Call(.putSymlink, .put, request.key)
        guard capabilities.symlinks else { throw notSupported(call, "symbolic links") }
        call.query = [QueryItem("symlink")]
        call.headers[profile.header("symlink-target")] = PercentEncoding.encode(target, keepingSlash: true)
        add(request.metadata, to: &call.headers)
        call.headers[profile.header("storage-class")] = settings.storageClass.name(request.storageClass, size: 0)
        call.headers[profile.header(profile.aclHeader)] = settings.acl
        try await add(request.condition.map { AskedCondition($0) }, call, to: &call.headers)
        let response = try await send(call)
        guard let etag = response.headers["ETag"] else {
            throw malformed(call, response, "the answer has no ETag")
        }
        return PutAnswer(etag: ETag(etag), versionID: versionID(response))
    }

    package func link(at key: ObjectKey) async throws(ObjectStoreError) -> StoredLink {
        try await link(at: key, version: nil)
    }

    func link(at key: ObjectKey, version: String?) async throws(ObjectStoreError) -> StoredLink {
        var call = Call(.symlinkTarget, .get, key)
        guard capabilities.symlinks else { throw notSupported(call, "symbolic links") }
        call.query = Self.query("symlink", version: version)
        let response = try await send(call)
        guard let text = response.headers[profile.header("symlink-target")], let target = PercentEncoding.decode(text)
        else { throw malformed(call, response, "the answer has no target of a link") }
        var metadata = ObjectMetadata()
        metadata.user = userMetadata(response)
        return StoredLink(
            target: ByteString(target), etag: response.headers["ETag"].map { ETag($0) }, metadata: metadata)
    }

    // MARK: The bucket

    package func usage() async throws(ObjectStoreError) -> BucketUsage {
        var call = Call(.usage, .get)
        guard capabilities.usage else { throw notSupported(call, "object counts of a bucket") }
        call.query = [QueryItem("stat")]
        let response = try await send(call)
        let usage = try read(call, response) { body throws(XMLError) in try FamilyDocuments.usage(body) }
        guard let usage else { throw malformed(call, response, "the answer has no object counts of the bucket") }
        return usage
    }

    /// Unsigned, as browsers send it.
    package func preflight(
        _ key: ObjectKey, _ request: PreflightRequest
    ) async throws(ObjectStoreError) -> [PreflightHeader] {
        var call = Call(.preflight, .options, key)
        call.isSigned = false
        call.headers["Origin"] = request.origin
        call.headers["Access-Control-Request-Method"] = request.method
        if !request.headers.isEmpty {
            call.headers["Access-Control-Request-Headers"] = request.headers.joined(separator: ",")
        }
        let response = try await send(call)
        return response.headers.fields.filter { $0.name.lowercased().hasPrefix("access-control-") }
            .map { PreflightHeader(name: $0.name, value: $0.value) }
    }

    package func crossOriginRules(for key: ObjectKey) async throws(ObjectStoreError) -> [CrossOriginRule] {
        var call = Call(.preflight, .get)
        call.query = [QueryItem("cors")]
        let response = try await send(call)
        return try read(call, response) { body throws(XMLError) in try FamilyDocuments.crossOriginRules(body) }
    }

    /// Sends a document with its checksums.
    func send(_ call: inout Call, document: String) async throws(ObjectStoreError) -> HTTPResponse {
        let body = MemorySource(Array(document.utf8))
        call.headers["Content-Type"] = "application/xml"
        _ = try seal(&call, body)
        return try await send(call, body: body)
    }
}

extension ObjectStoreError {
    /// The requested restore is in progress already.
    fileprivate var isOfRestoreUnderWay: Bool { code == "RestoreAlreadyInProgress" }
}
