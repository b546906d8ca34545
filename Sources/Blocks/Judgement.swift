import Basics
import Digests
import ObjectStorage

/// Compares a whole version with its checksum: the CRCs of its blocks, the checksum that the store returned, and the verdict.
/// A part of `ObjectState`; pure.
///
/// 1. Blocks arrive, and the CRC of each is recorded (`BlockSums`). 2. When the last one is there the version is judged; no
/// reader gets bytes until that has ended. 3. A wrong version is given up whole, which begins a new round, and fetched once
/// more. 4. Blocks that leave and are fetched again are compared with their recorded CRCs.
struct Judgement: Sendable {
    enum Verdict: Sendable {
        case open
        case right
        /// The store has nothing to compare with.
        case unchecked
    }

    /// What to do about blocks that have arrived.
    enum Arrival: Equatable {
        case taken
        /// The blocks were the last missing ones.
        case complete
        /// The blocks differ from those that the store sent before, which were right.
        case refuted(BlockSet)
        /// The blocks differ from those that the store sent before, and one of the two is wrong.
        case contradicted
        /// The blocks belong to a round that was given up.
        case outdated
    }

    /// Damages kept. A reader that is further behind may have had any damaged block.
    private static let mostDamages = 16

    var sums: BlockSums?
    var verdict = Verdict.open
    /// Grows when everything received is given up.
    private(set) var round = 0
    /// nil until the store has returned it.
    var expected: [CheckedPart]?
    /// A task judges the version, or fetches it once more.
    var isUnderWay = false
    /// Why the last judgement failed.
    var failure: BlockError?
    /// Hashes the bytes in order, where the checksum needs that.
    var hasher: ContentHasher?
    private(set) var damages: [Damage] = []
    private(set) var damageCount = 0

    /// Whether readers have to wait.
    var isOpen: Bool { isUnderWay || verdict == .open && sums?.isComplete == true }

    /// The kind of CRC to compute of blocks.
    var kind: CRCKind { sums?.kind ?? expected?.first?.checksum.crc?.kind ?? .crc64nvme }

    /// `values` are the CRCs of the fetch's blocks. An object that arrived `verified` as a whole needs no judgement.
    mutating func arrive(
        _ values: [UInt64], _ fetch: Fetch, _ kind: CRCKind, _ geometry: Geometry, verified: Bool
    ) -> Arrival {
        guard fetch.round == round else { return .outdated }
        var sums = self.sums.take() ?? BlockSums(kind, geometry)
        defer { self.sums = sums }
        guard sums.kind == kind else { return .outdated }
        let differing = sums.contradictions(values, of: fetch.blocks, in: fetch.chunk)
        if !differing.isEmpty, !verified { return verdict == .right ? .refuted(differing) : .contradicted }
        if verdict != .open, !sums.knows(fetch.blocks, in: fetch.chunk) { verdict = .open }
        sums.record(values, of: fetch.blocks, in: fetch.chunk)
        if verified { verdict = .right }
        return verdict == .open && sums.isComplete && !isUnderWay ? .complete : .taken
    }

    /// Records the CRC of a block that this process uploaded; a later fetch of the block is compared with it.
    mutating func adopt(_ value: UInt64, _ kind: CRCKind, of block: Int, in chunk: Int, _ geometry: Geometry) {
        var sums = self.sums.take() ?? BlockSums(kind, geometry)
        defer { self.sums = sums }
        let one = block..<block + 1
        guard sums.kind == kind, !sums.knows(one, in: chunk) else { return }
        sums.record([value], of: one, in: chunk)
    }

    /// Drops the CRCs of all blocks received so far.
    mutating func giveUp() {
        round += 1
        (sums, hasher, verdict) = (nil, nil, .open)
    }

    mutating func note(_ damage: Damage) {
        damages.append(damage)
        damageCount += 1
        if damages.count > Self.mostDamages { damages.removeFirst() }
    }

    /// The damages after the first `seen`.
    func damages(after seen: Int) -> [Damage] {
        let new = damageCount - seen
        guard new > damages.count, let last = damages.last else { return damages.suffix(max(0, new)) }
        return damages + [Damage(blocks: nil, error: last.error)]
    }

    /// Passes the CRCs and the verdict on to another version with the same bytes.
    mutating func giveAway(to other: inout Judgement) {
        (other.sums, other.verdict) = (sums, verdict)
        (sums, verdict, hasher) = (nil, .open, nil)
    }
}
