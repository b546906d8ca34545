package import Basics

/// Requests that change nothing in a listing.
extension OverlaidStore {
    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await base.checksums(of: key, version)
    }

    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        try await base.createUpload(request)
    }

    package func uploadPart(_ part: PartRequest, body: any ByteSource) async throws(ObjectStoreError) -> UploadedPart {
        try await base.uploadPart(part, body: body)
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart {
        try await base.uploadPartCopy(part, from: source, range: range)
    }

    package func listParts(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) -> [UploadedPart] {
        try await base.listParts(key, upload)
    }

    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        try await base.listUploads(prefix: prefix)
    }

    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {
        try await base.abortUpload(key, upload)
    }

    package func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String { try base.presign(request) }

    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        try await base.checkAccess(below: prefix)
    }

    package func accessControl(of key: ObjectKey) async throws(ObjectStoreError) -> AccessControl {
        try await base.accessControl(of: key)
    }

    package func setAccessControl(of key: ObjectKey, to access: AccessControl) async throws(ObjectStoreError) {
        try await base.setAccessControl(of: key, to: access)
    }

    package func tags(of key: ObjectKey) async throws(ObjectStoreError) -> [String: String] {
        try await base.tags(of: key)
    }

    package func setTags(of key: ObjectKey, to tags: [String: String]) async throws(ObjectStoreError) {
        try await base.setTags(of: key, to: tags)
    }

    package func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError) {
        try await base.restore(key, request)
    }

    package func link(at key: ObjectKey) async throws(ObjectStoreError) -> StoredLink {
        try await base.link(at: key)
    }

    package func usage() async throws(ObjectStoreError) -> BucketUsage { try await base.usage() }
    package func changeBucket(_ change: BucketChange) async throws(ObjectStoreError) {
        try await base.changeBucket(change)
    }

    package func preflight(
        _ key: ObjectKey, _ request: PreflightRequest
    ) async throws(ObjectStoreError) -> [PreflightHeader] { try await base.preflight(key, request) }

    package func crossOriginRules(for key: ObjectKey) async throws(ObjectStoreError) -> [CrossOriginRule] {
        try await base.crossOriginRules(for: key)
    }
}

/// Versions: reads are passed on; a change of the latest version is recorded like other writes.
extension OverlaidStore {
    package func versioning() async throws(ObjectStoreError) -> Versioning { try await base.versioning() }

    package func versioning(of key: ObjectKey) async throws(ObjectStoreError) -> Versioning {
        try await base.versioning(of: key)
    }

    package func versions(_ request: VersionsRequest) async throws(ObjectStoreError) -> VersionsPage {
        try await base.versions(request)
    }

    package func head(_ key: ObjectKey, version: String) async throws(ObjectStoreError) -> ObjectInfo {
        try await base.head(key, version: version)
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion, id: String?
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await base.checksums(of: key, version, id: id)
    }

    package func delete(_ key: ObjectKey, version: String) async throws(ObjectStoreError) {
        // Which version is the latest then is not known: the next listing reads the object with HEAD.
        defer { distrust(key.bytes) }
        try await base.delete(key, version: version)
    }

    package func restoreVersion(_ key: ObjectKey, _ version: String) async throws(ObjectStoreError) -> PutAnswer {
        defer { distrust(key.bytes) }
        return try await base.restoreVersion(key, version)
    }
}
