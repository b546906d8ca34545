import Basics
import Commits
import Metadata
import ObjectStorage
import Synchronization

/// The requests of a file's rename: the copy or the move, and the deletion of what was copied.
extension BucketFileSystem {
    /// The headers of the copy at its new key; nil where it keeps the object's: its type does not come from its name, its headers
    /// are not known, or the store moves it as it is. Unknown headers are not worth a request.
    func headersForRename(
        of entry: Entry, from key: ObjectKey, to newKey: ObjectKey
    ) throws(FileSystemError) -> ObjectMetadata? {
        guard let known = try cached({ metadata throws(MetadataError) in try metadata.metadata(of: entry.ino) })
        else { return nil }
        if isNative(entry) { return known }
        guard entry.attributes.kind == .file, entry.attributes.headersKnown, !store.capabilities.move else {
            return nil
        }
        var headers = policy.namedHeaders.renamed(known, from: key, to: newKey)
        guard headers != known else { return nil }
        // The commit id lets recovery tell this copy from an identical object.
        headers.user[CommitOptions.commitHeader] = RandomID.hex()
        return headers
    }

    /// Moves the object as it was known, where the store can, else copies it. Returns the version at the new key, and whether the
    /// old one is gone.
    func transfer(
        _ entry: Entry, from key: ObjectKey, to newKey: ObjectKey, _ headers: ObjectMetadata?
    ) async throws(FileSystemError) -> (ObjectVersion?, isMoved: Bool) {
        let canMove = store.capabilities.move
        guard let version = entry.attributes.version else { return (nil, canMove) }
        if isNative(entry) {
            do {
                let version = try await store.copyLink(key, to: newKey, headers)
                targets.withLock { _ = $0.removeValue(for: entry.ino) }
                return (version, false)
            } catch { throw FileSystemError(error) }
        }
        func made(_ answer: PutAnswer) -> ObjectVersion {
            ObjectVersion(
                etag: answer.etag, size: version.size, modified: answer.modified ?? .epoch,
                versionID: answer.versionID)
        }
        if canMove {
            do throws(FileSystemError) {
                let answer = try await remote { store throws(ObjectStoreError) in
                    try await store.move(CopyRequest(CopySource(key, ifMatch: version.etag), to: newKey))
                }
                return (made(answer), true)
            } catch {
                // A server without that request, or credentials that may not send it, may copy and delete.
                guard error.kind == .notSupported || error.kind == .accessDenied else { throw error }
                try await tryDeletion(in: key.directory)
            }
        }
        let copier = ObjectCopier(store: store, journal: rooms.journal, jobs: jobs)
        let storageClass = entry.attributes.storageClass
        do throws(ObjectStoreError) {
            if let answer = try await putFromCache(key, version, to: newKey, headers, storageClass: storageClass) {
                return (made(answer), false)
            }
            let copy = try await copier.copy(key, version, to: newKey, metadata: headers, storageClass: storageClass)
            return (copy, false)
        } catch { throw FileSystemError(error) }
    }

    /// Deletes an object that was copied. False, and it stays, when another host has replaced it. Where the store does not
    /// compare, a HEAD does after a copy that took more than a second.
    func deleteCopied(
        _ key: ObjectKey, _ version: ObjectVersion?, since began: Duration
    ) async throws(ObjectStoreError) -> Bool {
        do throws(ObjectStoreError) {
            if store.capabilities.deleteIfMatch {
                try await deleteObject(key, ifMatch: version?.etag)
                return true
            }
            if let version, time.uptime() - began > .seconds(1),
                try await store.head(key, condition: nil).version.etag != version.etag
            {
                return false
            }
            try await deleteObject(key)
            return true
        } catch {
            switch error.kind {
            case .preconditionFailed: return false
            case .notFound: return true
            default: throw error
            }
        }
    }
}
