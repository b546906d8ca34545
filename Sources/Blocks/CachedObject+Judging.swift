import Basics
import Digests
import ObjectStorage
import Synchronization

/// Compares versions with the store's checksums once their last block is here. Requests, hashing and discarding happen on the
/// pool, outside every lock. One task at a time judges a version, and all its readers wait for that task.
extension CachedObject {
    /// A larger version is not fetched once more while its readers wait: they get an error, and the next reader fetches it.
    private static let largestFetchedAgain: Int64 = 1 << 30

    // MARK: Arrival

    /// The sums of one fetch: a CRC-32C of each block for the index, and a value of each block for the CRC of the whole
    /// version.
    struct FetchSums: Sendable {
        var checksums: [UInt32] = []
        var kind = CRCKind.crc64nvme
        var values: [UInt64] = []
    }

    /// One pass over the fetch's blocks, each while it is in the processor's cache.
    func sums(of fetch: Fetch, _ buffer: Buffer) -> FetchSums {
        var sums = FetchSums()
        let verifies = cache.options.verifies
        let isKept = cache.options.usesDisk && cache.disk.isUsable
        if verifies { sums.kind = kindOfSums() }
        for block in fetch.blocks where verifies || isKept {
            buffer.withBytes(place(of: block..<block + 1, in: fetch)) { bytes in
                let checksum = isKept || sums.kind == .crc32c ? CRC32C.value(of: bytes) : 0
                if isKept { sums.checksums.append(checksum) }
                if verifies {
                    sums.values.append(sums.kind == .crc32c ? UInt64(checksum) : sums.kind.value(of: bytes))
                }
            }
        }
        return sums
    }

    /// The kind of the store's checksum, if it is known.
    private func kindOfSums() -> CRCKind {
        let known = state.withLock { $0.judgement.sums != nil || $0.judgement.expected != nil }
        let noted = known ? nil : cache.noted(key, version)
        return state.withLock { state in
            if state.judgement.expected == nil { state.judgement.expected = noted }
            return state.judgement.kind
        }
    }

    /// Takes the object's checksum from the answer of a GET.
    func learn(_ info: ObjectInfo) {
        guard let checksum = info.checksum, version.size > 0 else { return }
        state.withLock { state in
            guard state.judgement.expected == nil else { return }
            state.judgement.expected = [CheckedPart(size: version.size, checksum)]
        }
    }

    /// Records a fetch that has arrived. The fetch with the version's last block waits here for the verdict.
    /// Throws: when its bytes must not be read. Its readers then fetch again (`Fetch.doubt`).
    func vouch(for fetch: Fetch, _ sums: FetchSums) async throws(BlockError) {
        guard cache.options.verifies else { return }
        let arrival = state.withLock { state in
            state.judgement.arrive(
                sums.values, fetch, sums.kind, state.geometry, verified: fetch.isWhole)
        }
        switch arrival {
        case .taken: return
        case .complete:
            try await awaitVerdict(inRound: fetch.round)
            if state.withLock({ $0.judgement.round == fetch.round }) { return }
        case .refuted(let blocks):
            let error = mismatch("the store sent other bytes than before; open the file again to read it")
            report(Damage(blocks: [fetch.chunk: blocks], error: error))
        case .contradicted:
            begin { object in await object.setBack("the store sent other bytes of the object than before") }
        case .outdated: break
        }
        fetch.doubt()
        throw .store(mismatch("the bytes received do not match the checksum of the object"))
    }

    /// Hashes the bytes that are here in order, for a checksum that needs their order.
    func hashOn() {
        let hasher = state.withLock { state in
            guard let expected = state.judgement.expected, state.judgement.verdict == .open, !state.geometry.isSmall,
                expected.contains(where: { $0.checksum.crc == nil })
            else { return nil as ContentHasher? }
            if state.judgement.hasher == nil { state.judgement.hasher = ContentHasher(expected) }
            return state.judgement.hasher
        }
        _ = hasher?.advance(over: self)
    }

    // MARK: The verdict

