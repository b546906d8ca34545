package import Basics
package import ObjectStorage
import Synchronization

/// One version of one object, as far as its blocks are here; shared by all its readers.
///
/// Its mutex guards `ObjectState`, which decides everything; I/O, waiting and ledger calls happen outside. Lock order: this
/// mutex, then those of `Fetch` and `Buffer`. A read from the file counts only if no block left the file meanwhile, so
/// eviction never waits for readers. Lives while referenced, and a little longer while rows of it are to be written. After a
/// crash: the blocks that the index names are there; the next start frees the rest of the file.
package final class CachedObject: Sendable {
    package let key: ObjectKey
    /// `modified` is as the first caller of `BlockCache.open` passed it.
    package let version: ObjectVersion
    let cache: BlockCache
    let state: Mutex<ObjectState>
    /// Signals that the version was given up, or that a judgement has ended.
    let verdicts = ChangeSignal()
    let damageCounter = Atomic<Int>(0)

    init(_ key: ObjectKey, _ version: ObjectVersion, cache: BlockCache) {
        (self.key, self.version, self.cache) = (key, version, cache)
        state = Mutex(ObjectState(geometry: Geometry(size: version.size, unit: cache.unit)))
    }

    deinit {
        let shelved = state.withLock { $0.chunks.values.flatMap(\.shelved) }
        for item in shelved { cache.shelf.remove(item) }
        cache.forgetInstance(of: key, version)
    }

    var geometry: Geometry { Geometry(size: version.size, unit: cache.unit) }

    /// Whether every byte is on disk. May read the index.
    package var isComplete: Bool {
        load()
        return state.withLock { $0.isComplete }
    }

    /// Reads the rows of this object from the index, once.
    func load() {
        if state.withLock({ $0.isLoaded }) { return }
        let stored = cache.storedFile(key, version)
        state.withLock { $0.load(stored) }
    }

    // MARK: Reading what is here

    /// Copies `range`, which lies within the object, if all of it is here. Returns whether it was.
    ///
    /// Any thread; never waits for the network, but reads a file, and the first time the index. When it returns false, the
    /// destination may hold a part of the range.
    package func readCached(_ range: ByteRange, into destination: UnsafeMutableRawBufferPointer) -> Bool {
        check(range, capacity: destination.count)
        let epoch = cache.epoch
        var position = range.lowerBound
        // A read meets a block more often than that only if other readers keep changing the blocks.
        var retries = 32
        while position < range.upperBound {
            switch source(at: position, limit: range.upperBound, epoch: epoch) {
            case .file(let file, let end, let generation):
                let target = unsafe slice(destination, position - range.lowerBound, end - position)
                guard unsafe copy(from: file, at: position, into: target, generation: generation) else { return false }
                position = end
            case .memory(let buffer, let start, let end):
                let target = unsafe slice(destination, position - range.lowerBound, end - position)
                unsafe copy(from: buffer, at: Int(position - start), into: target)
                position = end
            case .unverified(let chunk, let blocks):
                retries -= 1
                guard retries >= 0 else { return false }
                let whole = geometry.blocks(within: position..<range.upperBound, in: chunk).clamped(to: blocks)
                let bytes = geometry.bytes(of: whole, in: chunk)
                if !whole.isEmpty, bytes.lowerBound == position {
                    let target = unsafe slice(destination, position - range.lowerBound, bytes.length)
                    if unsafe readVerifying(whole, in: chunk, into: target) {
                        position = bytes.upperBound
                        continue
                    }
                }
                guard verify(blocks, in: chunk) else { return false }
            case .underWay, .unjudged: return false
            case .missing:
                // Before the index is read, no block is known.
                if state.withLock({ $0.isLoaded }) { return false }
                load()
            }
        }
        return true
    }

    /// Copies `range`, which lies within the object, to `offset` of `buffer`, fetching what is missing.
    package func read(_ range: ByteRange, into buffer: Buffer, at offset: Int) async throws(BlockError) {
        load()
        var watch = DamageWatch(self)
        var demand = demand(range, sequential: false, holding: false)
        try await fulfil(range, &demand, &watch, sequential: false, into: buffer, at: offset)
    }

    /// The fetches that bring parts of a range. Their reader waits for them until `endWait`.
    struct Demand: Sendable {
        var waits: [ObjectState.Table.ID] = []
        /// The fetch that brings the first byte of the range, if it is not here. A reader keeps only the one fetch that it
        /// waits for: the memory of finished fetches is needed by those that have none yet.
        var first: Fetch?
        /// The fetches held for a reader beyond its wait.
        var held: [ObjectState.Table.ID] = []
    }

    /// Copies `range` from memory, disk or its fetches; ends the demand's waits.
    /// Requires: `watch` belongs to this request alone and is older than the demand, whose fetches may be given up at any
    /// time.
    func fulfil(
        _ range: ByteRange, _ demand: inout Demand, _ watch: inout DamageWatch, sequential: Bool, into buffer: Buffer,
        at offset: Int
    ) async throws(BlockError) {
        check(range, capacity: buffer.capacity - offset)
        var mayDoubt = true
        var mustWait = false
        var position = range.lowerBound
        do throws(BlockError) {
            while position < range.upperBound {
                if mustWait {
                    // No reference to the fetch is held here: the judgement may need its memory.
                    mustWait = false
                    try await awaitVerdict()
                }
                if watch.isBehind(self) {
                    watch.cover(range.lowerBound..<position, of: self)
                    if let error = watch.check(self, isWaiting: true) { throw .store(error) }
                }
                let epoch = cache.epoch
                if let fetch = demand.first {
                    // Copied from the fetch itself: its blocks might be evicted before this reader reads them.
                    demand.first = nil
                    let end = min(range.upperBound, fetch.range.upperBound)
                    do throws(BlockError) { try await fetch.wait(upTo: end) } catch {
                        guard fetch.isDoubted, mayDoubt else { throw error }
                        mayDoubt = false
                        continue
                    }
                    // When a damaged version is fetched once more, its last bytes arrive before the damage is reported to its
                    // readers.
                    mustWait = state.withLock { $0.judgement.isOpen }
                    if mustWait { continue }
                    guard let source = fetch.buffer else { throw .cancelled }
                    fetch.taken.add(end - position, ordering: .relaxed)
                    let target = unsafe slice(
                        buffer.bytes, Int64(offset) + position - range.lowerBound, end - position)
                    unsafe copy(from: source, at: Int(position - fetch.range.lowerBound), into: target)
                    // The fetch was given up during the copy: the reader requests these bytes once more.
                    if !fetch.isDoubted { position = end }
                    continue
                }
                switch source(at: position, limit: range.upperBound, epoch: epoch) {
                case .file(let file, let end, let generation):
                    let target = unsafe slice(
                        buffer.bytes, Int64(offset) + position - range.lowerBound, end - position)
                    if unsafe copy(from: file, at: position, into: target, generation: generation) { position = end }
                case .memory(let source, let start, let end):
                    let target = unsafe slice(
                        buffer.bytes, Int64(offset) + position - range.lowerBound, end - position)
                    unsafe copy(from: source, at: Int(position - start), into: target)
                    position = end
                case .unverified(let chunk, let blocks):
                    // Blocks that cannot be checked are fetched again.
                    if !verify(blocks, in: chunk) { discard(BlockSet(blocks), of: chunk) }
                case .unjudged:
                    try await awaitVerdict()
                case .underWay, .missing:
                    let more = self.demand(position..<range.upperBound, sequential: sequential, holding: false)
                    demand.waits += more.waits
                    demand.first = more.first
                }
                if Task.isCancelled { throw .cancelled }
            }
            if watch.isBehind(self), let error = watch.note(range, of: self) { throw .store(error) }
        } catch {
            endWait(demand, gaveUp: true)
            throw error
        }
        endWait(demand, gaveUp: false)
    }

    private func source(at position: Int64, limit: Int64, epoch: Int64) -> ObjectState.Source {
        let (source, queue, readOut) = state.withLock { state in
            let source = state.source(at: position, limit: limit, epoch: epoch)
            defer { state.readOut = [] }
            return (source, state.needsQueueing(), state.readOut)
        }
        if queue { cache.enqueue(self) }
        for item in readOut { cache.shelf.remove(item) }
        return source
    }

    private func check(_ range: ByteRange, capacity: Int) {
        precondition(range.lowerBound >= 0 && range.upperBound <= version.size, "read outside the object")
        precondition(range.length <= capacity, "read exceeds its destination")
    }

    private func slice(
        _ bytes: UnsafeMutableRawBufferPointer, _ start: Int64, _ count: Int64
    ) -> UnsafeMutableRawBufferPointer {
        unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[Int(start)..<Int(start + count)])
    }

    private func copy(from buffer: Buffer, at offset: Int, into target: UnsafeMutableRawBufferPointer) {
        let source = unsafe UnsafeRawBufferPointer(rebasing: buffer.bytes[offset..<offset + target.count])
        unsafe target.copyMemory(from: source)
    }

    /// False when the bytes do not count: the blocks left the file meanwhile, or the disk failed.
    private func copy(
        from file: File, at position: Int64, into target: UnsafeMutableRawBufferPointer, generation: UInt64
    ) -> Bool {
        do throws(FileError) {
            let count = try unsafe file.read(at: position, into: target)
            if count == target.count { return state.withLock { $0.generation == generation } }
        } catch {
            cache.disk.failed(error, doing: "read")
        }
        // Blocks that cannot be read are fetched again.
        let chunk = Geometry.chunk(at: position)
        let blocks = geometry.blocks(touching: ByteRange(at: position, count: Int64(target.count)), in: chunk)
        discard(BlockSet(blocks), of: chunk)
        return false
    }
}
