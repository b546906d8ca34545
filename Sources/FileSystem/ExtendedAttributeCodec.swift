import Basics
import FoundationEssentials
import ObjectStorage

/// `user.*` extended attributes in the one header `xattr` the s3fs family uses: percent-encoded JSON, name to base64.
enum ExtendedAttributeCodec {
    private static let header = "xattr"

    /// Attributes whose header cannot be read are none.
    static func decode(_ metadata: ObjectMetadata) -> [String: [UInt8]] {
        guard let text = metadata.user[header], let json = PercentEncoding.decode(text),
            let values = try? JSONDecoder().decode([String: String].self, from: Data(json))
        else { return [:] }
        return values.compactMapValues { Base64.decode($0) }
    }

    /// Writes `attributes` into `metadata`, or removes the header when there are none.
    static func encode(_ attributes: [String: [UInt8]], into metadata: inout ObjectMetadata) {
        guard !attributes.isEmpty else {
            metadata.user[header] = nil
            return
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        guard let json = try? encoder.encode(attributes.mapValues { Base64.encode($0) }) else { return }
        metadata.user[header] = PercentEncoding.encode(Array(json))
    }
}
