import Basics
import Digests

/// An object as CSSP shows it: a plain one, or a large one put together from its segments (Swift documentation, large objects).
struct CSSPObject {
    let object: StoredObject
    /// Without quotes.
    let etag: String
    let content: Content
    let kind: Kind

    enum Kind {
        case plain
        /// The value of `X-Object-Manifest`.
        case prefixed(String)
        case named(SegmentManifest)
    }

    var size: Int64 { content.size }
    var record: ObjectRecord { object.record }

    var isLarge: Bool {
        if case .plain = kind { return false }
        return true
    }

    /// As headers have it: only of large objects in quotes.
    var etagHeader: String { isLarge ? "\"\(etag)\"" : etag }
}

extension CSSPDialect {
    static let manifestProperty = "cssp-manifest"
    static let segmentsProperty = "cssp-segments"
    static let expiryProperty = "cssp-delete-at"
    static let emptyHash = "d41d8cd98f00b204e9800998ecf8427e"

    /// The object of the key unless its time is over.
    func stored(_ key: ByteString, in bucket: Bucket) throws(CSSPError) -> StoredObject {
        let object = try CSSPError.storing { () throws(StorageError) in try bucket.object(key) }
        if let end = object.record.description.properties.value(of: Self.expiryProperty).flatMap({ Int64($0) }),
            end <= options.time.now().seconds
        {
            throw .notFound
        }
        return object
    }

    /// With its segments; `checksSegments` refuses a named one that is gone or another.
    func view(
        _ object: StoredObject, in bucket: Bucket, checksSegments: Bool = true
    ) throws(CSSPError) -> CSSPObject {
        let properties = object.record.description.properties
        if let manifest = properties.value(of: Self.manifestProperty) {
            let segments = try segments(below: manifest)
            // The files are the segments' own, and stay theirs.
            let content = Content(
                segments.flatMap { $0.object.content.segments },
                in: segments.first?.bucket.contentDirectory ?? bucket.contentDirectory, kept: true)
            let etag = Hex.encode(MD5.of(segments.map(\.etag).joined()))
            return CSSPObject(object: object, etag: etag, content: content, kind: .prefixed(manifest))
        }
        if let text = properties.value(of: Self.segmentsProperty), let manifest = SegmentManifest(stored: text) {
            if checksSegments {
                for segment in manifest.segments where !segment.isData {
                    guard let current = try? resolve(segment), current.etag == segment.etag else {
                        throw CSSPError(409)
                    }
                }
            }
            return CSSPObject(
                object: object, etag: manifest.etag, content: object.content, kind: .named(manifest))
        }
        return CSSPObject(object: object, etag: try md5(of: object), content: object.content, kind: .plain)
    }

    /// What a segment of a manifest names.
    func resolve(_ segment: SegmentManifest.Segment) throws(CSSPError) -> CSSPObject {
        guard let source = CopySource(PercentEncoding.encode(segment.path, keepingSlash: true)) else {
            throw .notFound
        }
        let bucket = try bucket(source.bucket)
        return try view(try stored(source.key, in: bucket), in: bucket)
    }

    /// The MD5 of what came in one piece is its ETag; of what another dialect joined it is computed once.
    private func md5(of object: StoredObject) throws(CSSPError) -> String {
        let record = object.record
        if Departures.current.makesOpaqueETags { return record.etag.lowercased() }
        if record.etagIsMD5, record.etag.utf8.count == 32,
            record.etag.utf8.allSatisfy({ Hex.value($0) != nil })
        {
            return record.etag.lowercased()
        }
        let digest = try CSSPError.storing { () throws(StorageError) in
            try object.content.digest("md5") { () throws(StorageError) in
                try object.content.digest(0..<object.content.size).md5
            }
        }
        return Hex.encode(digest)
    }

    /// Every object whose name starts with the manifest's prefix, in the order of names.
    private func segments(
        below manifest: String
    ) throws(CSSPError) -> [(bucket: Bucket, object: StoredObject, etag: String)] {
        let decoded = PercentEncoding.decode(manifest) ?? Array(manifest.utf8)
        let path = decoded.first == UInt8(ascii: "/") ? decoded.dropFirst() : decoded[...]
        guard let mark = path.firstIndex(of: UInt8(ascii: "/")),
            let bucket = try? library.bucket(String(decoding: path[..<mark], as: UTF8.self))
        else { return [] }
        var found: [(bucket: Bucket, object: StoredObject, etag: String)] = []
        var after = ByteString("")
        while true {
            let page = bucket.list(
                ListingRequest(prefix: ByteString(path[(mark + 1)...]), after: after, limit: Self.largestPage))
            for case .entry(_, let object) in page.items {
                found.append((bucket, object, try md5(of: object)))
            }
            guard let next = page.next else { return found }
            after = next
        }
    }

    /// Bytes of several contents as one of `bucket`, under names of its own.
    func join(_ pieces: [(content: Content, range: ByteRange)], in bucket: Bucket) throws(CSSPError) -> Content {
        try CSSPError.storing { () throws(StorageError) in
            var parts: [Content] = []
            for piece in pieces { parts.append(try bucket.duplicate(piece.content, range: piece.range)) }
            // From here on the files belong to the whole.
            for part in parts { part.keep() }
            return Content(parts.flatMap(\.segments), in: bucket.contentDirectory, kept: false)
        }
    }
}
