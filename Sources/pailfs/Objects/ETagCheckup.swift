import Basics
import ObjectStorage

/// Whether the ETag in the answer to a write is the one that HEAD and the listing show afterwards.
struct ETagCheckup {
    let session: ObjectStoreSession
    let place: DoctorPlace

    func run(_ report: DoctorReport) {
        let (put, made, copy) = (place.key("etag-put"), place.key("etag-completion"), place.key("etag-copy"))
        check("ETag of a put", put, report) { store async throws(ObjectStoreError) in
            try await store.put(PutRequest(put), body: MemorySource(DoctorPlace.body)).etag
        }
        guard session.capabilities.mostParts > 1 else {
            return report.skip("ETag of a completion", "not supported by this store; one PUT sends each file")
        }
        check("ETag of a completion", made, report) { store async throws(ObjectStoreError) in
            let upload = try await store.createUpload(PutRequest(made))
            let part = try await store.uploadPart(
                PartRequest(made, upload, number: 1), body: MemorySource(DoctorPlace.body))
            do throws(ObjectStoreError) {
                return try await store.completeUpload(made, upload, parts: [part], condition: nil).etag
            } catch {
                guard error.isOfUntoldVersion else { throw error }
                return try await store.head(made, condition: nil).version.etag
            }
        }
        check("ETag of a copy", copy, report) { store async throws(ObjectStoreError) in
            try await store.copy(CopyRequest(CopySource(made), to: copy)).etag
        }
    }

    private func check(
        _ name: String, _ key: ObjectKey, _ report: DoctorReport,
        _ write: @escaping @Sendable (any ObjectStore) async throws(ObjectStoreError) -> ETag
    ) {
        let before = session.capabilities.quirks
        report.compare(name) { () throws(CommandError) in
            let (told, shown) = try session.answer { store async throws(ObjectStoreError) -> (ETag, ETag) in
                let told = try await write(store)
                let shown = try await store.head(key, condition: nil).version.etag
                return (told, shown)
            }
            guard told == shown else {
                throw CommandError("HEAD shows another ETag: a mount takes its own writes for those of another host")
            }
            if let quirk = session.capabilities.quirks.subtracting(before).first { return "the server \(quirk)" }
            let listed = try place.listing(session).first { $0.key == key }
            guard let listed else { throw CommandError("the listing does not show the object yet") }
            return listed.version.etag == shown
                ? nil : "the listing shows another ETag: a mount requests listed objects again"
        }
    }
}
