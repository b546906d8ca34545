import Basics
import ObjectStorage

/// Which names a mount can have: keys that the store accepts, finds again and lists unchanged.
struct KeyCheckup {
    let session: ObjectStoreSession
    let place: DoctorPlace

    func run(_ report: DoctorReport) {
        marker(report)
        if session.capabilities.markers { markerCopy(report) }
        key("key with spaces", place.key(" a  b "), report)
        key("key with a line break", place.key("a\nb"), report)
        key("key not UTF-8", place.key(ByteString([0x61, 0xFF, 0xFE, 0x62])), report)
        let longest = session.capabilities.longestKey
        key("longest key", place.key(ofLength: longest), report, "\(longest) bytes")
    }

    private func key(_ name: String, _ key: ObjectKey, _ report: DoctorReport, _ detail: String? = nil) {
        guard session.capabilities.keyRules.allows(key.bytes) else {
            return report.skip(name, "not supported by this store; a mount refuses such names")
        }
        report.compare(name) { () throws(CommandError) in
            let refusal = try session.answer { store async throws(ObjectStoreError) -> String? in
                do throws(ObjectStoreError) {
                    _ = try await store.put(PutRequest(key), body: MemorySource(DoctorPlace.body))
                    _ = try await store.head(key, condition: nil)
                    return nil
                } catch {
                    if error.isRetryable || error.kind == .accessDenied { throw error }
                    return error.message
                }
            }
            if let refusal { return "the store refuses the key, and a mount such names (\(refusal))" }
            guard try place.listing(session).contains(where: { $0.key == key }) else {
                return "the listing lacks the key: a mount shows such a file until the next listing"
            }
            return nil
        }
    }

    /// Copies a directory marker, as the rename of a directory does.
    private func markerCopy(_ report: DoctorReport) {
        let (source, copy) = (place.key("directory-source/"), place.key("directory-copy/"))
        report.attempt("copy of a directory", lack: "copy", session) { store async throws(ObjectStoreError) in
            _ = try await store.put(PutRequest(source), body: MemorySource([]))
            _ = try await store.copy(CopyRequest(CopySource(source), to: copy))
            return nil
        }
    }

    private func marker(_ report: DoctorReport) {
        report.compare("object of a directory") { () throws(CommandError) in
            let marker = place.key("directory/")
            let name = ObjectKey(ByteString(marker.bytes.bytes.dropLast()))
            let info = try session.answer { store async throws(ObjectStoreError) -> ObjectInfo? in
                do throws(ObjectStoreError) {
                    let metadata = ObjectMetadata(contentType: "application/x-directory", user: ["pailfs-doctor": "1"])
                    _ = try await store.put(PutRequest(marker, metadata: metadata), body: MemorySource([]))
                    return try await store.head(marker, condition: nil)
                } catch {
                    guard error.kind == .notSupported || error.kind == .notFound else { throw error }
                    return nil
                }
            }
            let listed = try place.listing(session).map(\.key)
            guard info != nil, listed.contains(marker), !listed.contains(name) else {
                throw CommandError("the store does not keep \"name/\", or keeps it as a file: mkdir fails in a mount")
            }
            return info?.metadata.user["pailfs-doctor"] == "1"
                ? nil : "the store does not keep its metadata: modes, owners and times of directories are lost"
        }
    }
}
