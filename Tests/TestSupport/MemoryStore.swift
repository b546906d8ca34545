package import Basics
package import ObjectStorage
import Synchronization

/// An object store in memory that keeps the promises of `ObjectStore` as S3 does, counts what it is asked, and can be
/// told to fail, to lose replies, to damage bodies and to make requests wait.
///
/// Locked by its own mutex; hooks, sinks, sources and gates run outside it.
package final class MemoryStore: ObjectStore {
    /// Answers the error that a request shall fail with, or nil.
    package typealias Fault = @Sendable (ObjectStoreError.Operation, ObjectKey?) -> ObjectStoreError?

    /// One request as it came in; fields that an operation does not have are nil.
    package struct Request: Sendable, Hashable {
        package var operation: ObjectStoreError.Operation
        package var key: ObjectKey?
        /// Of a batch delete.
        package var keys: [ObjectKey]?
        /// Of a ranged get or a part copy.
        package var range: ByteRange?
        package var source: CopySource?
        package var part: Int?
        package var upload: UploadID?
        package var list: ListRequest?
        package var readCondition: ReadCondition?
        package var writeCondition: WriteCondition?
        package var metadata: ObjectMetadata?
        /// Length of the body sent.
        package var bytes: Int64?
    }

    struct Hooks: Sendable {
        var fault: Fault?
        var faultAfter: Fault?
        var alterBody: (@Sendable (GetRequest, [UInt8]) -> [UInt8])?
        var checksum: (@Sendable ([UInt8]) -> ContentChecksum?)?
        var checksumsApart: (@Sendable ([UInt8]) -> [CheckedPart])?
        var beforeDelivery: (@Sendable (GetRequest, Int64) async -> Void)?
        var gates: [ObjectStoreError.Operation: Gate] = [:]
        var gatesAfter: [ObjectStoreError.Operation: Gate] = [:]
    }

    struct State: Sendable {
        var bucket: MemoryBucket
        /// What listings show, where they lag behind: former states with the times from which they were those.
        var former: [(since: Timestamp, bucket: MemoryBucket)] = []
        var hooks = Hooks()
        var requests: [Request] = []
        var inFlight: [ObjectStoreError.Operation: Int] = [:]
        var mostInFlight: [ObjectStoreError.Operation: Int] = [:]
    }

    package let capabilities: Capabilities
    let time: any TimeSource
    let state: Mutex<State>
    /// Bodies of gets arrive in pieces of this many bytes.
    let deliverySize: Int

    /// `capabilities.listPage` is the size of listing pages.
    package init(
        capabilities: Capabilities = Capabilities(), time: any TimeSource = SystemTime(), deliverySize: Int = 64 << 10
    ) {
        (self.capabilities, self.time, self.deliverySize) = (capabilities, time, deliverySize)
        let bucket = MemoryBucket(capabilities: capabilities)
        state = Mutex(State(bucket: bucket, former: [(time.now(), bucket)]))
    }

    // MARK: What a test sees and sets behind the protocol's back

    /// How the store's clock differs from its users'; then no answer to a write tells the time.
    package var clockOffset: Duration {
        get { state.withLock { $0.bucket.clockOffset } }
        set { state.withLock { $0.bucket.clockOffset = newValue } }
    }

    /// A listing tells of its end by an empty page, as Swift does.
    package var listsUntilEmptyPage: Bool {
        get { state.withLock { $0.bucket.listsUntilEmptyPage } }
        set { state.withLock { $0.bucket.listsUntilEmptyPage = newValue } }
    }

    /// Every request so far, in the order of arrival.
    package var requests: [Request] { state.withLock { $0.requests } }
    package func requests(_ operation: ObjectStoreError.Operation) -> [Request] {
        requests.filter { $0.operation == operation }
    }
    /// How many requests of one kind came, faults included.
    package func count(_ operation: ObjectStoreError.Operation) -> Int { requests(operation).count }
    package func forgetRequests() { state.withLock { $0.requests = [] } }
    /// Most requests of one kind that were under way at once.
    package func mostInFlight(_ operation: ObjectStoreError.Operation) -> Int {
        state.withLock { $0.mostInFlight[operation] ?? 0 }
    }

    /// Every key, in byte order.
    package var keys: [ObjectKey] { state.withLock { $0.bucket.keys } }
    package func content(_ key: ObjectKey) -> [UInt8]? { state.withLock { $0.bucket.objects[key]?.content } }
    package func info(_ key: ObjectKey) -> ObjectInfo? { state.withLock { $0.bucket.objects[key]?.info } }
    package var uploadsInProgress: [UploadInProgress] { state.withLock { $0.bucket.uploads(prefix: "") } }

    /// Stores an object as somebody else would, uncounted and without conditions.
    @discardableResult
    package func setObject(
        _ key: ObjectKey, _ content: [UInt8], metadata: ObjectMetadata = ObjectMetadata(), storageClass: String? = nil,
        modified: Timestamp? = nil
    ) -> ObjectVersion {
        state.withLock { state in
            let answer = state.bucket.store(
                content, at: key, metadata: metadata, storageClass: storageClass, now: modified ?? time.now())
            keepFormer(&state)
            return ObjectVersion(
                etag: answer.etag, size: Int64(content.count), modified: answer.modified ?? .epoch)
        }
    }

    package func removeObject(_ key: ObjectKey) {
        state.withLock { state in
            state.bucket.remove(key)
            keepFormer(&state)
        }
    }

    /// Asked before the act; an error means nothing happened. Asked with the key too for each key of a batch delete.
    package var fault: Fault? {
        get { state.withLock { $0.hooks.fault } }
        set { state.withLock { $0.hooks.fault = newValue } }
    }
    /// Asked after the act: an error is a lost reply.
    package var faultAfter: Fault? {
        get { state.withLock { $0.hooks.faultAfter } }
        set { state.withLock { $0.hooks.faultAfter = newValue } }
    }
    /// Changes the bytes that a get delivers. Another length, or another content of a whole object, is noticed as a real
    /// store's client would: the bytes arrive and then `.integrity` is thrown. An altered range is not noticed.
    package var alterBody: (@Sendable (GetRequest, [UInt8]) -> [UInt8])? {
        get { state.withLock { $0.hooks.alterBody } }
        set { state.withLock { $0.hooks.alterBody = newValue } }
    }
    /// What heads and gets tell of the content that they are given.
    package var checksum: (@Sendable ([UInt8]) -> ContentChecksum?)? {
        get { state.withLock { $0.hooks.checksum } }
        set { state.withLock { $0.hooks.checksum = newValue } }
    }
    /// What a request of its own tells of the content that it is given; nil where there is none to make.
    package var checksumsApart: (@Sendable ([UInt8]) -> [CheckedPart])? {
        get { state.withLock { $0.hooks.checksumsApart } }
        set { state.withLock { $0.hooks.checksumsApart = newValue } }
    }
    /// Awaited before each piece of a get's body, with the offset of the piece in the object.
    package var beforeDelivery: (@Sendable (GetRequest, Int64) async -> Void)? {
        get { state.withLock { $0.hooks.beforeDelivery } }
        set { state.withLock { $0.hooks.beforeDelivery = newValue } }
    }

    /// Makes requests of one kind wait at the returned gate, before the act or, with the act done, before the reply.
    package func hold(_ operation: ObjectStoreError.Operation, beforeReply: Bool = false) -> Gate {
        let gate = Gate()
        state.withLock { state in
            if beforeReply { state.hooks.gatesAfter[operation] = gate } else { state.hooks.gates[operation] = gate }
        }
        return gate
    }

    // MARK: One request

    /// Counts and records the request, asks the hooks, and acts on the bucket.
    func perform<Result: Sendable>(
        _ request: Request, _ act: (inout MemoryBucket) throws(ObjectStoreError) -> Result
    ) async throws(ObjectStoreError) -> Result {
        let operation = request.operation
        let hooks = state.withLock { state in
            state.requests.append(request)
            let count = (state.inFlight[operation] ?? 0) + 1
            state.inFlight[operation] = count
            state.mostInFlight[operation] = max(count, state.mostInFlight[operation] ?? 0)
            return state.hooks
        }
        defer { state.withLock { $0.inFlight[operation, default: 1] -= 1 } }
        await hooks.gates[operation]?.pass()
        try checkCancellation(request)
        if let error = hooks.fault?(operation, request.key) { throw error }
        let result = try state.withLock { (state) throws(ObjectStoreError) in
            defer { keepFormer(&state) }
            return try act(&state.bucket)
        }
        await hooks.gatesAfter[operation]?.pass()
        try checkCancellation(request)
        if let error = hooks.faultAfter?(operation, request.key) { throw error }
        return result
    }

    /// Of a store whose listings lag, as long as they may show it.
    private func keepFormer(_ state: inout State) {
        if capabilities.listingLag == .zero { return }
        state.former.append((time.now(), state.bucket))
        _ = listed(&state)
    }

    /// What listings show: the bucket as it was `capabilities.listingLag` ago, or else at first.
    func listed(_ state: inout State) -> MemoryBucket {
        if capabilities.listingLag == .zero { return state.bucket }
        let now = time.now()
        let newest = state.former.lastIndex { now - $0.since >= capabilities.listingLag } ?? 0
        state.former.removeFirst(newest)
        return state.former[0].bucket
    }

    func checkCancellation(_ request: Request) throws(ObjectStoreError) {
        if Task.isCancelled {
            throw ObjectStoreError(.cancelled, request.operation, key: request.key, message: "cancelled")
        }
    }

    func notSupported(_ operation: ObjectStoreError.Operation, _ key: ObjectKey, _ what: String) -> ObjectStoreError {
        ObjectStoreError(.notSupported, operation, key: key, message: "the store has no \(what)")
    }

    /// A condition that the store cannot check is refused before it counts as a request.
    func checkSupport(
        of condition: WriteCondition?, _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) throws(ObjectStoreError) {
        switch condition {
        case .absent where !capabilities.putIfAbsent: throw notSupported(operation, key, "create-only condition")
        case .match where !capabilities.putIfMatch: throw notSupported(operation, key, "condition on the ETag")
        case .absent, .match, nil: return
        }
    }
}
