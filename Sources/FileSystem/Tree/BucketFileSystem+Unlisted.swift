import Basics
import Commits
import Logging
import Metadata
import ObjectStorage
import Synchronization

/// Names in directories that the credentials may not list: HEAD requests find them one by one.
extension BucketFileSystem {
    func mayList(_ directory: ByteString) -> Bool {
        let now = time.now()
        return refusals.withLock { refusals in
            refusals.listings.value(for: directory).map { now - $0 >= Self.refusalLasts } ?? true
        }
    }

    /// Logs the first refusal of a mount.
    func noteRefusedListing(of directory: ByteString, _ error: FileSystemError) {
        let now = time.now()
        let isFirst = refusals.withLock { refusals in
            refusals.listings.insert(now, for: directory)
            defer { refusals.isLogged = true }
            return !refusals.isLogged
        }
        guard isFirst else { return }
        rooms.logger.warning(
            "the store refuses to list; names are found one by one",
            metadata: ["op": "list", "key": "\(policy.prefix + directory)", "reason": "\(error.reason)"])
    }

    /// Finds a name by HEAD requests for the file, the directory and the link of that name.
    func findUnlisted(
        _ base: ByteString, _ name: ByteString, in parent: InodeNumber
    ) async throws(FileSystemError) -> Entry? {
        guard let prefix = try cached({ metadata throws(MetadataError) in try metadata.key(of: parent) }) else {
            throw FileSystemError(.stale, "the directory is no longer in the bucket")
        }
        let start = metadata.beginRequest()
        for role in [NameCodec.Role.object, .directory, .link] {
            guard let component = metadata.codec.component(base, role) else { continue }
            let key = ObjectKey(prefix + component)
            if pendingDeletions[key] != nil || jobs.removes(key.bytes) { continue }
            let isDirectory = role == .directory
            if !isDirectory || store.capabilities.markers, let info = try await unlistedObject(key) {
                let kind = metadata.codec.kind(of: component)
                return try record(info, of: Place(parent: parent, name: component), kind, since: start)
            }
            guard isDirectory, try await hasUnlistedContent(key.bytes) else { continue }
            let attributes = Attributes(kind: .directory, mtime: start.at)
            return try cached { metadata throws(MetadataError) in
                try metadata.recordRemote(component, in: parent, attributes, metadata: nil, since: start)
            }
        }
        try cached { metadata throws(MetadataError) in try metadata.recordAbsent(name, in: parent, since: start) }
        return nil
    }

    /// What a HEAD shows at a key; nil where the store has no object.
    ///
    /// Amazon S3 and others answer 403 for missing objects to credentials that may not list (Amazon S3 API reference,
    /// "HeadObject"). After a refused listing, a HEAD of a key that no object has shows whether this store does.
    func unlistedObject(_ key: ObjectKey) async throws(FileSystemError) -> ObjectInfo? {
        do throws(ObjectStoreError) { return try await store.head(key, condition: nil) } catch {
            if error.kind == .notFound { return nil }
            guard error.kind == .accessDenied else { throw FileSystemError(error) }
            guard !mayList(key.directory), await hidesMissing(in: key.directory) else { throw FileSystemError(error) }
            return nil
        }
    }

    private func hidesMissing(in directory: ByteString) async -> Bool {
        if let known = refusals.withLock({ $0.hidesMissing }) { return known }
        let missing = ObjectKey(directory + ".pailfs-missing-" + ByteString(RandomID.hex()))
        do throws(ObjectStoreError) { _ = try await store.head(missing, condition: nil) } catch {
            guard error.kind == .accessDenied || error.kind == .notFound else { return false }
            let answer = error.kind == .accessDenied
            refusals.withLock { $0.hidesMissing = answer }
            return answer
        }
        return false
    }

    /// Whether a listing shows objects below a directory that has no object of its own: a policy may allow to list below a
    /// prefix.
    private func hasUnlistedContent(_ directory: ByteString) async throws(FileSystemError) -> Bool {
        guard mayList(directory) else { return false }
        do throws(FileSystemError) {
            let page = try await remote { [pendingDeletions] store throws(ObjectStoreError) in
                try await store.list(ListRequest(prefix: directory, limit: 1), without: pendingDeletions)
            }
            return !page.objects.isEmpty
        } catch {
            guard error.isOfRefusedListing else { throw error }
            noteRefusedListing(of: directory, error)
            return false
        }
    }
}
