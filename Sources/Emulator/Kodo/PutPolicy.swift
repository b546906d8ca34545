import Basics
import FoundationEssentials

/// What an upload token allows (Kodo API, upload policy).
package struct PutPolicy: Decodable, Sendable {
    package var scope: String
    /// Seconds since 1970; checked when an upload ends.
    package var deadline: Int64
    var isPrefixalScope: Int?
    var insertOnly: Int?
    var fsizeMin: Int64?
    var fsizeLimit: Int64?
    var mimeLimit: String?
    var detectMime: Int?
    var fileType: Int?
    var deleteAfterDays: Int64?
    var saveKey: String?
    var forceSaveKey: Bool?
    var returnBody: String?
    var endUser: String?
    var callbackUrl: String?
    var callbackBody: String?
    var callbackBodyType: String?

    /// nil when the bytes are no policy.
    package init?(json: [UInt8]) {
        guard let policy = try? JSONDecoder().decode(PutPolicy.self, from: Data(json)) else { return nil }
        self = policy
    }

    package var bucket: String { KodoEntry(plain: Array(scope.utf8)).bucket }
    /// The key or the prefix of keys; nil for a whole bucket.
    var scopedKey: ByteString? { scope.contains(":") ? KodoEntry(plain: Array(scope.utf8)).key : nil }
    private var isPrefix: Bool { isPrefixalScope ?? 0 != 0 }

    /// Whether the server is to be called when the object is stored.
    var hasCallback: Bool { callbackUrl.map { !$0.isEmpty } ?? false }

    /// Whether the request to that server can be made.
    var hasValidCallback: Bool {
        let types = ["", "application/x-www-form-urlencoded", "application/json"]
        return !hasCallback || callbackBody?.isEmpty == false && types.contains(callbackBodyType ?? "")
    }

    /// An existing object may be replaced by other content.
    func mayOverwrite(byBlocks: Bool) -> Bool {
        guard insertOnly ?? 0 == 0, !isPrefix else { return false }
        // A v1 `mkfile` replaces even what a bucket's scope covers.
        return scopedKey != nil || byBlocks
    }

    func admits(_ key: ByteString) -> Bool {
        guard let scopedKey else { return true }
        return isPrefix ? key.hasPrefix(scopedKey) : key == scopedKey
    }

    /// `image/*;text/plain` admits, `!a/b;c/d` excludes.
    func admits(mimeType: String) -> Bool {
        guard let mimeLimit, !mimeLimit.isEmpty else { return true }
        let excludes = mimeLimit.hasPrefix("!")
        let plain = mimeType.split(separator: ";").first.map { $0.filter { $0 != " " } } ?? ""
        let isNamed = mimeLimit.drop { $0 == "!" }.split(separator: ";").contains { pattern in
            FaultSpec.fits(ByteString(plain), pattern: String(pattern))
        }
        return isNamed != excludes
    }

    /// What the object's type is, given what the client says and how its name ends.
    func mimeType(saying said: String?, name: String) -> String {
        let known = Self.types[String(name.lowercased().split(separator: ".").last ?? "")]
        let named = name.contains(".") ? known : nil
        let said = said.flatMap { $0.isEmpty ? nil : $0 }
        return switch detectMime ?? 0 {
        case 0: said ?? named ?? Self.unknownType
        case 1: named ?? Self.unknownType
        default: said ?? Self.unknownType
        }
    }

    private static let unknownType = "application/octet-stream"
    private static let types = [
        "txt": "text/plain", "html": "text/html", "htm": "text/html", "css": "text/css", "csv": "text/csv",
        "md": "text/markdown", "js": "application/javascript", "json": "application/json", "xml": "application/xml",
        "pdf": "application/pdf", "zip": "application/zip", "gz": "application/gzip", "tar": "application/x-tar",
        "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "svg": "image/svg+xml",
        "webp": "image/webp", "mp3": "audio/mpeg", "mp4": "video/mp4", "webm": "video/webm",
    ]
}
