import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Copies that the server does not support, or that these credentials may not make, through this machine (`CarriedCopy`).
extension SwiftStore {
    /// Makes the copy from the source's bytes after its request was refused. If the credentials may not read or write either,
    /// that is refused again.
    func carry(
        _ request: CopyRequest, after refusal: ObjectStoreError? = nil
    ) async throws(ObjectStoreError) -> PutAnswer {
        let source = request.source
        if let refusal, !mayCarry(source, after: refusal) { throw refusal }
        let info = try await source.reader(for: self).head(source.key, condition: source.ifMatch.map { .ifMatch($0) })
        let put = PutRequest(request.key, metadata: request.metadata ?? info.metadata)
        let copy = CarriedCopy(of: source, info.version, to: put, in: self)
        let answer = try await copy.make(
            put: { (request, body) throws(ObjectStoreError) in try await self.put(request, body: body) },
            create: { (request) throws(ObjectStoreError) in try await self.createUpload(request) })
        if refusal != nil, source.bucket == nil { learned.withLock { _ = $0.quirks.insert(.copiesRefused) } }
        return answer
    }

    /// Makes the part from the source's bytes; throws as `CarriedCopy.part` does.
    func carry(
        _ part: PartRequest, from source: CopySource, _ range: ByteRange, after refusal: ObjectStoreError
    ) async throws(ObjectStoreError) -> UploadedPart {
        guard mayCarry(source, after: refusal) else { throw refusal }
        return try await CarriedCopy.part(part, from: source, range, after: refusal, in: self) {
            guard source.bucket == nil else { return }
            learned.withLock { _ = $0.quirks.insert(.partCopiesRefused) }
        }
    }

    private func mayCarry(_ source: CopySource, after refusal: ObjectStoreError) -> Bool {
        if source.bucket != nil { return source.mayBeRead(after: refusal) }
        return refusal.kind == .notSupported && refusal.status != nil
            || refusal.kind == .accessDenied && refusal.status == 403
    }
}
