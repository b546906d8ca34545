import Basics
import Digests
import FoundationEssentials
import HTTP
package import ObjectStorage
import Synchronization

/// Checksums of a large object's segments: its manifest has the MD5 of each (Swift documentation, static large objects).
extension SwiftStore {
    /// Sends a GET of the manifest, for an object that an answer has shown to be large. Empty where a server does not show
    /// manifests, and where the manifest is not that of `version`, whose ETag is made of the segments'.
    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        guard settings.verifiesChecksums, !hasOpaqueETags, learned.withLock({ $0.shapes.value(for: key) }) == .large,
            try await !isCeph()
        else { return [] }
        var call = call(.head, .get, key)
        let manifest = try await manifest(&call)
        guard let segments = try? JSONDecoder().decode([Segment].self, from: Data(manifest.body)) else { return [] }
        let hashes = segments.compactMap(\.wholeHash)
        let parts = zip(segments, hashes).compactMap { segment, hash in
            Hex.decode(hash).map { CheckedPart(size: segment.bytes ?? 0, .md5($0)) }
        }
        let size = parts.reduce(Int64(0)) { $0.addingReportingOverflow($1.size).partialValue }
        guard parts.count == segments.count, size == version.size,
            parts.allSatisfy({ $0.size > 0 }), Hex.encode(MD5.of(hashes.joined())) == version.etag.text
        else { return [] }
        return parts
    }
}

/// One element of a manifest.
private struct Segment: Decodable {
    var hash: String?
    var bytes: Int64?
    var range: String?
    var isManifest: Bool?

    enum CodingKeys: String, CodingKey {
        case hash, bytes, range
        case isManifest = "sub_slo"
    }

    /// The MD5 of a segment's content, when the object has all of it.
    var wholeHash: String? {
        guard range == nil, isManifest != true, let hash, hash.utf8.count == 32 else { return nil }
        return hash
    }
}
