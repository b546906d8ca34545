import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Copies of what a store does not copy, through this machine (`CarriedCopy`): OSS refuses append objects as sources (oss.md
/// section 4.5), versitygw the objects of directories; some servers have no copies, and some credentials may not copy.
extension FamilyStore {
    /// Whether the server is known to refuse copies of the object.
    func mustCarry(_ source: ObjectKey) -> Bool {
        let conduct = learned.withLock { $0.conduct }
        return conduct.refusesCopies || conduct.refusesMarkerCopies && source.bytes.hasSuffix("/")
    }

    /// Whether the bytes of an object whose copy was refused may be read and written instead. Where it is the reading or the writing
    /// that the credentials lack, that is refused again.
    func mayCarry(_ source: ObjectKey, after refusal: ObjectStoreError) -> Bool {
        guard refusal.status != nil, refusal.code != Self.noACLs else { return false }
        switch refusal.kind {
        case .notSupported: return true
        case .accessDenied: return refusal.status == 403
        // versitygw: DirectoryObjectContainsDataPayload.
        case .invalidRequest: return source.bytes.hasSuffix("/")
        default: return false
        }
    }

    /// What is refused is a header, and not the request.
    static let noACLs = "AccessControlListNotSupported"

    /// The copy was refused, and reading and writing worked.
    func learnRefusal(ofCopying source: ObjectKey, _ refusal: ObjectStoreError) {
        // OSS refuses single objects.
        if profile.carriesUncopyable, refusal.kind == .notSupported { return }
        let isMarker = source.bytes.hasSuffix("/")
        learned.withLock { learned in
            if isMarker { learned.conduct.refusesMarkerCopies = true } else { learned.conduct.refusesCopies = true }
        }
        note(isMarker ? .markerCopiesRefused : .copiesRefused)
    }

    /// The object of `request.key` made from the source's bytes.
    func carry(
        _ request: CopyRequest, restated: [(name: String, value: String)] = []
    ) async throws(ObjectStoreError) -> PutAnswer {
        let source = try await look(at: request.source.key, condition: request.source.ifMatch.map { .ifMatch($0) })
        let version = source.info.version
        var restated = restated
        if source.info.metadata.kept.isTagged { restated += try await tagHeaders(of: request.source.key) }
        if let kept = request.keeping { restated += try await aclHeaders(of: kept) }
        let put = PutRequest(
            request.key, metadata: request.metadata ?? source.info.metadata, condition: request.condition,
            storageClass: request.storageClass)
        return try await CarriedCopy(store: self, source: request.source.key, version: version, request: put).make(
            put: { [restated] (request, body) throws(ObjectStoreError) in
                try await self.put(request, body: body, restated: restated)
            },
            create: { [restated] (request) throws(ObjectStoreError) in
                try await self.createUpload(request, restated: restated)
            })
    }

    /// The part made from the source's bytes; throws as `CarriedCopy.part` does.
    func carry(
        _ part: PartRequest, from source: CopySource, _ range: ByteRange, _ refusal: ObjectStoreError
    ) async throws(ObjectStoreError) -> UploadedPart {
        try await CarriedCopy.part(part, from: source, range, after: refusal, in: self) {
            // OSS refuses single objects.
            guard !profile.carriesUncopyable else { return }
            learned.withLock { $0.capabilities.partCopy = false }
            note(.partCopiesRefused)
        }
    }
}
