import Basics
import Digests

/// What requests say about objects, and what answers say.
extension OSSDialect {
    private static let storedHeaders = [
        "cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires",
    ]
    static let storageClasses = StorageClassNames(
        own: [
            ("Standard", .standard), ("IA", .infrequentAccess), ("Archive", .archive), ("ColdArchive", .deepArchive),
            ("DeepColdArchive", .deepColdArchive),
        ],
        nearest: [
            .reducedRedundancy: "Standard", .oneZoneInfrequentAccess: "IA", .intelligentTiering: "Standard",
            .instantArchive: "IA", .multiZone: "Standard", .multiZoneInfrequentAccess: "IA",
            .multiZoneIntelligentTiering: "Standard",
        ])
    private static let metadataPrefix = "x-oss-meta-"
    /// Names and values together stay below this many bytes.
    private static let mostMetadata = 8 << 10
    private static let longestKey = 1023

    /// 1 to 1023 bytes of UTF-8 that begin neither with `/` nor with `\` ("Naming conventions for objects").
    static func checkKey(_ key: ByteString) throws(OSSError) {
        guard key.count <= longestKey else {
            throw OSSError(400, "InvalidObjectName", "The length of object name must be less than 1024.")
        }
        let isSpelledWell = key.first != UInt8(ascii: "/") && key.first != UInt8(ascii: "\\")
        guard isSpelledWell, String(validating: key.bytes, as: UTF8.self) != nil else {
            throw OSSError(400, "InvalidObjectName", "The specified object is not valid.")
        }
    }

    func description(_ request: ServerRequest) throws(OSSError) -> ObjectDescription {
        var description = ObjectDescription()
        description.headers = Self.storedHeaders.compactMap { name in
            request.header(name).flatMap { $0.isEmpty ? nil : Field(name, $0) }
        }
        if !description.headers.contains(where: { $0.name == "content-type" }) {
            description.headers.append(Field("content-type", "application/octet-stream"))
        }
        description.metadata = try Self.metadata(request)
        if let name = request.header("x-oss-storage-class") {
            guard let storageClass = Self.storageClasses.storageClass(name) else {
                throw OSSError.invalidArgument(
                    "The storage class is invalid.", name: "x-oss-storage-class", value: name)
            }
            description.storageClass = storageClass
        }
        if let tagging = request.header("x-oss-tagging") {
            description.tags = try Self.checked(tags: Tagging.read(header: tagging))
        }
        description.access = try Self.access(request, header: "x-oss-object-acl") ?? CannedACL.inherited.access
        description.encryption = try Self.encryption(request)
        try Self.checkTrafficLimit(request)
        return description
    }

    static func metadata(_ request: ServerRequest) throws(OSSError) -> [Field] {
        let fields = request.fields(below: metadataPrefix)
        for field in fields {
            guard field.name.wholeMatch(of: /[a-z0-9-]+/) != nil else {
                throw OSSError(
                    400, "InvalidArgument", "The name of user metadata may have letters, digits and hyphens only.",
                    ec: "0011-00000005", elements: [Field("ArgumentName", metadataPrefix + field.name)])
            }
        }
        let size = fields.reduce(0) { $0 + metadataPrefix.utf8.count + $1.name.utf8.count + $1.value.utf8.count }
        guard size < mostMetadata else {
            throw OSSError(
                400, "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size.",
                ec: "0011-00000002",
                elements: [Field("Size", String(size)), Field("MaxSizeAllowed", String(mostMetadata))])
        }
        return fields
    }

    static func checked(tags: [Field]) throws(OSSError) -> [Field] {
        guard tags.count <= 10, Tagging.areValid(tags) else {
            throw OSSError(400, "InvalidTag", "The tag provided was not a valid tag or there are more than 10.")
        }
        return tags
    }

    /// nil without the header.
    static func access(_ request: ServerRequest, header: String) throws(OSSError) -> AccessControl? {
        guard let name = request.header(header) else { return nil }
        guard let canned = CannedACL(rawValue: name), canned != .inherited || header == "x-oss-object-acl" else {
            throw OSSError.invalidArgument("no such bucket access control exists", name: header, value: name)
        }
        return canned.access
    }

