import Basics
import Commits
import Metadata
import ObjectStorage

/// The object that stands for a directory, at its key, which ends in a slash: empty, with the directory's attributes as its
/// headers. Many directories have none, and one with bytes is somebody's file as well (SEMANTICS section 4): it gets other
/// headers, and keeps its bytes.
extension BucketFileSystem {
    static let markerHeaders = ObjectMetadata(contentType: "application/x-directory")

    /// Gives a directory `headers`, made from those of `version`; nil: no marker is known. Throws `.exists` when the directory
    /// `isNew` and there is one.
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
                // Another host has removed or replaced it.
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

    /// Directories do not vanish: before the last entry of one without a marker goes, the marker is written. Where that entry is
    /// the directory's own object, its place is not free yet: `keepDirectory(_:havingLost:)` does it.
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

    /// Names that are asked for where three would tell; it costs the same.
    private static let shownOthers = 100

    /// Whether nothing else is in a directory without a marker.
    private func isLast(
        _ leavingKey: ObjectKey, _ leaving: InodeNumber?, in directory: InodeNumber
    ) async throws(FileSystemError) -> Bool {
        let state = try cached { metadata throws(MetadataError) in try metadata.directory(directory) }
        if state.hasMarker == true { return false }
        let others = try cached { metadata throws(MetadataError) in
            try metadata.children(of: directory, after: nil, limit: 3)
        }
        // Another host may have removed what was seen long ago.
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
        // `rm -r` asks about the next ones, too. The entry that leaves stays until its caller has taken it away.
        let isPast = page.next != nil && keys.allSatisfy { $0.bytes < leavingKey.bytes }
        if leaving == nil || isPast || keys.contains(leavingKey) { try? ingest?.add(page) }
        return keys.allSatisfy { $0 == leavingKey }
    }

    /// Whether one page shows another name after `leavingKey`, while removals in the directory wait to leave: `rm -r` has yet to
    /// come to those, and asks about the next ones as well. Before it are those that it has removed.
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
