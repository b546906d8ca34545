package import Basics
import Synchronization

/// How bytes of the committed version get into a staged file: only where no newer bytes are.
extension StagedFile {
    /// Writes bytes of the committed version where no newer bytes are.
    package func fill(_ bytes: RawSpan, at offset: Int64) throws(StagingError) {
        try prepareFill(bytes, at: offset, isVerified: true)
    }

    /// Writes bytes of the committed version where no newer bytes are, without counting them as here: `confirmFill` does that
    /// once the bytes are verified.
    /// Requires: fills of one range do not overlap.
    package func prepareFill(_ bytes: RawSpan, at offset: Int64) throws(StagingError) {
        try prepareFill(bytes, at: offset, isVerified: false)
    }

    /// Counts those bytes of `range` that are still the base's as here.
    /// Requires: `prepareFill` has written them all.
    package func confirmFill(_ range: ByteRange) {
        disk.withLock { disk in
            guard disk.isOpen else { return }
            for piece in pieces(in: range) where piece.source == .base { count(piece.range, as: .filled, &disk) }
        }
    }

    private func prepareFill(_ bytes: RawSpan, at offset: Int64, isVerified: Bool) throws(StagingError) {
        let range = try self.range(at: offset, bytes.byteCount)
        try disk.withLock { disk throws(StagingError) in
            for piece in pieces(in: range) where piece.source == .base {
                let start = Int(piece.range.lowerBound - offset)
                let part = bytes.extracting(start..<(start + Int(piece.range.length)))
                try file.unnoticed { () throws(StagingError) in
                    try store(part, piece.range, for: .committing, &disk)
                }
                if isVerified { count(piece.range, as: .filled, &disk) }
            }
        }
    }

    /// Records bytes of the committed version that are here now. If the record cannot be logged, recovery fetches them again.
    private func count(_ range: ByteRange, as source: PieceSource, _ disk: inout Disk) {
        do throws(StagingError) {
            try prepareLog(.set(range, source), for: .committing, &disk)
            try disk.log.add(.set(range, source))
        } catch {}
        content.withLock { $0.extents.set(range, to: source) }
    }
}
