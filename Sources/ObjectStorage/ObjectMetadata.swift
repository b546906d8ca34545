package import Basics

/// The headers stored with an object: set whole by a put, a multipart create or a metadata update.
package struct ObjectMetadata: Hashable, Sendable {
    /// nil leaves the store's default (S3: binary/octet-stream).
    package var contentType: String?
    package var cacheControl: String?
    package var contentDisposition: String?
    package var contentEncoding: String?
    package var contentLanguage: String?
    package var expires: String?
    /// User metadata by lower-case name without the provider's prefix (`x-amz-meta-`); values are printable ASCII, as a header
    /// can hold. The code that sets other text percent-encodes it.
    package var user: [String: String]
    /// Properties of the object that a write keeps.
    package var kept = KeptProperties()

    package init(contentType: String? = nil, user: [String: String] = [:]) {
        self.contentType = contentType
        self.user = user
    }

    /// Whether the user metadata contains that of `other`: this is how an object written by this program is recognised.
    package func hasUser(of other: ObjectMetadata) -> Bool {
        other.user.allSatisfy { user[$0.key] == $0.value }
    }
}

/// Properties of an object besides bytes and headers, as far as a write has to keep them.
package struct KeptProperties: Hashable, Sendable {
    /// A HEAD or GET counted tags.
    package var isTagged = false
    /// The write replaces an object, whose tags and ACL stay.
    package var isOfObject = false
    /// The storage class of that object; nil is the store's standard class.
    package var storageClass: String?

    package init() {}
}

/// The answer to a HEAD or GET about an object.
package struct ObjectInfo: Sendable, Hashable {
    package var version: ObjectVersion
    package var metadata: ObjectMetadata
    /// As the store spells it; nil is the store's standard class.
    package var storageClass: String?
    /// Set while or after an archived object is restored.
    package var restore: RestoreState?
    /// CRC-64 (ECMA-182) of the content, from stores that have it.
    package var crc64: UInt64?
    /// The checksum of the whole content, where the answer has it and the mount verifies it.
    package var checksum: ContentChecksum?
    /// How the store has encrypted it, in its own words, and the ID of the key if there is one: `AES256`, `aws:kms ID`.
    package var encryption: String?

    package init(
        version: ObjectVersion, metadata: ObjectMetadata, storageClass: String? = nil, restore: RestoreState? = nil
    ) {
        (self.version, self.metadata, self.storageClass, self.restore) = (version, metadata, storageClass, restore)
    }
}

package enum RestoreState: Sendable, Hashable {
    case ongoing
    /// A readable copy exists until the given time, if the store returns one.
    case restored(until: Timestamp?)
}
