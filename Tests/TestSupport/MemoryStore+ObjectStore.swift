package import Basics
package import ObjectStorage
import Synchronization

extension MemoryStore {
    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        let page = try await perform(Request(operation: .list, list: request)) { $0.list(request) }
        return capabilities.listingLag == .zero ? page : state.withLock { listed(&$0).list(request) }
    }

    package func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo {
        let object = try await perform(Request(operation: .head, key: key, readCondition: condition)) {
            (bucket) throws(ObjectStoreError) in
            try bucket.object(bucket.followed(key, .head), condition: condition, .head)
        }
        return told(object)
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        guard let tell = checksumsApart else { return [] }
        let condition = ReadCondition.ifMatch(version.etag)
        let object = try await perform(Request(operation: .head, key: key, readCondition: condition)) {
            (bucket) throws(ObjectStoreError) in
            try bucket.object(key, condition: condition, .head)
        }
        return tell(object.content)
    }

    private func told(_ object: MemoryBucket.Object) -> ObjectInfo {
        var info = object.info
        info.checksum = checksum?(object.content)
        return info
    }

    package func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer {
        let record = Request(
            operation: .get, key: request.key, range: request.range, readCondition: request.condition)
        // The reply's gate and fault stand between the head of the answer and its body.
        let object = try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.object(bucket.followed(request.key, .get), condition: request.condition, .get)
        }
        let size = Int64(object.content.count)
        if let wanted = request.range, wanted.isEmpty || wanted.lowerBound >= size {
            throw ObjectStoreError(
                .invalidRange, .get, key: request.key, status: 416, code: "InvalidRange",
                message: "the range \(wanted) is not in an object of \(size) bytes")
        }
        let range = request.range.map { $0.lowerBound..<min($0.upperBound, size) } ?? 0..<size
        let promised = Array(object.content[Int(range.lowerBound)..<Int(range.upperBound)])
        let hooks = state.withLock { $0.hooks }
        let body = hooks.alterBody?(request, promised) ?? promised
        var offset = 0
        while offset < body.count {
            await hooks.beforeDelivery?(request, range.lowerBound + Int64(offset))
            try checkCancellation(record)
            let piece = min(deliverySize, body.count - offset)
            do {
                try sink.receive(body.span.bytes.extracting(offset..<offset + piece))
            } catch {
                throw ObjectStoreError(
                    .local(errno: error.errno), .get, key: request.key, message: error.description)
            }
            offset += piece
        }
        if body.count != promised.count || request.range == nil && body != promised {
            throw ObjectStoreError(
                .integrity, .get, key: request.key, status: 200, message: "the body is not what was promised")
        }
        return GetAnswer(info: told(object), range: range)
    }

    package func put(_ request: PutRequest, body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer {
        try checkSupport(of: request.condition, .put, request.key)
        let content = try collect(body, .put, request.key)
        let record = Request(
            operation: .put, key: request.key, writeCondition: request.condition, metadata: request.metadata,
            bytes: body.count)
        return try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.checkLimits(request.key, request.metadata, .put)
            try bucket.checkSize(Int64(content.count), limit: capabilities.largestPut, .put, request.key)
            try bucket.check(request.condition, of: request.key, .put)
            return bucket.store(
                content, at: request.key, metadata: request.metadata, storageClass: request.storageClass,
                now: time.now())
        }
    }

    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        if request.condition != nil, !capabilities.copyCondition {
            throw notSupported(.copy, request.key, "condition on copies")
        }
        let record = Request(
            operation: .copy, key: request.key, source: request.source, writeCondition: request.condition,
            metadata: request.metadata)
        return try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.checkLimits(request.key, request.metadata, .copy)
            let object = try bucket.object(
                request.source.key, condition: request.source.ifMatch.map { .ifMatch($0) }, .copy)
            try bucket.checkSize(object.info.version.size, limit: capabilities.largestCopy, .copy, request.key)
            try bucket.check(request.condition, of: request.key, .copy)
            return bucket.store(
                object.content, at: request.key, metadata: request.metadata ?? object.info.metadata,
                storageClass: request.storageClass, now: time.now())
        }
    }

    package func usage() async throws(ObjectStoreError) -> BucketUsage {
        try await perform(Request(operation: .usage)) { bucket in
            let bytes = bucket.objects.values.reduce(0) { $0 + Int64($1.content.count) }
            return BucketUsage(bytes: bytes, objects: Int64(bucket.objects.count))
        }
    }

    package func putSymlink(_ request: PutRequest, target: ByteString) async throws(ObjectStoreError) -> PutAnswer {
        try await perform(Request(operation: .putSymlink, key: request.key)) { bucket in
            let answer = bucket.store([], at: request.key, metadata: request.metadata, now: time.now())
            bucket.setTarget(target, of: request.key)
            return answer
        }
    }

    package func link(at key: ObjectKey) async throws(ObjectStoreError) -> StoredLink {
        try await perform(Request(operation: .symlinkTarget, key: key)) { (bucket) throws(ObjectStoreError) in
            guard let object = bucket.objects[key], let target = object.target else {
                throw ObjectStoreError(
                    .preconditionFailed, .symlinkTarget, key: key, code: "NotSymlink", message: "no link")
            }
            return StoredLink(target: target, etag: object.info.version.etag, metadata: object.info.metadata)
        }
    }

    package func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        if !capabilities.move { throw notSupported(.move, request.key, "rename") }
        let record = Request(operation: .move, key: request.key, source: request.source)
        return try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.checkLimits(request.key, nil, .move)
            let object = try bucket.object(
                request.source.key, condition: request.source.ifMatch.map { .ifMatch($0) }, .move)
            bucket.remove(request.source.key)
            return bucket.store(
                object.content, at: request.key, metadata: object.info.metadata, etag: object.info.version.etag,
                storageClass: object.info.storageClass, now: time.now())
        }
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        if ifMatch != nil, !capabilities.deleteIfMatch { throw notSupported(.delete, key, "conditional delete") }
        let record = Request(operation: .delete, key: key, writeCondition: ifMatch.map { .match($0) })
        try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.check(ifMatch.map { .match($0) }, of: key, .delete)
            bucket.remove(key)
        }
    }

    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        let fault = fault
        var refused: [ObjectKey: ObjectStoreError] = [:]
        for key in keys { refused[key] = fault?(.deleteMany, key) }
        return try await perform(Request(operation: .deleteMany, keys: keys)) {
            [refused] (bucket) throws(ObjectStoreError) in
            guard keys.count <= capabilities.deleteBatch else {
                throw ObjectStoreError(
                    .invalidRequest, .deleteMany, status: 400, code: "MalformedXML",
                    message: "\(keys.count) keys are more than \(capabilities.deleteBatch)")
            }
            return keys.compactMap { key in
                if let error = refused[key] { return error }
                bucket.remove(key)
                return nil
            }
        }
    }

    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        let record = Request(operation: .createUpload, key: request.key, metadata: request.metadata)
        return try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.checkLimits(request.key, request.metadata, .createUpload)
            return bucket.createUpload(request, now: time.now())
        }
    }

    package func uploadPart(
        _ part: PartRequest, body: any ByteSource
    ) async throws(ObjectStoreError) -> UploadedPart {
        let content = try collect(body, .uploadPart, part.key)
        let record = Request(
            operation: .uploadPart, key: part.key, part: part.number, upload: part.upload, bytes: body.count)
        return try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.addPart(content, to: part, .uploadPart)
        }
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart {
        if !capabilities.partCopy { throw notSupported(.uploadPartCopy, part.key, "part copy") }
        let record = Request(
            operation: .uploadPartCopy, key: part.key, range: range, source: source, part: part.number,
            upload: part.upload)
        return try await perform(record) { (bucket) throws(ObjectStoreError) in
            let object = try bucket.object(
                source.key, condition: source.ifMatch.map { .ifMatch($0) }, .uploadPartCopy)
            guard !range.isEmpty, range.lowerBound >= 0, range.upperBound <= object.info.version.size else {
                throw ObjectStoreError(
                    .invalidRange, .uploadPartCopy, key: part.key, status: 416, code: "InvalidRange",
                    message: "the range \(range) is not in the source")
            }
            let content = Array(object.content[Int(range.lowerBound)..<Int(range.upperBound)])
            return try bucket.addPart(content, to: part, .uploadPartCopy)
        }
    }

    package func listParts(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) -> [UploadedPart] {
        try await perform(Request(operation: .listParts, key: key, upload: upload)) {
            (bucket) throws(ObjectStoreError) in
            try bucket.parts(of: key, upload)
        }
    }

    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        try await perform(Request(operation: .listUploads)) { $0.uploads(prefix: prefix) }
    }

    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        if condition != nil, !capabilities.completionCondition {
            throw notSupported(.completeUpload, key, "condition on the end of an upload")
        }
        try checkSupport(of: condition, .completeUpload, key)
        if metadata != nil, !capabilities.headersAtCompletion {
            throw notSupported(.completeUpload, key, "other headers")
        }
        let record = Request(operation: .completeUpload, key: key, upload: upload, writeCondition: condition)
        return try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.complete(key, upload, parts, metadata, condition, now: time.now())
        }
    }

    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {
        try await perform(Request(operation: .abortUpload, key: key, upload: upload)) { bucket in
            if bucket.uploads[upload]?.key == key { bucket.uploads[upload] = nil }
        }
    }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        let update = capabilities.metadataUpdate
        if update == .none { throw notSupported(.updateMetadata, key, "metadata update") }
        let record = Request(
            operation: .updateMetadata, key: key, readCondition: ifMatch.map { .ifMatch($0) }, metadata: metadata)
        return try await perform(record) { (bucket) throws(ObjectStoreError) in
            try bucket.checkLimits(key, metadata, .updateMetadata)
            let object = try bucket.object(key, condition: ifMatch.map { .ifMatch($0) }, .updateMetadata)
            if update == .inPlace {
                var info = object.info
                info.metadata = metadata
                bucket.setInfo(info, of: key)
                return PutAnswer(etag: info.version.etag, modified: info.version.modified)
            }
            // S3's copy of an object onto itself: content and class stay, the ETag becomes that of one part.
            return bucket.store(
                object.content, at: key, metadata: metadata, storageClass: object.info.storageClass, now: time.now())
        }
    }

    package func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String {
        if !capabilities.presign { throw notSupported(.presign, request.key, "presigned URL") }
        return "memory:///\(request.key)?expires=\(request.lifetime.components.seconds)"
    }

    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        try await perform(Request(operation: .checkAccess)) { _ in }
    }

    private func collect(
        _ body: any ByteSource, _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) throws(ObjectStoreError) -> [UInt8] {
        let content: [UInt8]
        do { content = try body.collect() } catch {
            throw ObjectStoreError(.local(errno: error.errno), operation, key: key, message: error.description)
        }
        guard content.count == body.count else {
            throw ObjectStoreError(
                .integrity, operation, key: key, message: "a body of \(body.count) bytes gave \(content.count)")
        }
        return content
    }
}
