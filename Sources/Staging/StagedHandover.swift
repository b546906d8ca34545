package import Basics
import Synchronization

/// A staging file that passes to a new owner.
package struct StagedHandover: Sendable, Hashable {
    package let path: String
    /// The file's length in bytes.
    package let size: Int64
    /// The ranges with right bytes; elsewhere the content is undefined.
    package let present: [ByteRange]
    /// The ledger's charge, which the new owner must release.
    package let reservedBytes: Int64
}

/// How bytes leave a staged file for good: the whole file to the block cache, or a part of it that the store has.
extension StagedFile {
    /// Hands the file over, cut to its size: the receiver owns the path and the ledger's bytes. Later calls fail with
    /// `.notStaged`. nil if it was discarded or handed over before, or could not be cut; then it is removed.
    package func release() -> StagedHandover? {
        disk.withLock { disk in
            let extents = extents
            guard close(&disk) else { return nil }
            disk.log.remove()
            do throws(StagingError) { try file.truncate(to: extents.size) } catch {
                file.remove()
                free(0..<Int64.max, &disk)
                return nil
            }
            var present: [ByteRange] = []
            for piece in extents.pieces(in: 0..<extents.size) {
                guard piece.source.isHere || piece.source == .hole && disk.holesAreZero else { continue }
                if let last = present.last, last.upperBound == piece.range.lowerBound {
                    present[present.count - 1] = last.lowerBound..<piece.range.upperBound
                } else {
                    present.append(piece.range)
                }
            }
            ledger.becomeClean(disk.charged)
            return StagedHandover(path: path, size: extents.size, present: present, reservedBytes: disk.charged)
        }
    }

    /// Frees the space of those bytes of `range` that `fill` brought: the committed version has them.
    /// Requires: the caller made the fill, and no other reader needs its bytes any more.
    package func unfill(_ range: ByteRange) {
        disk.withLock { disk in
            guard disk.isOpen else { return }
            let filled = pieces(in: range).filter { $0.source == .filled }.map(\.range)
            // Bytes whose change cannot be logged stay here.
            do throws(StagingError) { try prepareToLeave(filled, as: .base, &disk) } catch { return }
            leave(filled, as: .base, &disk)
        }
    }

    /// Makes sure that `leaveToStore` of `ranges` can log its changes.
    /// Requires: no writer runs until then.
    package func prepareToLeave(_ ranges: [ByteRange]) throws(StagingError) {
        try disk.withLock { disk throws(StagingError) in
            guard disk.isOpen else { throw .notStaged }
            try prepareToLeave(ranges, as: .stored, &disk)
        }
    }

    /// Frees the space of `ranges`, of which the store has every byte in parts of an upload that the journal records; a read
    /// of them throws `.notStaged` from now on.
    /// Requires: no writer runs.
    package func leaveToStore(_ ranges: [ByteRange]) {
        disk.withLock { disk in
            guard disk.isOpen else { return }
            mayNeedUpload.store(true, ordering: .relaxed)
            leave(ranges, as: .stored, &disk)
        }
    }

    /// The upload became the object: bytes that were only in the upload are in the committed version.
    package func uploadLanded() {
        guard needsItsUpload else { return }
        disk.withLock { disk in
            guard disk.isOpen else { return }
            let extents = content.withLock { content in
                content.extents.replace(.stored, with: .base)
                content.epoch += 1
                return content.extents
            }
            // The journal's row has precedence; it is about to end or to record the same.
            try? disk.log.replace(with: extents)
        }
    }

    private func prepareToLeave(
        _ ranges: [ByteRange], as source: PieceSource, _ disk: inout Disk
    ) throws(StagingError) {
        guard let first = ranges.first else { return }
        try prepareLog(.set(first, source), records: Int64(ranges.count), for: .committing, &disk)
    }

    /// Records that the bytes are elsewhere, and then frees their space. Bytes whose change cannot be logged stay.
    private func leave(_ ranges: [ByteRange], as source: PieceSource, _ disk: inout Disk) {
        for range in ranges where !range.isEmpty {
            do throws(StagingError) { try disk.log.add(.set(range, source)) } catch { return }
            let extents = content.withLock { content in
                content.extents.set(range, to: source)
                content.epoch += 1
                return content.extents
            }
            giveBack(range, extents, &disk)
        }
    }

    /// Frees the blocks inside `range` without a byte that is only here. Where no hole can be punched they stay, and count.
    private func giveBack(_ range: ByteRange, _ extents: ExtentMap, _ disk: inout Disk) {
        let touched = unit.touched(by: range)
        let first = unit.range(of: touched).lowerBound < range.lowerBound ? touched.lowerBound + 1 : touched.lowerBound
        var start = first
        for piece in extents.pieces(in: range) where piece.source.isHere || piece.source == .hole {
            let kept = unit.touched(by: piece.range)
            if start < kept.lowerBound { giveBack(blocks: start..<kept.lowerBound, &disk) }
            start = max(start, kept.upperBound)
        }
        let end = range.upperBound < extents.size ? range.upperBound / unit.bytes : touched.upperBound
        if start < end { giveBack(blocks: start..<end, &disk) }
    }

    private func giveBack(blocks: Range<Int64>, _ disk: inout Disk) {
        guard disk.blocks.count(in: blocks) > 0, file.unnoticed({ file.punch(unit.range(of: blocks)) }) else { return }
        free(blocks, &disk)
    }
}
