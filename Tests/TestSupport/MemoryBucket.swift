import Basics
import Digests
package import ObjectStorage

/// The objects of a `MemoryStore`: a plain value that answers as S3 does. Its owner locks it.
package struct MemoryBucket: Sendable {
    package struct Object: Sendable {
        package var content: [UInt8]
        package var info: ObjectInfo
        /// Of a link of the store's own kind.
        var target: ByteString?
    }

    struct Upload: Sendable {
        let key: ObjectKey
        let request: PutRequest
        let initiated: Timestamp
        var parts: [Int: (content: [UInt8], etag: ETag)] = [:]
    }

    var capabilities: Capabilities
    private(set) var objects: [ObjectKey: Object] = [:]
    /// The keys of `objects` in byte order.
    private(set) var keys: [ObjectKey] = []
    var uploads: [UploadID: Upload] = [:]
    var nextUpload = 1
    /// A listing tells of its end by an empty page.
    var listsUntilEmptyPage = false
    /// How the store's clock differs from its users'. One that does is not told as the time of what they write.
    var clockOffset = Duration.zero

    init(capabilities: Capabilities) { self.capabilities = capabilities }

    static func etag(_ content: [UInt8]) -> ETag { ETag(Hex.encode(MD5.of(content))) }

    /// Makes `content` the object of `key`, whatever was there.
    @discardableResult
    mutating func store(
        _ content: [UInt8], at key: ObjectKey, metadata: ObjectMetadata, etag: ETag? = nil,
        storageClass: String? = nil, now: Timestamp
    ) -> PutAnswer {
        let version = ObjectVersion(
            etag: etag ?? Self.etag(content), size: Int64(content.count),
            modified: Timestamp(seconds: (now + clockOffset).seconds))
        let info = ObjectInfo(version: version, metadata: metadata, storageClass: storageClass)
        if objects.updateValue(Object(content: content, info: info), forKey: key) == nil {
            keys.insert(key, at: firstIndex { $0 >= key })
        }
        return PutAnswer(
            etag: version.etag, modified: clockOffset == .zero ? version.modified : nil,
            answered: Timestamp(seconds: (now + clockOffset).seconds))
    }

    @discardableResult
    mutating func remove(_ key: ObjectKey) -> Bool {
        guard objects.removeValue(forKey: key) != nil else { return false }
        keys.remove(at: firstIndex { $0 >= key })
        return true
    }

    /// Changes stored headers in place.
    mutating func setTarget(_ target: ByteString, of key: ObjectKey) { objects[key]?.target = target }

    mutating func setInfo(_ info: ObjectInfo, of key: ObjectKey) { objects[key]?.info = info }

    /// The key whose object a read of `key` gives: of a link, as OSS does it, the one that it leads to.
    func followed(
        _ key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) -> ObjectKey {
        guard capabilities.symlinks, let target = objects[key]?.target else { return key }
        guard objects[ObjectKey(target)] != nil else {
            throw ObjectStoreError(
                .notFound, operation, key: key, status: 404, code: "SymlinkTargetNotExist", message: "no such target")
        }
        return ObjectKey(target)
    }

    /// The object, when it is the one that `condition` asks for.
    func object(
        _ key: ObjectKey, condition: ReadCondition?, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) -> Object {
        guard let object = objects[key] else {
            throw ObjectStoreError(
                .notFound, operation, key: key, status: 404, code: "NoSuchKey", message: "the key does not exist")
        }
        let etag = object.info.version.etag
        switch condition {
        case .ifMatch(let wanted) where wanted != etag: throw Self.preconditionFailed(operation, key)
        case .ifNoneMatch(let known) where known == etag:
            throw ObjectStoreError(.notModified, operation, key: key, status: 304, message: "not modified")
        case .ifMatch, .ifNoneMatch, nil: return object
        }
    }

    /// Throws unless `condition` allows to write to `key`, or when the store cannot check it.
    func check(
        _ condition: WriteCondition?, of key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) {
        guard let condition else { return }
        switch (condition, objects[key]?.info.version.etag) {
        case (.absent, nil): return
        case (.match(let wanted), let found?) where wanted == found: return
        case (.match, nil):
            throw ObjectStoreError(
                .notFound, operation, key: key, status: 404, code: "NoSuchKey", message: "the key does not exist")
        case (.absent, _?), (.match, _?): throw Self.preconditionFailed(operation, key)
        }
    }

    static func preconditionFailed(
        _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) -> ObjectStoreError {
        ObjectStoreError(
            .preconditionFailed, operation, key: key, status: 412, code: "PreconditionFailed",
            message: "a condition of the request did not hold")
    }

    /// Limits of names and headers.
    func checkLimits(
        _ key: ObjectKey, _ metadata: ObjectMetadata?, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) {
        if key.bytes.count > capabilities.longestKey {
            throw ObjectStoreError(
                .keyTooLong, operation, key: key, status: 400, code: "KeyTooLongError", message: "the key is too long")
        }
        let headers = metadata?.user.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count } ?? 0
        if headers > capabilities.metadataBudget {
            throw ObjectStoreError(
                .metadataTooLarge, operation, key: key, status: 400, code: "MetadataTooLarge",
                message: "user metadata takes \(headers) bytes")
        }
    }

    func checkSize(
        _ size: Int64, limit: Int64, _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) throws(ObjectStoreError) {
        if size > limit {
            throw ObjectStoreError(
                .tooLarge, operation, key: key, status: 400, code: "EntityTooLarge",
                message: "\(size) bytes are more than \(limit)")
        }
    }

    /// The index of the first key for which `isPast` holds; it must hold for all that follow.
    private func firstIndex(where isPast: (ObjectKey) -> Bool) -> Int {
        var (low, high) = (0, keys.count)
        while low < high {
            let middle = low + (high - low) / 2
            if isPast(keys[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    // MARK: Listing

    func list(_ request: ListRequest) -> ListingPage {
        let prefix = request.prefix
        let limit = max(1, min(request.limit ?? .max, capabilities.listPage))
        var page = ListingPage()
        var index = firstIndex { $0.bytes >= prefix }
        if let after = request.cursor?.bytes ?? request.startAfter, after >= prefix {
            // The group that `after` lies in was listed, or is before it: both are left out.
            if let group = commonPrefix(of: after, request) {
                index = firstIndex { $0.bytes > group && !$0.bytes.hasPrefix(group) }
            } else {
                index = firstIndex { $0.bytes > after }
            }
        }
        var last: ByteString?
        while index < keys.count, keys[index].bytes.hasPrefix(prefix) {
            if page.objects.count + page.commonPrefixes.count == limit {
                page.next = last.map { ListingCursor($0) }
                return page
            }
            let key = keys[index]
            if let group = commonPrefix(of: key.bytes, request) {
                page.commonPrefixes.append(ObjectKey(group))
                last = group
                index = firstIndex { $0.bytes > group && !$0.bytes.hasPrefix(group) }
            } else {
                if let info = objects[key]?.info {
                    page.objects.append(
                        ListedObject(
                            key: key, version: info.version, storageClass: info.storageClass,
                            isSymlink: objects[key]?.target != nil))
                }
                last = key.bytes
                index += 1
            }
        }
        if listsUntilEmptyPage { page.next = last.map { ListingCursor($0) } }
        return page
    }

    private func commonPrefix(of key: ByteString, _ request: ListRequest) -> ByteString? {
        guard let delimiter = request.delimiter, key.hasPrefix(request.prefix) else { return nil }
        guard let end = key.bytes[request.prefix.count...].firstIndex(of: delimiter) else { return nil }
        return ByteString(key.bytes[...end])
    }
}
