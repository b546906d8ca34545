import Basics
import Synchronization

/// The state of one chunk of an open object.
///
/// `claimed` holds every block whose place in the file may be in use: `present`, being written, or `leaving`. `verified` and
/// `unsummed` lie within `present`. Rows name leaving blocks until their place is free. A crash before that leaves no
/// uncounted bytes in the file; a crash after it leaves rows for holes, which their checksums reveal.
struct Chunk {
    /// Blocks on disk.
    var present = BlockSet.empty
    /// Blocks known to be right since this process wrote or checked them.
    var verified = BlockSet.empty
    /// Blocks of an adopted file whose checksums are still being computed.
    var unsummed = BlockSet.empty
    var claimed = BlockSet.empty
    /// Blocks that readers do not see any more, whose space is being freed.
    var leaving = BlockSet.empty
    /// Those of `leaving` whose space could not be freed, and that no thread is freeing now.
    var stranded = BlockSet.empty
    /// CRC-32C of each block; meaningful for `present` minus `unsummed`.
    var checksums: [UInt32]
    /// Bytes that the quota counts for this chunk.
    var charged: Int64 = 0
    /// The cache's epoch of the last use.
    var used: Int64
    /// Blocks in memory, for lack of a disk.
    var shelved: [ShelvedBlocks] = []

    init(blockCount: Int, used: Int64) {
        checksums = Array(repeating: 0, count: blockCount)
        self.used = used
    }

    var isEmpty: Bool { claimed.isEmpty && shelved.isEmpty }

    /// Blocks that can be read without a fetch.
    var available: BlockSet {
        shelved.reduce(present) { $0.union(BlockSet($1.blocks)) }
    }
}

/// The mutable state of one cached object. It is authoritative while the object is referenced; afterwards the index's rows
/// are.
///
/// Lives in `CachedObject`'s mutex. Methods decide and record; the caller does the I/O after unlocking.
struct ObjectState {
    /// The source of the bytes at some position, with the end of that source.
    enum Source {
        /// In the file up to `end`. The bytes count only if `generation` has not changed after the read.
        case file(File, end: Int64, generation: UInt64)
        case memory(Buffer, start: Int64, end: Int64)
        /// In the file, which is not open or whose blocks are not checked yet.
        case unverified(chunk: Int, blocks: Range<Int>)
        case underWay
        case missing
        /// No reader gets bytes before the version is judged.
        case unjudged
    }

    typealias Table = FetchTable<Fetch>

    let geometry: Geometry
    /// The index has been read.
    var isLoaded = false
    /// The row of the file; nil while nothing is on disk.
    var fileID: Int64?
    var file: File?
    /// The same file opened for direct I/O, and the descriptor that it belongs to.
    var direct: (file: File, beside: File)?
    /// The file system refuses direct I/O.
    var refusesDirect = false
    var isSettled = false
    /// The file was lent. A program may have it mapped since then, which this process cannot see. So no hole is punched in
    /// it; it is only removed whole, by its name.
    var wasLent = false
    /// The number of pins: readers that need the blocks to stay, as the store does not have them any more
    /// (`CachedObject.pin`).
    var pins = 0
    var chunks: [Int: Chunk] = [:]
    var presentBlocks = 0
    /// Whether every block is on disk.
    var isComplete: Bool {
        presentBlocks == geometry.blockCount
    }
    /// Whether this process has found every block right, and every checksum is computed.
    var isKnownWhole: Bool {
        (0..<geometry.chunkCount).allSatisfy { index in
            guard let chunk = chunks[index] else { return false }
            return chunk.verified == geometry.allBlocks(of: index) && chunk.unsummed.isEmpty
        }
    }
    /// Fetches being written to the file.
    var landings = 0
    /// Received fetches that wait for the thread that writes now, if `isLanding`.
    var landingQueue: [CachedObject.Landing] = []
    var isLanding = false
    /// Grows whenever blocks leave the file.
    var generation: UInt64 = 0
    var fetches = Table()
    /// Chunks whose rows are out of date.
    var changed: Set<Int> = []
    /// Blocks that have left their chunks, as all their bytes were read. The shelf has to remove them.
    var readOut: [ShelvedBlocks] = []
    /// The cache has this object in its list of rows to write.
    var isQueued = false
    var judgement = Judgement()

    init(geometry: Geometry) { self.geometry = geometry }

    /// Whether the caller has to put the object on the list of rows to write.
    mutating func needsQueueing() -> Bool {
        if changed.isEmpty || isQueued { return false }
        isQueued = true
        return true
    }

    // MARK: Reading

