import Basics
import Digests

/// What requests say about objects, and what answers say.
extension COSDialect {
    private static let storedHeaders = [
        "cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires",
    ]
    static let storageClasses = StorageClassNames(
        own: [
            ("STANDARD", .standard), ("STANDARD_IA", .infrequentAccess), ("INTELLIGENT_TIERING", .intelligentTiering),
            ("ARCHIVE", .archive), ("DEEP_ARCHIVE", .deepArchive), ("MAZ_STANDARD", .multiZone),
            ("MAZ_STANDARD_IA", .multiZoneInfrequentAccess),
            ("MAZ_INTELLIGENT_TIERING", .multiZoneIntelligentTiering),
        ],
        nearest: [
            .reducedRedundancy: "STANDARD", .oneZoneInfrequentAccess: "STANDARD_IA", .instantArchive: "STANDARD_IA",
            .deepColdArchive: "DEEP_ARCHIVE",
        ])
    private static let metadataPrefix = "x-cos-meta-"
    /// In bytes, names and values together.
    private static let mostMetadata = 2048
    /// In bytes.
    static let longestKey = 850
    private static let trafficLimits = 819_200...838_860_800

    func description(_ request: ServerRequest) throws(COSError) -> ObjectDescription {
        var description = ObjectDescription()
        (description.headers, description.metadata) = (Self.headers(request), try Self.metadata(request))
        let storageClass = request.header("x-cos-storage-class") ?? "STANDARD"
        guard let found = Self.storageClasses.storageClass(storageClass) else {
            throw COSError(
                400, "NotSupportedStorageClass", "The storage class '\(storageClass)' is not supported.")
        }
        description.storageClass = found
        if let tagging = request.header("x-cos-tagging") {
            description.tags = try Self.checked(tags: Tagging.read(header: tagging))
        }
        description.access = try Self.access(fromHeaders: request) ?? AccessControl(isInherited: true)
        description.encryption = try Self.encryption(request)
        return description
    }

    private static func headers(_ request: ServerRequest) -> [Field] {
        var fields = storedHeaders.compactMap { name in
            request.header(name).flatMap { $0.isEmpty ? nil : Field(name, $0) }
        }
        if !fields.contains(where: { $0.name == "content-type" }) {
            fields.append(Field("content-type", "application/octet-stream"))
        }
        return fields
    }

    private static func metadata(_ request: ServerRequest) throws(COSError) -> [Field] {
        let fields = request.fields(below: metadataPrefix)
        for field in fields where !field.name.utf8.allSatisfy(isMetadataByte) || field.name.isEmpty {
            throw COSError.invalidArgument(
                "The metadata header \(metadataPrefix)\(field.name) may only have letters, digits and '-'.")
        }
        let size = fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        guard size <= mostMetadata else {
            throw COSError(
                400, "MetadataTooLarge", "Your metadata of \(size) bytes exceeds the \(mostMetadata) bytes allowed.")
        }
        return fields
    }

    private static func isMetadataByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): true
        default: false
        }
    }

    static func checked(tags: [Field]) throws(COSError) -> [Field] {
        guard tags.count <= 10, Tagging.areValid(tags) else {
            throw COSError(
                400, "InvalidTag",
                "An object has at most 10 tags, with keys of 1 to 128 characters that differ and values of at most 256."
            )
        }
        return tags
    }

    /// Of objects about to be written; those of other dialects may be read under any name.
    func checkKey(_ key: ByteString) throws(COSError) {
        guard key.count <= Self.longestKey else {
            throw COSError(
                400, "KeyTooLong", "Your key of \(key.count) bytes exceeds the \(Self.longestKey) bytes allowed.")
        }
        let isProper = key.first != UInt8(ascii: "/") && key.first != UInt8(ascii: "\\")
        guard isProper, !key.bytes.contains(where: { (0x18...0x1b).contains($0) }) else {
            throw COSError(
                400, "InvalidObjectName",
                "A key must not begin with '/' or '\\', and must not have control characters from 0x18 to 0x1B.")
        }
    }

    /// In bits a second, from a header or a parameter.
    func checkTrafficLimit(_ request: ServerRequest) throws(COSError) {
        let name = "x-cos-traffic-limit"
        guard let text = request.header(name) ?? request.parameter(name) else { return }
        guard let limit = Int(text), Self.trafficLimits.contains(limit) else {
            throw COSError.invalidArgument(
                "\(name) must be from \(Self.trafficLimits.lowerBound) to \(Self.trafficLimits.upperBound).")
        }
    }

    /// Only of the classes that move by themselves: nothing is ever left unread for long here.
    static func storageTier(_ record: ObjectRecord) -> String? {
        let storageClass = record.description.storageClass
        return storageClass == .intelligentTiering || storageClass == .multiZoneIntelligentTiering ? "FREQUENT" : nil
    }

    /// The headers of an answer to HEAD or GET, but for those of ranges and length.
    func headers(of object: StoredObject) throws(COSError) -> [Field] {
        let (record, now) = (object.record, options.time.now())
        let description = record.description
        var fields = [
            Field("ETag", "\"\(record.etag)\""), Field("Last-Modified", record.modified.httpDate),
            Field("Accept-Ranges", "bytes"), try checksum(of: object),
        ]
        // Other providers' own headers are none here.
        fields += description.capitalizedHeaders.filter { !$0.name.hasPrefix("x-") }
        fields += description.metadata.map { Field(Self.metadataPrefix + $0.name, $0.value) }
        let storageClass = Self.storageClasses.name(description.storageClass)
        if storageClass != "STANDARD" { fields.append(Field("x-cos-storage-class", storageClass)) }
        if !description.tags.isEmpty { fields.append(Field("x-cos-tagging-count", String(description.tags.count))) }
        if let tier = Self.storageTier(record) { fields.append(Field("x-cos-storage-tier", tier)) }
        if case .appendable = record.kind {
            fields.append(Field("x-cos-object-type", "appendable"))
            fields.append(Field("x-cos-next-append-position", String(record.size)))
        } else {
            fields.append(Field("x-cos-object-type", "normal"))
        }
        if let restoration = record.restoration, let state = restoration.header(now) {
            fields.append(Field("x-cos-restore", state))
            if let order = restoration.order {
                let value = "tier=\"\(order.tier.lowercased())\"; request-date=\"\(order.date.httpDate)\""
                fields.append(Field("x-cos-restore-status", value))
            }
        }
        return fields + Self.encryptionHeaders(description.encryption)
    }

    /// Of the whole object, whatever part of it is sent.
    func checksum(of object: StoredObject) throws(COSError) -> Field {
        let sum = try COSError.storing { () throws(StorageError) in try object.crc64() }
        return Field("x-cos-hash-crc64ecma", String(sum))
    }
}
