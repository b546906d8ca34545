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
    /// User metadata by lower-case name without the provider's prefix (`x-amz-meta-`); values are what a header can
    /// hold (printable ASCII). Other text is percent-encoded by whoever sets it.
    package var user: [String: String]
    /// What else a write of the object keeps.
    package var kept = KeptProperties()

    package init(contentType: String? = nil, user: [String: String] = [:]) {
        self.contentType = contentType
        self.user = user
    }

    /// Whether the user metadata is that of `other`, and perhaps more: objects that we have written are told by theirs.
    package func hasUser(of other: ObjectMetadata) -> Bool {
        other.user.allSatisfy { user[$0.key] == $0.value }
    }
}

/// What an object has besides bytes and headers, as far as a write of it has to know that.
package struct KeptProperties: Hashable, Sendable {
    /// A HEAD or GET counted tags.
    package var isTagged = false
    /// The write replaces an object, whose tags and ACL stay.
    package var isOfObject = false
    /// The class of that object; nil is the store's standard class.
    package var storageClass: String?

    package init() {}
}

/// What one HEAD or GET tells of an object.
package struct ObjectInfo: Sendable, Hashable {
    package var version: ObjectVersion
    package var metadata: ObjectMetadata
    /// As the store spells it; nil is the store's standard class.
    package var storageClass: String?
    /// Set while or after an archived object is restored.
    package var restore: RestoreState?
    /// CRC-64 (ECMA-182) of the content, from stores that have it.
    package var crc64: UInt64?
    /// What the whole content comes to, where the answer tells it and the mount wants it compared.
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
    /// A readable copy exists until the given time, when the store tells one.
    case restored(until: Timestamp?)
}
