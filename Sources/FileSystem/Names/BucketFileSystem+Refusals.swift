import Basics
import Metadata
import ObjectStorage
import Synchronization

/// Deletions that the store refuses these credentials. A rename is a copy and a deletion: without the second, the copy would
/// stay.
extension BucketFileSystem {
    /// pailfs does not repeat a request that the store refused until this time has passed.
    static let refusalLasts = Duration.seconds(60)

    /// Deletes an object and remembers whether these credentials may.
    func deleteObject(_ key: ObjectKey, ifMatch: ETag? = nil) async throws(ObjectStoreError) {
        do throws(ObjectStoreError) { try await store.delete(key, ifMatch: ifMatch) } catch {
            noteRefusedDeletion(of: key, error)
            throw error
        }
        refusals.withLock { $0.noteDeletion(in: key.directory, nil) }
    }

    func noteRefusedDeletion(of key: ObjectKey, _ error: ObjectStoreError) {
        guard error.kind == .accessDenied else { return }
        let refused = RefusedDeletion(reason: "\(error)", at: time.now())
        refusals.withLock { $0.noteDeletion(in: key.directory, refused) }
    }

    /// Keeps the reason of a failure at the store for `user.pailfs.lasterror` of the name, or of the directory if there is no
    /// such name.
    func noting<Value: Sendable>(
        _ operation: String, of place: Place, _ body: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        do throws(FileSystemError) { return try await body() } catch {
            if error.isOfStore {
                var ino = place.parent
                if case .present(let entry, _)? = try? metadata.lookup(place.name, in: place.parent) { ino = entry.ino }
                remember(error, operation, ino)
            }
            throw error
        }
    }

    /// The same for an inode.
    func noting<Value: Sendable>(
        _ operation: String, of ino: InodeNumber, _ body: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        do throws(FileSystemError) { return try await body() } catch {
            if error.isOfStore { remember(error, operation, ino) }
            throw error
        }
    }

    /// Deletes the copy of a rename that failed. Returns what to add to the reason when the copy stays in the bucket.
    func deleteCopy(_ key: ObjectKey, _ version: ObjectVersion?, ofObjectAt source: ObjectKey) async -> String {
        do throws(ObjectStoreError) {
            try await deleteObject(key, ifMatch: store.capabilities.deleteIfMatch ? version?.etag : nil)
            return ""
        } catch {
            guard error.kind != .preconditionFailed, error.kind != .notFound else { return "" }
            let copy = CopiedObject(key: key, etag: version?.etag)
            refusals.withLock { $0.noteCopy(copy, in: source.directory) }
            return "; the copy \(policy.prefix + key.bytes) stays in the bucket"
        }
    }

    /// Tries to delete a name that no object has, before copies are made, unless a deletion of this mount has succeeded already.
    /// Where a bucket keeps versions, that name has a delete marker afterwards.
    /// Throws: `.accessDenied` where the store refuses it. Other failures show nothing; without retries they leave the rename its
    /// time.
    func tryDeletion(in directory: ByteString) async throws(FileSystemError) {
        guard refusals.withLock({ !$0.hasDeleted }) else { return }
        let missing = ObjectKey(directory + ".pailfs-missing-" + ByteString(RandomID.hex()))
        let isRefused = await Retrying.$isOff.withValue(true) {
            do throws(ObjectStoreError) {
                try await deleteObject(missing)
                return false
            } catch { return error.kind == .accessDenied }
        }
        if isRefused { try await requireDeletable(in: directory) }
    }

    /// Throws: `.accessDenied` where the store has refused to delete an object of the directory, or every object so far.
    func requireDeletable(in directory: ByteString) async throws(FileSystemError) {
        guard let refused = refusals.withLock({ $0.deletion(in: directory) }) else { return }
        let error = FileSystemError(
            .accessDenied,
            "the store refuses to delete in this directory: \(refused.reason); allow these credentials to delete")
        if time.now() - refused.at < Self.refusalLasts { throw error }
        guard let copy = refused.copy else { return }
        do throws(ObjectStoreError) {
            if try await store.head(copy.key, condition: nil).version.etag == copy.etag {
                try await deleteObject(copy.key, ifMatch: store.capabilities.deleteIfMatch ? copy.etag : nil)
            }
        } catch { if error.kind == .accessDenied { throw FileSystemError(.accessDenied, "\(error)") } }
        refusals.withLock { $0.noteDeletion(in: directory, nil) }
    }
}

extension ObjectKey {
    /// The key without its last component; empty at the top.
    var directory: ByteString {
        ByteString(bytes.bytes[..<(bytes.bytes.dropLast().lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0)])
    }
}

extension FileSystemError {
    /// Whether the caller did nothing wrong: the store refused, failed or did not answer.
    fileprivate var isOfStore: Bool { [.accessDenied, .inputOutput, .timedOut].contains(kind) }
}
