import Basics
import Digests
import ObjectStorage
import Synchronization

extension CachedObject {
    typealias FetchID = ObjectState.Table.ID

    /// Starts the fetches that bring what is missing of `range` and waits for all that bring a part of it; the caller ends
    /// the waits. With `holding`, the fetches go on after that until they are released.
    func demand(_ range: ByteRange, sequential: Bool, holding: Bool) -> Demand {
        let (demand, started) = state.withLock { state in
            let (wanted, started) = state.demand(range, sequential: sequential)
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
            waits.compactMap { state.fetches.endWait(for: $0, gaveUp: gaveUp) }
        }
        for fetch in cancelled { fetch.cancel() }
    }

    /// Fetches what nobody has asked for of a chunk, as far as memory is free, and holds all fetches of the chunk for the
    /// caller. Answers them, and whether memory sufficed.
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
                // Another reader may have been faster.
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
        let cancelled = state.withLock { state in held.compactMap { state.fetches.release($0) } }
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
            fetch.publishAll()
            land(id, fetch, buffer)
        } catch {
            // Out of the table first, so that whoever tries again starts anew.
            state.withLock { $0.fetches.remove(id) }
            fetch.fail(error)
        }
    }

    /// All the memory the fetch needs, at once: a fetch that runs never waits for memory that another one holds.
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
                    .preconditionFailed, .get, key: key, code: "ETag", message: "the store answered another version"))
        }
        guard answer.range == fetch.range, fetch.isFilled else {
            throw .store(
                ObjectStoreError(
                    .integrity, .get, key: key, code: "length", message: "the store answered another range than asked"))
        }
    }

    // MARK: From memory to disk

    /// Writes a received fetch to the file, or keeps it in memory, and takes it off the table in the same step.
    private func land(_ id: FetchID, _ fetch: Fetch, _ buffer: Buffer) {
        guard cache.changes.begin() else { return state.withLock { $0.fetches.remove(id) } }
        defer { cache.changes.end() }
        let epoch = cache.nextEpoch()
        guard cache.disk.isUsable, cache.options.usesDisk else { return shelve(id, fetch, buffer, epoch: epoch) }
        let (blocks, cost) = state.withLock { $0.claim(BlockSet(fetch.blocks), in: fetch.chunk, epoch: epoch) }
        guard cache.reserve(cost) else {
            state.withLock { $0.abandonLanding(blocks, in: fetch.chunk) }
            return shelve(id, fetch, buffer, epoch: epoch)
        }
        do throws(FileError) {
            let file = try fileForWriting()
            let (checksums, isUncached) = try write(blocks, of: fetch, buffer, to: file)
            let passing = ShelvedBlocks(of: fetch, buffer: buffer, used: epoch, isPassing: true)
            let isUnread = isUncached && !passing.take(0)
            let (queue, waits) = state.withLock { state in
                state.land(blocks, in: fetch.chunk, cost: cost, checksums: checksums, epoch: epoch)
                let waits = isUnread && state.fetches.isHeld(id) && state.chunks[fetch.chunk] != nil
                if waits { state.chunks[fetch.chunk]?.shelved.append(passing) }
                state.fetches.remove(id)
                return (state.needsQueueing(), waits)
            }
            if queue { cache.enqueue(self) }
            if waits {
                cache.shelf.admitPassing(passing, of: self)
                // A reader may have been there before the shelf was.
                if state.withLock({ !$0.isShelved(passing) }) { cache.shelf.remove(passing) }
            }
            if cache.buffers.budget.hasWaiters { cache.shelf.clear() }
            if !blocks.isEmpty { cache.disk.worked() }
        } catch {
            cache.disk.failed(error, doing: "write")
            if let file = state.withLock({ $0.file }) { punch(blocks, of: fetch.chunk, in: file) }
            state.withLock { $0.abandonLanding(blocks, in: fetch.chunk) }
            cache.release(cost)
            shelve(id, fetch, buffer, epoch: epoch)
        }
    }

    /// In bytes. What large fetches bring is read from memory first, and then rather from the kernel's pages of the mount:
    /// pages of the file would be one copy too many, and a dear one where they have to be made first.
    private static let smallestUncached = 1 << 20

    private func write(
        _ blocks: BlockSet, of fetch: Fetch, _ buffer: Buffer, to file: File
    ) throws(FileError) -> (checksums: [(Int, UInt32)], isUncached: Bool) {
        var checksums: [(Int, UInt32)] = []
        var isUncached = false
        checksums.reserveCapacity(blocks.count)
        for run in blocks.runs {
            let bytes = geometry.bytes(of: run, in: fetch.chunk)
            let start = Int(bytes.lowerBound - fetch.range.lowerBound)
            try buffer.withBytes(start..<start + Int(bytes.length)) { (span) throws(FileError) in
                if span.byteCount < Self.smallestUncached {
                    try file.write(span, at: bytes.lowerBound)
                } else if try file.writeUncached(span, at: bytes.lowerBound) {
                    isUncached = true
                }
            }
            for block in run {
                let bytes = geometry.bytes(of: block..<block + 1, in: fetch.chunk)
                let start = Int(bytes.lowerBound - fetch.range.lowerBound)
                checksums.append(
                    (block, buffer.withBytes(start..<start + Int(bytes.length)) { CRC32C.value(of: $0) }))
            }
        }
        return (checksums, isUncached)
    }

    private func shelve(_ id: FetchID, _ fetch: Fetch, _ buffer: Buffer, epoch: Int64) {
        let item = ShelvedBlocks(of: fetch, buffer: buffer, used: epoch)
        state.withLock { state in
            let count = state.geometry.blockCount(of: fetch.chunk)
            state.chunks[fetch.chunk, default: Chunk(blockCount: count, used: epoch)].shelved.append(item)
            state.fetches.remove(id)
        }
        cache.shelf.admit(item, of: self)
        if cache.buffers.budget.hasWaiters { cache.shelf.clear() }
    }

    /// What was fetched ahead and not read leaves memory; it is on disk.
    func dropPassing() {
        let dropped = state.withLock { $0.dropPassing() }
        for item in dropped { cache.shelf.remove(item) }
    }

    /// The shelf takes memory back.
    func drop(_ item: ShelvedBlocks) {
        state.withLock { state in
            state.chunks[item.chunk]?.shelved.removeAll { $0 === item }
            if state.chunks[item.chunk]?.isEmpty ?? false { state.chunks[item.chunk] = nil }
        }
    }
}
