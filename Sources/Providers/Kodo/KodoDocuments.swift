import Basics
import FoundationEssentials
import ObjectStorage

/// An object in a listing or in an answer of its own (Kodo API, stat). Members with their default value may be missing.
struct KodoObject: Decodable {
    let key: String?
    let fsize: ListedLength?
    let hash: String?
    let mimeType: String?
    /// The number of its storage class.
    let type: Int?
    /// In units of 100 ns since 1970.
    let putTime: Int64?
    /// 1 while an archived object is restored, 2 when it is.
    let restoreStatus: Int?
    let metadata: [String: String]?
    /// The sizes of its parts, when the request wanted them.
    let parts: [Int64]?

    enum CodingKeys: String, CodingKey {
        case key, fsize, hash, mimeType, type, putTime, restoreStatus, parts
        case metadata = "x-qn-meta"
    }

    /// nil without a hash or with an impossible length. Whole seconds, as the headers of a download have them.
    var version: ObjectVersion? {
        guard let hash, !hash.isEmpty, let size = fsize.map(\.bytes) ?? 0 else { return nil }
        let modified = Timestamp(seconds: (putTime ?? 0) / 10_000_000)
        return ObjectVersion(etag: ETag(hash), size: size, modified: modified)
    }

    var storageClass: String? { (type ?? 0) == 0 ? nil : KodoStorageClass.name(type ?? 0) }

    var info: ObjectInfo? {
        guard let version else { return nil }
        var info = ObjectInfo(
            version: version, metadata: KodoMetadata.metadata(metadata ?? [:], contentType: mimeType),
            storageClass: storageClass)
        switch restoreStatus {
        case 1: info.restore = .ongoing
        case 2: info.restore = .restored(until: nil)
        default: break
        }
        return info
    }
}

/// The storage classes by Kodo's numbers, with the names of its S3 endpoint (Kodo, storage classes).
enum KodoStorageClass {
    private static let names = ["STANDARD", "LINE", "GLACIER", "DEEP_ARCHIVE", "GLACIER_IR", "INTELLIGENT_TIERING"]

    /// The classes that an object can be moved to.
    static let all = Array(names.prefix(5))

    static func name(_ number: Int) -> String { names.indices.contains(number) ? names[number] : String(number) }

    /// By name or number; nil for neither.
    static func number(_ text: String) -> Int? { names.firstIndex(of: text.uppercased()) ?? Int(text) }

    /// Archive and deep archive: not readable before a restore.
    static func isFrozen(_ number: Int) -> Bool { number == 2 || number == 3 }
}

/// The other documents of Kodo's answers.
enum KodoDocuments {
    /// The answer of `/list` (Kodo API, list).
    struct List: Decodable {
        let marker: String?
        let items: [KodoObject]?
        let commonPrefixes: [String]?
    }

    /// The answer of a finished upload.
    struct Stored: Decodable {
        let hash: String
        let key: String
    }

    /// The answer of one operation of a batch.
    struct BatchItem: Decodable {
        struct Failure: Decodable {
            let error: String?
        }

        let code: Int
        let data: Failure?
    }

    struct Upload: Decodable {
        let uploadId: String
    }

    struct Part: Codable {
        let partNumber: Int
        let etag: String
        var size: Int64?
    }

    struct SentPart: Decodable {
        let etag: String
        let md5: String?
    }

    struct Parts: Decodable {
        let partNumberMarker: Int?
        let parts: [Part]?
    }

    /// The body that completes an upload in parts (Kodo API, resumable upload version 2).
    struct Completion: Encodable {
        let parts: [Part]
        let mimeType: String?
        let metadata: [String: String]
        /// The variables of the callback.
        let customVars: [String: String]?
    }

    static func decode<Document: Decodable>(_ type: Document.Type, _ bytes: [UInt8]) -> Document? {
        try? JSONDecoder().decode(type, from: Data(bytes))
    }
}

/// The marker of a position in a listing, as far as its format is known (Kodo API, list).
struct KodoMarker: Decodable {
    /// The name before the position.
    let k: String

    static func after(_ name: ByteString) -> String? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        guard let text = String(validating: name.bytes, as: UTF8.self), let quoted = try? encoder.encode(text) else {
            return nil
        }
        let document = Array("{\"c\":0,\"k\":".utf8) + Array(quoted) + Array("}".utf8)
        return Base64.encode(document, alphabet: .urlSafe)
    }

    init?(_ text: String) {
        guard let bytes = Base64.decode(text, alphabet: .urlSafe),
            let marker = KodoDocuments.decode(KodoMarker.self, bytes)
        else { return nil }
        self = marker
    }
}
