package import Basics
import ObjectStorage
import Synchronization

/// Reads one object for one file handle: the object's shared blocks, and the read-ahead that this handle's reads suggest.
///
/// Owns the read-ahead state, its holds on fetches and the record of what it has read, all in its mutex. Under that mutex the
/// only calls to the object ask which bytes were damaged. A reader that has had damaged bytes fails from then on. Lives as
/// long as the handle; `close` gives up what was fetched ahead for it alone.
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
        /// The error of all further reads.
        var damage: ObjectStoreError?
    }

    package let object: CachedObject
    private let state: Mutex<State>
    /// Finished fetches leave `holds` when there are this many.
    private static let holdLimit = 48

    package init(_ object: CachedObject) {
        self.object = object
        let cache = object.cache
        // Read-ahead must not evict blocks that were fetched ahead earlier and not read yet.
        let room = cache.options.usesDisk ? cache.ledger.limit / 4 : Int64(cache.shelf.limit / 4)
        let limit = min(cache.options.readAhead, room, Int64(cache.buffers.budget.limit / 3 * 2))
        state = Mutex(State(readAhead: ReadAhead(size: object.version.size, limit: limit), watch: DamageWatch(object)))
    }

    /// Copies `range`, which lies within the object, if all of it is here. Returns whether it was. Any thread; never waits
    /// for the network, but may start fetching ahead. After false call `read`, not this again.
    package func readCached(_ range: ByteRange, into destination: UnsafeMutableRawBufferPointer) -> Bool {
        let watch = DamageWatch(object)
        guard unsafe object.readCached(range, into: destination), note(range, watch) == nil else { return false }
        // A small object is fetched whole: there is nothing to fetch ahead.
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

    /// Records `range` as read. Returns the error of a reader that has had damaged bytes. `request` is older than the copy of
    /// the bytes: another request of this handle may have checked `State.watch` after that copy, and so passed a damage of
    /// these bytes.
    private func note(_ range: ByteRange, _ request: DamageWatch) -> ObjectStoreError? {
        state.withLock { state in
            state.watch.cover(range, of: object)
            var request = request
            if state.damage == nil { state.damage = state.watch.check(object) }
            if state.damage == nil, request.isBehind(object) { state.damage = request.note(range, of: object) }
            return state.damage
        }
    }

    /// The error of all further reads, if there is one.
    private func check() -> ObjectStoreError? {
        state.withLock { state in
            if state.damage == nil { state.damage = state.watch.check(object) }
            return state.damage
        }
    }

    /// Cancels what was fetched ahead and no other reader waits for. Further reads work, without read-ahead.
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
        // Without a disk only a few blocks can be kept.
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
