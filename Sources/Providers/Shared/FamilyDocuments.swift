import Basics
import ObjectStorage

/// Parses the family's answer documents; these fields say how the members' documents differ.
struct FamilyDocuments: Sendable {
    /// In encoded listings `+` is a space.
    let plusIsSpace: Bool
    /// In encoded listings the continuation token is encoded too.
    var encodesTokens = false
    /// The class that is omitted from an object's properties.
    let standardClass: String

    struct List {
        var page = ListingPage()
        var isTruncated = false
        var hasKeyCount = false
        var nextToken: ByteString?
        var nextMarker: ByteString?
    }

    struct Parts {
        var parts: [UploadedPart] = []
        var isTruncated = false
        var nextMarker: Int?
    }

    struct Uploads {
        var uploads: [UploadInProgress] = []
        var isTruncated = false
        var nextKey: ByteString?
        var nextUpload: String?
    }

    /// The answer to a copy, part copy or completion: its outcome, or the error in a 200.
    enum Outcome {
        /// Without an ETag where the answer has none: Ceph, for an upload that was completed before.
        case done(etag: ETag?, modified: Timestamp?)
        case failed(FamilyErrors.Document)
        /// No document at all: the outcome is unknown.
        case unknown
    }

    /// A listing of either version.
    func list(_ body: [UInt8]) throws(XMLError) -> List {
        var list = List()
        // The element with the encoding may follow the first key, so keys are decoded at the end.
        var objects: [Object] = []
        var prefixes: [ByteString] = []
        var isEncoded = false
        var reader = XMLReader(body)
        try reader.root { reader, root throws(XMLError) in
            // Any other document would look like an empty directory.
            guard root == "ListBucketResult" else { throw reader.error("<\(root)> is not a listing") }
            try reader.elements { reader, name throws(XMLError) in
                switch name {
                case "Contents": objects.append(try Self.object(&reader))
                case "CommonPrefixes":
                    try reader.elements { reader, name throws(XMLError) in
                        if name == "Prefix" { prefixes.append(try reader.content()) }
                    }
                case "IsTruncated": list.isTruncated = try Self.isTrue(&reader)
                case "KeyCount": list.hasKeyCount = true
                case "NextContinuationToken": list.nextToken = try reader.content()
                case "NextMarker": list.nextMarker = try reader.content()
                case "EncodingType", "Encoding-Type", "Encoding-type": isEncoded = try reader.text() == "url"
                default: break
                }
            }
        }
        list.page.objects = objects.compactMap { object in
            let key = decode(object.key, isEncoded)
            // An object with an impossible length is left out, so that the others are listed all the same.
            guard !key.isEmpty, let size = object.size else { return nil }
            return ListedObject(
                key: ObjectKey(key),
                version: ObjectVersion(etag: object.etag, size: size, modified: object.modified),
                storageClass: object.storageClass == standardClass ? nil : object.storageClass,
                isSymlink: object.isSymlink)
        }
        list.page.commonPrefixes = prefixes.map { decode($0, isEncoded) }.filter { !$0.isEmpty }.map { ObjectKey($0) }
        list.nextMarker = list.nextMarker.map { decode($0, isEncoded) }
        list.nextToken = list.nextToken.map { decode($0, isEncoded && encodesTokens) }
        return list
    }

    private struct Object {
        var key: ByteString = ""
        var etag = ETag("")
        var size: Int64? = 0
        var modified = Timestamp.epoch
        var storageClass: String?
        var isSymlink = false
    }

    private static func object(_ reader: inout XMLReader) throws(XMLError) -> Object {
        var object = Object()
        try reader.elements { reader, name throws(XMLError) in
            switch name {
            case "Key": object.key = try reader.content()
            case "ETag": object.etag = ETag(try reader.text())
            case "Size": object.size = Self.size(try reader.text())
            case "LastModified": object.modified = Timestamp(iso8601: try reader.text()) ?? .epoch
            case "StorageClass": object.storageClass = try reader.text()
            case "Type": object.isSymlink = try reader.text() == "Symlink"
            default: break
            }
        }
        return object
    }

    func decode(_ text: ByteString, _ isEncoded: Bool) -> ByteString {
        guard isEncoded, let bytes = PercentEncoding.decode(text.description, plusIsSpace: plusIsSpace) else {
            return text
        }
        return ByteString(bytes)
    }

    /// nil for an invalid length: it must not count as that of an empty object.
    static func size(_ text: String) -> Int64? {
        if text.isEmpty { return 0 }
        return Int64(text).flatMap { $0 >= 0 ? $0 : nil }
    }

    /// COS writes the boolean in either case.
    static func isTrue(_ reader: inout XMLReader) throws(XMLError) -> Bool {
        try reader.text().lowercased() == "true"
    }

