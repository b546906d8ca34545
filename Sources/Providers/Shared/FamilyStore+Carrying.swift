import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Copies through this machine (`CarriedCopy`) of objects that a store does not copy: OSS refuses append objects as sources
/// (OSS API, "CopyObject"), versitygw directory markers; some servers have no copies, and some credentials may not copy.
extension FamilyStore {
    /// Whether the server is known to refuse copies of the object.
    func mustCarry(_ source: ObjectKey) -> Bool {
        let conduct = learned.withLock { $0.conduct }
        return conduct.refusesCopies || conduct.refusesMarkerCopies && source.bytes.hasSuffix("/")
    }

    /// Whether the bytes of an object whose copy was refused may be read and written instead. If the credentials may not read
    /// or write either, that is refused again.
    func mayCarry(_ source: CopySource, after refusal: ObjectStoreError) -> Bool {
        guard refusal.status != nil, refusal.code != Self.noACLs else { return false }
        if source.bucket != nil { return source.mayBeRead(after: refusal) }
        switch refusal.kind {
        case .notSupported: return true
        case .accessDenied: return refusal.status == 403
        // versitygw: DirectoryObjectContainsDataPayload.
        case .invalidRequest: return source.key.bytes.hasSuffix("/")
        default: return false
        }
    }

    /// The code of a refused header, not of a refused request.
    static let noACLs = "AccessControlListNotSupported"

    /// Learns that the copy was refused while reading and writing worked.
    func learnRefusal(ofCopying source: CopySource, _ refusal: ObjectStoreError) {
        // OSS refuses single objects.
        if source.bucket != nil || profile.carriesUncopyable && refusal.kind == .notSupported { return }
        let isMarker = source.key.bytes.hasSuffix("/")
        learned.withLock { learned in
            if isMarker { learned.conduct.refusesMarkerCopies = true } else { learned.conduct.refusesCopies = true }
        }
        note(isMarker ? .markerCopiesRefused : .copiesRefused)
    }

    /// Makes the object of `request.key` from the source's bytes.
    func carry(
        _ request: CopyRequest, restated: [(name: String, value: String)] = []
    ) async throws(ObjectStoreError) -> PutAnswer {
        let source = request.source
        let reader = source.reader(for: self)
        let info =
            if let version = source.version { try await reader.head(source.key, version: version) } else {
                try await reader.head(source.key, condition: source.ifMatch.map { .ifMatch($0) })
            }
        if let etag = source.ifMatch, etag != info.version.etag {
            throw ObjectStoreError(
                .preconditionFailed, .copy, key: source.key, code: "OtherVersion",
                message: "the source was replaced while it was copied")
        }
        var restated = restated
        // The tags of a source in another bucket are not copied: the credentials for its objects need not allow reading their
        // tags.
        if info.metadata.kept.isTagged, source.bucket == nil {
            restated += try await tagHeaders(of: source.key, version: source.version)
        }
        if let kept = request.keeping { restated += try await aclHeaders(of: kept) }
        let put = PutRequest(
            request.key, metadata: request.metadata ?? info.metadata, condition: request.condition,
            storageClass: request.storageClass)
        return try await CarriedCopy(of: source, info.version, to: put, in: self).make(
            put: { [restated] (request, body) throws(ObjectStoreError) in
                try await self.put(request, body: body, restated: restated)
            },
            create: { [restated] (request) throws(ObjectStoreError) in
                try await self.createUpload(request, restated: restated)
            })
    }

    /// Makes the part from the source's bytes; throws as `CarriedCopy.part` does.
    func carry(
        _ part: PartRequest, from source: CopySource, _ range: ByteRange, _ refusal: ObjectStoreError
    ) async throws(ObjectStoreError) -> UploadedPart {
        try await CarriedCopy.part(part, from: source, range, after: refusal, in: self) {
            // OSS refuses single objects.
            guard !profile.carriesUncopyable, source.bucket == nil else { return }
            learned.withLock { $0.capabilities.partCopy = false }
            note(.partCopiesRefused)
        }
    }
}
