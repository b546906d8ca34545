import Basics

/// Versions: S3, OSS and COS have the same documents for them, and headers that differ by their prefix.
extension FamilyDialect {
    func bucketVersioning(_ call: Call) throws(Failure) -> ServerResponse {
        let versioning = try bucket(call).record.versioning
        return xml("VersioningConfiguration") { xml in
            if let versioning { xml.element("Status", versioning.rawValue) }
        }
    }

    func setBucketVersioning(_ call: Call, _ document: [UInt8]) throws(Failure) -> ServerResponse {
        let bucket = try bucket(call)
        guard let root = XMLReader.parse(document), root.name == "VersioningConfiguration",
            let versioning = root.text("Status").flatMap(Versioning.init(rawValue:))
        else { throw .malformedXML }
        try Failure.storing { () throws(StorageError) in try bucket.setVersioning(versioning) }
        return ServerResponse(status: 200)
    }

    /// The version that a request names.
    static func versionID(_ request: ServerRequest) -> String? {
        request.parameter("versionId").flatMap { $0.isEmpty ? nil : $0 }
    }

    /// `version` of `key`, or its latest. A delete marker has no bytes: as the latest it is a missing key, by its ID a
    /// method that is not allowed, at COS a missing key as well, and the answers name it.
    func object(_ key: ByteString, version: String?, in bucket: Bucket) throws(Failure) -> StoredObject {
        guard let version else {
            do { return try bucket.object(key) } catch {
                var failure = Failure(error)
                if case .noSuchKey = error, let marker = bucket.latestMarker(of: key) {
                    failure.headers += Self.headers(ofMarker: marker)
                }
                throw failure
            }
        }
        guard let found = bucket.version(version, of: key) else {
            throw version == VersionRecord.null && !bucket.keepsVersions ? Failure(.noSuchKey) : Self.noSuchVersion
        }
        guard !found.isDeleteMarker else {
            if Self.missesMarkers {
                var failure = Failure(.noSuchKey)
                failure.headers += Self.headers(ofMarker: found)
                throw failure
            }
            throw Failure(
                405, "MethodNotAllowed", "The specified method is not allowed against this resource.",
                headers: Self.headers(ofMarker: found) + [Field("Last-Modified", found.record.modified.httpDate)])
        }
        return found
    }

    private static func headers(ofMarker marker: StoredObject) -> [Field] {
        [Field("\(headerPrefix)delete-marker", "true"), Field("\(headerPrefix)version-id", marker.versionID)]
    }

    /// The header of an answer about `object`; none in a bucket that never kept versions.
    static func versionHeaders(_ object: StoredObject, in bucket: Bucket) -> [Field] {
        bucket.keepsVersions ? [Field("\(headerPrefix)version-id", object.versionID)] : []
    }

    /// The header of an answer to a write that made `record`.
    static func versionHeaders(_ record: ObjectRecord) -> [Field] {
        record.version.map { [Field("\(headerPrefix)version-id", $0.id)] } ?? []
    }

    /// The headers of an answer to a copy that read the version `id` of an object in `bucket`.
    static func sourceHeaders(_ source: StoredObject, in bucket: Bucket) -> [Field] {
        bucket.keepsVersions ? [Field("\(headerPrefix)copy-source-version-id", source.versionID)] : []
    }

    /// A bucket that never kept versions has only the version `null`.
    static func check(version: String?, in bucket: Bucket) throws(Failure) {
        guard version == nil || version == VersionRecord.null || bucket.keepsVersions else { throw noSuchVersion }
    }

    static func headers(of removal: Bucket.Removal) -> [Field] {
        let marker = removal.isMarker ? [Field("\(headerPrefix)delete-marker", "true")] : []
        return marker + (removal.versionID.map { [Field("\(headerPrefix)version-id", $0)] } ?? [])
    }

    /// The versions and delete markers of a page; `describe` writes what a version says besides, `owner` the owner of a
    /// delete marker.
    static func write(
        _ page: VersionPage, _ names: NameCoding, _ xml: inout XMLWriter,
        describe: (StoredObject, inout XMLWriter) -> Void, owner: (inout XMLWriter) -> Void
    ) {
        for case .entry(let key, let version) in page.listing.items {
            let object = version.object
            xml.element(object.isDeleteMarker ? "DeleteMarker" : "Version") { xml in
                xml.element("Key", names.encode(key))
                xml.element("VersionId", object.versionID)
                xml.element("IsLatest", version.isLatest)
                guard object.isDeleteMarker else { return describe(object, &xml) }
                xml.element("LastModified", object.record.modified.documentTime)
                owner(&xml)
            }
        }
    }
}

extension XMLWriter {
    /// Where the next page of versions starts; nothing on the last page.
    mutating func nextMarkers(of page: VersionPage, _ names: NameCoding) {
        guard let next = page.listing.next else { return }
        element("NextKeyMarker", names.encode(next))
        element("NextVersionIdMarker", page.nextVersion ?? VersionRecord.null)
    }

    /// Adds the delete marker that a deletion has made or deleted, after the key and the version of the request.
    mutating func outcome(of removal: Bucket.Removal) {
        guard removal.isMarker, let marker = removal.versionID else { return }
        element("DeleteMarker", true)
        element("DeleteMarkerVersionId", marker)
    }
}

extension ServerRequest {
    /// The version behind which a page of versions starts.
    var versionMarker: String? { parameter("version-id-marker").flatMap { $0.isEmpty ? nil : $0 } }
}
