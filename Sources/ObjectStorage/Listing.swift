package import Basics

/// Which keys to list. With a delimiter, keys that hold it past the prefix are rolled up into common prefixes.
package struct ListRequest: Sendable, Hashable {
    package var prefix: ByteString
    /// One byte, in practice `/`; nil lists flat.
    package var delimiter: UInt8?
    /// Keys (and common prefixes) at or before this are left out. Ignored when `cursor` is set.
    package var startAfter: ByteString?
    /// `ListingPage.next` of the page before.
    package var cursor: ListingCursor?
    /// Most entries wanted; the store may give fewer. nil is the store's page size.
    package var limit: Int?

    package init(
        prefix: ByteString = "", delimiter: UInt8? = nil, startAfter: ByteString? = nil, cursor: ListingCursor? = nil,
        limit: Int? = nil
    ) {
        (self.prefix, self.delimiter, self.startAfter) = (prefix, delimiter, startAfter)
        (self.cursor, self.limit) = (cursor, limit)
    }

    /// A key before `key` with few others between the two, for a listing that is to begin with `key`; of at most `longest` bytes
    /// if `key` is. Empty where only the start of the bucket comes before.
    package static func bound(before key: ByteString, longest: Int) -> ByteString {
        let start = ByteString(key.bytes.dropLast())
        // Only an ASCII byte can be decremented without invalidating the UTF-8.
        guard let last = key.bytes.last, (0x22..<0x7F).contains(last) else { return start }
        return start + ByteString([last - 1]) + ByteString("~~~~".utf8.prefix(max(0, longest - key.count)))
    }
}

/// Where the next page starts: a token or marker of the store. Opaque outside the provider.
package struct ListingCursor: Sendable, Hashable {
    package let bytes: ByteString
    package init(_ bytes: ByteString) { self.bytes = bytes }
}

/// One object as a listing shows it.
package struct ListedObject: Sendable, Hashable {
    package var key: ObjectKey
    package var version: ObjectVersion
    package var storageClass: String?
    /// OSS lists symlink objects as such; their target is not in the listing.
    package var isSymlink: Bool

    package init(key: ObjectKey, version: ObjectVersion, storageClass: String? = nil, isSymlink: Bool = false) {
        (self.key, self.version, self.storageClass, self.isSymlink) = (key, version, storageClass, isSymlink)
    }
}

/// One page of a listing. Objects and prefixes are each in byte order, and both lie between the page's ends.
package struct ListingPage: Sendable, Hashable {
    package var objects: [ListedObject]
    /// Each ends with the delimiter.
    package var commonPrefixes: [ObjectKey]
    /// nil on the last page. An empty page may still have a successor.
    package var next: ListingCursor?

    /// Whether the page has no entries; more may follow on the next.
    package var isEmpty: Bool { objects.isEmpty && commonPrefixes.isEmpty }

    package init(objects: [ListedObject] = [], commonPrefixes: [ObjectKey] = [], next: ListingCursor? = nil) {
        (self.objects, self.commonPrefixes, self.next) = (objects, commonPrefixes, next)
    }
}
