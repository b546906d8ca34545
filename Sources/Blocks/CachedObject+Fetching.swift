import Basics
import ObjectStorage
import Synchronization

extension CachedObject {
    typealias FetchID = ObjectState.Table.ID

    /// Starts the fetches that bring the missing blocks of `range`, and registers the caller as a waiter of all that bring a
    /// part of it; the caller ends the waits. With `holding`, it also holds them, so that they go on after the wait until
    /// they are released. Fetching begins at `earliest`, if that is earlier.
    func demand(_ range: ByteRange, from earliest: Int64? = nil, sequential: Bool, holding: Bool) -> Demand {
        let (demand, started) = state.withLock { state in
            let whole = min(earliest ?? range.lowerBound, range.lowerBound)..<range.upperBound
            let (wanted, started) = state.demand(whole, sequential: sequential)
            var demand = Demand(waits: wanted.map(\.id))
            demand.first = wanted.first { $0.payload.range.contains(range.lowerBound) }?.payload
            for entry in wanted { state.fetches.wait(for: entry.id) }
            if holding {
                demand.held = Set(wanted.map(\.id) + started.map(\.id)).sorted()
                for id in demand.held { state.fetches.hold(id) }
            }
            return (demand, started)
        }
        for entry in started { start(entry, buffer: nil) }
        return demand
    }

    func endWait(_ demand: Demand, gaveUp: Bool) {
        if demand.waits.isEmpty { return }
        let waits = demand.waits
        let cancelled = state.withLock { state in
            if gaveUp { state.keepFilled(waits) }
            return waits.compactMap { state.fetches.endWait(for: $0, gaveUp: gaveUp) }
        }
        for fetch in cancelled { fetch.cancel() }
    }

    /// Fetches the blocks of a chunk that are neither here nor in flight, as far as memory is free, and holds all fetches of
    /// the chunk for the caller. Returns them, and whether memory sufficed.
    func prefetch(_ chunk: Int) -> (held: [FetchID], isComplete: Bool) {
        load()
        var (held, runs) = state.withLock { state in
            let ids = state.fetches.entries(for: 0..<BlockSet.capacity, in: chunk).map(\.id)
            for id in ids { state.fetches.hold(id) }
            return (ids, state.missingRuns(in: chunk))
        }
        for run in runs {
            let bytes = geometry.bytes(of: run, in: chunk)
            guard let buffer = cache.buffers.tryBorrow(Int(bytes.length)) else { return (held, false) }
            let entry: ObjectState.Table.Entry? = state.withLock { state in
                // Another reader may have started these fetches meanwhile.
                guard state.missingRuns(in: chunk).contains(run) else { return nil }
                let isWhole = state.geometry.isSmall && run == 0..<state.geometry.blockCount(of: chunk)
                let entry = state.enter(run, in: chunk, isWhole: isWhole)
                state.fetches.hold(entry.id)
                return entry
            }
            guard let entry else { continue }
            held.append(entry.id)
            start(entry, buffer: buffer)
        }
        return (held, true)
    }

    func release(_ held: [FetchID]) {
        if held.isEmpty { return }
        let cancelled = state.withLock { state in
            state.keepFilled(held)
            return held.compactMap { state.fetches.release($0) }
        }
        for fetch in cancelled { fetch.cancel() }
    }

    /// Those of `ids` that are still in flight.
    func stillInFlight(_ ids: [FetchID]) -> Set<FetchID> {
        let ids = Set(ids)
        return state.withLock { state in Set(state.fetches.entries.map(\.id)).intersection(ids) }
    }

    func cancelFetches() {
        let fetches = state.withLock { $0.fetches.entries.map(\.payload) }
        for fetch in fetches { fetch.cancel() }
    }

    private func start(_ entry: ObjectState.Table.Entry, buffer: Buffer?) {
        let (id, fetch) = (entry.id, entry.payload)
        fetch.attach(cache.pool.start { [self] in await run(id, fetch, buffer: buffer) })
    }

    // MARK: One fetch

    private func run(_ id: FetchID, _ fetch: Fetch, buffer: Buffer?) async {
        do throws(BlockError) {
            let buffer = try await memory(for: fetch, lent: buffer)
            fetch.begin(with: buffer)
            try await get(fetch)
            guard state.withLock({ $0.fetches.markReceived(id) }) else { throw .cancelled }
            let sums = sums(of: fetch, buffer)
            try await vouch(for: fetch, sums)
            fetch.publishAll()
            hashOn()
            land(Landing(id: id, fetch: fetch, buffer: buffer, checksums: sums.checksums))
        } catch {
            // Out of the table first, so that the next reader starts a new fetch.
            state.withLock { $0.fetches.remove(id) }
            fetch.fail(error)
        }
    }

    /// Takes all the memory that the fetch needs at once: a running fetch never waits for memory that another one holds.
    private func memory(for fetch: Fetch, lent: Buffer?) async throws(BlockError) -> Buffer {
        if let lent { return lent }
        do { return try await cache.buffers.borrow(fetch.count) } catch { throw .cancelled }
    }

    private func get(_ fetch: Fetch) async throws(BlockError) {
        let request = GetRequest(key, range: fetch.isWhole ? nil : fetch.range, condition: .ifMatch(version.etag))
        cache.count { $0.fetches += 1 }
        let answer: GetAnswer
        do {
            answer = try await cache.store.get(request, into: fetch)
        } catch {
            throw BlockError(error)
        }
        cache.count { $0.fetchedBytes += fetch.range.length }
        cache.onInfo(key, answer.info)
        guard answer.info.version.etag == version.etag, answer.info.version.size == version.size else {
            throw .stale(
                ObjectStoreError(
                    .preconditionFailed, .get, key: key, code: "ETag",
                    message: "the store answered with another version than was requested"))
        }
        guard answer.range == fetch.range, fetch.isFilled else {
            throw .store(
                ObjectStoreError(
                    .integrity, .get, key: key, code: "length",
                    message: "the store answered with another range than was requested"))
        }
        learn(answer.info)
    }
}
