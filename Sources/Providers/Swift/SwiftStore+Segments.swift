import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Segments that belong to an object: found before the object is replaced or deleted, and deleted afterwards.
extension SwiftStore {
    /// The uploads whose segments the object of `response`, an answer to HEAD, consists of; only this program's.
    func segmentsOwned(by response: HTTPResponse, _ look: Call) async throws(ObjectStoreError) -> Set<String> {
        if let manifest = response.headers["X-Object-Manifest"] {
            if let key = look.key, let directory = foreignParts(response.headers, at: key) {
                return [directory.description]
            }
            let path = PercentEncoding.decode(manifest) ?? Array(manifest.utf8)
            return segments.upload(ofPath: ByteString(path)).map { [$0.text] } ?? []
        }
        guard Self.isLarge(response.headers) else { return [] }
        if let key = look.key, let upload = SwiftMetadata.upload(response.headers, at: key) { return [upload.text] }
        // An object of another tool is left alone.
        if try await isCeph() { return [] }
        var call = look
        (call.method, call.headers) = (.get, HTTPHeaders())
        let manifest = try await manifest(&call)
        guard let paths = SwiftDocuments.segmentPaths(manifest.body) else {
            throw malformed(call, manifest, "the manifest is not valid JSON")
        }
        return Set(paths.compactMap { segments.upload(ofPath: ByteString($0))?.text })
    }

    /// Turns a GET of an object into one of its manifest, and sends it.
    func manifest(_ call: inout Call) async throws(ObjectStoreError) -> HTTPResponse {
        call.query = [QueryItem("multipart-manifest", "get")]
        call.collectLimit = 16 << 20
        return try await send(call)
    }

    /// The uploads whose segments a write to `key` will orphan. Sends a HEAD only when the key may have a large object, or when
    /// the server may not honour the condition.
    func segmentsToReplace(
        _ key: ObjectKey, _ condition: WriteCondition?, for call: Call
    ) async throws(ObjectStoreError) -> Set<String> {
        let isCreation = condition == .absent
        if isCreation, !profile.looksBeforeCreating, try await !isCeph() { return [] }
        if !isCreation, learned.withLock({ $0.shapes.value(for: key) }) == .plain { return [] }
        let look = self.call(.head, .head, key)
        let response: HTTPResponse
        do throws(ObjectStoreError) { response = try await send(look) } catch {
            guard await isMissing(key, error) else { throw error }
            return []
        }
        guard !isCreation else {
            throw error(.preconditionFailed, call, response, "Exists", "the object exists")
        }
        return try await segmentsOwned(by: response, look)
    }

    /// Call it before the request that replaces or deletes the object of the uploads `owned`: if its answer is lost, the next try
    /// cannot find them any more.
    func leave(_ owned: Set<String>, at key: ObjectKey) {
        guard !owned.isEmpty else { return }
        learned.withLock { $0.leaving[key, default: []].formUnion(owned) }
    }

    /// Deletes the segments of `owned`: the key has another object, or none. Segments that cannot be deleted now are retried with
    /// the next.
    func replace(_ owned: Set<String>, at key: ObjectKey, by shape: Shape?) async {
        let orphans = learned.withLock { learned in
            learned.foreign.removeValue(for: key)
            if let shape { learned.shapes.insert(shape, for: key) } else { learned.shapes.removeValue(for: key) }
            let left = learned.leaving.removeValue(forKey: key) ?? []
            learned.orphans.formUnion(owned.union(left))
            defer { learned.orphans = [] }
            return learned.orphans
        }
        for orphan in orphans {
            do throws(ObjectStoreError) { try await deleteSegments(of: UploadID(orphan), .delete, key) } catch {
                learned.withLock { _ = $0.orphans.insert(orphan) }
            }
        }
    }

    func deleteSegments(
        of upload: UploadID, _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) async throws(ObjectStoreError) {
        let found = try await names(below: segments.directory(of: upload), operation, key).compactMap(\.name)
        // The directory may contain the user's objects: only names of parts are deleted.
        let names = found.map { ByteString($0) }.filter {
            segments.upload(ofSegment: $0) != nil || segments.number(of: $0, in: upload) != nil
        }
        try await deleteSegments(names, operation, key)
    }

    func deleteSegments(
        _ names: [ByteString], _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) async throws(ObjectStoreError) {
        if capabilities.deleteBatch > 1, names.count > 1 {
            do throws(ObjectStoreError) {
                let paths = names.map { Self.bulkPath(segments.container, $0) }
                if let failure = try await deleteTogether(paths, operation).first { throw failure }
                return
            } catch { guard hasNoBulkDeletes(error) else { throw error } }
        }
        let failures = await eightAtOnce(names) { name throws(ObjectStoreError) in
            try await self.deleteSegment(name, operation, key)
        }
        if let failure = failures.first { throw failure }
    }

    /// A missing segment is no error.
    func deleteSegment(
        _ name: ByteString, _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) async throws(ObjectStoreError) {
        do throws(ObjectStoreError) { try await send(call(operation, .delete, segment: name, for: key)) } catch {
            guard error.status == 404 else { throw error }
        }
    }

    /// All objects in the container of segments whose names start with `prefix`; none when there is no such container.
    func names(
        below prefix: ByteString, _ operation: ObjectStoreError.Operation, _ key: ObjectKey?
    ) async throws(ObjectStoreError) -> [SwiftDocuments.Entry] {
        var found: [SwiftDocuments.Entry] = []
        while true {
            var call = call(operation, .get, segment: nil, for: key)
            call.collectLimit = 32 << 20
            call.query = [
                QueryItem("format", "json"), QueryItem("limit", String(Self.safeListPage)), QueryItem("prefix", prefix),
            ]
            if let last = found.last?.name { call.query.append(QueryItem("marker", last)) }
            let page: [SwiftDocuments.Entry]
            do throws(ObjectStoreError) { page = try entries(call, try await send(call)) } catch {
                guard error.status == 404 else { throw error }
                return found
            }
            found += page
            guard !page.isEmpty, profile.listsUntilEmptyPage || page.count >= Self.leastFullPage else {
                return found
            }
        }
    }
}
