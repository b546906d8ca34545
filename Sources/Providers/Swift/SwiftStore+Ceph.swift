import Basics
import Digests
import HTTP
import ObjectStorage
import Synchronization

/// Requests that must differ for Ceph's gateway (`SwiftServer.ceph`).
extension SwiftStore {
    /// Whether the server is Ceph. Sends a request if no answer about the container has shown it yet.
    func isCeph() async throws(ObjectStoreError) -> Bool {
        if let server = learned.withLock({ $0.server }) { return server == .ceph }
        do throws(ObjectStoreError) { try await send(call(.checkAccess, .head)) } catch {
            // The credentials are for objects alone: requests for Ceph are right, if slower, at every server.
            guard error.kind == .accessDenied else { throw error }
            return true
        }
        return learned.withLock { $0.server } == .ceph
    }

    /// Called with every answer.
    func learnServer(from response: HTTPResponse, to call: Call) {
        guard call.name == nil, !call.container.isEmpty, response.isSuccess, [.get, .head].contains(call.method) else {
            return
        }
        learned.withLock { learned in
            if learned.server == nil { learned.server = SwiftServer(containerAnswer: response.headers) }
        }
    }

    // MARK: Conditions

    /// Adds the condition if the server honours it; otherwise `refusal` checks the answer.
    func add(_ condition: ReadCondition?, to call: inout Call) async throws(ObjectStoreError) {
        guard condition != nil, try await !isCeph() else { return }
        Self.add(condition, to: &call.headers)
    }

    /// The error of a successful answer to a read that does not satisfy the condition.
    func refusal(_ call: Call, _ response: HTTPResponse, _ condition: ReadCondition?) -> ObjectStoreError? {
        guard let condition else { return nil }
        guard let text = response.headers["Etag"] else { return malformed(call, response, "the answer has no ETag") }
        switch condition {
        case .ifMatch(let etag):
            guard ETag(text) != etag else { return nil }
            return error(.preconditionFailed, call, response, "OtherVersion", "the object was replaced")
        case .ifNoneMatch(let etag):
            guard ETag(text) == etag else { return nil }
            return error(.notModified, call, response, "NotModified", "the object is unchanged")
        }
    }

    // MARK: Segments

    /// The segments of an object, in order.
    struct Composition: Sendable {
        let upload: UploadID
        let parts: [UploadedPart]

        var size: Int64 { parts.reduce(0) { $0 + $1.size } }
        var etag: ETag { ETag(Hex.encode(MD5.of(parts.map(\.etag.text).joined()))) }

        /// The part that has exactly the bytes of `range`.
        func part(of range: ByteRange) -> UploadedPart? {
            var start: Int64 = 0
            for part in parts {
                if start == range.lowerBound { return part.size == range.length ? part : nil }
                start += part.size
            }
            return nil
        }
    }

    /// Lists the segments of the large object that `response` describes; nil for one that other tools have made.
    private func composition(
        of key: ObjectKey, _ response: HTTPResponse, _ call: Call
    ) async throws(ObjectStoreError) -> Composition? {
        guard let upload = SwiftMetadata.upload(response.headers, at: key) else { return nil }
        let version = try info(call, response, size: nil).version
        let source = CopySource(key, ifMatch: version.etag)
        if let known = learned.withLock({ $0.compositions.value(for: source) }), known.upload == upload { return known }
        let found = Composition(upload: upload, parts: try await parts(of: upload, key, call.operation))
        guard found.size == version.size, found.etag == version.etag else {
            throw error(
                .serverFault, call, response, "SegmentsMissing", "the listed segments are not those of the object")
        }
        learned.withLock { _ = $0.compositions.insert(found, for: source) }
        return found
    }

    /// The headers of the copy's source, if that is the version of the copy request.
    private func look(_ source: CopySource, _ operation: ObjectStoreError.Operation) async throws(ObjectStoreError)
        -> HTTPResponse
    {
        let call = call(operation, .head, source.key)
        let response = try await send(call)
        if let refusal = refusal(call, response, source.ifMatch.map { .ifMatch($0) }) { throw refusal }
        return response
    }

