package import Basics

/// The name of an object in its bucket: bytes, not empty. Stores limit it to 750-1024 bytes of UTF-8.
package struct ObjectKey: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let bytes: ByteString

    package init(_ bytes: ByteString) {
        precondition(!bytes.isEmpty, "an object key is never empty")
        self.bytes = bytes
    }

    package init(_ string: String) { self.init(ByteString(string)) }

    package static func < (left: ObjectKey, right: ObjectKey) -> Bool { left.bytes < right.bytes }
    package var description: String { bytes.description }
}

/// An entity tag as the store gave it, without quotes and without the weak mark `W/` (RFC 9110 section 8.8.3). Opaque.
package struct ETag: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    /// Takes the header or XML form: quotes and `W/` are removed.
    package init(_ text: String) {
        var text = text[...]
        if text.hasPrefix("W/") { text = text.dropFirst(2) }
        if text.count >= 2, text.hasPrefix("\""), text.hasSuffix("\"") { text = text.dropFirst().dropLast() }
        self.text = String(text)
    }

    package var description: String { text }
}

/// One state of an object: reads are pinned to it, and commits conditioned on it.
package struct ObjectVersion: Hashable, Sendable {
    package var etag: ETag
    /// In bytes.
    package var size: Int64
    /// Last-Modified at the store, to the second or finer; the epoch for a version of this mount whose time the store has not
    /// returned yet.
    package var modified: Timestamp
    /// The version ID of a versioned bucket.
    package var versionID: String?

    /// No store has larger objects, and Linux no larger files: a larger size is wrong.
    private static let largestSize: Int64 = 1 << 60

    /// Limits a size out of bounds to the largest: sums of sizes then cannot overflow.
    package init(etag: ETag, size: Int64, modified: Timestamp, versionID: String? = nil) {
        let size = min(max(size, 0), Self.largestSize)
        (self.etag, self.size, self.modified, self.versionID) = (etag, size, modified, versionID)
    }
}

/// The identity of a multipart upload at the store. Opaque.
package struct UploadID: Hashable, Sendable, CustomStringConvertible {
    package let text: String
    package init(_ text: String) { self.text = text }
    package var description: String { text }
}