    static func outcome(_ body: [UInt8]) throws(XMLError) -> Outcome {
        guard body.contains(UInt8(ascii: "<")) else { return .unknown }
        var outcome = Outcome.unknown
        var reader = XMLReader(body)
        try reader.root { reader, name throws(XMLError) in
            if name == "Error" {
                outcome = .failed(try FamilyErrors.read(&reader))
                return
            }
            var etag: ETag?
            var modified: Timestamp?
            try reader.elements { reader, name throws(XMLError) in
                switch name {
                case "ETag": etag = ETag(try reader.text())
                case "LastModified": modified = Timestamp(iso8601: try reader.text())
                default: break
                }
            }
            guard etag != nil || name.hasSuffix("Result") else { return }
            outcome = .done(etag: etag.flatMap { $0.text.isEmpty ? nil : $0 }, modified: modified)
        }
        return outcome
    }

    /// The text of a document that is one element.
    static func rootText(_ body: [UInt8]) throws(XMLError) -> String {
        var text = ""
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in text = try reader.text() }
        return text
    }

    static func uploadID(_ body: [UInt8]) throws(XMLError) -> UploadID? {
        var id: UploadID?
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                if name == "UploadId" { id = UploadID(try reader.text()) }
            }
        }
        return id
    }

    static func parts(_ body: [UInt8]) throws(XMLError) -> Parts {
        var parts = Parts()
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                switch name {
                case "IsTruncated": parts.isTruncated = try Self.isTrue(&reader)
                case "NextPartNumberMarker": parts.nextMarker = Int(try reader.text())
                case "Part":
                    var part = UploadedPart(number: 0, etag: ETag(""), size: 0)
                    try reader.elements { reader, name throws(XMLError) in
                        switch name {
                        case "PartNumber": part.number = Int(try reader.text()) ?? 0
                        case "ETag": part.etag = ETag(try reader.text())
                        case "Size":
                            let text = try reader.text()
                            guard let size = Self.size(text) else {
                                throw XMLError(offset: 0, reason: "a size is not a number: \(text)", isFinal: true)
                            }
                            part.size = size
                        case "HashCrc64ecma": part.crc64 = UInt64(try reader.text())
                        default: break
                        }
                    }
                    parts.parts.append(part)
                default: break
                }
            }
        }
        return parts
    }

    func uploads(_ body: [UInt8]) throws(XMLError) -> Uploads {
        var answer = Uploads()
        var found: [Upload] = []
        var isEncoded = false
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                switch name {
                case "IsTruncated": answer.isTruncated = try Self.isTrue(&reader)
                case "NextKeyMarker": answer.nextKey = try reader.content()
                case "NextUploadIdMarker": answer.nextUpload = try reader.text()
                case "EncodingType", "Encoding-Type", "Encoding-type": isEncoded = try reader.text() == "url"
                case "Upload": found.append(try Self.upload(&reader))
                default: break
                }
            }
        }
        answer.nextKey = answer.nextKey.map { decode($0, isEncoded) }
        answer.uploads = found.compactMap { upload in
            let key = decode(upload.key, isEncoded)
            guard !key.isEmpty else { return nil }
            var entry = UploadInProgress(
                key: ObjectKey(key), upload: UploadID(upload.id), initiated: upload.initiated)
            (entry.storageClass, entry.initiator) = (upload.storageClass, upload.initiator)
            return entry
        }
        return answer
    }

    private struct Upload {
        /// As the document has it, perhaps encoded.
        var key: ByteString = ""
        var id = ""
        var initiated: Timestamp?
        var storageClass: String?
        var initiator: String?
    }

    private static func upload(_ reader: inout XMLReader) throws(XMLError) -> Upload {
        var upload = Upload()
        try reader.elements { reader, name throws(XMLError) in
            switch name {
            case "Key": upload.key = try reader.content()
            case "UploadId": upload.id = try reader.text()
            case "Initiated": upload.initiated = Timestamp(iso8601: try reader.text())
            case "StorageClass":
                let text = try reader.text()
                upload.storageClass = text.isEmpty ? nil : text
            case "Initiator":
                try reader.elements { reader, name throws(XMLError) in
                    guard name == "ID" else { return }
                    let text = try reader.text()
                    upload.initiator = text.isEmpty ? nil : text
                }
            default: break
            }
        }
        return upload
    }

    /// The keys that a batch delete could not remove.
    static func deleteErrors(_ body: [UInt8]) throws(XMLError) -> [(key: ByteString, error: FamilyErrors.Document)] {
        var errors: [(key: ByteString, error: FamilyErrors.Document)] = []
        var reader = XMLReader(body)
        try reader.root { reader, root throws(XMLError) in
            guard root == "DeleteResult" else { throw reader.error("<\(root)> does not list the deleted keys") }
            try reader.elements { reader, name throws(XMLError) in
                guard name == "Error" else { return }
                var key: ByteString = ""
                var error = FamilyErrors.Document()
                try reader.elements { reader, name throws(XMLError) in
                    switch name {
                    case "Key": key = try reader.content()
                    case "Code": error.code = try reader.text()
                    case "Message": error.message = try reader.text()
                    default: break
                    }
                }
                errors.append((key, error))
            }
        }
        return errors
    }
}
