package import Basics

/// The journal's number for one row. Grows; not used again while any row refers to it.
package struct IntentID: RawRepresentable, Sendable, Hashable, Comparable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static func < (left: IntentID, right: IntentID) -> Bool { left.rawValue < right.rawValue }
}

/// One dirty file: the map of its staged bytes, the object that they become, and whether they were acknowledged.
///
/// Its owner is the process that holds the lock on the cache directory. The row is written before the first staged byte and
/// ends when the object is in the bucket or the file is given up; the staging file is removed after the row. So a staging
/// file without a row has no bytes that are still needed.
package struct FileIntent: Codable, Sendable, Hashable {
    /// Name of the file in `staging/`.
    package var staging: String
    /// The key below the mount's prefix.
    package var key: ByteString
    /// The file's inode number, if a rename has given it `key`: the metadata cache may not have recorded that yet. nil: it
    /// was not renamed.
    package var ino: UInt64?
    /// The version below the staged bytes; nil for a new file.
    package var base: VersionRecord?
    /// Whether `base` is another file, whose bytes are copied at the store; nil: it is not.
    package var isCopy: Bool?
    /// The commit's condition on the destination.
    package var condition: ConditionRecord
    /// The headers to commit with; nil until a commit was requested.
    package var headers: HeadersRecord?
    /// The map of the bytes when the row was written; nil: not recorded yet.
    package var extents: [ExtentRecord]?
    /// The prefix of the ids of this file's commits.
    package var identity: String
    /// The id of the last PUT or completion that was about to be sent. The object's headers show whether it was carried out.
    package var attempt: String?
    /// Whether there was an earlier such attempt, whose id `attempt` no longer has; nil: there was none.
    package var wasTried: Bool?
    /// Identities of earlier commits whose requests may still reach the store late; their objects are not another writer's.
    package var ancestors: [String]
    /// Whether these bytes were acknowledged to a program as safe. Only then does recovery commit them unasked after a crash.
    package var isAcknowledged: Bool
    /// The boot that wrote the row. Bytes of an earlier boot are certain to be there only if `isFlushed`.
    package var boot: String
    /// Whether the bytes were flushed to the disk before the row was written.
    package var isFlushed: Bool
    /// Time of the last change, in seconds since 1970.
    package var changed: Int64
    /// Whether a process has listed the file for `pailfs recover`, since no program has it open as it was any more; nil: none
    /// has.
    package var isLeft: Bool?
    /// The inode number of the file that lost its name to another host's file, if these bytes are to be stored at another
    /// `key` beside it.
    package var besideOf: UInt64?
    /// The length of the version that the staging file began with, if a commit has made another version the `base` since;
    /// nil: that of `base`.
    package var stagedOver: Int64?

    package init(staging: String, key: ByteString, base: VersionRecord?, identity: String, boot: String) {
        (self.staging, self.key, self.base, self.identity, self.boot) = (staging, key, base, identity, boot)
        condition = .any
        ancestors = []
        (isAcknowledged, isFlushed) = (false, false)
        changed = 0
    }

    /// The length of the version that the staging file began with.
    package var baseSize: Int64 { stagedOver ?? (isCopy == true ? 0 : base?.size ?? 0) }

    /// Makes `version` the source of the unwritten bytes; the staging file stays as it is.
    package mutating func rebase(on version: VersionRecord?) {
        guard version != base else { return }
        stagedOver = baseSize
        base = version
        // A version at the file's own key was committed from this file: no bytes are copied any more.
        if version?.key == key { isCopy = nil }
    }

    /// Whether any process has sent a request that may have made an object of the file.
    package var isTried: Bool { attempt != nil || wasTried == true }

    /// Whether its bytes stay on disk for a user to recover, and no process commits them unasked.
    package var isWithdrawn: Bool { isFlushed && !isAcknowledged }

    /// Length in bytes, if the row has the map.
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
    /// The number of a `PieceSource`.
    package var source: UInt8

    package init(end: Int64, source: UInt8) { (self.end, self.source) = (end, source) }
}

/// A multipart upload that this mount began and that has neither become an object nor been aborted.
///
/// The row is written right after the store's answer, before a part is sent. A crash between the two leaves an upload without
/// parts that looks like another program's: it is left alone.
package struct UploadRecord: Codable, Sendable, Hashable {
    package var key: ByteString
    /// The store's upload ID.
    package var upload: String
    /// The file whose bytes it takes; nil when it is only to be aborted.
    package var file: Int64?
    /// The commit id in the headers it was begun with.
    package var attempt: String
    package var headers: HeadersRecord
    /// The sizes from which the layout of its parts was computed, in bytes.
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
    /// CRC-32C of the bytes sent: it shows whether the staged bytes have changed since. nil for a part that the store copied
    /// from the base.
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
    /// Percent-encoded text, so that people can read a row.
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
