package import Basics

/// A store whose listings include what was written and deleted through it, even when those of its base lag behind (COS, Swift
/// and CSSP).
///
/// Each write and delete is recorded (`RecentWrites`), and laid over each page for as long as listings may lag. Where a page
/// shows another version than the written one, or a write's outcome is unknown, a HEAD reads the object itself, which shows
/// other hosts' writes as well (`distrust` has that done when a change from elsewhere is known). Other requests are passed on,
/// and their answers about a recorded key are recorded.
package struct OverlaidStore: ObjectStore {
    let base: any ObjectStore
    package let recent: RecentWrites

    package init(_ base: any ObjectStore, _ recent: RecentWrites) { (self.base, self.recent) = (base, recent) }

    package var capabilities: Capabilities { base.capabilities }

    /// Another client may have changed the object at a key, or those below a key that ends in a slash or is empty: whatever
    /// listings and the records show, the next listing reads these objects with HEAD.
    package func distrust(_ key: ByteString) { recent.distrust(key) }

    package func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo {
        let write = recent[key]
        let info: ObjectInfo
        do { info = try await base.head(key, condition: condition) } catch {
            settle(key, write, error)
            throw error
        }
        if let write { recent.settle(key, write, .present(ListedObject(key, info))) }
        recent.sight([key])
        return info
    }

    package func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer {
        // An older version says nothing about the latest.
        if request.version != nil { return try await base.get(request, into: sink) }
        let write = recent[request.key]
        let answer: GetAnswer
        do { answer = try await base.get(request, into: sink) } catch {
            settle(request.key, write, error)
            throw error
        }
        if let write { recent.settle(request.key, write, .present(ListedObject(request.key, answer.info))) }
        recent.sight([request.key])
        return answer
    }

    package func put(_ request: PutRequest, body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer {
        try await noting(request.key, size: body.count, request.storageClass) { () async throws(ObjectStoreError) in
            try await base.put(request, body: body)
        }
    }

    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        try await noting(request.key) { () async throws(ObjectStoreError) in try await base.copy(request) }
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        let began = recent.now
        do { try await base.delete(key, ifMatch: ifMatch) } catch {
            doubt(key, after: error)
            throw error
        }
        recent.note(key, .absent, since: began)
    }

    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        let began = recent.now
        let errors: [ObjectStoreError]
        do { errors = try await base.deleteMany(keys) } catch {
            for key in keys { doubt(key, after: error) }
            throw error
        }
        let refused = Set(errors.map(\.key))
        // An error without a key may be about any of them.
        for key in keys {
            recent.note(key, refused.contains(key) || refused.contains(nil) ? .unknown : .absent, since: began)
        }
        return errors
    }

    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await noting(key) { () async throws(ObjectStoreError) in
            try await base.completeUpload(key, upload, parts: parts, metadata: metadata, condition: condition)
        }
    }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await noting(key) { () async throws(ObjectStoreError) in
            try await base.updateMetadata(key, to: metadata, ifMatch: ifMatch)
        }
    }

    package func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await noting(key) { () async throws(ObjectStoreError) in
            try await base.setStorageClass(of: key, to: storageClass, ifMatch: ifMatch)
        }
    }

    package func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        let source = request.source.key
        let began = recent.now
        let answer: PutAnswer
        do {
            answer = try await noting(request.key) { () async throws(ObjectStoreError) in try await base.move(request) }
        } catch {
            doubt(source, after: error)
            throw error
        }
        if source != request.key { recent.note(source, .absent, since: began) }
        return answer
    }

    package func putSymlink(_ request: PutRequest, target: ByteString) async throws(ObjectStoreError) -> PutAnswer {
        try await noting(request.key) { () async throws(ObjectStoreError) in
            try await base.putSymlink(request, target: target)
        }
    }

    // MARK: Pieces

    /// `size` is the size of the object, if known.
    private func noting(
        _ key: ObjectKey, size: Int64? = nil, _ storageClass: String? = nil,
        _ write: () async throws(ObjectStoreError) -> PutAnswer
    ) async throws(ObjectStoreError) -> PutAnswer {
        let began = recent.now
        let answer: PutAnswer
        do { answer = try await write() } catch {
            doubt(key, after: error)
            throw error
        }
        guard let size else {
            recent.note(key, .replaced(answer.etag), since: began, told: answer.answered)
            return answer
        }
        let version = ObjectVersion(
            etag: answer.etag, size: size, modified: answer.modified ?? .epoch, versionID: answer.versionID)
        recent.note(
            key, .present(ListedObject(key: key, version: version, storageClass: storageClass)), since: began,
            told: answer.answered)
        return answer
    }

    /// Records a failed write: it has changed nothing, or its outcome is unknown.
    private func doubt(_ key: ObjectKey, after error: ObjectStoreError) {
        switch error.kind {
        case .preconditionFailed, .notFound, .conflict: if recent[key] != nil { recent.doubt(key) }
        default: if error.leavesDoubt || error.kind == .cancelled { recent.doubt(key) }
        }
    }

    /// Records the outcome of a failed read.
    private func settle(_ key: ObjectKey, _ write: RecentWrites.Write?, _ error: ObjectStoreError) {
        if error.kind == .notFound { recent.miss(key) }
        guard let write else { return }
        switch error.kind {
        case .notFound: recent.settle(key, write, .absent)
        case .preconditionFailed: recent.settle(key, write, .unknown)
        default: break
        }
    }
}

extension ListedObject {
    /// An entry of a listing, from the answer to a HEAD.
    init(_ key: ObjectKey, _ info: ObjectInfo) {
        self.init(key: key, version: info.version, storageClass: info.storageClass)
    }
}
