package import Basics

/// The journal's number for one row. Grows; not used again while any row speaks of it.
package struct IntentID: RawRepresentable, Sendable, Hashable, Comparable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static func < (left: IntentID, right: IntentID) -> Bool { left.rawValue < right.rawValue }
}

/// One dirty file: which staged bytes there are, what object they shall become, and whether they were acknowledged.
///
/// Its owner is the process that holds the lock on the cache directory. The row is there from before the first staged byte
/// until the object is in the bucket or the file is given up, and the staging file is removed after the row. So a staging
/// file without a row holds nothing that anybody waits for.
package struct FileIntent: Codable, Sendable, Hashable {
    /// Name of the file in `staging/`.
    package var staging: String
    /// Below the mount's prefix.
    package var key: ByteString
    /// Its inode number, once a rename has given it `key`: the metadata cache may not know of that yet. nil: it was not renamed.
    package var ino: UInt64?
    /// The version below the staged bytes; nil for a new file.
    package var base: VersionRecord?
    /// Whether `base` is another file, whose bytes are copied at the store; nil: it is not.
    package var isCopy: Bool?
    /// What the commit demands of the destination.
    package var condition: ConditionRecord
    /// The headers to commit with; nil until a commit was asked for.
    package var headers: HeadersRecord?
    /// Where the bytes are, as they were when the row was written; nil: not told yet.
    package var extents: [ExtentRecord]?
    /// What the ids of this file's commits begin with.
    package var identity: String
    /// The id of the put or complete that was about to be sent last. Whether it was carried out is what the object's headers
    /// tell.
    package var attempt: String?
    /// Whether there was such an attempt of which `attempt` does not tell any more; nil: there was none.
    package var wasTried: Bool?
    /// Identities of the commits before this one that may still reach the store late. Not another writer's.
    package var ancestors: [String]
    /// Whether a program was told that these bytes are safe. Only then are they committed unasked after a crash.
    package var isAcknowledged: Bool
    /// The boot that wrote the row. Bytes of an earlier boot are there for certain only if `isFlushed`.
    package var boot: String
    /// Whether the bytes were flushed to the disk before the row was written.
    package var isFlushed: Bool
    /// Of the last change, in seconds since 1970.
    package var changed: Int64
    /// Whether a process has put it among the files for `pailfs recover`: no program has it open as it was; nil: none has.
    package var isLeft: Bool?
    /// The inode number of the file that lost its name to another host's, if these bytes of it were to be stored at a `key` beside.
    package var besideOf: UInt64?
    /// How many bytes of a version the staging file began with, once a commit has made another version the `base`; nil: as many as
    /// `base` has.
    package var stagedOver: Int64?

    package init(staging: String, key: ByteString, base: VersionRecord?, identity: String, boot: String) {
        (self.staging, self.key, self.base, self.identity, self.boot) = (staging, key, base, identity, boot)
        condition = .any
        ancestors = []
        (isAcknowledged, isFlushed) = (false, false)
        changed = 0
    }

    /// How many bytes of a version the staging file began with.
    package var baseSize: Int64 { stagedOver ?? (isCopy == true ? 0 : base?.size ?? 0) }

    /// What was not written is in this version from now on; the staging file stays as it is.
    package mutating func rebase(on version: VersionRecord?) {
        guard version != base else { return }
        stagedOver = baseSize
        base = version
        // A version at the file's own key was made of this file: nothing is copied any more.
        if version?.key == key { isCopy = nil }
    }

    /// Whether the store was asked to make an object of the file, in any process.
    package var isTried: Bool { attempt != nil || wasTried == true }

    /// Whether its bytes are kept on the disk for whoever wants them, and no process goes on with them unasked.
    package var isWithdrawn: Bool { isFlushed && !isAcknowledged }

    /// Length in bytes, as far as the row tells.
    package var size: Int64? { extents.map { $0.last?.end ?? 0 } }
}

