package import Basics

/// A name with a value, as in headers, tags and user metadata.
package struct Field: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
}

/// A run of an object's bytes inside one immutable content file.
package struct ContentSegment: Hashable, Sendable {
    /// The file's name in the bucket's `content` directory.
    package let file: String
    package let offset: Int64
    package let length: Int64

    package init(file: String, offset: Int64, length: Int64) {
        (self.file, self.offset, self.length) = (file, offset, length)
    }
}

package enum ChecksumAlgorithm: String, CaseIterable, Sendable {
    case crc32 = "CRC32"
    case crc32c = "CRC32C"
    case crc64nvme = "CRC64NVME"
    case sha1 = "SHA1"
    case sha256 = "SHA256"
}

/// A checksum that a client gave or asked for.
package struct StoredChecksum: Hashable, Sendable {
    package let algorithm: ChecksumAlgorithm
    /// The digest in network byte order.
    package let digest: [UInt8]
    /// How many parts' digests it was computed over; nil when it covers the bytes themselves.
    package var composedOf: Int?

    package init(algorithm: ChecksumAlgorithm, digest: [UInt8], composedOf: Int? = nil) {
        (self.algorithm, self.digest, self.composedOf) = (algorithm, digest, composedOf)
    }
}

/// Who may do what with an object or bucket besides its owner.
package struct AccessControl: Hashable, Sendable {
    package struct Grant: Hashable, Sendable {
        package enum Grantee: Hashable, Sendable {
            case user(id: String)
            case group(uri: String)
            case email(String)

            /// Whoever asks, signed or not.
            package static let everyone = Grantee.group(uri: "http://acs.amazonaws.com/groups/global/AllUsers")
            /// Whoever signs with any account's key.
            package static let anyUser = Grantee.group(uri: "http://acs.amazonaws.com/groups/global/AuthenticatedUsers")
        }

        package let grantee: Grantee
        package let permission: String

        package init(grantee: Grantee, permission: String) {
            (self.grantee, self.permission) = (grantee, permission)
        }
    }

    package var grants: [Grant]
    /// The bucket's access counts instead: what OSS and COS call "default".
    package var isInherited: Bool

    package init(grants: [Grant] = [], isInherited: Bool = false) {
        (self.grants, self.isInherited) = (grants, isInherited)
    }
}

package enum Encryption: Hashable, Sendable {
    /// Nothing was asked for: what some stores then encrypt all the same, and others do not mention.
    case unstated
    case managed
    /// By a key service: `aws:kms` or `aws:kms:dsse` with the name of the key.
    case keyService(mode: String, keyID: String)
    /// With a key the client sends; only its MD5 in base64 is kept, and the bytes are stored as they came.
    case customer(keyMD5: String)
}

/// What the writer of an object says about it.
package struct ObjectDescription: Hashable, Sendable {
    /// Stored headers such as `content-type`; names in lower case.
    package var headers: [Field] = []
    /// User metadata; names in lower case without the dialect's prefix.
    package var metadata: [Field] = []
    package var storageClass = StorageClass.standard
    package var tags: [Field] = []
    package var access = AccessControl()
    package var encryption = Encryption.managed
    /// What only one dialect knows of, such as a date of expiry; every name starts with the dialect's.
    package var properties: [Field] = []

    package init() {}
}

/// One part of an object that was uploaded in parts.
package struct PartRecord: Hashable, Sendable {
    package let number: Int
    /// In bytes.
    package let size: Int64
    package let md5: [UInt8]
    package let modified: Timestamp
    package var checksum: StoredChecksum?
    /// CRC-64/ECMA of its bytes; nil when a dialect without it took the part.
    package var crc64: UInt64?
    package var segments: [ContentSegment]

    package init(
        number: Int, size: Int64, md5: [UInt8], modified: Timestamp, checksum: StoredChecksum? = nil,
        crc64: UInt64? = nil, segments: [ContentSegment] = []
    ) {
        (self.number, self.size, self.md5, self.modified) = (number, size, md5, modified)
        (self.checksum, self.crc64, self.segments) = (checksum, crc64, segments)
    }
}

/// A thawed copy of an archived object, or one on its way.
package struct Restoration: Hashable, Sendable {
    package var ready: Timestamp
    /// nil for classes whose restored copy stays.
    package var expires: Timestamp?
    /// How fast it was asked for, in the words of the dialect, and when; nil when the dialect does not show it.
    package var order: Order?

    package struct Order: Hashable, Sendable {
        package var tier: String
        package var date: Timestamp
    }

    package init(ready: Timestamp, expires: Timestamp? = nil, order: Order? = nil) {
        (self.ready, self.expires, self.order) = (ready, expires, order)
    }
}

/// How an object takes bytes, and whether it has any of its own.
package enum ObjectKind: Hashable, Sendable {
    case normal
    /// Grows by appending until it is sealed.
    case appendable(isSealed: Bool)
    /// Stands for another object of its bucket.
    case symlink(target: ByteString)
}

/// Which version of its key a record is. Records of buckets that never kept versions have none; their version ID is
/// `null`.
package struct VersionRecord: Hashable, Sendable {
    /// The ID of the one version that a bucket without versioning, or with suspended versioning, keeps of a key.
    package static let null = "null"

    package let id: String
    /// Sorts the versions of a key by age; nil while that is the sequence number of the record.
    var order: UInt64?
    /// The version says that the key was deleted.
    var isDeleteMarker = false
}

/// Everything known of one object; the unit that is written to disk, whole.
package struct ObjectRecord: Hashable, Sendable {
    package let key: ByteString
    /// In bytes.
    package let size: Int64
    /// Without quotes.
    package var etag: String
    package var modified: Timestamp
    package var description: ObjectDescription
    package var checksum: StoredChecksum?
    /// CRC-64/ECMA of its bytes; nil when a dialect without it stored the object.
    package var crc64: UInt64?
    package var kind = ObjectKind.normal
    /// Empty for an object that came in one piece.
    package var parts: [PartRecord] = []
    package var segments: [ContentSegment]
    package var restoration: Restoration?
    var version: VersionRecord?

    package init(
        key: ByteString, size: Int64, etag: String, modified: Timestamp, description: ObjectDescription,
        checksum: StoredChecksum? = nil, crc64: UInt64? = nil, kind: ObjectKind = .normal, parts: [PartRecord] = [],
        segments: [ContentSegment] = [], restoration: Restoration? = nil
    ) {
        (self.key, self.size, self.etag, self.modified) = (key, size, etag, modified)
        (self.description, self.checksum, self.parts) = (description, checksum, parts)
        (self.crc64, self.kind, self.segments, self.restoration) = (crc64, kind, segments, restoration)
    }
}
