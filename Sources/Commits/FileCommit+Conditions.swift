import ObjectStorage
import Staging

/// What a commit requires of its destination and of the object that it copies from, and what the store has there.
extension FileCommit {
    /// Throws if the source has changed, where the store does not compare: parts may have been copied from another version. If
    /// the commit replaces that very version, its condition checks the same.
    func checkSource(of request: CommitState.Request) async throws(CommitError) {
        guard !store.capabilities.copySourceCondition, let base,
            !request.extents.isFree(of: .base, in: 0..<request.size)
        else { return }
        if base.key == request.key, request.condition == .match(base.version.etag) { return }
        guard try await info(base.key)?.version.etag != base.version.etag else { return }
        if !request.needsUpload { await giveUpUpload() }
        throw .baseGone(
            ObjectStoreError(
                .preconditionFailed, .uploadPartCopy, key: base.key,
                message: "the source was replaced while it was copied"
            ))
    }

    /// Returns the condition that the next request of the commit carries. Where the store cannot check it, or not in that request
    /// (`isHeeded`), a HEAD checks it here, and the request carries none.
    func condition(
        of request: CommitState.Request, isHeeded: Bool = true
    ) async throws(CommitError) -> WriteCondition? {
        let condition = withShared { $0.state.attempts.condition(of: request) }
        let canCheck =
            switch condition {
            case .absent: store.capabilities.putIfAbsent
            case .match: store.capabilities.putIfMatch
            case nil: true
            }
        if condition == nil || canCheck && isHeeded { return condition }
        let info = try await info(request.key)
        // An older try of this file may have landed late.
        if report({ $0.looked(info, at: request.key) }), let landed = withShared({ $0.state.attempts.landed }) {
            _ = rebase(landed)
            return nil
        }
        switch (condition, info?.version.etag) {
        case (.absent, nil): return nil
        case (.match(let wanted), let found?) where wanted == found: return nil
        default:
            if case .match(let wanted) = condition, try await isLink(request.key, wanted) { return nil }
            if let info, isHalfOfOurCopy(info, request) { return nil }
            if !request.needsUpload { await giveUpUpload() }
            let (kind, message): (ObjectStoreError.Kind, String) =
                info == nil ? (.notFound, "the object was deleted") : (.preconditionFailed, "the object was replaced")
            throw .conflict(ObjectStoreError(kind, .head, key: request.key, message: message))
        }
    }

    /// Whether the object is a copy of the source by an earlier process that ended before it set the headers, with the commit id
    /// among them.
    private func isHalfOfOurCopy(_ info: ObjectInfo, _ request: CommitState.Request) -> Bool {
        guard !store.capabilities.copySetsHeaders, let source = wholeSource(of: request) else { return false }
        return info.version.etag == source.ifMatch && withShared { $0.state.attempts.hasTried(request.key) }
    }

    /// nil: no such object.
    func info(_ key: ObjectKey) async throws(CommitError) -> ObjectInfo? {
        do throws(ObjectStoreError) { return try await store.head(key, condition: nil) } catch {
            if error.kind == .notFound { return nil }
            throw CommitError(error)
        }
    }

    /// Whether a native link is there, in that version: a HEAD describes the object that it leads to.
    private func isLink(_ key: ObjectKey, _ version: ETag) async throws(CommitError) -> Bool {
        guard store.capabilities.symlinks else { return false }
        do throws(ObjectStoreError) {
            guard let listed = try await store.listed(key) else { return false }
            return listed.isSymlink && listed.version.etag == version
        } catch { throw CommitError(error) }
    }

    func isGone(_ upload: UploadID, of key: ObjectKey) async -> Bool {
        do throws(ObjectStoreError) { _ = try await store.listParts(key, upload) } catch {
            return error.kind == .noSuchUpload
        }
        return false
    }

    /// Aborts the upload and returns when the store has answered that: a process that ends then leaves no parts behind.
    func giveUpUpload() async {
        apply { $0.retire() }
        await waitUntil(cancellable: true) { $0.state.isQuiet }
    }
}