    /// The source of the byte at `position` and of those that follow it up to `limit`.
    mutating func source(at position: Int64, limit: Int64, epoch: Int64) -> Source {
        if judgement.isOpen { return .unjudged }
        let index = Geometry.chunk(at: position)
        let block = Geometry.block(at: position)
        if let chunk = chunks[index] {
            if let item = chunk.shelved.first(where: { $0.blocks.contains(block) }) {
                item.used.store(epoch, ordering: .relaxed)
                let end = min(limit, item.range.upperBound)
                if item.take(end - position) {
                    chunks[index]?.shelved.removeAll { $0 === item }
                    if chunks[index]?.isEmpty ?? false { chunks[index] = nil }
                    readOut.append(item)
                }
                return .memory(item.buffer, start: item.range.lowerBound, end: end)
            }
            let run = chunk.verified.run(from: block)
            if run > 0, let file {
                if chunk.used != epoch {
                    chunks[index]?.used = epoch
                    changed.insert(index)
                }
                let end = min(limit, geometry.bytes(of: block..<block + run, in: index).upperBound)
                return .file(file, end: end, generation: generation)
            }
            if chunk.present.contains(block) {
                let last = block + chunk.present.run(from: block)
                let wanted = geometry.blocks(touching: position..<limit, in: index)
                return .unverified(chunk: index, blocks: block..<min(last, max(block + 1, wanted.upperBound)))
            }
        }
        guard let fetch = fetches.entry(for: block, in: index)?.payload else { return .missing }
        let end = min(limit, fetch.publishedEnd)
        guard end > position, let buffer = fetch.buffer else { return .underWay }
        fetch.taken.add(end - position, ordering: .relaxed)
        return .memory(buffer, start: fetch.range.lowerBound, end: end)
    }

    /// Enters the fetches that bring the missing blocks of `range`, or if `sequential` of its chunks to the end. Returns all
    /// fetches that bring a part of `range`, and those that were entered.
    mutating func demand(
        _ range: ByteRange, sequential: Bool
    ) -> (wanted: [Table.Entry], started: [Table.Entry]) {
        var (wanted, started): ([Table.Entry], [Table.Entry]) = ([], [])
        for index in Geometry.chunks(touching: range) {
            let blocks = geometry.blocks(touching: range, in: index)
            let available = chunks[index]?.available ?? .empty
            let inFlight = fetches.inFlight(in: index)
            if !BlockSet(blocks).subtracting(available).subtracting(inFlight).isEmpty {
                let count = geometry.blockCount(of: index)
                let isUntouched = geometry.isSmall && available.isEmpty && inFlight.isEmpty
                let extent = isUntouched ? 0..<count : blocks.lowerBound..<(sequential ? count : blocks.upperBound)
                let runs = FetchPlan.runs(
                    in: extent, present: available, inFlight: inFlight, bridge: sequential ? FetchPlan.bridge : 0)
                for run in runs { started.append(enter(run, in: index, isWhole: isUntouched)) }
            }
            wanted += fetches.entries(for: blocks, in: index)
        }
        return (wanted, started)
    }

    /// The runs of a chunk that are neither here nor in flight.
    func missingRuns(in chunk: Int) -> [Range<Int>] {
        FetchPlan.runs(
            in: 0..<geometry.blockCount(of: chunk), present: chunks[chunk]?.available ?? .empty,
            inFlight: fetches.inFlight(in: chunk), bridge: FetchPlan.bridge)
    }

    mutating func enter(_ blocks: Range<Int>, in chunk: Int, isWhole: Bool) -> Table.Entry {
        let range = geometry.bytes(of: blocks, in: chunk)
        let fetch = Fetch(chunk: chunk, blocks: blocks, range: range, isWhole: isWhole, round: judgement.round)
        return fetches.add(fetch, chunk: chunk, blocks: blocks)
    }

    /// Protects fetches whose every byte has arrived from cancellation, though the store has not ended its answer yet.
    mutating func keepFilled(_ ids: [Table.ID]) {
        for entry in fetches.entries where ids.contains(entry.id) && entry.payload.isFilled {
            _ = fetches.markReceived(entry.id)
        }
    }

    /// The next fetch to write, with how many wait behind it. nil when none is left; the calling thread then no longer
    /// writes.
    mutating func nextLanding() -> (CachedObject.Landing, waiting: Int)? {
        if landingQueue.isEmpty {
            isLanding = false
            return nil
        }
        return (landingQueue.removeFirst(), landingQueue.count)
    }

    // MARK: Blocks come and go

