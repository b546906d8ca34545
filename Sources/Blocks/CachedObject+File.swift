import Basics
import Digests
import Glibc
import ObjectStorage
import Synchronization

extension CachedObject {
    /// The file, opened if it exists. If it is missing, its blocks are given up.
    func openedFile() -> File? {
        let (file, id) = state.withLock { ($0.file, $0.fileID) }
        if let file { return file }
        guard let id else { return nil }
        do throws(FileError) {
            let opened = try File(cache.path(of: id), .readWrite)
            return state.withLock { state in
                if state.file == nil, state.fileID == id { state.file = opened }
                return state.file
            }
        } catch {
            if error.errno == ENOENT { loseFile(id) } else { cache.disk.failed(error, doing: "open") }
            return nil
        }
    }

    /// The file for new blocks. Its row, marked unsettled, is written before the file is created.
    func fileForWriting() throws(FileError) -> File {
        if let file = openedFile(), state.withLock({ !$0.isSettled && $0.fileID != nil }) { return file }
        let id = try cache.claimFile(key, version)
        if let file = state.withLock({ state in
            (state.fileID, state.isSettled) = (id, false)
            return state.file
        }) {
            return file
        }
        let path = cache.path(of: id)
        let created = try cache.inDirectory { () throws(FileError) in
            try File(path, .readWrite, create: .ifMissing)
        }
        // With its full length from the start, a file system has no reason to allocate ahead of the end.
        if try created.size < version.size { try created.truncate(to: version.size) }
        return state.withLock { state in
            let file = state.file ?? created
            state.file = file
            return file
        }
    }

    /// Another program removed the file: all its blocks are gone, and their space is free.
    private func loseFile(_ id: Int64) {
        let freed = state.withLock { state in
            guard state.fileID == id, state.file == nil else { return Int64(0) }
            var freed: Int64 = 0
            for index in Array(state.chunks.keys) {
                freed += state.vacate(state.withdraw(nil, from: index), in: index)
            }
            return freed
        }
        cache.release(freed)
        cache.enqueueIfNeeded(self)
    }

    // MARK: Blocks leave

    /// Frees the disk space of a chunk, unless it is pinned, and returns the number of bytes. May read the index.
    func evict(_ chunk: Int) -> Int64 {
        load()
        return discard(nil, of: chunk)
    }

    /// Removes blocks (nil: all) of a chunk from the file and from the state. Returns the bytes freed.
    @discardableResult
    func discard(_ blocks: BlockSet?, of chunk: Int) -> Int64 {
        guard cache.changes.begin() else {
            // After `close` the file and its rows stay as they are. Wrong blocks must not be read from here again.
            if blocks != nil { state.withLock { _ = $0.withdraw(blocks, from: chunk) } }
            return 0
        }
        defer { cache.changes.end() }
        let (leaving, wasLent) = state.withLock { state in
            if blocks == nil, state.pins > 0 { return (BlockSet.empty, false) }
            guard state.wasLent else { return (state.withdraw(blocks, from: chunk), false) }
            // Programs read a lent file directly, so it stays as it is. Wrong blocks must not be read from here.
            return (blocks == nil ? .empty : state.withdraw(blocks, from: chunk), true)
        }
        if wasLent { return leave() }
        if leaving.isEmpty {
            cache.enqueueIfNeeded(self)
            return 0
        }
        var freed: Int64 = 0
        if let file = openedFile(), punch(leaving, of: chunk, in: file) {
            freed = state.withLock { $0.vacate(leaving, in: chunk) }
            cache.release(freed)
        } else {
            // Where no hole can be punched, the space stays taken and counted until the next attempt.
            state.withLock { $0.strand(leaving, in: chunk) }
        }
        cache.enqueueIfNeeded(self)
        return freed
    }

    /// Gives up the whole file, unless it is lent or being written. Returns the bytes freed.
    private func leave() -> Int64 {
        let left = cache.drop {
            state.withLock { state in cache.isLent(state.fileID) ? nil : state.leave() }
        }
        cache.enqueueIfNeeded(self)
        return left
    }

    @discardableResult
    func punch(_ blocks: BlockSet, of chunk: Int, in file: File) -> Bool {
        for run in blocks.runs {
            let bytes = geometry.bytes(of: run, in: chunk)
            // To the end of the last unit: a hole that ends with the object would not free the unit that holds its end.
            let end = geometry.unit.roundedUp(bytes.upperBound)
            do throws(FileError) { try file.punchHole(bytes.lowerBound..<end) } catch {
                cache.disk.failed(error, doing: "punch")
                return false
            }
        }
        return true
    }

    // MARK: Checksums

    /// Compares blocks with their checksums, once in the life of this object, and discards those that differ.
    /// False when the file could not be read at all.
    func verify(_ blocks: Range<Int>, in chunk: Int) -> Bool {
        guard let file = openedFile() else { return false }
        let (checksums, present, generation) = state.withLock { state in
            let chunk = state.chunks[chunk]
            return (chunk?.checksums ?? [], chunk?.present ?? .empty, state.generation)
        }
        guard checksums.count >= blocks.upperBound else { return false }
        var (right, wrong) = (BlockSet.empty, BlockSet.empty)
        // A block that has left since the caller looked may be a hole already.
        for block in blocks where present.contains(block) {
            let one = BlockSet(block..<block + 1)
            if sums(of: block, in: chunk, file, .crc32c)?.checksum == checksums[block] {
                right.formUnion(one)
            } else {
                wrong.formUnion(one)
            }
        }
        let isUnchanged = state.withLock { state in
            // If a block has left meanwhile, the bytes read are unknown: the caller retries.
            guard state.generation == generation else { return false }
            if let present = state.chunks[chunk]?.present {
                state.chunks[chunk]?.verified.formUnion(right.intersection(present))
            }
            return true
        }
        if isUnchanged, !wrong.isEmpty {
            cache.foundCorrupt(wrong.count, key: key)
            discard(wrong, of: chunk)
        }
        return true
    }

