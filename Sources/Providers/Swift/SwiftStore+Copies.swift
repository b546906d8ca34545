import Basics
import HTTP
package import ObjectStorage
import Synchronization

/// Copies at the server (OpenStack Object Storage API, copy object).
extension SwiftStore {
    /// A copy of a large object is one plain object, so no two objects ever share segments.
    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        guard request.condition == nil else { throw .lacking(.copy, request.key, "conditional copies") }
        guard request.storageClass == nil else { throw .lacking(.copy, request.key, "storage classes") }
        guard request.source.version == nil else { throw .lacking(.copy, request.key, "versions of objects") }
        if request.source.bucket == nil { try requireVisible(request.source.key, .copy) }
        if try await isCeph() {
            // Ceph's copies of large objects share the source's segments.
            return try await request.source.bucket == nil ? copyAtCeph(request) : carry(request)
        }
        if learned.withLock({ $0.quirks.contains(.copiesRefused) }) { return try await carry(request) }
        var call = call(.copy, .put, request.key)
        try checkKey(call)
        addSource(request.source, to: &call)
        if let metadata = request.metadata {
            call.headers["X-Fresh-Metadata"] = "true"
            try SwiftMetadata.add(metadata, to: &call)
        }
        let replaced = try await segmentsToReplace(request.key, nil, for: call)
        leave(replaced, at: request.key)
        let response: HTTPResponse
        do { response = try await send(call) } catch { return try await carry(request, after: error) }
        guard let etag = response.headers["Etag"] else {
            throw malformed(call, response, "the answer has no ETag")
        }
        await replace(replaced, at: request.key, by: .plain)
        return PutAnswer(etag: ETag(etag), answered: response.date)
    }

    /// Adds the source that a PUT copies instead of a body; `If-Match` refers to the source.
    func addSource(_ source: CopySource, to call: inout Call) {
        let path = "/\(PercentEncoding.encode(source.bucket?.name ?? settings.container))/"
        call.headers["X-Copy-From"] = path + PercentEncoding.encode(source.key.bytes, keepingSlash: true)
        if let etag = source.ifMatch { call.headers["If-Match"] = "\"\(etag.text)\"" }
    }

    // MARK: Many at once

    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        // A bulk request deletes manifests and leaves their segments.
        let plain = learned.withLock { learned in
            keys.filter { learned.shapes.value(for: $0) == .plain }
        }
        var together = capabilities.deleteBatch > 1 && plain.count > 1 ? plain : []
        var failures: [ObjectStoreError] = []
        if !together.isEmpty {
            let paths = together.map { Self.bulkPath(settings.container, $0.bytes) }
            do throws(ObjectStoreError) { failures = try await deleteTogether(paths, .deleteMany) } catch {
                guard hasNoBulkDeletes(error) else { throw error }
                together = []
            }
            learned.withLock { learned in for key in together { learned.shapes.removeValue(for: key) } }
        }
        let alone = keys.filter { !Set(together).contains($0) }
        return failures
            + (await eightAtOnce(alone) { key throws(ObjectStoreError) in try await self.delete(key, ifMatch: nil) })
    }

    /// Whether bulk deletes are unavailable: they are middleware that not every server has, and some credentials may only use
    /// their container.
    func hasNoBulkDeletes(_ refusal: ObjectStoreError) -> Bool {
        guard let status = refusal.status, [400, 403, 404, 405, 412, 501].contains(status) else { return false }
        learned.withLock { _ = $0.quirks.insert(.singleDeletes) }
        return true
    }

    static func bulkPath(_ container: String, _ name: ByteString) -> String {
        PercentEncoding.encode(container) + "/" + PercentEncoding.encode(name, keepingSlash: true)
    }

    /// One bulk request (Swift documentation, bulk delete): its status is always 200. A missing object counts as deleted.
    func deleteTogether(
        _ paths: [String], _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> [ObjectStoreError] {
        var call = Call(operation: operation, method: .post, container: "")
        call.query = [QueryItem("bulk-delete")]
        call.headers["Content-Type"] = "text/plain"
        call.headers["Accept"] = "application/json"
        let body = MemorySource(Array((paths.joined(separator: "\n") + "\n").utf8))
        let response = try await send(call, body: body)
        guard let report = SwiftDocuments.bulkReport(response.body) else {
            throw malformed(call, response, "the answer to a bulk request is not valid")
        }
        if report.isSuccess { return [] }
        guard !report.errors.isEmpty else {
            throw failure(call, response, status: report.status, nil, report.text)
        }
        return report.errors.map { path, text in
            let name = PercentEncoding.decode(path).map { ByteString($0) } ?? ByteString(path)
            let prefix = ByteString(settings.container) + "/"
            let bare = name.hasPrefix("/") ? name.dropFirst(1) : name
            let key = bare.hasPrefix(prefix) && bare.count > prefix.count ? bare.dropFirst(prefix.count) : nil
            return failure(call, response, status: Int(text.prefix(3)) ?? 500, key.map { ObjectKey($0) }, text)
        }
    }

    private func failure(
        _ call: Call, _ response: HTTPResponse, status: Int, _ key: ObjectKey?, _ text: String
    ) -> ObjectStoreError {
        var answer = HTTPResponse(status: status, headers: response.headers, body: Array(text.utf8))
        answer.headers["Location"] = nil
        return SwiftErrors.error(answer, call.operation, key, isConditional: false)
    }

    /// Calls `act` for each of `items`, eight at a time; returns the failures.
    func eightAtOnce<Item: Sendable>(
        _ items: [Item], _ act: @escaping @Sendable (Item) async throws(ObjectStoreError) -> Void
    ) async -> [ObjectStoreError] {
        await withTaskGroup(of: ObjectStoreError?.self) { group in
            var failures: [ObjectStoreError] = []
            for (number, item) in items.enumerated() {
                if number >= 8, let failure = await group.next() ?? nil { failures.append(failure) }
                group.addTask {
                    do throws(ObjectStoreError) { try await act(item) } catch { return error }
                    return nil
                }
            }
            for await failure in group { if let failure { failures.append(failure) } }
            return failures
        }
    }
}
