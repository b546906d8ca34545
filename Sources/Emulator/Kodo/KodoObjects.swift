import Basics
import Digests

/// What Kodo says of an object, whoever stored it.
enum KodoObjects {
    /// What is kept of an object for this dialect alone.
    enum Property {
        static let status = "kodo-status"
        static let expiration = "kodo-expiration"
        static let endUser = "kodo-end-user"
    }

    private static let digestName = "qetag"

    /// The hash: of the bytes and, where they came in parts, of the parts' sizes (Qiniu's qetag). Computed once for
    /// objects that another dialect stored.
    static func hash(of object: StoredObject) throws(StorageError) -> String {
        let (record, content) = (object.record, object.content)
        let digest = try content.digest(digestName) { () throws(StorageError) in
            let sizes = record.parts.map(\.size)
            guard sizes.count > 1 || sizes.contains(where: { $0 > QETag.blockSize }),
                sizes.reduce(0, +) == content.size
            else { return try hash(of: 0..<content.size, content) }
            var parts: [QETag.Part] = []
            var start: Int64 = 0
            for size in sizes {
                parts.append(QETag.Part(digest: try hash(of: start..<(start + size), content), size: size))
                start += size
            }
            return QETag.joining(parts)
        }
        return QETag.text(digest)
    }

    static func remember(_ digest: [UInt8], of content: Content) { content.remember(digest, as: digestName) }

    private static func hash(of range: ByteRange, _ content: Content) throws(StorageError) -> [UInt8] {
        var hasher = QETag()
        try content.forEachPiece(of: range) { (piece) throws(StorageError) in
            hasher.update(piece)
        } onError: {
            $0
        }
        return hasher.finish()
    }

    // MARK: Storage classes

    /// The index is Kodo's number.
    private static let classes: [StorageClass] = [
        .standard, .infrequentAccess, .archive, .deepArchive, .instantArchive, .intelligentTiering,
    ]

    static func storageClass(_ type: Int) -> StorageClass? { classes.indices.contains(type) ? classes[type] : nil }

    /// Kodo's number, or that of the nearest class it has.
    static func type(of storageClass: StorageClass) -> Int64 {
        switch storageClass {
        case .standard, .reducedRedundancy, .multiZone: 0
        case .infrequentAccess, .oneZoneInfrequentAccess, .multiZoneInfrequentAccess: 1
        case .archive: 2
        case .deepArchive, .deepColdArchive: 3
        case .instantArchive: 4
        case .intelligentTiering, .multiZoneIntelligentTiering: 5
        }
    }

    static func isReadable(_ record: ObjectRecord, at now: Timestamp) -> Bool {
        !record.description.storageClass.isFrozen || record.restoration?.isThere(now) ?? false
    }

    // MARK: Metadata

    static let metadataPrefix = "x-qn-meta-"

    /// Headers that are set as `x-qn-meta-!<name>`, as the SDKs' changes of headers do, and by fields of a form.
    private static let headers: Set<String> = [
        "cache-control", "content-disposition", "content-encoding", "content-language", "expires",
    ]

    /// Sets `x-qn-meta-<name>`; throws when the name may not be.
    static func set(_ name: String, _ value: String, in description: inout ObjectDescription) throws(KodoError) {
        let short = name.dropFirst(metadataPrefix.count).lowercased()
        let plain = short.hasPrefix("!") ? short.dropFirst() : short[...]
        guard name.utf8.count <= 50, !plain.isEmpty,
            plain.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") })
        else { throw .invalid("invalid metadata name \(name)") }
        guard value.utf8.allSatisfy({ $0 >= 32 && $0 != 127 }) else { throw .invalid("invalid value of \(name)") }
        if short.hasPrefix("!"), headers.contains(String(plain)) || plain == "content-type" {
            setHeader(String(plain), value, in: &description)
        } else {
            description.metadata.removeAll { $0.name == short }
            description.metadata.append(Field(short, value))
        }
    }

    static func setHeader(_ name: String, _ value: String?, in description: inout ObjectDescription) {
        description.headers.removeAll { $0.name == name }
        if let value, !value.isEmpty { description.headers.append(Field(name, value)) }
    }

    /// The metadata with headers as `!<name>`.
    static func metadata(of description: ObjectDescription) -> [Field] {
        description.headers.filter { headers.contains($0.name) }.map { Field("!\($0.name)", $0.value) }
            + description.metadata
    }

    /// At most 1024 bytes of names and values (Kodo, limits of metadata).
    static func checkBudget(_ description: ObjectDescription) throws(KodoError) {
        let size = metadata(of: description).reduce(0) {
            $0 + metadataPrefix.utf8.count + $1.name.utf8.count + $1.value.utf8.count
        }
        guard size <= 1024 else { throw .invalid("metadata has \(size) bytes, at most 1024 are allowed") }
    }

    static func mimeType(of record: ObjectRecord) -> String {
        record.description.headers.first { $0.name == "content-type" }?.value ?? "application/octet-stream"
    }

    // MARK: Properties

    static func property(_ name: String, of record: ObjectRecord) -> String? {
        record.description.properties.first { $0.name == name }?.value
    }

    static func set(_ property: String, to value: String?, in record: inout ObjectRecord) {
        record.description.properties.removeAll { $0.name == property }
        if let value { record.description.properties.append(Field(property, value)) }
    }

    static func isDisabled(_ record: ObjectRecord) -> Bool { property(Property.status, of: record) == "1" }

    static func isExpired(_ record: ObjectRecord, at now: Timestamp) -> Bool {
        guard let end = property(Property.expiration, of: record).flatMap({ Int64($0) }) else { return false }
        return end <= now.seconds
    }
}

extension Timestamp {
    /// Kodo's `putTime`: units of 100 ns since 1970.
    var putTime: Int64 { seconds * 10_000_000 + Int64(nanoseconds) / 100 }
}