    /// Reads whole blocks into `target`, once for their checksums and their reader. False when some are wrong or have left
    /// meanwhile: then `verify` finds out which.
    func readVerifying(_ blocks: Range<Int>, in chunk: Int, into target: UnsafeMutableRawBufferPointer) -> Bool {
        guard let file = openedFile() else { return false }
        let (checksums, generation) = state.withLock { ($0.chunks[chunk]?.checksums ?? [], $0.generation) }
        let start = geometry.bytes(of: blocks, in: chunk).lowerBound
        guard checksums.count >= blocks.upperBound,
            let count = unsafe try? file.read(at: start, into: target), count == target.count
        else { return false }
        for block in blocks {
            let bytes = geometry.bytes(of: block..<block + 1, in: chunk)
            let place = Int(bytes.lowerBound - start)..<Int(bytes.upperBound - start)
            let span = unsafe UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(target)[place]).bytes
            guard CRC32C.value(of: span) == checksums[block] else { return false }
        }
        return state.withLock { state in
            guard state.generation == generation, let present = state.chunks[chunk]?.present else { return false }
            state.chunks[chunk]?.verified.formUnion(BlockSet(blocks).intersection(present))
            return true
        }
    }

    /// Computes the CRC-32C that the index keeps of a block, and its CRC of another kind; nil when the file is too short or
    /// cannot be read.
    private func sums(
        of block: Int, in chunk: Int, _ file: File, _ kind: CRCKind
    ) -> (checksum: UInt32, value: UInt64)? {
        let bytes = geometry.bytes(of: block..<block + 1, in: chunk)
        // Outside the memory budget and freed at once: one block for each thread that checks.
        return unsafe withUnsafeTemporaryAllocation(byteCount: Int(bytes.length), alignment: 4096) { scratch in
            do throws(FileError) {
                guard try unsafe file.read(at: bytes.lowerBound, into: scratch) == scratch.count else { return nil }
            } catch {
                cache.disk.failed(error, doing: "read")
                return nil
            }
            let span = unsafe UnsafeRawBufferPointer(scratch).bytes
            let checksum = CRC32C.value(of: span)
            return (checksum, kind == .crc32c ? UInt64(checksum) : kind.value(of: span))
        }
    }

    // MARK: Adoption

    /// Adopts an open file whose `present` blocks are right and charged; their checksums are computed later. False when the
    /// object has blocks on disk already.
    func install(_ file: File, id: Int64, present: [Int: BlockSet], epoch: Int64) -> Bool {
        state.withLock { state in
            guard state.file == nil, state.landings == 0, state.chunks.values.allSatisfy({ $0.claimed.isEmpty }) else {
                return false
            }
            (state.file, state.fileID, state.isSettled) = (file, id, false)
            for (index, blocks) in present where !blocks.isEmpty {
                let count = state.geometry.blockCount(of: index)
                var chunk = state.chunks[index] ?? Chunk(blockCount: count, used: epoch)
                (chunk.present, chunk.verified, chunk.unsummed, chunk.claimed) = (blocks, blocks, blocks, blocks)
                chunk.charged = state.geometry.charge(for: blocks, in: index)
                chunk.used = epoch
                state.chunks[index] = chunk
                state.presentBlocks += blocks.count
                state.changed.insert(index)
            }
            // The store compared the bytes with their checksum when they were uploaded.
            if state.isComplete { state.judgement.verdict = .right }
            return true
        }
    }

    /// Computes the checksums of an adopted file. Blocks without one when the cache closes are not kept.
    func sumAdopted() {
        guard cache.changes.begin() else { return }
        defer { cache.changes.end() }
        let pending = state.withLock { state in state.chunks.filter { !$0.value.unsummed.isEmpty }.keys.sorted() }
        for index in pending {
            guard let file = state.withLock({ $0.file }) else { return }
            let blocks = state.withLock { $0.chunks[index]?.unsummed ?? .empty }
            var failed = BlockSet.empty
            for run in blocks.runs {
                for block in run {
                    let (generation, kind) = state.withLock { ($0.generation, $0.judgement.kind) }
                    let sum = sums(of: block, in: index, file, kind)
                    let one = BlockSet(block..<block + 1)
                    let isDone = state.withLock { state in
                        guard state.chunks[index]?.unsummed.contains(block) ?? false else { return true }
                        guard let sum, state.generation == generation else { return false }
                        state.chunks[index]?.checksums[block] = sum.checksum
                        state.judgement.adopt(sum.value, kind, of: block, in: index, state.geometry)
                        state.chunks[index]?.unsummed.subtract(one)
                        state.changed.insert(index)
                        return true
                    }
                    if !isDone { failed.formUnion(one) }
                }
            }
            if !failed.isEmpty { discard(failed, of: index) }
            cache.enqueueIfNeeded(self)
        }
    }
}
