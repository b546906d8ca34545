import Basics
import Commits
import Metadata
import ObjectStorage

/// Markers: a marker is the object that stands for a directory, at its key, which ends in a slash. It is empty and has the
/// directory's attributes as its headers. Many directories have none. An object with bytes at such a key is a file as well
/// (pailfs-semantics(7), NAMES AND DIRECTORIES): it gets other headers and keeps its bytes.
extension BucketFileSystem {
    static let markerHeaders = ObjectMetadata(contentType: "application/x-directory")

    /// Stores `headers` in a directory's marker. `version` is the known marker; nil: none is known. Throws `.exists` when the
    /// directory `isNew` and has a marker.
    func putMarker(
        _ key: ObjectKey, _ headers: ObjectMetadata, over version: ObjectVersion?, isNew: Bool = false
    ) async throws(FileSystemError) -> ObjectVersion {
        guard store.capabilities.markers else {
            throw FileSystemError(
                .notSupported, "the store cannot keep directories: it shows the object \"name/\" as a file")
        }
        try await finishJobs(at: key)
        if let version, version.size > 0 {
            do throws(FileSystemError) { return try await updateHeaders(key, version, headers) ?? version } catch {
                // Another host has removed or replaced the object.
                guard error.kind == .notFound || error.kind == .stale else { throw error }
            }
        } else if version == nil ? store.capabilities.putIfAbsent : store.capabilities.putIfMatch {
            let condition = version.map { WriteCondition.match($0.etag) } ?? .absent
            do throws(ObjectStoreError) { return try await putEmpty(key, headers, condition) } catch {
                guard error.kind == .preconditionFailed || error.kind == .notFound else { throw FileSystemError(error) }
            }
        }
        let found = try await unlistedObject(key)
        if isNew, found != nil {
            try cached { metadata throws(MetadataError) in try metadata.distrust(key.bytes) }
            throw FileSystemError(.exists, "\(key) already exists")
        }
        if let found, found.version.size > 0 {
            var merged = found.metadata
            merged.user.merge(headers.user) { $1 }
            return try await updateHeaders(key, found.version, merged) ?? found.version
        }
        do { return try await putEmpty(key, headers, nil) } catch { throw FileSystemError(error) }
    }

    private func putEmpty(
        _ key: ObjectKey, _ headers: ObjectMetadata, _ condition: WriteCondition?
    ) async throws(ObjectStoreError) -> ObjectVersion {
        let answer = try await store.put(
            PutRequest(key, metadata: headers, condition: condition), body: MemorySource([]))
        return ObjectVersion(
            etag: answer.etag, size: 0, modified: answer.modified ?? .epoch, versionID: answer.versionID)
    }

    /// Writes the marker of a directory without one before its last entry goes, so that the directory does not vanish. Where that
    /// entry is the object at the marker's own key, the key is not free yet: `keepDirectory(_:havingLost:)` writes the marker
    /// then.
    func keepDirectory(_ directory: InodeNumber, without leaving: Entry) async throws(FileSystemError) {
        if isFixed(try entry(directory)) { return }
        let (key, leavingKey) = (try key(of: directory), try key(of: leaving.ino))
        if key != leavingKey, try await isLast(leavingKey, leaving.ino, in: directory) {
            try await writeMarker(of: directory)
        }
    }

    /// To be called when the object at `key` and its entry are gone.
    func keepDirectory(_ directory: InodeNumber, havingLost key: ObjectKey) async throws(FileSystemError) {
        if isFixed(try entry(directory)) { return }
        guard try self.key(of: directory) == key, try await isLast(key, nil, in: directory) else { return }
        try await writeMarker(of: directory)
    }

    private func writeMarker(of directory: InodeNumber) async throws(FileSystemError) {
        guard store.capabilities.markers else { return }
        let entry = try entry(directory)
        let headers = AttributeCodec.encode(entry.attributes, over: Self.markerHeaders)
        var attributes = entry.attributes
        attributes.version = try await putMarker(try key(of: directory), headers, over: nil)
        try cached { metadata throws(MetadataError) in
            try metadata.update(directory, attributes, metadata: headers, pending: false)
        }
    }

    /// The page size of the listing. Three names would be enough; more cost the same.
    private static let shownOthers = 100

    /// Whether a directory without a marker has no entry but `leaving`, whose key is `leavingKey`.
    private func isLast(
        _ leavingKey: ObjectKey, _ leaving: InodeNumber?, in directory: InodeNumber
    ) async throws(FileSystemError) -> Bool {
        let state = try cached { metadata throws(MetadataError) in try metadata.directory(directory) }
        if state.hasMarker == true { return false }
        let others = try cached { metadata throws(MetadataError) in
            try metadata.children(of: directory, after: nil, limit: 3)
        }
        // Another host may have removed entries that are not fresh.
        if others.contains(where: { $0.ino != leaving && !$0.isPending && isFresh($0) }) { return false }
        if state.isComplete && state.isFresh { return true }
        let key = try key(of: directory)
        if try await hasLaterOnes(than: leavingKey, in: directory, key) { return false }
        await jobs.sendRemovals(at: key.bytes)
        // A marker beside other entries does no harm.
        guard mayList(key.bytes) else { return try await unlistedObject(key) == nil }
        let ingest = try? metadata.beginListing(of: directory)
        let page: ListingPage
        do throws(FileSystemError) {
            page = try await remote { [pendingDeletions] store throws(ObjectStoreError) in
                try await store.list(
                    ListRequest(prefix: key.bytes, delimiter: UInt8(ascii: "/"), limit: Self.shownOthers),
                    without: pendingDeletions)
            }
        } catch {
            guard error.isOfRefusedListing else { throw error }
            noteRefusedListing(of: key.bytes, error)
            return try await unlistedObject(key) == nil
        }
        let keys = page.objects.map(\.key) + page.commonPrefixes
        // `rm -r` needs the next names as well. The entry `leaving` stays until the caller has removed it.
        let isPast = page.next != nil && keys.allSatisfy { $0.bytes < leavingKey.bytes }
        if leaving == nil || isPast || keys.contains(leavingKey) { try? ingest?.add(page) }
        return keys.allSatisfy { $0 == leavingKey }
    }

    /// Whether one page shows another name after `leavingKey`, while removals in the directory wait to be sent. `rm -r` has
    /// removed the names before `leavingKey`, and has not come to those after it, which the page records.
    private func hasLaterOnes(
        than leavingKey: ObjectKey, in directory: InodeNumber, _ key: ObjectKey
    ) async throws(FileSystemError) -> Bool {
        guard leavingKey != key, jobs.hasRemovals(at: key.bytes) else { return false }
        let component = ByteString(leavingKey.bytes.bytes.dropFirst(key.bytes.count))
        let ingest = try? metadata.beginListing(of: directory, .after(component))
        let page = try await remote { [pendingDeletions] store throws(ObjectStoreError) in
            try await store.list(
                ListRequest(prefix: key.bytes, delimiter: UInt8(ascii: "/"), startAfter: leavingKey.bytes),
                without: pendingDeletions)
        }
        let keys = page.objects.map(\.key) + page.commonPrefixes
        guard keys.contains(where: { !jobs.removes($0.bytes) }) else { return false }
        try? ingest?.add(page)
        return true
    }
}