    /// Copies the segment that is exactly the range; `.notSupported` where there is none, as the server copies no ranges.
    func copySegmentAtCeph(
        _ call: Call, _ source: CopySource, _ range: ByteRange
    ) async throws(ObjectStoreError) -> ETag {
        if let known = learned.withLock({ $0.compositions.value(for: source) }), let part = known.part(of: range) {
            do throws(ObjectStoreError) {
                try await copySegment(segments.segment(part.number, of: known.upload), part.etag, call)
                return part.etag
            } catch {
                guard error.kind == .notFound else { throw error }
                // Another version has replaced it.
                learned.withLock { _ = $0.compositions.removeValue(for: source) }
            }
        }
        let response = try await look(source, call.operation)
        guard Self.isLarge(response.headers), let found = try await composition(of: source.key, response, call),
            let part = found.part(of: range)
        else { throw .lacking(call.operation, call.key, "copies of ranges other than whole segments") }
        try await copySegment(segments.segment(part.number, of: found.upload), part.etag, call)
        return part.etag
    }

    /// `call` is the PUT of the copy.
    private func copySegment(_ name: ByteString, _ etag: ETag, _ call: Call) async throws(ObjectStoreError) {
        var call = call
        let path = "/\(PercentEncoding.encode(segments.container))/"
        call.headers["X-Copy-From"] = path + PercentEncoding.encode(name, keepingSlash: true)
        call.headers["X-Fresh-Metadata"] = "true"
        let response = try await send(call)
        guard response.headers["Etag"].map({ ETag($0) }) == etag else {
            throw integrity(call, response, "the copy of a segment has other bytes than its source")
        }
    }

    /// Checks the parts: the server accepts a manifest without checking the segments.
    func expect(_ parts: [UploadedPart], of upload: UploadID, _ key: ObjectKey) async throws(ObjectStoreError) {
        let listed = Set(try await self.parts(of: upload, key, .completeUpload))
        guard let part = parts.first(where: { !listed.contains($0) }) else { return }
        throw ObjectStoreError(
            .partRejected, .completeUpload, key: key, code: "SegmentRejected",
            message: "part \(part.number) is missing or has other bytes than were sent")
    }

    // MARK: Copies

    /// A large object of this program gets segments of its own, so no two objects ever share any. An object of another tool
    /// shares its segments with the copy: pailfs never deletes them.
    func copyAtCeph(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        var call = call(.copy, .put, request.key)
        try checkKey(call)
        let response = try await look(request.source, .copy)
        let version = try info(self.call(.copy, .head, request.source.key), response, size: nil).version
        let isLarge = Self.isLarge(response.headers)
        if isLarge, let found = try await composition(of: request.source.key, response, call) {
            let metadata = request.metadata ?? SwiftMetadata.read(response.headers)
            return try await copy(found, to: request.key, metadata)
        }
        addSource(CopySource(request.source.key), to: &call)
        if !isLarge, let metadata = request.metadata {
            call.headers["X-Fresh-Metadata"] = "true"
            try SwiftMetadata.add(metadata, to: &call)
        }
        var replaced = try await segmentsToReplace(request.key, nil, for: call)
        // If the source is a copy of the replaced object, the new copy consists of these segments.
        if let shared = SwiftMetadata.sharedUpload(response.headers) { replaced.remove(shared.text) }
        leave(replaced, at: request.key)
        let answer = try await send(call)
        if !isLarge, answer.headers["Etag"].map({ ETag($0) }) != version.etag {
            throw error(.preconditionFailed, call, answer, "OtherVersion", "the source was replaced")
        }
        await replace(replaced, at: request.key, by: isLarge ? .large : .plain)
        if isLarge, let metadata = request.metadata {
            _ = try await updateMetadata(request.key, to: metadata, ifMatch: version.etag)
        }
        return PutAnswer(etag: version.etag, answered: answer.date)
    }

    private func copy(
        _ source: Composition, to key: ObjectKey, _ metadata: ObjectMetadata
    ) async throws(ObjectStoreError) -> PutAnswer {
        let upload = try await createUpload(PutRequest(key, metadata: metadata))
        do throws(ObjectStoreError) {
            let failures = await eightAtOnce(source.parts) { part throws(ObjectStoreError) in
                let call = try self.segmentCall(.copy, PartRequest(key, upload, number: part.number))
                try await self.copySegment(self.segments.segment(part.number, of: source.upload), part.etag, call)
            }
            if let failure = failures.first { throw failure }
            return try await completeUpload(key, upload, parts: source.parts, metadata: nil, condition: nil)
        } catch {
            // Segments that cannot be deleted now stay listed as an upload in progress.
            try? await abortUpload(key, upload)
            throw error
        }
    }
}