    /// Claims those places of the blocks that are free. Returns these blocks and their additional charge.
    mutating func claim(_ blocks: BlockSet, in chunk: Int, epoch: Int64) -> (blocks: BlockSet, cost: Int64) {
        var record = chunks[chunk] ?? Chunk(blockCount: geometry.blockCount(of: chunk), used: epoch)
        let free = blocks.subtracting(record.claimed)
        let before = geometry.charge(for: record.claimed, in: chunk)
        record.claimed.formUnion(free)
        chunks[chunk] = record
        landings += 1
        return (free, geometry.charge(for: record.claimed, in: chunk) - before)
    }

    /// Claimed blocks are on disk and right. Returns the bytes to release: the charge of blocks that have left since the
    /// claim.
    mutating func land(
        _ blocks: BlockSet, in chunk: Int, cost: Int64, checksums: [(Int, UInt32)], epoch: Int64
    ) -> Int64 {
        landings -= 1
        presentBlocks += blocks.count
        guard var record = chunks[chunk] else { return 0 }
        chunks[chunk] = nil
        record.present.formUnion(blocks)
        record.verified.formUnion(blocks)
        record.charged += cost
        record.used = epoch
        for (block, checksum) in checksums { record.checksums[block] = checksum }
        let freed = overcharge(of: record, in: chunk)
        record.charged -= freed
        chunks[chunk] = record
        changed.insert(chunk)
        return freed
    }

    func isShelved(_ item: ShelvedBlocks) -> Bool { chunks[item.chunk]?.shelved.contains { $0 === item } ?? false }

    /// Removes from memory the blocks that are on disk too.
    mutating func dropPassing() -> [ShelvedBlocks] {
        var dropped: [ShelvedBlocks] = []
        for (index, chunk) in chunks where chunk.shelved.contains(where: \.isPassing) {
            dropped += chunk.shelved.filter(\.isPassing)
            chunks[index]?.shelved.removeAll(where: \.isPassing)
            if chunks[index]?.isEmpty ?? false { chunks[index] = nil }
        }
        return dropped
    }

    /// Claimed blocks could not be written. Returns the bytes to release, as `land` does.
    mutating func abandonLanding(_ blocks: BlockSet, in chunk: Int) -> Int64 {
        landings -= 1
        changed.insert(chunk)
        guard var record = chunks[chunk] else { return 0 }
        record.claimed.subtract(blocks)
        let freed = overcharge(of: record, in: chunk)
        record.charged -= freed
        chunks[chunk] = record
        return freed
    }

    /// The part of a chunk's charge that exceeds its claimed blocks.
    private func overcharge(of record: Chunk, in chunk: Int) -> Int64 {
        max(0, record.charged - geometry.charge(for: record.claimed, in: chunk))
    }

    /// Withdraws present blocks of a chunk from readers; their places stay claimed until `vacate`. Returns those that were
    /// present, and the stranded ones, which are to be freed once more.
    mutating func withdraw(_ blocks: BlockSet?, from chunk: Int) -> BlockSet {
        guard var record = chunks[chunk] else { return .empty }
        let stranded = record.stranded
        record.stranded = .empty
        let leaving = blocks.map { record.present.intersection($0) } ?? record.present
        if leaving.isEmpty {
            chunks[chunk] = record
            return stranded
        }
        record.present.subtract(leaving)
        record.verified.subtract(leaving)
        record.leaving.formUnion(leaving.subtracting(record.unsummed))
        record.unsummed.subtract(leaving)
        chunks[chunk] = record
        presentBlocks -= leaving.count
        generation &+= 1
        changed.insert(chunk)
        return leaving.union(stranded)
    }

    /// The space of withdrawn blocks could not be freed: a later caller tries again.
    mutating func strand(_ blocks: BlockSet, in chunk: Int) {
        chunks[chunk]?.stranded.formUnion(blocks)
    }

    /// The places of withdrawn blocks are free. Returns the bytes to release.
    mutating func vacate(_ blocks: BlockSet, in chunk: Int) -> Int64 {
        guard var record = chunks[chunk] else { return 0 }
        record.claimed.subtract(blocks)
        record.leaving.subtract(blocks)
        // A claim that is not charged yet makes the remaining blocks look dearer than they are charged: then less is released
        // now, and the remainder when it lands.
        let freed = overcharge(of: record, in: chunk)
        record.charged -= freed
        chunks[chunk] = record
        changed.insert(chunk)
        return freed
    }

