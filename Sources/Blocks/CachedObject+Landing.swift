import Basics
import Synchronization

/// From memory to disk: received fetches go to the object's file, one after the other, or stay in memory.
///
/// Whoever comes while nobody writes does it for all that come meanwhile: in the kernel writers of one file would only wait
/// for each other, and each would keep a thread from other work.
extension CachedObject {
    /// A received fetch.
    struct Landing: Sendable {
        let id: FetchID
        let fetch: Fetch
        let buffer: Buffer
        /// Of each block of the fetch; none where they are of no use.
        let checksums: [UInt32]
    }

    /// Writes a received fetch to the file, or keeps it in memory, and takes it off the table in the same step; later, if
    /// somebody is at it already.
    func land(_ landing: Landing) {
        let isBusy = state.withLock { state in
            state.landingQueue.append(landing)
            defer { state.isLanding = true }
            return state.isLanding
        }
        if isBusy { return }
        while let (next, waiting) = state.withLock({ $0.nextLanding() }) {
            land(next, isBehind: waiting >= Self.mostWaiting)
        }
    }

    /// Whether bytes that have all arrived are not written yet.
    var isLanding: Bool {
        state.withLock { state in state.isLanding || state.fetches.entries.contains { $0.payload.isFilled } }
    }

    /// Waits until what has arrived is on disk, or was found to have no place there; not for long where the disk does not move.
    package func settle() async {
        for _ in 0..<5000 where isLanding {
            do { try await Task.sleep(for: .milliseconds(2)) } catch { return }
        }
    }

    /// Received fetches that wait for a disk too slow for them; the page cache takes what comes then.
    private static let mostWaiting = 8

    private func land(_ landing: Landing, isBehind: Bool) {
        let (id, fetch, buffer) = (landing.id, landing.fetch, landing.buffer)
        // The cache keeps no bytes of a round that was given up.
        let isOutdated = state.withLock { $0.judgement.round != fetch.round }
        guard !isOutdated, cache.changes.begin() else { return state.withLock { $0.fetches.remove(id) } }
        defer { cache.changes.end() }
        let epoch = cache.nextEpoch()
        guard cache.disk.isUsable, !landing.checksums.isEmpty else { return shelve(id, fetch, buffer, epoch: epoch) }
        // What did not leave then would keep its place from what has come for it.
        if state.withLock({ $0.chunks[fetch.chunk]?.stranded.isEmpty == false }) { discard(.empty, of: fetch.chunk) }
        let (blocks, cost) = state.withLock { $0.claim(BlockSet(fetch.blocks), in: fetch.chunk, epoch: epoch) }
        guard cache.reserve(cost) else {
            cache.release(state.withLock { $0.abandonLanding(blocks, in: fetch.chunk) })
            return shelve(id, fetch, buffer, epoch: epoch)
        }
        do throws(FileError) {
            let isUncached = try write(blocks, of: landing, to: fileForWriting(), isBehind: isBehind)
            let checksums = blocks.runs.joined().map { ($0, landing.checksums[$0 - fetch.blocks.lowerBound]) }
            let passing = ShelvedBlocks(of: fetch, buffer: buffer, used: epoch, isPassing: true)
            let isUnread = isUncached && !passing.take(0)
            let (queue, waits, freed) = state.withLock { state in
                let freed = state.land(blocks, in: fetch.chunk, cost: cost, checksums: checksums, epoch: epoch)
                let isOutdated = state.judgement.round != fetch.round
                if isOutdated { state.strand(state.withdraw(blocks, from: fetch.chunk), in: fetch.chunk) }
                let waits =
                    !isOutdated && isUnread && state.fetches.isHeld(id) && state.chunks[fetch.chunk] != nil
                if waits { state.chunks[fetch.chunk]?.shelved.append(passing) }
                state.fetches.remove(id)
                return (state.needsQueueing(), waits, freed)
            }
            cache.release(freed)
            if queue { cache.enqueue(self) }
            if state.withLock({ $0.judgement.round != fetch.round }) { discard(.empty, of: fetch.chunk) }
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
            cache.release(cost + state.withLock { $0.abandonLanding(blocks, in: fetch.chunk) })
            shelve(id, fetch, buffer, epoch: epoch)
        }
    }

    // MARK: Writing

    /// In bytes. What large fetches bring is read from memory first, and then rather from the kernel's pages of the mount:
    /// pages of the file would be one copy too many, and a dear one where they have to be made first.
    private static let smallestUncached: Int64 = 1 << 20

    /// Whether the page cache does not keep all of it.
    private func write(
        _ blocks: BlockSet, of landing: Landing, to file: File, isBehind: Bool
    ) throws(FileError) -> Bool {
        var isUncached = false
        for run in blocks.runs {
            let bytes = geometry.bytes(of: run, in: landing.fetch.chunk)
            var place = place(of: run, in: landing.fetch)
            var offset = bytes.lowerBound
            if bytes.length >= Self.smallestUncached, !isBehind, let direct = directFile(beside: file) {
                let whole = Int(bytes.length / geometry.unit.bytes * geometry.unit.bytes)
                do throws(FileError) {
                    try landing.buffer.withBytes(place.lowerBound..<place.lowerBound + whole) {
                        (span) throws(FileError) in try direct.write(span, at: offset)
                    }
                    isUncached = true
                    place = place.lowerBound + whole..<place.upperBound
                    offset += Int64(whole)
                } catch {
                    // EINVAL: it wants larger pieces, or other memory.
                    guard error.errno == 22 else { throw error }
                    state.withLock { $0.refusesDirect = true }
                }
            }
            try landing.buffer.withBytes(place) { (span) throws(FileError) in
                if Int64(span.byteCount) < Self.smallestUncached {
                    try file.write(span, at: offset)
                } else if try file.writeUncached(span, at: offset) {
                    isUncached = true
                }
            }
        }
        return isUncached
    }

    /// The file opened once more, for writing around the page cache; nil where that cannot be.
    private func directFile(beside file: File) -> File? {
        let (known, id, refuses) = state.withLock { ($0.direct, $0.fileID, $0.refusesDirect) }
        if refuses { return nil }
        if let known, known.beside === file { return known.file }
        guard let id, let opened = try? File(cache.path(of: id), .readWrite, isDirect: true),
            (try? opened.isSame(as: file)) ?? false
        else {
            state.withLock { $0.refusesDirect = true }
            return nil
        }
        state.withLock { $0.direct = (opened, file) }
        return opened
    }

    /// Where some blocks are in a fetch's buffer.
    func place(of blocks: Range<Int>, in fetch: Fetch) -> Range<Int> {
        let bytes = geometry.bytes(of: blocks, in: fetch.chunk)
        return Int(bytes.lowerBound - fetch.range.lowerBound)..<Int(bytes.upperBound - fetch.range.lowerBound)
    }

    // MARK: In memory

    private func shelve(_ id: FetchID, _ fetch: Fetch, _ buffer: Buffer, epoch: Int64) {
        let item = ShelvedBlocks(of: fetch, buffer: buffer, used: epoch)
        let isKept = state.withLock { state in
            guard state.judgement.round == fetch.round else {
                state.fetches.remove(id)
                return false
            }
            let count = state.geometry.blockCount(of: fetch.chunk)
            state.chunks[fetch.chunk, default: Chunk(blockCount: count, used: epoch)].shelved.append(item)
            state.fetches.remove(id)
            return true
        }
        guard isKept else { return }
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
