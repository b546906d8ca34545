import Basics
import ObjectStorage

/// What `uploads list` prints of one upload: a line of text with a line for each part, or with `--json` this object.
struct UploadLine: Encodable {
    let key: String
    /// The key in base64 (RFC 4648), where it is no UTF-8.
    let keyBase64: String?
    let id: String
    /// ISO 8601.
    let initiated: String?
    /// The sum of the parts that the store has.
    let bytes: Int64
    let storageClass: String?
    let initiator: String?
    /// nil unless parts are asked for.
    let parts: [Part]?

    struct Part: Encodable {
        let number: Int
        let bytes: Int64
        let etag: String
    }

    init(_ upload: UploadInProgress, _ received: [UploadedPart], showingParts: Bool) {
        (key, keyBase64) = Output.names(upload.key.bytes)
        (id, initiated) = (upload.upload.text, upload.initiated?.iso8601())
        bytes = received.reduce(Int64(0)) { $0 + $1.size }
        (storageClass, initiator) = (upload.storageClass, upload.initiator)
        parts = showingParts ? received.map { Part(number: $0.number, bytes: $0.size, etag: $0.etag.text) } : nil
    }

    /// Prints the lines of text. `key` is the key in its bytes.
    func print(_ key: ObjectKey, long: Bool) {
        var columns = [initiated ?? "-", "\(bytes)", id]
        if long { columns += [storageClass ?? "-", initiator ?? "-"] }
        Output.line(naming: ByteString(columns.joined(separator: "  ") + "  ") + key.bytes)
        for part in parts ?? [] { Output.line(naming: ByteString("  \(part.number)  \(part.bytes)  \(part.etag)")) }
    }
}
