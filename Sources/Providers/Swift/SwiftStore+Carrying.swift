import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Copies that the server has not, or that these credentials may not make, through this machine (`CarriedCopy`).
extension SwiftStore {
    /// The copy is made from the source's bytes where its request was refused. Where it is the reading or the writing that the
    /// credentials lack, that is refused again.
    func carry(
        _ request: CopyRequest, after refusal: ObjectStoreError? = nil
    ) async throws(ObjectStoreError) -> PutAnswer {
        if let refusal, !mayCarry(after: refusal) { throw refusal }
        let source = try await head(request.source.key, condition: request.source.ifMatch.map { .ifMatch($0) })
        let put = PutRequest(request.key, metadata: request.metadata ?? source.metadata)
        let copy = CarriedCopy(store: self, source: request.source.key, version: source.version, request: put)
        let answer = try await copy.make(
            put: { (request, body) throws(ObjectStoreError) in try await self.put(request, body: body) },
            create: { (request) throws(ObjectStoreError) in try await self.createUpload(request) })
        if refusal != nil { learned.withLock { _ = $0.quirks.insert(.copiesRefused) } }
        return answer
    }

    /// The part made from the source's bytes; throws as `CarriedCopy.part` does.
    func carry(
        _ part: PartRequest, from source: CopySource, _ range: ByteRange, after refusal: ObjectStoreError
    ) async throws(ObjectStoreError) -> UploadedPart {
        guard mayCarry(after: refusal) else { throw refusal }
        return try await CarriedCopy.part(part, from: source, range, after: refusal, in: self) {
            learned.withLock { _ = $0.quirks.insert(.partCopiesRefused) }
        }
    }

    private func mayCarry(after refusal: ObjectStoreError) -> Bool {
        refusal.kind == .notSupported && refusal.status != nil || refusal.kind == .accessDenied && refusal.status == 403
    }
}
