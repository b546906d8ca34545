package import Basics
import Synchronization

/// How bytes of the committed version get into a staged file: only where nothing newer is.
extension StagedFile {
    /// Takes bytes of the committed version; they land only where nothing newer is.
    package func fill(_ bytes: RawSpan, at offset: Int64) throws(StagingError) {
        try prepareFill(bytes, at: offset, isVerified: true)
    }

    /// Writes bytes of the committed version where nothing newer is, without counting them as here: `confirmFill`
    /// does, once their sender has vouched for them. Callers see to it that fills of one range do not overlap.
    package func prepareFill(_ bytes: RawSpan, at offset: Int64) throws(StagingError) {
        try prepareFill(bytes, at: offset, isVerified: false)
    }

    /// Counts the bytes of `range` that are still the base's as here: `prepareFill` has brought them all.
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

    /// Bytes of the committed version that are here now. Where that is not written down they are fetched again.
    private func count(_ range: ByteRange, as source: PieceSource, _ disk: inout Disk) {
        do throws(StagingError) {
            try prepareLog(.set(range, source), for: .committing, &disk)
            try disk.log.add(.set(range, source))
        } catch {}
        content.withLock { $0.extents.set(range, to: source) }
    }
}