    /// Returns when the version needs no judgement any more, or when the round is over.
    /// Throws: why the version cannot be judged now.
    func awaitVerdict(inRound round: Int? = nil) async throws(BlockError) {
        while true {
            let seen = verdicts.changes
            let (isOpen, isOver) = state.withLock { state in
                (state.judgement.isOpen, round.map { $0 != state.judgement.round } ?? false)
            }
            if !isOpen || isOver { return }
            begin { object in await object.judge() }
            await verdicts.wait(after: seen, cancellable: true)
            if Task.isCancelled { throw .cancelled }
            if let failure = state.withLock({ $0.judgement.isUnderWay ? nil : $0.judgement.failure }) { throw failure }
        }
    }

    /// Starts `act` on the pool, unless another one is under way. `act` finishes before the next one begins.
    private func begin(_ act: @escaping @Sendable (CachedObject) async -> Void) {
        let mayBegin = state.withLock { state in
            defer { state.judgement.isUnderWay = true }
            if !state.judgement.isUnderWay { state.judgement.failure = nil }
            return !state.judgement.isUnderWay
        }
        guard mayBegin else { return }
        cache.pool.start { [self] in
            await act(self)
            state.withLock { $0.judgement.isUnderWay = false }
            verdicts.change()
        }
    }

    private enum Outcome {
        case right, unchecked
        case wrong(String)
        case failed(BlockError)
    }

    private func judge() async {
        switch await outcome() {
        case .right: decide(.right)
        case .unchecked: decide(.unchecked)
        case .failed(let error): state.withLock { $0.judgement.failure = error }
        case .wrong where await isUncertain(): decide(.unchecked)
        case .wrong(let name):
            await setBack("the bytes received do not match the \(name) of the object")
        }
    }

    /// Whether the expected checksum is only the ETag of a server whose ETags are no checksums. The store's
    /// `checksums` finds that out from other objects.
    private func isUncertain() async -> Bool {
        guard case .md5? = state.withLock({ $0.judgement.expected?.first?.checksum }) else { return false }
        _ = try? await cache.store.checksums(of: key, version)
        return cache.store.capabilities.quirks.contains(.opaqueETags)
    }

    private func decide(_ verdict: Judgement.Verdict) {
        state.withLock { state in
            state.judgement.verdict = verdict
            state.judgement.hasher = nil
            // A row records that the version was judged.
            if let chunk = state.chunks.keys.first { state.changed.insert(chunk) }
        }
        cache.enqueueIfNeeded(self)
    }

    /// Gives the version up and fetches it once more. Readers of damaged blocks then get an error; all readers do if the
    /// second copy is wrong as well.
    private func setBack(_ reason: String) async {
        cache.foundDamaged(key, reason)
        let mending = version.size <= Self.largestFetchedAgain
        let before = state.withLock { $0.judgement.sums }
        giveUp()
        if mending, (try? await fetchAgain()) != nil {
            switch await outcome() {
            case .right, .unchecked:
                let after = state.withLock { $0.judgement.sums }
                let blocks = after.flatMap { after in before.map { after.differences(from: $0) } } ?? [:]
                // Reported before the verdict, after which readers resume: the bytes that they read from then on are not
                // damaged.
                if !blocks.isEmpty {
                    let error = mismatch("\(reason); open the file again to read what pailfs has fetched since")
                    report(Damage(blocks: blocks, error: error))
                }
                return decide(.right)
            case .wrong, .failed: break
            }
        }
        giveUp()
        let times = mending ? ", and not when fetched again" : ""
        let error = mismatch("\(reason)\(times); set checksums=ignore to read the object unverified")
        report(Damage(blocks: nil, error: error))
    }

