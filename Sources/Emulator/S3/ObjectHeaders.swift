import Basics
import Digests

/// What requests say about objects, and what answers say.
extension S3Dialect {
    private static let storedHeaders = [
        "cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires",
        "x-amz-website-redirect-location",
    ]
    static let storageClasses = StorageClassNames(
        own: [
            ("STANDARD", .standard), ("REDUCED_REDUNDANCY", .reducedRedundancy), ("STANDARD_IA", .infrequentAccess),
            ("ONEZONE_IA", .oneZoneInfrequentAccess), ("INTELLIGENT_TIERING", .intelligentTiering),
            ("GLACIER_IR", .instantArchive), ("GLACIER", .archive), ("DEEP_ARCHIVE", .deepArchive),
        ],
        nearest: [
            .deepColdArchive: "DEEP_ARCHIVE", .multiZone: "STANDARD", .multiZoneInfrequentAccess: "STANDARD_IA",
            .multiZoneIntelligentTiering: "INTELLIGENT_TIERING",
        ])
    private static let metadataPrefix = "x-amz-meta-"
    private static let mostMetadata = 2048
    static let longestKey = 1024

    func description(_ request: ServerRequest) throws(S3Error) -> ObjectDescription {
        var description = ObjectDescription()
        (description.headers, description.metadata) = (Self.headers(request), try Self.metadata(request))
        description.storageClass = try Self.storageClass(request)
        if let tagging = request.header("x-amz-tagging") { description.tags = try Self.tags(fromHeader: tagging) }
        description.access = try Self.access(fromHeaders: request) ?? AccessControl()
        description.encryption = try Self.encryption(request)
        return description
    }

    static func headers(_ request: ServerRequest) -> [Field] {
        var fields: [Field] = []
        for name in storedHeaders {
            guard var value = request.header(name) else { continue }
            if name == "content-encoding" {
                let codings = value.split(separator: ",").map { $0.filter { $0 != " " } }
                value = codings.filter { $0 != "aws-chunked" }.joined(separator: ",")
            }
            if !value.isEmpty { fields.append(Field(name, value)) }
        }
        if !fields.contains(where: { $0.name == "content-type" }) {
            fields.append(Field("content-type", "binary/octet-stream"))
        }
        return fields
    }

    static func metadata(_ request: ServerRequest) throws(S3Error) -> [Field] {
        let fields = request.fields(below: metadataPrefix)
        if let limit = Departures.current.metadataLimit, fields.contains(where: { $0.value.utf8.count > limit }) {
            throw S3Error(
                500, "InternalError", "We encountered an internal error. Please try again.",
                elements: [Field("Reason", "Metadata value longer than \(limit): x-object-meta-user")])
        }
        let size = fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        guard size <= mostMetadata else {
            throw S3Error(
                400, "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size",
                elements: [Field("Size", String(size)), Field("MaxSizeAllowed", String(mostMetadata))])
        }
        return fields
    }

    static func storageClass(_ request: ServerRequest) throws(S3Error) -> StorageClass {
        guard let found = storageClasses.storageClass(request.header("x-amz-storage-class") ?? "STANDARD") else {
            throw S3Error(400, "InvalidStorageClass", "The storage class you specified is not valid")
        }
        return found
    }

    func storageClassName(_ record: ObjectRecord) -> String {
        Self.storageClasses.name(record.description.storageClass)
    }

    static func tags(fromHeader text: String) throws(S3Error) -> [Field] {
        try checked(tags: Tagging.read(header: text))
    }

    static func checked(tags: [Field]) throws(S3Error) -> [Field] {
        guard tags.count <= 10 else {
            throw S3Error(400, "BadRequest", "Object tags cannot be greater than 10")
        }
        guard Tagging.areValid(tags) else {
            throw S3Error(400, "InvalidTag", "The tag provided was not a valid tag.")
        }
        return tags
    }

    static func encryption(_ request: ServerRequest) throws(S3Error) -> Encryption {
        if let keyMD5 = try customerKey(request, prefix: "x-amz-server-side-encryption-customer-") {
            return .customer(keyMD5: keyMD5)
        }
        switch request.header("x-amz-server-side-encryption") {
        case nil, "AES256": return .managed
        case let mode? where mode == "aws:kms" || mode == "aws:kms:dsse":
            let key = request.header("x-amz-server-side-encryption-aws-kms-key-id")
            return .keyService(mode: mode, keyID: key ?? "arn:aws:kms:us-east-1:\(account):key/pailstore")
        case _?: throw S3Error.invalidArgument("The encryption method specified is not supported")
        }
    }

    /// The MD5 of the key a client sent, checked; nil without one.
    static func customerKey(_ request: ServerRequest, prefix: String) throws(S3Error) -> String? {
        let algorithm = request.header("\(prefix)algorithm")
        let (key, digest) = (request.header("\(prefix)key"), request.header("\(prefix)key-md5"))
        guard algorithm != nil || key != nil || digest != nil else { return nil }
        guard algorithm == "AES256" else {
            throw S3Error(
                400, "InvalidEncryptionAlgorithmError", "The encryption request that you specified is not valid.")
        }
        guard let bytes = key.flatMap({ Base64.decode($0) }), bytes.count == 32, let digest,
            Base64.encode(MD5.of(bytes)) == digest
        else {
            throw S3Error.invalidArgument("The secret key was invalid for the specified algorithm.")
        }
        return digest
    }

    /// Objects with a key of the client's are only for those who send it again.
    static func checkCustomerKey(
        _ record: ObjectRecord, _ request: ServerRequest,
        prefix: String = "x-amz-server-side-encryption-customer-"
    ) throws(S3Error) {
        let sent = try customerKey(request, prefix: prefix)
        guard case .customer(let keyMD5) = record.description.encryption else {
            guard sent == nil else {
                throw S3Error.invalidRequest("The encryption parameters are not applicable to this object.")
            }
            return
        }
        guard let sent else {
            throw S3Error.invalidRequest(
                "The object was stored using a form of Server Side Encryption. The correct parameters must be provided "
                    + "to retrieve the object.")
        }
        guard sent == keyMD5 else { throw S3Error.accessDenied }
    }

    static func encryptionHeaders(_ encryption: Encryption) -> [Field] {
        let name = "x-amz-server-side-encryption"
        return switch encryption {
        // Whatever was asked for: Amazon encrypts everything.
        case .unstated, .managed: [Field(name, "AES256")]
        case .keyService(let mode, let keyID): [Field(name, mode), Field("\(name)-aws-kms-key-id", keyID)]
        case .customer(let keyMD5):
            [Field("\(name)-customer-algorithm", "AES256"), Field("\(name)-customer-key-MD5", keyMD5)]
        }
    }

    /// The headers of an answer to HEAD or GET, but for those of ranges, checksums and length.
    func headers(of record: ObjectRecord) -> [Field] {
        var fields = [
            Field("ETag", "\"\(record.etag)\""), Field("Last-Modified", record.modified.httpDate),
            Field("Accept-Ranges", "bytes"),
        ]
        fields += record.description.capitalizedHeaders
        for field in record.description.metadata { fields.append(Field(Self.metadataPrefix + field.name, field.value)) }
        let storageClass = storageClassName(record)
        if storageClass != "STANDARD" { fields.append(Field("x-amz-storage-class", storageClass)) }
        if !record.description.tags.isEmpty {
            fields.append(Field("x-amz-tagging-count", String(record.description.tags.count)))
        }
        if let state = record.restoration?.header(options.time.now()) { fields.append(Field("x-amz-restore", state)) }
        return fields + Self.encryptionHeaders(record.description.encryption)
    }
}
