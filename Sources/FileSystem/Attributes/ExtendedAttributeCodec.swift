import Basics
import FoundationEssentials
import ObjectStorage

/// `user.*` extended attributes in the one header `xattr` the s3fs family uses: percent-encoded JSON, name to base64.
///
/// Readers decode every escape and leave other bytes as they are, so only what a header value cannot carry is escaped: an escape
/// takes three bytes of the little that stores keep.
enum ExtendedAttributeCodec {
    private static let header = "xattr"

    /// The punctuation of JSON and base64, except `-_.~`.
    private static let punctuation = Set("{}\":,/+=".utf8)

    /// Empty when the header cannot be read.
    static func decode(_ metadata: ObjectMetadata) -> [String: [UInt8]] {
        guard let text = metadata.user[header], let json = PercentEncoding.decode(text),
            let values = try? JSONDecoder().decode([String: String].self, from: Data(json))
        else { return [:] }
        return values.compactMapValues { Base64.decode($0) }
    }

    /// Writes `attributes` into `metadata`, or removes the header when there are none. Attributes that are there already stay as
    /// they are written.
    static func encode(_ attributes: [String: [UInt8]], into metadata: inout ObjectMetadata) {
        guard !attributes.isEmpty else {
            metadata.user[header] = nil
            return
        }
        if decode(metadata) == attributes { return }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(attributes.mapValues { Base64.encode($0) }) else { return }
        var text = ""
        for byte in json {
            if punctuation.contains(byte) {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                text += PercentEncoding.encode(CollectionOfOne(byte))
            }
        }
        metadata.user[header] = text
    }
}
