import Basics
import ObjectStorage
import Staging
import Synchronization

/// Reads bytes of the base into the staged file where a commit has to send them.
extension FileCommit {
    /// Base bytes that a commit has read into the staged file, and their share of what all commits may read.
    struct Fill: Sendable {
        let range: ByteRange
        let bytes: Int
    }

    /// Reads the bytes of `range` that are still the base's into the staged file, once they fit the share of all commits.
    func beginFill(_ range: ByteRange) async throws(CommitError) -> Fill {
        let missing = staged.pieces(in: range).filter { $0.source == .base }
            .reduce(Int64(0)) { $0 + $1.range.length + 2 * staged.unit.bytes }
        let bytes = Int(clamping: missing)
        do { try await staged.fills.reserve(bytes) } catch { throw .cancelled }
        let fill = Fill(range: range, bytes: bytes)
        do { try await self.fill(range) } catch {
            endFill(fill)
            throw error
        }
        return fill
    }

    /// To be called when the bytes have been sent, or not. They stay as long as there is room: the committed object is cached.
    func endFill(_ fill: Fill) {
        guard fill.bytes > 0 else { return }
        if staged.isSpaceShort { staged.unfill(fill.range) }
        staged.fills.release(fill.bytes)
    }

    private func fill(_ range: ByteRange) async throws(CommitError) {
        for piece in staged.pieces(in: range) where piece.source == .base {
            var isThere = false
            while !isThere {
                let losses = withShared { $0.baseLosses }
                try await fill(piece.range, partOf: range)
                // If it were confirmed after `forgetBase`, damaged bytes would stay.
                isThere = losses == withShared { $0.baseLosses }
                if !isThere { staged.unfill(piece.range) }
            }
        }
    }

    private func fill(_ piece: ByteRange, partOf range: ByteRange) async throws(CommitError) {
        guard let base else { throw .staging(.notStaged) }
        let failure = StagingFailure()
        do throws(ObjectStoreError) {
            try await base.read(piece) { [staged] (bytes, offset) throws(ByteTransferError) in
                do throws(StagingError) { try staged.prepareFill(bytes, at: offset) } catch {
                    failure.note(error)
                    throw ByteTransferError(errno: error.errno, reason: error.description)
                }
            }
        } catch {
            if let error = failure.error { throw .staging(error) }
            if error.kind == .integrity { forgetBase(except: range) }
            throw CommitError(base: error)
        }
        staged.confirmFill(piece)
    }

    /// Drops the bytes that were read of the base, which may be damaged, and every part but the one of `range`, which fails: both
    /// are read and sent anew.
    private func forgetBase(except range: ByteRange) {
        let size = staged.size
        withShared { $0.baseLosses += 1 }
        staged.unfill(0..<size)
        for other in [0..<min(range.lowerBound, size), min(range.upperBound, size)..<size] where !other.isEmpty {
            apply { $0.changed(other) }
        }
    }
}

/// Keeps why staging refused bytes while the error travels through the store as an errno.
private final class StagingFailure: Sendable {
    private let first = Mutex<StagingError?>(nil)
    var error: StagingError? { first.withLock { $0 } }
    func note(_ error: StagingError) { first.withLock { $0 = $0 ?? error } }
}