    /// In bits a second; taken and not obeyed, `bandwidth` is a fault here.
    private static func checkTrafficLimit(_ request: ServerRequest) throws(OSSError) {
        let name = "x-oss-traffic-limit"
        guard let text = request.header(name) ?? request.parameter(name) else { return }
        guard let limit = Int(text), (245_760...838_860_800).contains(limit) else {
            throw OSSError.invalidArgument(
                "The bandwidth limit must be between 245760 and 838860800.", name: name, value: text)
        }
    }

    private static func encryption(_ request: ServerRequest) throws(OSSError) -> Encryption {
        let keyID = request.header("x-oss-server-side-encryption-key-id") ?? ""
        let cipher = request.header("x-oss-server-side-data-encryption")
        switch request.header("x-oss-server-side-encryption") {
        case nil: return .unstated
        case "AES256": return .managed
        case "SM4": return .keyService(mode: "SM4", keyID: "")
        case "KMS": return .keyService(mode: cipher == "SM4" ? "aws:kms:sm4" : "aws:kms", keyID: keyID)
        case let mode?:
            throw OSSError(
                400, "InvalidEncryptionAlgorithmError", "The encryption method specified is not supported.",
                elements: [Field("ArgumentValue", mode)])
        }
    }

    /// What was asked for; a key of the client's, which only S3 and COS know, looks like OSS's own.
    static func encryptionHeaders(_ encryption: Encryption) -> [Field] {
        let name = "x-oss-server-side-encryption"
        switch encryption {
        case .unstated: return []
        case .managed, .customer: return [Field(name, "AES256")]
        case .keyService("SM4", _): return [Field(name, "SM4")]
        case .keyService(let mode, let keyID):
            let cipher = mode.hasSuffix(":sm4") ? [Field("x-oss-server-side-data-encryption", "SM4")] : []
            return [Field(name, "KMS")] + (keyID.isEmpty ? [] : [Field("\(name)-key-id", keyID)]) + cipher
        }
    }

    func storageClassName(_ record: ObjectRecord) -> String {
        Self.storageClasses.name(record.description.storageClass)
    }

    static func typeName(_ record: ObjectRecord) -> String {
        switch record.kind {
        case .normal: record.parts.isEmpty ? "Normal" : "Multipart"
        case .appendable: "Appendable"
        case .symlink: "Symlink"
        }
    }

    /// Entity tags are shown in capitals.
    static func etag(_ record: ObjectRecord) -> String { "\"\(record.etag.uppercased())\"" }

    /// The headers every answer about an object begins with.
    func briefHeaders(of object: StoredObject) throws(OSSError) -> [Field] {
        let sum = try OSSError.storing { () throws(StorageError) in try object.crc64() }
        return [Field("ETag", Self.etag(object.record)), Field("x-oss-hash-crc64ecma", String(sum))]
    }

    /// The headers of an answer to HEAD or GET, but for those of ranges and length.
    func headers(of object: StoredObject) throws(OSSError) -> [Field] {
        let record = object.record
        var fields = try briefHeaders(of: object)
        fields.append(Field("Last-Modified", record.modified.httpDate))
        fields.append(Field("Accept-Ranges", "bytes"))
        fields.append(Field("x-oss-object-type", Self.typeName(record)))
        fields.append(Field("x-oss-storage-class", storageClassName(record)))
        fields += record.description.capitalizedHeaders.filter { !$0.name.hasPrefix("x-") }
        for field in record.description.metadata { fields.append(Field(Self.metadataPrefix + field.name, field.value)) }
        if case .appendable = record.kind {
            fields.append(Field("x-oss-next-append-position", String(record.size)))
        }
        if record.etagIsMD5, let md5 = Hex.decode(record.etag) {
            fields.append(Field("Content-MD5", Base64.encode(md5)))
        }
        if !record.description.tags.isEmpty {
            fields.append(Field("x-oss-tagging-count", String(record.description.tags.count)))
        }
        if let state = record.restoration?.header(options.time.now()) { fields.append(Field("x-oss-restore", state)) }
        return fields + Self.encryptionHeaders(record.description.encryption)
    }
}
