import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Parts of large objects are objects themselves. Those of pailfs's own uploads are in an area of their own, those of CSSP's SDKs
/// below the key of their object: both are hidden, and deleted with their object.
extension SwiftStore {
    private static let slash = UInt8(ascii: "/")

    /// For callers, keys in the area do not exist.
    func requireVisible(_ key: ObjectKey, _ operation: ObjectStoreError.Operation) throws(ObjectStoreError) {
        guard segments.hides(key.bytes) else { return }
        throw ObjectStoreError(
            .notFound, operation, key: key, code: "Hidden", message: "parts of large objects are kept there")
    }

    func requireUnreserved(_ key: ObjectKey, _ operation: ObjectStoreError.Operation) throws(ObjectStoreError) {
        guard segments.hides(key.bytes) else { return }
        throw ObjectStoreError(
            .keyRefused, operation, key: key, code: "Reserved",
            message: "parts of large objects are kept below \(segments.area); they go with their objects")
    }

    /// The directory of the parts of the object at `key`, from an answer to a HEAD or GET of it.
    func foreignParts(_ headers: HTTPHeaders, at key: ObjectKey) -> ByteString? {
        guard profile.largeObjects == .prefixed, let manifest = headers["X-Object-Manifest"] else { return nil }
        let path = PercentEncoding.decode(manifest) ?? Array(manifest.utf8)
        return ForeignParts.directory(ofManifest: ByteString(path), at: key, in: settings.container)
    }

    /// Removes the parts of CSSP's SDKs from a page. Costs one HEAD for each object that may have parts and is not known yet, and
    /// one listing for each directory that may contain only parts.
    func hideParts(in page: inout ListingPage) async throws(ObjectStoreError) {
        guard profile.largeObjects == .prefixed else { return }
        let live = try await liveParts(of: page.objects.map(\.key.bytes) + page.commonPrefixes.map(\.bytes))
        func isPart(_ name: ObjectKey) -> Bool {
            ForeignParts.owner(of: name.bytes).map { live.contains($0.directory) } ?? false
        }
        if !live.isEmpty {
            page.objects.removeAll { isPart($0.key) }
            page.commonPrefixes.removeAll(where: isPart)
        }
        let suspects = learned.withLock { learned in
            page.commonPrefixes.compactMap { prefix -> (prefix: ObjectKey, directory: ByteString)? in
                let isDirectory = prefix.bytes.count > 1 && prefix.bytes.hasSuffix("/")
                let key = ObjectKey(isDirectory ? prefix.bytes.dropLast(1) : prefix.bytes)
                return learned.foreign.value(for: key).map { (prefix, $0) }
            }
        }
        guard !suspects.isEmpty else { return }
        let hidden = Mutex<Set<ObjectKey>>([])
        let failures = await eightAtOnce(suspects) { suspect throws(ObjectStoreError) in
            let request = ListRequest(prefix: suspect.prefix.bytes, delimiter: Self.slash)
            let found = try await self.entries(request, limit: 2)
            guard found.allSatisfy({ $0.subdir.map { ByteString($0) } == suspect.directory }) else { return }
            hidden.withLock { _ = $0.insert(suspect.prefix) }
        }
        if let failure = failures.first { throw failure }
        let empty = hidden.withLock { $0 }
        page.commonPrefixes.removeAll(where: empty.contains)
    }

    /// Of the directories with the form of a directory of parts, those whose object consists of them.
    private func liveParts(of names: [ByteString]) async throws(ObjectStoreError) -> Set<ByteString> {
        var owners: [ByteString: ObjectKey] = [:]
        for name in names {
            if let owner = ForeignParts.owner(of: name) { owners[owner.directory] = owner.key }
        }
        if owners.isEmpty { return [] }
        func live() -> Set<ByteString> {
            learned.withLock { learned in
                Set(owners.filter { learned.foreign.value(for: $0.value) == $0.key }.keys)
            }
        }
        let known = live()
        let unknown = Set(owners.filter { !known.contains($0.key) }.values)
        let failures = await eightAtOnce(Array(unknown)) { key throws(ObjectStoreError) in
            let look = self.call(.list, .head, key)
            do throws(ObjectStoreError) { _ = try self.info(look, try await self.send(look), size: nil) } catch {
                guard error.status == 404 else { throw error }
            }
        }
        if let failure = failures.first { throw failure }
        return live()
    }

    // MARK: Leftovers

    /// Uploads that have parts in the area, no object and no marker: left by a process that ended between the change of an object
    /// and the deletion of its former parts. The age is that of the newest part.
    ///
    /// None where parts are in a container of their own: not every server's listing shows which objects are large, and the parts
    /// of an object that was missed would be deleted. None of the SDKs' either: without an object, files in a directory may look
    /// the same.
    func leftovers(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        // Nothing shows the key of such parts.
        guard profile.largeObjects == .prefixed, segments.container == settings.container, prefix.isEmpty else {
            return []
        }
        var left = try await unmarkedUploads()
        // The objects are listed afterwards: an upload that was completed since shows its object.
        var marker: ByteString?
        while !left.isEmpty {
            var request = ListRequest(prefix: prefix)
            request.startAfter = marker
            let page = try await entries(request, limit: Self.safeListPage)
            for entry in page {
                guard let name = entry.name.map({ ByteString($0) }), !segments.hides(name) else { continue }
                let size = entry.length ?? 0
                guard size == 0 || left.values.contains(where: { $0.size == size }) else { continue }
                for upload in try await uploads(of: ObjectKey(name)) { left[upload] = nil }
            }
            guard let last = page.last?.name, profile.listsUntilEmptyPage || page.count >= Self.leastFullPage else {
                break
            }
            marker = segments.hides(ByteString(last)) ? segments.endOfArea : ByteString(last)
        }
        return left.map { upload, found in
            let directory = segments.directory(of: UploadID(upload))
            return UploadInProgress(
                key: ObjectKey(directory.dropLast(1)), upload: UploadID(directory.description), initiated: found.newest)
        }.sorted { $0.upload.text < $1.upload.text }
    }

    /// The uploads that have parts in the area and no marker, with the bytes of all their parts. A marker is made before the
    /// first part, so the markers are listed afterwards.
    private func unmarkedUploads() async throws(ObjectStoreError) -> [String: (size: Int64, newest: Timestamp)] {
        var found: [String: (size: Int64, newest: Timestamp)] = [:]
        for entry in try await names(below: segments.area, .listUploads, nil) {
            guard let name = entry.name, let upload = segments.upload(ofSegment: ByteString(name)) else { continue }
            let before = found[upload.text] ?? (0, .epoch)
            let size = before.size.addingReportingOverflow(entry.length ?? 0).partialValue
            found[upload.text] = (size, max(before.newest, entry.modified ?? .epoch))
        }
        for marker in try await names(below: segments.markers(prefix: ""), .listUploads, nil) {
            guard let name = marker.name, let begun = segments.upload(ofMarker: ByteString(name)) else { continue }
            found[begun.upload.text] = nil
        }
        return found
    }

    private func uploads(of key: ObjectKey) async throws(ObjectStoreError) -> Set<String> {
        let look = call(.listUploads, .head, key)
        do throws(ObjectStoreError) { return try await segmentsOwned(by: try await send(look), look) } catch {
            guard error.status == 404 else { throw error }
            return []
        }
    }
}
