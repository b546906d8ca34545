import Basics
import ObjectStorage

/// What `ls --json` prints of one entry, on a line of its own.
struct ListedLine: Encodable {
    let key: String
    /// The key in base64 (RFC 4648), where it is no UTF-8.
    let keyBase64: String?
    /// Whether the entry stands for all keys that begin with it.
    let isPrefix: Bool?
    let bytes: Int64?
    /// ISO 8601.
    let modified: String?
    let etag: String?
    let storageClass: String?

    init(_ object: ListedObject) {
        (key, keyBase64) = Output.names(object.key.bytes)
        isPrefix = nil
        (bytes, modified) = (object.version.size, object.version.modified.iso8601())
        (etag, storageClass) = (object.version.etag.text, object.storageClass)
    }

    init(prefix: ObjectKey) {
        (key, keyBase64) = Output.names(prefix.bytes)
        isPrefix = true
        (bytes, modified, etag, storageClass) = (nil, nil, nil, nil)
    }
}
