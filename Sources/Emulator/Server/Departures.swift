/// How other servers depart from the protocol that they speak, as faults ask it of this one.
///
/// The dialect S3 reads those of the request that it serves from `current`.
package struct Departures: Hashable, Sendable {
    @TaskLocal static var current = Departures()

    /// `If-Match` of a write is compared with the ETag without quotes, so that one in quotes never matches (Ceph RGW 16.2).
    package var matchesUnquoted = false
    /// Conditions of writes, deletes and copy sources are not checked (Ceph RGW, s3proxy, rclone serve s3).
    package var ignoresConditions = false
    /// The answer to a write has another ETag than the object (s3proxy).
    package var answersOtherETag = false
    /// A copy into a part is the upload of a part without bytes (rclone serve s3).
    package var ignoresPartSources = false
    /// A key that ends in a slash is the key without it (rclone serve s3).
    package var keepsMarkersAsFiles = false
    /// An object whose key has a line break is kept, and not found again (moto).
    package var losesLineBreaks = false
    /// Most bytes of a value of user metadata (OpenStack Swift's S3 API: 256).
    package var metadataLimit: Int?

    package init() {}

    private static let names: [(name: String, field: any WritableKeyPath<Departures, Bool> & Sendable)] = [
        ("if-match-unquoted", \.matchesUnquoted), ("ignore-condition", \.ignoresConditions),
        ("foreign-etag", \.answersOtherETag), ("empty-part-copy", \.ignoresPartSources),
        ("marker-as-file", \.keepsMarkersAsFiles),
        ("lose-line-break", \.losesLineBreaks),
    ]

    /// nil when `--fault` has no such kind.
    init?(name: String) {
        guard let field = Self.names.first(where: { $0.name == name })?.field else { return nil }
        self[keyPath: field] = true
    }

    mutating func formUnion(_ other: Departures) {
        for (_, field) in Self.names where other[keyPath: field] { self[keyPath: field] = true }
        metadataLimit = other.metadataLimit ?? metadataLimit
    }

    /// The ETag that the answer to a write tells of an object that has `etag`.
    static func told(_ etag: String) -> String { current.answersOtherETag ? "\(etag)-told" : etag }
}
