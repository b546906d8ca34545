import Basics

extension ObjectStore {
    /// Finds out whether the store would keep an object with this key and metadata; changes no object of another client.
    ///
    /// An upload is begun and aborted, which creates no object. A key with a line break needs an object: some servers lose it
    /// without an error. Two requests, or three.
    ///
    /// Throws: `.keyRefused`, `.keyTooLong` or `.metadataTooLarge` when it would not; other errors when that is unknown.
    /// After a crash: an upload without parts or, of a key with a line break, an empty object may be left.
    package func tryToKeep(
        _ key: ObjectKey, _ metadata: ObjectMetadata = ObjectMetadata()
    ) async throws(ObjectStoreError) {
        guard KeyKind.kinds(of: key.bytes).contains(.lineBreak) else {
            let upload: UploadID
            do { upload = try await createUpload(PutRequest(key, metadata: metadata)) } catch {
                // A server without multipart uploads: the first write shows it.
                if error.kind == .notSupported { return }
                throw error
            }
            do { try await abortUpload(key, upload) } catch { if error.kind == .cancelled { throw error } }
            return
        }
        if !capabilities.putIfAbsent {
            do {
                _ = try await head(key, condition: nil)
                return
            } catch { guard error.kind == .notFound else { throw error } }
        }
        let request = PutRequest(key, metadata: metadata, condition: capabilities.putIfAbsent ? .absent : nil)
        let answer: PutAnswer
        do { answer = try await put(request, body: MemorySource([])) } catch {
            // An object exists at the key, so the store keeps such keys.
            if error.kind == .preconditionFailed { return }
            throw error
        }
        try await delete(key, ifMatch: capabilities.deleteIfMatch ? answer.etag : nil)
    }
}