    /// Gives up the whole file, which belongs to no object from here on. Returns its number and the bytes to release; nil
    /// while a fetch is being written to it.
    mutating func leave() -> (file: Int64, freed: Int64)? {
        guard landings == 0, let left = fileID else { return nil }
        var freed: Int64 = 0
        for (index, chunk) in chunks {
            freed += chunk.charged
            var rest = Chunk(blockCount: chunk.checksums.count, used: chunk.used)
            rest.shelved = chunk.shelved
            chunks[index] = rest.isEmpty ? nil : rest
        }
        (fileID, file, direct, isSettled, wasLent) = (nil, nil, nil, false, false)
        (presentBlocks, changed) = (0, [])
        generation &+= 1
        return (left, freed)
    }

    // MARK: Rows

    /// Returns the changed rows for the index and marks them as written. Empty chunks leave memory.
    mutating func takeChanges() -> (changes: BlockIndex.Changes, chunks: Set<Int>)? {
        isQueued = false
        guard let fileID else {
            for chunk in changed where chunks[chunk]?.isEmpty ?? false { chunks[chunk] = nil }
            changed = []
            return nil
        }
        var changes = BlockIndex.Changes(file: fileID)
        changes.isJudged = judgement.verdict != .open
        for index in changed {
            guard let chunk = chunks[index] else {
                changes.deletes.append(index)
                continue
            }
            let named = chunk.present.subtracting(chunk.unsummed).union(chunk.leaving)
            if named.isEmpty {
                changes.deletes.append(index)
                if chunk.isEmpty { chunks[index] = nil }
            } else {
                changes.upserts.append(
                    BlockIndex.ChunkRow(
                        chunk: index, present: named, checksums: chunk.checksums,
                        sums: judgement.sums?.encoded(index) ?? [],
                        bytes: geometry.charge(for: named, in: index), used: chunk.used))
            }
        }
        let written = changed
        changed = []
        guard landings == 0, !chunks.values.contains(where: { $0.present != $0.claimed || !$0.unsummed.isEmpty }) else {
            return (changes, written)
        }
        if chunks.values.allSatisfy({ $0.claimed.isEmpty }) {
            changes.drops = true
            self.fileID = nil
            file = nil
        } else {
            changes.settles = !isSettled
            isSettled = true
        }
        return (changes, written)
    }

    /// Whether everything on disk can pass to another version with the same bytes: no block is being written, punched,
    /// shelved or pinned.
    var isMovable: Bool {
        file != nil && landings == 0 && pins == 0
            && chunks.values.allSatisfy { $0.present == $0.claimed && $0.shelved.isEmpty }
    }

    /// Whether nothing is on disk.
    var isVacant: Bool { fileID == nil && landings == 0 && chunks.values.allSatisfy { $0.claimed.isEmpty } }

    /// Passes the file and its blocks on. Reads under way fail their check of `generation`.
    mutating func giveAway(to other: inout ObjectState) {
        (other.fileID, other.file, other.isSettled, other.wasLent) = (fileID, file, isSettled, wasLent)
        other.chunks.merge(chunks) { theirs, ours in
            var chunk = ours
            chunk.shelved = theirs.shelved
            return chunk
        }
        judgement.giveAway(to: &other.judgement)
        other.presentBlocks = presentBlocks
        other.changed.formUnion(changed)
        (fileID, file, wasLent, chunks, presentBlocks, changed) = (nil, nil, false, [:], 0, [])
        generation &+= 1
    }

    /// Takes the rows of the index, unless they were loaded already.
    mutating func load(_ stored: BlockIndex.StoredFile?) {
        if isLoaded { return }
        isLoaded = true
        guard let stored else { return }
        fileID = stored.id
        (isSettled, wasLent) = (stored.isSettled, stored.wasLent)
        for row in stored.chunks {
            guard row.chunk >= 0, row.chunk < geometry.chunkCount,
                row.checksums.count == geometry.blockCount(of: row.chunk),
                row.present.subtracting(geometry.allBlocks(of: row.chunk)).isEmpty
            else {
                // A row that this program did not write: the next flush deletes it.
                changed.insert(row.chunk)
                continue
            }
            var chunk = Chunk(blockCount: row.checksums.count, used: row.used)
            (chunk.present, chunk.claimed, chunk.checksums) = (row.present, row.present, row.checksums)
            chunk.charged = row.bytes
            presentBlocks += row.present.count
            chunks[row.chunk] = chunk
            if let kind = BlockSums.kind(ofEncoded: row.sums) {
                var sums = judgement.sums ?? BlockSums(kind, geometry)
                sums.decode(row.sums, of: row.chunk, present: row.present)
                judgement.sums = sums
            }
        }
        if stored.isJudged, isComplete, judgement.sums?.isComplete ?? false { judgement.verdict = .right }
    }
}
