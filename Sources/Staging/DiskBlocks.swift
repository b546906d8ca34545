package import Basics

/// Which blocks of a staging file take space on the disk: the unit that the ledger counts.
///
/// A value without I/O: runs of block numbers, neither touching nor overlapping. The cost of a change hardly depends on the
/// number of runs.
package struct DiskBlocks: Sendable {
    /// The size of a block.
    package let unit: DiskUnit
    /// The start of each run, by its end.
    private var runs = SortedIndex<Int64, Int64>()

    package init(of unit: DiskUnit = .usual) { self.unit = unit }

    /// How many blocks there are.
    package private(set) var count: Int64 = 0

    /// Bytes of disk that the file takes at most.
    package var charge: Int64 { Self.charge(blocks: count, runs: runs.count, of: unit) }

    /// Bytes of disk that the file takes at most with `missing` blocks more in one run.
    package func charge(adding missing: Int64) -> Int64 {
        Self.charge(blocks: count + missing, runs: runs.count + (missing > 0 ? 1 : 0), of: unit)
    }

    /// The blocks, and some for the file system's own map of them: ext4 keeps four runs in the inode and 340 in a block of
    /// 4 KiB, and cuts runs where the disk is fragmented.
    static func charge(blocks: Int64, runs: Int, of unit: DiskUnit) -> Int64 {
        if blocks == 0 { return 0 }
        let map = runs <= 3 && blocks <= 64 ? 0 : 1 + Int64(runs) / 170 + blocks / 2048
        return (blocks + map) * unit.bytes
    }

    /// `blocks` cut into runs that are all present or all absent, in order.
    package func split(_ blocks: Range<Int64>) -> [(blocks: Range<Int64>, isPresent: Bool)] {
        var parts: [(blocks: Range<Int64>, isPresent: Bool)] = []
        var position = blocks.lowerBound
        for run in runs(meeting: blocks) {
            let present = run.clamped(to: position..<blocks.upperBound)
            if position < present.lowerBound { parts.append((position..<present.lowerBound, false)) }
            parts.append((present, true))
            position = present.upperBound
        }
        if position < blocks.upperBound { parts.append((position..<blocks.upperBound, false)) }
        return parts
    }

    /// How many of `blocks` are present.
    package func count(in blocks: Range<Int64>) -> Int64 {
        runs(meeting: blocks).reduce(0) { $0 + $1.clamped(to: blocks).length }
    }

    package mutating func insert(_ blocks: Range<Int64>) {
        guard !blocks.isEmpty else { return }
        // Runs that overlap or touch become one.
        let absorbed = runs(meeting: (blocks.lowerBound - 1)..<(blocks.upperBound + 1))
        if let only = absorbed.first, only.contains(blocks) { return }
        for run in absorbed { remove(run: run) }
        let start = min(blocks.lowerBound, absorbed.first?.lowerBound ?? .max)
        let end = max(blocks.upperBound, absorbed.last?.upperBound ?? .min)
        add(run: start..<end)
    }

    /// Removes `blocks` and returns how many of them were present.
    @discardableResult
    package mutating func remove(_ blocks: Range<Int64>) -> Int64 {
        let before = count
        for run in runs(meeting: blocks) {
            remove(run: run)
            if run.lowerBound < blocks.lowerBound { add(run: run.lowerBound..<blocks.lowerBound) }
            if run.upperBound > blocks.upperBound { add(run: blocks.upperBound..<run.upperBound) }
        }
        return before - count
    }

    private mutating func add(run: Range<Int64>) {
        runs.replace(run.upperBound, with: run.lowerBound)
        count += run.length
    }

    private mutating func remove(run: Range<Int64>) {
        runs.remove(run.upperBound)
        count -= run.length
    }

    /// The runs that have one of `blocks`, in order.
    private func runs(meeting blocks: Range<Int64>) -> [Range<Int64>] {
        guard !blocks.isEmpty else { return [] }
        var found: [Range<Int64>] = []
        var place = runs.firstPosition { $0 <= blocks.lowerBound }
        while let entry = runs.entry(at: place), entry.value < blocks.upperBound {
            found.append(entry.value..<entry.key)
            place = runs.position(after: place)
        }
        return found
    }
}
