import Basics
import Synchronization

/// From memory to disk: received fetches go to the object's file, one after the other, or stay in memory.
///
/// One thread at a time writes to a file, for all fetches that arrive meanwhile: in the kernel, writers of one file would
/// only wait for each other, and each would keep a thread from other work.
extension CachedObject {
    /// A received fetch.
    struct Landing: Sendable {
        let id: FetchID
        let fetch: Fetch
        let buffer: Buffer
        /// A checksum for each block of the fetch; empty where the blocks do not go to disk.
        let checksums: [UInt32]
    }

    /// Writes a received fetch to the file, or keeps it in memory, and removes it from the table in the same step. If another
    /// thread is writing, that thread does it later.
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

    /// Waits until every received fetch is on disk or was declined; about ten seconds at most, in case the disk hangs.
    package func settle() async {
        for _ in 0..<5000 where isLanding {
            do { try await Task.sleep(for: .milliseconds(2)) } catch { return }
        }
    }

    /// Received fetches that may wait for a slow disk; with more of them, writes go through the page cache.
    private static let mostWaiting = 8

    private func land(_ landing: Landing, isBehind: Bool) {
        let (id, fetch, buffer) = (landing.id, landing.fetch, landing.buffer)
        // The cache keeps no bytes of a round that was given up.
        let isOutdated = state.withLock { $0.judgement.round != fetch.round }
        guard !isOutdated, cache.changes.begin() else { return state.withLock { $0.fetches.remove(id) } }
        defer { cache.changes.end() }
        let epoch = cache.nextEpoch()
        guard cache.disk.isUsable, !landing.checksums.isEmpty else { return shelve(id, fetch, buffer, epoch: epoch) }
        // Blocks that could not be punched earlier still claim the places that the new blocks need.
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
                // A reader may have taken the blocks before the shelf had them.
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

    /// In bytes. The blocks of larger fetches are read from memory first, and later mostly from the kernel's pages of the
    /// mount. Pages of the file would be a second copy, and an expensive one where they have to be allocated first.
    private static let smallestUncached: Int64 = 1 << 20

    /// Returns whether some of the bytes do not stay in the page cache.
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
                    // EINVAL: direct I/O on this file system needs a larger alignment of length or memory.
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

    /// The file opened once more, for direct I/O; nil where the file system refuses that.
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

    /// The place of some blocks in a fetch's buffer.
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

    /// Removes from memory blocks that were fetched ahead and not read; they are on disk.
    func dropPassing() {
        let dropped = state.withLock { $0.dropPassing() }
        for item in dropped { cache.shelf.remove(item) }
    }

    /// The shelf frees the memory of these blocks.
    func drop(_ item: ShelvedBlocks) {
        state.withLock { state in
            state.chunks[item.chunk]?.shelved.removeAll { $0 === item }
            if state.chunks[item.chunk]?.isEmpty ?? false { state.chunks[item.chunk] = nil }
        }
    }
}
