import Basics

/// The blocks that a staged file takes on the disk, and their charge in the ledger. Called with `disk` locked.
extension StagedFile {
    /// Writes bytes to the disk, charged to the ledger first. New blocks are written before blocks that already hold bytes,
    /// since only a new block can lack space: on failure the earlier bytes are untouched.
    func store(
        _ bytes: RawSpan, _ range: ByteRange, for use: SpaceLedger.Use, _ disk: inout Disk
    ) throws(StagingError) {
        guard disk.isOpen else { throw .notStaged }
        let blocks = unit.touched(by: range)
        let parts = disk.blocks.split(blocks)
        let missing = parts.reduce(Int64(0)) { $1.isPresent ? $0 : $0 + $1.blocks.length }
        if missing > 0 {
            let more = max(0, disk.blocks.charge(adding: missing) - disk.charged)
            guard ledger.reserve(more, for: use, evicting: true) else { throw .noSpace }
            disk.charged += more
        }
        do throws(StagingError) {
            if parts.count == 1 {
                try file.write(bytes, at: range.lowerBound)
            } else {
                for isPresent in [false, true] {
                    for part in parts where part.isPresent == isPresent {
                        let piece = unit.range(of: part.blocks).clamped(to: range)
                        let start = Int(piece.lowerBound - range.lowerBound)
                        try file.write(
                            bytes.extracting(start..<(start + Int(piece.length))), at: piece.lowerBound)
                    }
                }
            }
        } catch {
            for part in parts where !part.isPresent { _ = file.punch(unit.range(of: part.blocks)) }
            // Without a log the next process takes this length for the file's.
            if let length = try? file.size, length > size { try? file.truncate(to: size) }
            free(0..<0, &disk)
            throw error
        }
        disk.blocks.insert(blocks)
    }

    /// Frees the blocks of `range` that hold only holes now, and zeroes the rest of it. A block with base bytes stays: a fill
    /// may be writing them (`prepareFill`).
    func punch(_ range: ByteRange, _ extents: ExtentMap, _ disk: inout Disk) {
        func isFree(_ block: Int64) -> Bool {
            let bytes = unit.range(of: block..<(block + 1))
            return extents.pieces(in: bytes).allSatisfy { $0.source == .hole || $0.source == .stored }
        }
        var blocks = unit.touched(by: range)
        if !isFree(blocks.lowerBound) { blocks = (blocks.lowerBound + 1)..<blocks.upperBound }
        if !blocks.isEmpty, !isFree(blocks.upperBound - 1) { blocks = blocks.lowerBound..<(blocks.upperBound - 1) }
        let bytes = unit.range(of: blocks)
        let whole =
            bytes.isEmpty
            ? range : min(range.lowerBound, bytes.lowerBound)..<max(range.upperBound, bytes.upperBound)
        guard disk.blocks.count(in: unit.touched(by: whole)) > 0 else { return }
        guard file.punch(whole) else {
            disk.holesAreZero = false
            return
        }
        free(blocks, &disk)
    }

    /// Removes `blocks` from those the file takes, and releases the excess of its charge.
    func free(_ blocks: Range<Int64>, _ disk: inout Disk) {
        disk.blocks.remove(blocks)
        let excess = disk.charged - disk.blocks.charge
        guard excess > 0 else { return }
        disk.charged -= excess
        ledger.release(excess, of: .written)
    }
}
