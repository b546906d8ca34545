import Basics

/// How other servers depart from the protocol that they speak, as faults ask it of this one.
///
/// The dialects read those of the request that they serve from `current`, most of them S3 alone.
package struct Departures: Hashable, Sendable {
    @TaskLocal static var current = Departures()

    /// `If-Match` of a write is compared with the ETag without quotes, so that one in quotes never matches (Ceph RGW 16.2).
    package var matchesUnquoted = false
    /// Conditions of writes, deletes and copy sources are not checked (Ceph RGW, s3proxy, rclone serve s3).
    package var ignoresConditions = false
    /// The answer to a write has another ETag than the object (s3proxy).
    package var answersOtherETag = false
    /// Objects and parts get ETags of 32 hexadecimal digits that are not their MD5 (gateways that encrypt, or make their own ETags).
    package var makesOpaqueETags = false
    /// A copy into a part is the upload of a part without bytes (rclone serve s3).
    package var ignoresPartSources = false
    /// A key that ends in a slash is the key without it (rclone serve s3).
    package var keepsMarkersAsFiles = false
    /// An object whose key has a line break is kept, and not found again (moto).
    package var losesLineBreaks = false
    /// Keys that are refused, and with which status: as a wrong signature with 403 (MinIO), as an invalid request with 400 (Garage).
    package var refusedKeys: [RefusedKeys] = []
    /// Most bytes of a value of user metadata (OpenStack Swift's S3 API: 256).
    package var metadataLimit: Int?
    /// The application's server of each callback has answered (OSS and Kodo); pailstore itself calls no address.
    package var answersCallbacks = false
    /// A request must say that its sender pays for it (S3 and OSS, requester pays).
    package var demandsPayer = false
    /// The server knows this key and secret instead of its own.
    package var key: KeyPair?

    package init() {}

    init(refusing keys: RefusedKeys) { refusedKeys = [keys] }
    init(knowing key: KeyPair) { self.key = key }

    private static let names: [(name: String, field: any WritableKeyPath<Departures, Bool> & Sendable)] = [
        ("if-match-unquoted", \.matchesUnquoted), ("ignore-condition", \.ignoresConditions),
        ("foreign-etag", \.answersOtherETag), ("opaque-etag", \.makesOpaqueETags),
        ("empty-part-copy", \.ignoresPartSources),
        ("marker-as-file", \.keepsMarkersAsFiles),
        ("lose-line-break", \.losesLineBreaks), ("requester-pays", \.demandsPayer),
        ("callback-answered", \.answersCallbacks),
    ]

    /// nil when `--fault` has no such kind.
    init?(name: String) {
        guard let field = Self.names.first(where: { $0.name == name })?.field else { return nil }
        self[keyPath: field] = true
    }

    mutating func formUnion(_ other: Departures) {
        for (_, field) in Self.names where other[keyPath: field] { self[keyPath: field] = true }
        metadataLimit = other.metadataLimit ?? metadataLimit
        refusedKeys += other.refusedKeys
        key = other.key ?? key
    }

    /// The status with which the key is refused; nil when it is not.
    func refusal(of key: ByteString) -> Int? { refusedKeys.first { $0.fits(key) }?.status }

    /// Whether the request lacks the statement that its sender pays, in a header or, with a signed URL, in a parameter.
    func refusesPayer(of request: ServerRequest, _ header: String) -> Bool {
        demandsPayer && request.header(header) != "requester" && request.parameter(header) != "requester"
    }

    /// The ETag of a part of an upload.
    static func ofPart(_ md5: [UInt8]) -> String { Hex.encode(current.makesOpaqueETags ? md5.reversed() : md5) }

    /// The ETag that the answer to a write tells of an object that has `etag`.
    static func told(_ etag: String) -> String { current.answersOtherETag ? "\(etag)-told" : etag }
}

/// A kind of keys that a server does not take.
package struct RefusedKeys: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case notText, control, lineBreak
        case longer(than: Int)
    }

    let kind: Kind
    let status: Int

    /// `utf8`, `control`, `line-break` or a number of bytes, each with `:403` behind or without.
    init?(parsing text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard let first = parts.first, parts.count <= 2, parts.count == 1 || parts[1] == "403" || parts[1] == "400"
        else { return nil }
        status = parts.count == 2 && parts[1] == "403" ? 403 : 400
        switch first {
        case "utf8": kind = .notText
        case "control": kind = .control
        case "line-break": kind = .lineBreak
        default:
            guard let length = Int(first), length >= 0 else { return nil }
            kind = .longer(than: length)
        }
    }

    func fits(_ key: ByteString) -> Bool {
        switch kind {
        case .notText: String(validating: key.bytes, as: UTF8.self) == nil
        case .control: key.bytes.contains { $0 < 0x20 || $0 == 0x7F }
        case .lineBreak: key.bytes.contains(UInt8(ascii: "\n"))
        case .longer(let length): key.count > length
        }
    }
}
