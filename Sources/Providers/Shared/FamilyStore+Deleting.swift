import Basics
import HTTP
package import ObjectStorage
import Synchronization

/// Deletes of many objects (Amazon S3 API, DeleteObjects). After a server has refused the request for several, each object gets
/// a request of its own.
extension FamilyStore {
    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        // A document cannot contain keys with control characters.
        let together = capabilities.deleteBatch > 1 ? keys.filter { XMLText.canHold($0.bytes) } : []
        var failures: [ObjectStoreError] = []
        if !together.isEmpty { failures += try await deleteTogether(together) }
        let alone = together.isEmpty ? keys : keys.filter { !XMLText.canHold($0.bytes) }
        return failures + (try await deleteOneByOne(alone))
    }

    private func deleteTogether(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        var call = Call(.deleteMany, .post)
        call.query = [QueryItem("delete")]
        var document = "<Delete\(xmlns)>"
        for key in keys { document += "<Object><Key>\(XMLText.escape(key.description))</Key></Object>" }
        document += "<Quiet>true</Quiet></Delete>"
        let body = MemorySource(Array(document.utf8))
        call.headers["Content-Type"] = "application/xml"
        _ = try seal(&call, body)
        let response: HTTPResponse
        do { response = try await send(call, body: body) } catch {
            return try await deleteOneByOne(keys, after: error)
        }
        // A quiet answer without errors need not be a document (OSS API, "DeleteMultipleObjects").
        guard !response.body.isEmpty else { return [] }
        let errors = try read(call, response) { body throws(XMLError) in try FamilyDocuments.deleteErrors(body) }
        return errors.compactMap { key, document in
            let key = key.isEmpty ? nil : ObjectKey(key)
            let error = self.errors.error(response, .deleteMany, key, document: document)
            return error.kind == .notFound ? nil : error
        }
    }

    /// Deletes keys one by one after the server has refused a request for several. If the refusal does not mean that there is
    /// no such request, only successful deletes prove that it was about the request.
    private func deleteOneByOne(
        _ keys: [ObjectKey], after refusal: ObjectStoreError
    ) async throws(ObjectStoreError) -> [ObjectStoreError] {
        guard refusal.status != nil, [.notSupported, .accessDenied, .invalidRequest].contains(refusal.kind) else {
            throw refusal
        }
        let failures = try await deleteOneByOne(keys)
        if failures.count == keys.count, refusal.kind != .notSupported { throw refusal }
        learned.withLock { $0.capabilities.deleteBatch = 1 }
        note(.singleDeletes)
        return failures
    }
}
