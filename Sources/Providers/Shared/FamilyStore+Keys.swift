import Basics
import ObjectStorage
import Synchronization

/// Keys and headers that a server takes and does not keep as they are.
extension FamilyStore {
    private static let lineBreak = UInt8(ascii: "\n")

    /// The first key of each doubtful kind is looked for after it was made.
    func checkKept(_ key: ObjectKey, size: Int64) async throws(ObjectStoreError) {
        guard profile.isOfAnyMaker else { return }
        let conduct = learned.withLock { $0.conduct }
        if size == 0, key.bytes.hasSuffix("/"), !conduct.keepsMarkers { try await checkMarker(key) }
        if key.bytes.bytes.contains(Self.lineBreak), !conduct.keepsLineBreaks { try await checkLineBreak(key) }
    }

    /// rclone serve s3 makes a file `d` of the marker `d/`, and removes that with it.
    private func checkMarker(_ key: ObjectKey) async throws(ObjectStoreError) {
        let name = ObjectKey(ByteString(key.bytes.bytes.dropLast()))
        guard try await size(of: name) == 0 else { return learned.withLock { $0.conduct.keepsMarkers = true } }
        try await delete(key, ifMatch: nil)
        // Another host's empty file stays where it is, and the caller tries again.
        guard try await size(of: name) == nil else {
            throw ObjectStoreError(
                .conflict, .put, key: key, code: "FileBesideMarker",
                message: "another client created a file of this name")
        }
        learned.withLock { $0.capabilities.markers = false }
        note(.markerIsFile)
        throw ObjectStoreError(
            .notSupported, .put, key: key, code: "MarkerIsFile",
            message: "the store cannot keep directories: it shows the object \"name/\" as a file")
    }

    /// moto takes such a key, and does not know it afterwards.
    private func checkLineBreak(_ key: ObjectKey) async throws(ObjectStoreError) {
        guard try await size(of: key) == nil else { return learned.withLock { $0.conduct.keepsLineBreaks = true } }
        try? await delete(key, ifMatch: nil)
        learned.withLock { $0.capabilities.keyRules.refused = Self.lineBreak...Self.lineBreak }
        note(.lineBreaksLost)
        throw ObjectStoreError(
            .keyRefused, .put, key: key, code: "KeyLost",
            message: "the store does not find keys with a line break")
    }

    /// nil: no such object.
    private func size(of key: ObjectKey) async throws(ObjectStoreError) -> Int64? {
        do { return try await head(key, condition: nil).version.size } catch {
            guard error.kind == .notFound else { throw error }
            return nil
        }
    }

    /// A key with bytes that few servers take is what a refused request is refused for.
    func blaming(_ key: ObjectKey, for error: ObjectStoreError) -> ObjectStoreError {
        guard error.kind == .invalidRequest, error.status != nil,
            String(validating: key.bytes.bytes, as: UTF8.self) == nil || key.bytes.bytes.contains(where: { $0 < 0x20 })
        else { return error }
        var error = error
        error.kind = .keyRefused
        return error
    }

    /// `Metadata value longer than 256: x-object-meta-user`.
    func learnMetadataLimit(_ error: ObjectStoreError) {
        let words = error.message.split(separator: " ")
        guard let than = words.firstIndex(of: "than"), than + 1 < words.count,
            let limit = Int(words[than + 1].filter(\.isNumber)), limit > 0
        else { return }
        learned.withLock { $0.capabilities.longestMetadataValue = limit }
        note(.metadataValues)
    }
}
