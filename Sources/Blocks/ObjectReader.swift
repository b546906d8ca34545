package import Basics
import ObjectStorage
import Synchronization

/// Reads one object for one file handle: the object's shared blocks, and what this handle's reads say about the next ones.
///
/// Owns the read-ahead state, its interest in fetches under way and what it has had, all in its mutex; inside it the object
/// says which bytes were damaged, and nothing else of it is called. One that has had damaged bytes reads nothing any more.
/// Lives as long as the handle; `close` gives up what was fetched ahead for it alone.
package final class ObjectReader: Sendable {
    private struct Hold {
        let stream: Int
        let fetch: CachedObject.FetchID
    }

    private struct State {
        var readAhead: ReadAhead
        var holds: [Hold] = []
        var isClosed = false
        var watch: DamageWatch
        /// Why nothing is read any more.
        var damage: ObjectStoreError?
    }

    package let object: CachedObject
    private let state: Mutex<State>
    /// Finished fetches leave `holds` when there are this many.
    private static let holdLimit = 48

    package init(_ object: CachedObject) {
        self.object = object
        let cache = object.cache
        // What is fetched ahead must not push out what was fetched before it and not read yet.
        let room = cache.options.usesDisk ? cache.ledger.limit / 4 : Int64(cache.shelf.limit / 4)
        let limit = min(cache.options.readAhead, room, Int64(cache.buffers.budget.limit / 3 * 2))
        state = Mutex(State(readAhead: ReadAhead(size: object.version.size, limit: limit), watch: DamageWatch(object)))
    }

    /// Copies `range`, which lies within the object, if all of it is here, and answers whether it was. Any thread; never
    /// waits for the network, but may start fetching ahead. After false call `read`, not this again.
    package func readCached(_ range: ByteRange, into destination: UnsafeMutableRawBufferPointer) -> Bool {
        let watch = DamageWatch(object)
        guard unsafe object.readCached(range, into: destination), note(range, watch) == nil else { return false }
        // A small object comes whole: there is nothing to fetch ahead.
        if range.isEmpty || object.geometry.isSmall { return true }
        let plan = state.withLock { $0.readAhead.note(range) }
        if !plan.prefetch.isEmpty || plan.abandoned != nil { follow(plan, holding: []) }
        return true
    }

    /// Copies `range`, which lies within the object, to `offset` of `buffer`, fetching what is missing.
    package func read(_ range: ByteRange, into buffer: Buffer, at offset: Int) async throws(BlockError) {
        if range.isEmpty { return }
        var watch = DamageWatch(object)
        if let damage = check() { throw .store(damage) }
        let plan = state.withLock { $0.readAhead.note(range) }
        object.load()
        var demand = object.demand(
            range, from: plan.isSequential ? plan.start : nil, sequential: plan.isSequential, holding: plan.isSequential
        )
        follow(plan, holding: demand.held)
        try await object.fulfil(
            range, &demand, &watch, sequential: plan.isSequential, into: buffer, at: offset)
        if let damage = note(range, watch) { throw .store(damage) }
    }

    /// Takes `range` as read, if it is not too late. Answers the error of a reader that has had damaged bytes.
    /// `request` is older than the copy of the bytes: another request of this handle may have looked at `State.watch`
    /// after that copy, and so passed a damage of these bytes.
    private func note(_ range: ByteRange, _ request: DamageWatch) -> ObjectStoreError? {
        state.withLock { state in
            state.watch.cover(range, of: object)
            var request = request
            if state.damage == nil { state.damage = state.watch.check(object) }
            if state.damage == nil, request.isBehind(object) { state.damage = request.note(range, of: object) }
            return state.damage
        }
    }

    /// Answers why nothing is read any more.
    private func check() -> ObjectStoreError? {
        state.withLock { state in
            if state.damage == nil { state.damage = state.watch.check(object) }
            return state.damage
        }
    }

    /// Cancels what was fetched ahead and nobody else waits for. Further reads work, without read-ahead.
    package func close() {
        let holds = state.withLock { state in
            state.isClosed = true
            defer { state.holds = [] }
            return state.holds
        }
        object.release(holds.map(\.fetch))
        object.dropPassing()
    }

    /// Gives up abandoned streams, then starts what is to be fetched ahead.
    private func follow(_ plan: ReadAhead.Plan, holding held: [CachedObject.FetchID]) {
        var held = held
        if let abandoned = plan.abandoned {
            let dropped = state.withLock { state in
                defer { state.holds.removeAll { $0.stream == abandoned } }
                return state.holds.filter { $0.stream == abandoned }
            }
            object.release(dropped.map(\.fetch))
        }
        // Without a disk there is room for little.
        let chunks = object.cache.disk.isUsable ? plan.prefetch : plan.prefetch.prefix(1)
        for chunk in chunks where !state.withLock({ $0.isClosed }) {
            let (started, isComplete) = object.prefetch(chunk)
            held += started
            if !isComplete {
                state.withLock { $0.readAhead.prefetchFailed(at: chunk, stream: plan.stream) }
                break
            }
        }
        if !held.isEmpty { keep(held, for: plan.stream) }
    }

    private func keep(_ fetches: [CachedObject.FetchID], for stream: Int) {
        let (isClosed, isFull) = state.withLock { state in
            if !state.isClosed { state.holds += fetches.map { Hold(stream: stream, fetch: $0) } }
            return (state.isClosed, state.holds.count > Self.holdLimit)
        }
        if isClosed { object.release(fetches) }
        guard isFull else { return }
        let known = state.withLock { $0.holds.map(\.fetch) }
        let live = object.stillInFlight(known)
        let finished = Set(known).subtracting(live)
        state.withLock { $0.holds.removeAll { finished.contains($0.fetch) } }
    }
}
