import Basics
import HTTP
package import ObjectStorage
import Synchronization

/// Versions of objects (Amazon S3 API, ListObjectVersions; OSS API, "ListObjectVersions"; COS API, "GET Bucket Object
/// versions").
extension FamilyStore {
    package func versioning() async throws(ObjectStoreError) -> Versioning {
        var call = Call(.checkAccess, .get)
        guard capabilities.versions else { throw notSupported(call, "versions of objects") }
        call.query = [QueryItem("versioning")]
        let response = try await send(call)
        let status = try read(call, response) { body throws(XMLError) in try FamilyDocuments.versioning(body) }
        learn(hasVersions: status != .never)
        return status
    }

    package func versions(_ request: VersionsRequest) async throws(ObjectStoreError) -> VersionsPage {
        var call = Call(.versions, .get)
        guard capabilities.versions else { throw notSupported(call, "versions of objects") }
        call.collectLimit = 16 << 20
        call.query = [QueryItem("versions"), QueryItem("prefix", request.prefix)]
        if let delimiter = request.delimiter { call.query.append(QueryItem("delimiter", ByteString([delimiter]))) }
        let limit = request.limit ?? (profile.namesPageSize ? capabilities.listPage : nil)
        if let limit { call.query.append(QueryItem("max-keys", String(limit))) }
        if profile.encodesListings { call.query.append(QueryItem("encoding-type", "url")) }
        if let cursor = request.cursor {
            call.query.append(QueryItem("key-marker", cursor.key))
            if !cursor.version.isEmpty { call.query.append(QueryItem("version-id-marker", cursor.version)) }
        } else if let start = request.startAfter {
            call.query.append(QueryItem("key-marker", start))
        }
        let response = try await send(call)
        let page = try read(call, response) { [documents] body throws(XMLError) in try documents.versions(body) }
        guard page.next == nil || page.next != request.cursor else {
            throw malformed(
                call, response, "the listing does not advance: it is not complete but names the same page again")
        }
        return page
    }

    package func head(_ key: ObjectKey, version: String) async throws(ObjectStoreError) -> ObjectInfo {
        try await look(at: key, version: version).info
    }

    private func look(at key: ObjectKey, version: String) async throws(ObjectStoreError) -> Found {
        guard capabilities.versions else { throw notSupported(Call(.head, .head, key), "versions of objects") }
        do { return try await lookOnce(at: key, version: version, condition: nil) } catch {
            var error = error.ofMissingVersion
            // A HEAD answer may have no document that would name the version.
            if error.kind == .notFound, error.code ?? "NoSuchVersion" == "NoSuchVersion" {
                error.message = "there is no version \(version) of it"
            }
            throw error
        }
    }

    package func delete(_ key: ObjectKey, version: String) async throws(ObjectStoreError) {
        var call = Call(.deleteVersion, .delete, key)
        guard capabilities.versions else { throw notSupported(call, "versions of objects") }
        call.query = [Self.versionItem(version)]
        do { _ = try await send(call) } catch { guard error.kind == .notFound else { throw error } }
    }

    package func restoreVersion(_ key: ObjectKey, _ version: String) async throws(ObjectStoreError) -> PutAnswer {
        if let link = try await linkIfAny(at: key, version) {
            return try await putSymlink(PutRequest(key, metadata: link.metadata), target: link.target)
        }
        let found = try await look(at: key, version: version)
        return try await rewrite(
            key, found, found.info.metadata, storageClass: found.info.storageClass ?? profile.standardClass,
            version: version)
    }

    /// nil where the version is no link. A HEAD and a copy would follow one.
    private func linkIfAny(at key: ObjectKey, _ version: String) async throws(ObjectStoreError) -> StoredLink? {
        guard capabilities.symlinks else { return nil }
        do { return try await link(at: key, version: version) } catch {
            // OSS: NotSymlink.
            guard ![.preconditionFailed, .accessDenied, .notSupported].contains(error.kind) else { return nil }
            throw error
        }
    }

    /// Whether the request reads or copies a version by its ID.
    func namesVersion(_ call: Call) -> Bool {
        call.query.contains { $0.name == "versionId" }
            || call.headers[profile.header("copy-source")]?.contains("?versionId=") == true
    }

    static func versionItem(_ version: String) -> QueryItem { QueryItem("versionId", version) }

    static func query(_ name: String, version: String?) -> [QueryItem] {
        [QueryItem(name)] + (version.map { [versionItem($0)] } ?? [])
    }
}

extension ObjectStoreError {
    /// A delete marker is refused as a method that is not allowed: it has nothing to read.
    var ofMissingVersion: ObjectStoreError {
        kind == .notSupported && status == 405 ? ofDeleteMarker : self
    }

    var ofDeleteMarker: ObjectStoreError {
        var error = self
        (error.kind, error.code) = (.notFound, Self.deleteMarker)
        error.message = "this version is a delete marker, which has no content"
        return error
    }
}
