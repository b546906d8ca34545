package import Basics

/// The part of a bucket below a prefix, as a bucket of its own: the prefix is added to the keys of requests and removed from
/// those of answers.
package struct PrefixedStore: ObjectStore {
    private let base: any ObjectStore
    private let prefix: ByteString

    /// `prefix` ends with a slash.
    package init(_ base: any ObjectStore, prefix: ByteString) {
        (self.base, self.prefix) = (base, prefix)
    }

    package var capabilities: Capabilities {
        var capabilities = base.capabilities
        capabilities.longestKey -= prefix.count
        capabilities.keyRules.refusedFirst = nil
        capabilities.keyRules.reserved = capabilities.keyRules.reserved.flatMap {
            $0.hasPrefix(prefix) ? $0.dropFirst(prefix.count) : nil
        }
        if capabilities.keyRules.longestTried < .max { capabilities.keyRules.longestTried -= prefix.count }
        return capabilities
    }

    private func down(_ key: ObjectKey) -> ObjectKey { ObjectKey(prefix + key.bytes) }
    private func down(_ source: CopySource) -> CopySource {
        source.bucket == nil
            ? CopySource(down(source.key), ifMatch: source.ifMatch, version: source.version) : source
    }

    private func down(_ part: PartRequest) -> PartRequest {
        PartRequest(down(part.key), part.upload, number: part.number)
    }

    private func down(_ request: CopyRequest) -> CopyRequest {
        var request = request
        (request.source, request.key) = (down(request.source), down(request.key))
        request.keeping = request.keeping.map(down)
        return request
    }

    private func down(_ request: PutRequest) -> PutRequest {
        var request = request
        request.key = down(request.key)
        request.keeping = request.keeping.map(down)
        return request
    }

    /// nil for the prefix's own marker, which stands for the mount's top directory.
    private func up(_ key: ObjectKey) -> ObjectKey? {
        key.bytes.count > prefix.count ? ObjectKey(key.bytes.dropFirst(prefix.count)) : nil
    }

    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        var request = request
        request.prefix = prefix + request.prefix
        request.startAfter = request.startAfter.map { prefix + $0 }
        let page = try await base.list(request)
        return ListingPage(
            objects: page.objects.compactMap { object in
                var object = object
                guard let key = up(object.key) else { return nil }
                object.key = key
                return object
            }, commonPrefixes: page.commonPrefixes.compactMap(up), next: page.next)
    }

    package func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo {
        try await base.head(down(key), condition: condition)
    }

    package func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer {
        var request = request
        request.key = down(request.key)
        return try await base.get(request, into: sink)
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await base.checksums(of: down(key), version)
    }

    package func put(_ request: PutRequest, body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer {
        try await base.put(down(request), body: body)
    }

    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        try await base.copy(down(request))
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        try await base.delete(down(key), ifMatch: ifMatch)
    }

    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        try await base.deleteMany(keys.map(down)).map { error in
            var error = error
            error.key = error.key.flatMap(up)
            return error
        }
    }

    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        try await base.createUpload(down(request))
    }

    package func uploadPart(_ part: PartRequest, body: any ByteSource) async throws(ObjectStoreError) -> UploadedPart {
        try await base.uploadPart(down(part), body: body)
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart {
        try await base.uploadPartCopy(down(part), from: down(source), range: range)
    }

    package func listParts(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) -> [UploadedPart] {
        try await base.listParts(down(key), upload)
    }

    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        try await base.listUploads(prefix: self.prefix + prefix).compactMap { upload in
            up(upload.key).map(upload.renamed)
        }
    }

    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await base.completeUpload(down(key), upload, parts: parts, metadata: metadata, condition: condition)
    }

    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {
        try await base.abortUpload(down(key), upload)
    }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await base.updateMetadata(down(key), to: metadata, ifMatch: ifMatch)
    }

    package func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String {
        var request = request
        request.key = down(request.key)
        return try base.presign(request)
    }

    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        try await base.checkAccess(below: self.prefix + prefix)
    }
}

extension PrefixedStore {
    package func accessControl(of key: ObjectKey) async throws(ObjectStoreError) -> AccessControl {
        try await base.accessControl(of: down(key))
    }

    package func setAccessControl(of key: ObjectKey, to access: AccessControl) async throws(ObjectStoreError) {
        try await base.setAccessControl(of: down(key), to: access)
    }

    package func tags(of key: ObjectKey) async throws(ObjectStoreError) -> [String: String] {
        try await base.tags(of: down(key))
    }

    package func setTags(of key: ObjectKey, to tags: [String: String]) async throws(ObjectStoreError) {
        try await base.setTags(of: down(key), to: tags)
    }

    package func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await base.setStorageClass(of: down(key), to: storageClass, ifMatch: ifMatch)
    }

    package func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError) {
        try await base.restore(down(key), request)
    }

    package func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        try await base.move(down(request))
    }

    package func putSymlink(_ request: PutRequest, target: ByteString) async throws(ObjectStoreError) -> PutAnswer {
        try await base.putSymlink(down(request), target: prefix + target)
    }

    package func link(at key: ObjectKey) async throws(ObjectStoreError) -> StoredLink {
        var link = try await base.link(at: down(key))
        if link.target.hasPrefix(prefix) {
            link.target = link.target.dropFirst(prefix.count)
        } else {
            // A target outside the prefix: up by as many directories as the prefix has.
            let up = prefix.bytes.filter { $0 == UInt8(ascii: "/") }.flatMap { _ in Array("../".utf8) }
            link.target = ByteString(up) + link.target
        }
        return link
    }

    package func usage() async throws(ObjectStoreError) -> BucketUsage { try await base.usage() }
    package func changeBucket(_ change: BucketChange) async throws(ObjectStoreError) {
        try await base.changeBucket(change)
    }

    package func preflight(
        _ key: ObjectKey, _ request: PreflightRequest
    ) async throws(ObjectStoreError) -> [PreflightHeader] { try await base.preflight(down(key), request) }

    package func crossOriginRules(for key: ObjectKey) async throws(ObjectStoreError) -> [CrossOriginRule] {
        try await base.crossOriginRules(for: down(key))
    }
}

extension PrefixedStore {
    package func versioning() async throws(ObjectStoreError) -> Versioning { try await base.versioning() }

    package func versioning(of key: ObjectKey) async throws(ObjectStoreError) -> Versioning {
        try await base.versioning(of: down(key))
    }

    package func versions(_ request: VersionsRequest) async throws(ObjectStoreError) -> VersionsPage {
        var request = request
        request.prefix = prefix + request.prefix
        request.startAfter = request.startAfter.map { prefix + $0 }
        var page = try await base.versions(request)
        page.versions = page.versions.compactMap { version in
            guard let key = up(version.key) else { return nil }
            var version = version
            version.key = key
            return version
        }
        page.commonPrefixes = page.commonPrefixes.compactMap(up)
        return page
    }

    package func head(_ key: ObjectKey, version: String) async throws(ObjectStoreError) -> ObjectInfo {
        try await base.head(down(key), version: version)
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion, id: String?
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await base.checksums(of: down(key), version, id: id)
    }

    package func delete(_ key: ObjectKey, version: String) async throws(ObjectStoreError) {
        try await base.delete(down(key), version: version)
    }

    package func restoreVersion(_ key: ObjectKey, _ version: String) async throws(ObjectStoreError) -> PutAnswer {
        try await base.restoreVersion(down(key), version)
    }
}
