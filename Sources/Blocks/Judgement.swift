import Basics
import Digests
import ObjectStorage

/// Compares a version as a whole with its checksum: the CRCs of its blocks, the checksum that the store tells, and the verdict.
/// A part of `ObjectState`; pure.
///
/// 1. Blocks come in, and each is noted (`BlockSums`). 2. When the last one is there the version is judged; until the end of
/// that nobody reads it. 3. A wrong one is given up whole, which begins a new round, and fetched once more. 4. Blocks that
/// leave and come again are compared with what they came to before.
struct Judgement: Sendable {
    enum Verdict: Sendable {
        case open
        case right
        /// The store says nothing that could be compared.
        case unchecked
    }

    /// What to do about blocks that came in.
    enum Arrival: Equatable {
        case taken
        /// They were the last ones.
        case complete
        /// They are not what the store sent before, which was right.
        case refuted(BlockSet)
        /// They are not what the store sent before, and one of the two is wrong.
        case contradicted
        /// What they belong to was given up.
        case outdated
    }

    /// Damages kept; a reader that has not looked for longer may have had any.
    private static let mostDamages = 16

    var sums: BlockSums?
    var verdict = Verdict.open
    /// Grows when everything that has come in is given up.
    private(set) var round = 0
    /// nil while the store has not said it.
    var expected: [CheckedPart]?
    /// Somebody judges, or fetches once more.
    var isUnderWay = false
    /// Why the last judgement has come to nothing.
    var failure: BlockError?
    /// Follows the bytes, where their checksum needs them in order.
    var hasher: ContentHasher?
    private(set) var damages: [Damage] = []
    private(set) var damageCount = 0

    /// Whether readers have to wait.
    var isOpen: Bool { isUnderWay || verdict == .open && sums?.isComplete == true }

    /// The kind of the values to take of blocks.
    var kind: CRCKind { sums?.kind ?? expected?.first?.checksum.crc?.kind ?? .crc64nvme }

    /// `values` are those of the fetch's blocks. Of an object that came `verified` as a whole, nothing is left to judge.
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

    /// Takes the value of a block that was sent from here; a later one that comes from the store is compared with it.
    mutating func adopt(_ value: UInt64, _ kind: CRCKind, of block: Int, in chunk: Int, _ geometry: Geometry) {
        var sums = self.sums.take() ?? BlockSums(kind, geometry)
        defer { self.sums = sums }
        let one = block..<block + 1
        guard sums.kind == kind, !sums.knows(one, in: chunk) else { return }
        sums.record([value], of: one, in: chunk)
    }

    /// Nothing of what came in counts any more.
    mutating func giveUp() {
        round += 1
        (sums, hasher, verdict) = (nil, nil, .open)
    }

    mutating func note(_ damage: Damage) {
        damages.append(damage)
        damageCount += 1
        if damages.count > Self.mostDamages { damages.removeFirst() }
    }

    /// Those after the first `seen`.
    func damages(after seen: Int) -> [Damage] {
        let new = damageCount - seen
        guard new > damages.count, let last = damages.last else { return damages.suffix(max(0, new)) }
        return damages + [Damage(blocks: nil, error: last.error)]
    }

    /// Passes what the blocks came to on to another version with the same bytes.
    mutating func giveAway(to other: inout Judgement) {
        (other.sums, other.verdict) = (sums, verdict)
        (sums, verdict, hasher) = (nil, .open, nil)
    }
}
