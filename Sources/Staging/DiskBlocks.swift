package import Basics

/// Which blocks of a staging file take space on the disk: the unit the ledger is charged in.
///
/// A value without I/O: sorted runs of block numbers, neither touching nor overlapping.
package struct DiskBlocks: Sendable, Hashable {
    /// The size of a block.
    package let unit: DiskUnit
    private var runs: [Range<Int64>] = []

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
        var index = firstRun(endingAfter: position)
        while position < blocks.upperBound {
            guard index < runs.count, runs[index].lowerBound < blocks.upperBound else {
                parts.append((position..<blocks.upperBound, false))
                break
            }
            let present = runs[index].clamped(to: position..<blocks.upperBound)
            if position < present.lowerBound { parts.append((position..<present.lowerBound, false)) }
            parts.append((present, true))
            (position, index) = (present.upperBound, index + 1)
        }
        return parts
    }

    /// How many of `blocks` are present.
    package func count(in blocks: Range<Int64>) -> Int64 {
        var total: Int64 = 0
        var index = firstRun(endingAfter: blocks.lowerBound)
        while index < runs.count, runs[index].lowerBound < blocks.upperBound {
            total += runs[index].clamped(to: blocks).length
            index += 1
        }
        return total
    }

    package mutating func insert(_ blocks: Range<Int64>) {
        guard !blocks.isEmpty else { return }
        // Runs that overlap or touch become one.
        let first = firstRun(endingAfter: blocks.lowerBound - 1)
        var (last, merged) = (first, blocks)
        var absorbed: Int64 = 0
        while last < runs.count, runs[last].lowerBound <= blocks.upperBound {
            merged = min(merged.lowerBound, runs[last].lowerBound)..<max(merged.upperBound, runs[last].upperBound)
            absorbed += runs[last].length
            last += 1
        }
        count += merged.length - absorbed
        if last == first + 1 { runs[first] = merged } else { runs.replaceSubrange(first..<last, with: [merged]) }
    }

    /// Removes `blocks` and returns how many of them were present.
    @discardableResult
    package mutating func remove(_ blocks: Range<Int64>) -> Int64 {
        guard !blocks.isEmpty else { return 0 }
        let first = firstRun(endingAfter: blocks.lowerBound)
        var last = first
        var (removed, rest): (Int64, [Range<Int64>]) = (0, [])
        while last < runs.count, runs[last].lowerBound < blocks.upperBound {
            let run = runs[last]
            removed += run.clamped(to: blocks).length
            if run.lowerBound < blocks.lowerBound { rest.append(run.lowerBound..<blocks.lowerBound) }
            if run.upperBound > blocks.upperBound { rest.append(blocks.upperBound..<run.upperBound) }
            last += 1
        }
        runs.replaceSubrange(first..<last, with: rest)
        count -= removed
        return removed
    }

    private func firstRun(endingAfter block: Int64) -> Int {
        var (low, high) = (0, runs.count)
        while low < high {
            let middle = (low + high) / 2
            if runs[middle].upperBound > block { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
