import Basics
import Journaling
import ObjectStorage

/// What the store has at the keys of a job, and whether that is the job's own copy.
extension JobRunner {
    /// An object, or a native link.
    struct Found: Sendable {
        /// For a link without headers.
        let info: ObjectInfo
        let isLink: Bool

        var etag: String { info.version.etag.text }

        /// Whether this is the object that `rename` makes at its new key, once the source is gone. The ETag of the replaced
        /// object counts only if it is also the source's, as with equal bytes.
        func isLeft(by rename: RenameRecord) -> Bool {
            guard isLink || info.version.size == rename.source.size else { return false }
            return etag != rename.replaced || etag == rename.source.etag
        }
    }

    /// What listings of a directory show.
    struct Listed: Sendable {
        fileprivate var versions: [ObjectKey: ObjectVersion] = [:]
        /// Native links.
        fileprivate var links: Set<ObjectKey> = []
        /// Whether nothing is at any other key.
        fileprivate var isWhole = false

        /// Whether the version is at the key, or a copy of it with its ETag.
        func shows(_ version: VersionRecord, at key: ObjectKey) -> Bool {
            versions[key].map { $0.etag.text == version.etag && $0.size == version.size } ?? false
        }

        func lacks(_ key: ObjectKey) -> Bool { isWhole && versions[key] == nil && !links.contains(key) }
    }

    /// Fewer items are asked for one by one.
    private static let fewestListed = 64

    /// The objects below a directory, if a listing takes fewer requests than one for each of the items. Where listings lag
    /// behind, it does not show that an object is missing.
    func listed(_ items: [ItemRecord], below prefix: ByteString) async throws(ObjectStoreError) -> Listed {
        var listed = Listed()
        guard items.count >= Self.fewestListed else { return listed }
        var request = ListRequest(prefix: prefix)
        // Another host may have put any number of objects there.
        for _ in 0..<(items.count / Self.fewestListed) {
            let page = try await store.list(request)
            for object in page.objects {
                if object.isSymlink {
                    listed.links.insert(object.key)
                } else {
                    listed.versions[object.key] = object.version
                }
            }
            guard let next = page.next else {
                listed.isWhole = store.capabilities.listingLag == .zero
                return listed
            }
            request.cursor = next
        }
        return listed
    }

    /// The object at a key. A HEAD of a native link describes the object that the link leads to, or finds none (OSS, HeadObject,
    /// "symbolic link"); a listing shows the link itself.
    func object(_ key: ObjectKey) async throws(ObjectStoreError) -> Found? {
        guard store.capabilities.symlinks else { return try await head(key) }
        guard let listed = try await store.listed(key) else { return nil }
        guard listed.isSymlink else { return try await head(key) }
        let info = ObjectInfo(
            version: listed.version, metadata: ObjectMetadata(), storageClass: listed.storageClass)
        return Found(info: info, isLink: true)
    }

    private func head(_ key: ObjectKey) async throws(ObjectStoreError) -> Found? {
        do { return Found(info: try await store.head(key, condition: nil), isLink: false) } catch {
            switch error.kind {
            // Nothing is at a key that the store refuses.
            case .notFound, .keyRefused, .keyTooLong: return nil
            default: throw error
            }
        }
    }

    /// Whether `copy` has the ETag and the size of a version that may not be there any more.
    func isCopy(_ copy: Found?, of source: VersionRecord) -> Bool {
        guard let copy, !copy.isLink else { return false }
        return copy.etag == source.etag && copy.info.version.size == source.size
    }

    /// Whether `copy` is one of the original: it has its ETag or, made by parts, its length and its headers with the commit id.
    /// The copy of a link leads to where the link leads from the new place.
    func isCopy(
        _ copy: Found?, at key: ObjectKey, of original: Found, _ source: ObjectKey
    ) async throws(ObjectStoreError) -> Bool {
        guard let copy, copy.isLink == original.isLink else { return false }
        if original.isLink {
            return try await store.symlinkTarget(of: key) == store.link(at: source, for: key).target
        }
        guard copy.info.version.size == original.info.version.size else { return false }
        if copy.etag == original.etag { return true }
        return original.info.metadata.user[CommitOptions.commitHeader] != nil
            && copy.info.metadata.user == original.info.metadata.user
    }

    /// The same for the copy of a rename, which is known by its commit id where it has headers of its own. The object that was
    /// there before may have the source's bytes and other headers, or be a link to the source: it is no copy.
    func isCopy(
        _ copy: Found?, at key: ObjectKey, of original: Found, _ rename: RenameRecord
    ) async throws(ObjectStoreError) -> Bool {
        if let id = rename.headers?.user[CommitOptions.commitHeader], let copy,
            copy.info.metadata.user[CommitOptions.commitHeader] == id
        {
            return true
        }
        if copy?.etag == rename.replaced { return false }
        return try await isCopy(copy, at: key, of: original, ObjectKey(rename.source.key))
    }
}
