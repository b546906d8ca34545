package import Basics
import Digests
import HTTP
package import ObjectStorage
import Synchronization

/// Multipart uploads as segments and a manifest (Swift documentation, large objects; CSSP SDKs, multipart upload).
extension SwiftStore {
    /// One request, and three more where the container of segments does not exist yet.
    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        guard capabilities.mostParts > 1 else {
            throw .lacking(.createUpload, request.key, "large objects of segments")
        }
        let upload = UploadID(RandomID.hex())
        var call = call(.createUpload, .put, segment: segments.marker(request.key, upload), for: request.key)
        var request = request
        request.condition = nil
        try addNewObject(request, to: &call)
        do throws(ObjectStoreError) { try await send(call) } catch {
            guard error.kind == .noSuchBucket, profile.createsContainers else { throw error }
            try await createSegmentContainer(for: request.key)
            try await send(call)
        }
        learned.withLock { $0.uploads[upload] = SwiftUpload(key: request.key, metadata: request.metadata) }
        return upload
    }

    /// Creates the container for segments with the objects' storage policy, which a container cannot change (OpenStack Swift,
    /// "Storage Policies"). If the credentials may not read that, it gets the cluster's default.
    private func createSegmentContainer(for key: ObjectKey) async throws(ObjectStoreError) {
        var creation = call(.createUpload, .put, segment: nil, for: key)
        let container = try? await send(call(.createUpload, .head))
        creation.headers["X-Storage-Policy"] = container?.headers["X-Storage-Policy"]
        try await send(creation)
    }

    /// One request, and one more to an upload that this process did not begin.
    package func uploadPart(
        _ part: PartRequest, body: any ByteSource
    ) async throws(ObjectStoreError) -> UploadedPart {
        _ = try await upload(part.upload, of: part.key, .uploadPart)
        var call = try segmentCall(.uploadPart, part)
        let md5 = try seal(&call, body)
        let etag = try await stored(call, try await send(call, body: body), md5: md5)
        return try await kept(UploadedPart(number: part.number, etag: etag, size: body.count), part, .uploadPart)
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart {
        _ = try await upload(part.upload, of: part.key, .uploadPartCopy)
        var call = try segmentCall(.uploadPartCopy, part)
        guard !range.isEmpty else { throw invalid(call, "the range is empty") }
        guard capabilities.partCopy else { throw .lacking(.uploadPartCopy, part.key, "copies into parts") }
        if try await isCeph() {
            guard source.bucket == nil else {
                throw .lacking(.uploadPartCopy, part.key, "copies of parts from another container")
            }
            let etag = try await copySegmentAtCeph(call, source, range)
            return try await kept(
                UploadedPart(number: part.number, etag: etag, size: range.length), part, .uploadPartCopy)
        }
        addSource(source, to: &call)
        call.headers["X-Fresh-Metadata"] = "true"
        call.headers["Range"] = "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
        let response: HTTPResponse
        do { response = try await send(call) } catch {
            return try await carry(part, from: source, range, after: error)
        }
        guard let etag = response.headers["Etag"] else { throw malformed(call, response, "the answer has no ETag") }
        let copied = UploadedPart(number: part.number, etag: ETag(etag), size: range.length)
        return try await kept(copied, part, .uploadPartCopy)
    }

    func segmentCall(
        _ operation: ObjectStoreError.Operation, _ part: PartRequest
    ) throws(ObjectStoreError) -> Call {
        let name = segments.segment(part.number, of: part.upload)
        var call = call(operation, .put, segment: name, for: part.key)
        guard (1...capabilities.mostParts).contains(part.number) else {
            throw invalid(call, "part \(part.number) exceeds the limit of \(capabilities.mostParts) parts")
        }
        call.headers["Content-Type"] = SwiftMetadata.defaultType
        return call
    }

    /// Deletes the segment if the upload was aborted while it was sent.
    private func kept(
        _ uploaded: UploadedPart, _ part: PartRequest, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> UploadedPart {
        guard learned.withLock({ $0.uploads[part.upload] }) == nil else { return uploaded }
        try await deleteSegment(segments.segment(part.number, of: part.upload), operation, part.key)
        throw noSuchUpload(operation, part.key)
    }

    /// The upload's key and metadata; requested from the store where this process did not begin it.
    private func upload(
        _ id: UploadID, of key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> SwiftUpload {
        if let known = learned.withLock({ $0.uploads[id] }) {
            guard known.key == key else { throw noSuchUpload(operation, key) }
            return known
        }
        let call = call(operation, .head, segment: segments.marker(key, id), for: key)
        do throws(ObjectStoreError) {
            let upload = SwiftUpload(key: key, metadata: SwiftMetadata.read(try await send(call).headers))
            learned.withLock { $0.uploads[id] = upload }
            return upload
        } catch {
            throw error.status == 404 ? noSuchUpload(operation, key) : error
        }
    }

    private func noSuchUpload(_ operation: ObjectStoreError.Operation, _ key: ObjectKey) -> ObjectStoreError {
        ObjectStoreError(
            .noSuchUpload, operation, key: key, status: 404, code: "NoSuchUpload",
            message: "the upload does not exist or has ended")
    }

    package func listParts(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) -> [UploadedPart] {
        if !SwiftSegments.isDirectory(upload) { _ = try await self.upload(upload, of: key, .listParts) }
        return try await parts(of: upload, key, .listParts)
    }

    func parts(
        of upload: UploadID, _ key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> [UploadedPart] {
        try await names(below: segments.directory(of: upload), operation, key).compactMap { entry in
            guard let name = entry.name, let number = segments.number(of: ByteString(name), in: upload),
                let hash = entry.hash, let size = entry.bytes?.bytes
            else { return nil }
            return UploadedPart(number: number, etag: ETag(hash), size: size)
        }
    }

    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        try await names(below: segments.markers(prefix: prefix), .listUploads, nil).compactMap { entry in
            guard let name = entry.name, let (key, upload) = segments.upload(ofMarker: ByteString(name)) else {
                return nil
            }
            return UploadInProgress(key: key, upload: upload, initiated: entry.modified)
        } + leftovers(prefix: prefix)
    }

    // MARK: The end

    /// Writes the manifest; other requests find the object that it replaces before, and delete its segments after.
    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        if let small = parts.dropLast().first(where: { $0.size < capabilities.smallestPart }) {
            // The server accepts such a part, and then delays every read of it by a second.
            throw ObjectStoreError(
                .partRejected, .completeUpload, key: key, code: "SegmentTooSmall",
                message: "part \(small.number) has \(small.size) bytes, which only the last part may have")
        }
        let known = try await self.upload(upload, of: key, .completeUpload)
        var call = call(.completeUpload, .put, key)
        try addNewObject(PutRequest(key, metadata: metadata ?? known.metadata, condition: condition), to: &call)
        let etag = ETag(Hex.encode(MD5.of(parts.map(\.etag.text).joined())))
        var replaced: Set<String> = []
        do throws(ObjectStoreError) {
            replaced = try await segmentsToReplace(key, condition, for: call)
            switch profile.largeObjects {
            case .named: try await publish(&call, upload, parts, etag)
            case .prefixed: try await publishPrefix(&call, upload, parts, etag)
            }
        } catch {
            // The condition may fail because of an earlier try, whose answer was lost or which libcurl sent twice.
            guard error.kind == .preconditionFailed, try await isObject(upload, at: key, .completeUpload) else {
                throw error
            }
        }
        // These segments belong to the object now.
        replaced.remove(upload.text)
        learned.withLock { learned in
            learned.uploads.removeValue(forKey: upload)
            learned.leaving[key]?.remove(upload.text)
        }
        try await deleteSegment(segments.marker(key, upload), .completeUpload, key)
        await replace(replaced, at: key, by: .large)
        return PutAnswer(etag: etag)
    }

    /// Writes a manifest of segments; the server compares each segment with its entry.
    private func publish(
        _ call: inout Call, _ upload: UploadID, _ parts: [UploadedPart], _ etag: ETag
    ) async throws(ObjectStoreError) {
        let elements = parts.map { part in
            let name = segments.segment(part.number, of: upload)
            return SwiftDocuments.Segment(
                path: "/\(segments.container)/\(name)", etag: part.etag.text, size: part.size)
        }
        guard let manifest = SwiftDocuments.manifest(elements) else {
            throw invalid(call, "the manifest cannot be written as JSON")
        }
        call.query = [QueryItem("multipart-manifest", "put")]
        call.headers["Accept"] = "application/json"
        // Ceph does not show the segments.
        if let key = call.key, try await isCeph() {
            try await expect(parts, of: upload, key)
            call.headers[SwiftMetadata.uploadHeader] = SwiftMetadata.ownership(of: upload, at: key)
        }
        let response: HTTPResponse
        do throws(ObjectStoreError) {
            response = try await send(call, body: MemorySource(manifest))
        } catch {
            var refusal = error
            if error.status != nil, [.notSupported, .accessDenied].contains(error.kind) {
                // Segments are ordinary objects: only the manifest is refused.
                if error.kind == .notSupported { learned.withLock { _ = $0.quirks.insert(.uploadsRefused) } }
                refusal.kind = .notSupported
                throw refusal
            }
            // A 400 can only mean a segment, as the rest is well-formed.
            guard error.status == 400 else { throw error }
            (refusal.kind, refusal.code) = (.partRejected, "SegmentRejected")
            throw refusal
        }
        guard let answered = response.headers["Etag"], ETag(answered) == etag else {
            throw integrity(call, response, "the object has other bytes than its segments")
        }
    }

    /// Writes a manifest of a prefix. The objects listed below it are the content, so the listing must show exactly these parts
    /// first; and the object counts as complete when it shows their length and ETag.
    private func publishPrefix(
        _ call: inout Call, _ upload: UploadID, _ parts: [UploadedPart], _ etag: ETag
    ) async throws(ObjectStoreError) {
        guard let key = call.key else { return }
        try await settle("the listing of segments") { () async throws(ObjectStoreError) in
            try await self.isListed(parts, of: upload, key)
        }
        call.headers["X-Object-Manifest"] = Self.bulkPath(segments.container, segments.directory(of: upload))
        try await send(call)
        let size = parts.reduce(0) { $0 + $1.size }
        try await settle("the object") { () async throws(ObjectStoreError) in
            var look = self.call(.completeUpload, .head, key)
            look.headers["X-Newest"] = "true"
            let response = try await self.send(look)
            let version = try self.info(look, response, size: nil).version
            return version.size == size && version.etag == etag
        }
    }

    /// Whether the listing shows exactly these parts. Checks missing segments with a HEAD, and deletes surplus ones.
    private func isListed(
        _ parts: [UploadedPart], of upload: UploadID, _ key: ObjectKey
    ) async throws(ObjectStoreError) -> Bool {
        let listed = try await self.parts(of: upload, key, .completeUpload)
        if listed == parts { return true }
        for part in parts where !listed.contains(part) {
            let name = segments.segment(part.number, of: upload)
            let call = call(.completeUpload, .head, segment: name, for: key)
            do throws(ObjectStoreError) {
                let headers = try await send(call).headers
                if headers["Etag"].map({ ETag($0) }) == part.etag, headers["Content-Length"] == String(part.size) {
                    continue
                }
            } catch { guard error.status == 404 else { throw error } }
            throw ObjectStoreError(
                .partRejected, .completeUpload, key: key, code: "SegmentRejected",
                message: "part \(part.number) is missing or has other bytes than were sent")
        }
        // Surplus parts are deleted last, so that a refused list of parts costs none.
        let surplus = listed.filter { part in !parts.contains { $0.number == part.number } }
        let names = surplus.map { segments.segment($0.number, of: upload) }
        try await deleteSegments(names, .completeUpload, key)
        return false
    }

    /// Repeats `isSettled` until it returns true, for a minute at most (listings of CSSP lag behind).
    private func settle(
        _ what: String, _ isSettled: () async throws(ObjectStoreError) -> Bool
    ) async throws(ObjectStoreError) {
        let deadline = time.uptime() + .seconds(60)
        var pause = Duration.milliseconds(50)
        while try await !isSettled() {
            guard time.uptime() < deadline else {
                throw ObjectStoreError(
                    .serverFault, .completeUpload, code: "NotSettled",
                    message: "\(what) lacks parts that were sent")
            }
            do { try await time.sleep(for: pause) } catch {
                throw ObjectStoreError(.cancelled, .completeUpload, code: "Cancelled", message: "cancelled")
            }
            pause = min(pause * 2, .seconds(2))
        }
    }

    /// Whether the object at `key` consists of the upload's segments.
    private func isObject(
        _ upload: UploadID, at key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> Bool {
        let look = call(operation, .head, key)
        do throws(ObjectStoreError) {
            return try await segmentsOwned(by: try await send(look), look).contains(upload.text)
        } catch {
            guard error.status == 404 else { throw error }
            return false
        }
    }

    /// Keeps the segments of an upload that has become an object, even if the caller takes it for one in progress.
    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {
        if SwiftSegments.isDirectory(upload) {
            if try await !isObject(upload, at: key, .abortUpload) {
                try await deleteSegments(of: upload, .abortUpload, key)
            }
            return
        }
        learned.withLock { _ = $0.uploads.removeValue(forKey: upload) }
        do throws(ObjectStoreError) { _ = try await self.upload(upload, of: key, .abortUpload) } catch {
            guard error.kind == .noSuchUpload else { throw error }
            return
        }
        learned.withLock { _ = $0.uploads.removeValue(forKey: upload) }
        if try await !isObject(upload, at: key, .abortUpload) {
            try await deleteSegments(of: upload, .abortUpload, key)
        }
        try await deleteSegment(segments.marker(key, upload), .abortUpload, key)
    }
}