    /// Compares the received bytes with the store's checksum.
    private func outcome() async -> Outcome {
        let parts: [CheckedPart]
        do throws(ObjectStoreError) { parts = try await expectation() } catch {
            switch error.kind {
            // The store has another version by now, or denies these credentials the checksum.
            case .notFound, .preconditionFailed, .accessDenied, .notSupported: return .unchecked
            default: return .failed(BlockError(error))
            }
        }
        let size = parts.reduce(Int64(0)) { $0.addingReportingOverflow($1.size).partialValue }
        guard !parts.isEmpty, size == version.size, let sums = state.withLock({ $0.judgement.sums }) else {
            return .unchecked
        }
        var offset: Int64 = 0
        for part in parts {
            guard let crc = part.checksum.crc, crc.kind == sums.kind,
                let value = sums.value(of: ByteRange(at: offset, count: part.size))
            else { return await outcomeInOrder(parts) }
            guard value == crc.value else { return .wrong(part.checksum.name) }
            offset += part.size
        }
        return .right
    }

    private func outcomeInOrder(_ parts: [CheckedPart]) async -> Outcome {
        let known = state.withLock { state in
            if state.judgement.hasher == nil { state.judgement.hasher = ContentHasher(parts) }
            return state.judgement.hasher
        }
        guard let hasher = known else { return .unchecked }
        while true {
            switch hasher.advance(over: self) {
            case .right: return .right
            case .wrong: return .wrong(parts.first?.checksum.name ?? "checksum")
            // Bytes left the cache before they were hashed.
            case .waiting: return .unchecked
            case .busy:
                do { try await Task.sleep(for: .milliseconds(2)) } catch { return .failed(.cancelled) }
            }
        }
    }

    private func expectation() async throws(ObjectStoreError) -> [CheckedPart] {
        if let known = state.withLock({ $0.judgement.expected }) { return known }
        let parts = try await cache.store.checksums(of: key, version)
        state.withLock { $0.judgement.expected = parts }
        return parts
    }

    // MARK: Giving up

    /// Removes all blocks from memory and disk. Fetches that are landing or in flight are discarded as they end.
    private func giveUp() {
        let (items, chunks, fetches) = state.withLock { state in
            state.judgement.giveUp()
            let entries = state.fetches.entries
            for entry in entries {
                entry.payload.doubt()
                state.fetches.remove(entry.id)
            }
            let items = state.chunks.values.flatMap(\.shelved)
            for index in state.chunks.keys { state.chunks[index]?.shelved = [] }
            return (items, Array(state.chunks.keys), entries.map(\.payload))
        }
        for fetch in fetches { fetch.cancel() }
        for item in items { cache.shelf.remove(item) }
        for chunk in chunks { discard(geometry.allBlocks(of: chunk), of: chunk) }
        verdicts.change()
    }

    /// Fetches every block of the version, one request after the other.
    private func fetchAgain() async throws(BlockError) {
        var position: Int64 = -1
        var stays = 0
        while let next = state.withLock({ state in state.judgement.sums.map(\.firstMissing) ?? 0 }) {
            stays = next == position ? stays + 1 : 0
            position = next
            let end = min(version.size, (Int64(Geometry.chunk(at: next)) + 1) * Geometry.chunkSize)
            let demand = demand(next..<end, sequential: true, holding: false)
            guard let fetch = demand.first, stays < 3 else {
                endWait(demand, gaveUp: true)
                throw .cancelled
            }
            do { try await fetch.wait(upTo: fetch.range.upperBound) } catch {
                endWait(demand, gaveUp: true)
                throw error
            }
            endWait(demand, gaveUp: false)
        }
    }

    private func report(_ damage: Damage) {
        state.withLock { state in
            state.judgement.note(damage)
            damageCounter.store(state.judgement.damageCount, ordering: .releasing)
        }
        cache.onDamage(key, version)
    }

    private func mismatch(_ message: String) -> ObjectStoreError {
        ObjectStoreError(.integrity, .get, key: key, code: "ChecksumMismatch", message: message)
    }

    // MARK: Readers

    /// Grows with each `Damage`.
    var damageCount: Int { damageCounter.load(ordering: .acquiring) }

    func damages(after seen: Int) -> ([Damage], count: Int) {
        state.withLock { ($0.judgement.damages(after: seen), $0.judgement.damageCount) }
    }
}