/// A version of an object, pinned by key and ETag.
package struct VersionRecord: Codable, Sendable, Hashable {
    package var key: ByteString
    package var etag: String
    /// In bytes.
    package var size: Int64
    /// Last-Modified.
    package var modified: Timestamp
    package var versionID: String?

    package init(key: ByteString, etag: String, size: Int64, modified: Timestamp, versionID: String?) {
        (self.key, self.etag, self.size, self.modified, self.versionID) = (key, etag, size, modified, versionID)
    }
}

package enum ConditionRecord: Codable, Sendable, Hashable {
    case any
    case absent
    case match(etag: String)
}

/// An object's headers.
package struct HeadersRecord: Codable, Sendable, Hashable {
    /// `content-type`, `cache-control` and their like.
    package var standard: [String: String]
    /// User metadata without the provider's prefix.
    package var user: [String: String]

    package init(standard: [String: String], user: [String: String]) { (self.standard, self.user) = (standard, user) }
}

/// A piece of a dirty file; it starts where the one before ends.
package struct ExtentRecord: Codable, Sendable, Hashable {
    package var end: Int64
    /// As `PieceSource` numbers them.
    package var source: UInt8

    package init(end: Int64, source: UInt8) { (self.end, self.source) = (end, source) }
}

/// A multipart upload that this mount began and that has neither become an object nor been aborted.
///
/// The row follows the store's answer at once, before a part is sent. A crash between the two leaves an upload without
/// parts that nobody can tell from another program's: it is left alone.
package struct UploadRecord: Codable, Sendable, Hashable {
    package var key: ByteString
    /// As the store named it.
    package var upload: String
    /// Whose bytes it takes; nil when it is only to be aborted.
    package var file: Int64?
    /// The commit id in the headers it was begun with.
    package var attempt: String
    package var headers: HeadersRecord
    /// What the layout of its parts was made from, in bytes.
    package var partSize: Int64
    package var layoutSize: Int64
    /// The version that all its parts are copied from; nil where they are sent.
    package var copied: VersionRecord?

    package init(
        key: ByteString, upload: String, file: IntentID?, attempt: String, headers: HeadersRecord, partSize: Int64,
        layoutSize: Int64, copied: VersionRecord? = nil
    ) {
        (self.key, self.upload, self.attempt, self.headers) = (key, upload, attempt, headers)
        (self.partSize, self.layoutSize, self.copied) = (partSize, layoutSize, copied)
        self.file = file?.rawValue
    }
}

/// A part that the store has acknowledged.
package struct PartRecord: Codable, Sendable, Hashable {
    /// From 1.
    package var number: Int
    package var start: Int64
    package var end: Int64
    package var etag: String
    /// CRC-32C of the bytes sent: staged bytes that changed since then show. nil for a part that the store copied from
    /// the base.
    package var checksum: UInt32?
    /// The ETag of the version it was copied from.
    package var copiedFrom: String?

    package init(number: Int, range: ByteRange, etag: String, checksum: UInt32?, copiedFrom: String?) {
        (self.number, self.etag, self.checksum, self.copiedFrom) = (number, etag, checksum, copiedFrom)
        (start, end) = (range.lowerBound, range.upperBound)
    }

    package var range: ByteRange { start..<max(start, end) }
}

extension ByteString: Codable {
    /// Percent-encoded text, so that a row can be read by people.
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(PercentEncoding.encode(self, keepingSlash: true))
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let bytes = PercentEncoding.decode(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "a key is not percent-encoded")
        }
        self.init(bytes)
    }
}

extension Timestamp: Codable {
    private enum CodingKeys: String, CodingKey { case seconds, nanoseconds }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(seconds, forKey: .seconds)
        try container.encode(nanoseconds, forKey: .nanoseconds)
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            seconds: try container.decode(Int64.self, forKey: .seconds),
            nanoseconds: try container.decode(Int32.self, forKey: .nanoseconds))
    }
}
