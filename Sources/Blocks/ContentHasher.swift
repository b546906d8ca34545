import Basics
import Digests
import ObjectStorage
import Synchronization

/// Computes digests that need the bytes of a version in order (MD5, SHA-1), behind the fetches. Blocks that arrive early are
/// read from memory or disk when their turn comes. One caller at a time works, and owns `Work` meanwhile; its mutex is a
/// leaf. Not kept on disk: the next process begins at the first byte.
final class ContentHasher: Sendable {
    private struct Work {
        var parts: ArraySlice<CheckedPart>
        var digest: any Digest
        /// The bytes of the part that are not hashed yet.
        var left: Int64
        var position: Int64 = 0
        var isRight = true
    }

    enum Progress: Equatable {
        case right, wrong
        /// Bytes are missing.
        case waiting
        /// Another caller is hashing.
        case busy
    }

    /// nil while a caller is hashing.
    private let work: Mutex<Work?>

    /// nil without parts.
    init?(_ parts: [CheckedPart]) {
        guard let first = parts.first else { return nil }
        work = Mutex(Work(parts: parts[...], digest: first.checksum.begin(), left: first.size))
    }

    /// Hashes on as far as the bytes are here. Reads the file; blocks for as long as hashing takes.
    func advance(over object: CachedObject) -> Progress {
        guard var mine = work.withLock({ $0.take() }) else { return .busy }
        while mine.isRight, let part = mine.parts.first {
            if mine.left == 0 {
                mine.isRight = mine.digest.finish() == part.checksum.digest
                mine.parts = mine.parts.dropFirst()
                if let next = mine.parts.first { (mine.digest, mine.left) = (next.checksum.begin(), next.size) }
                continue
            }
            let count = object.withPiece(at: mine.position, atMost: mine.left) { mine.digest.update($0) }
            guard let count else { break }
            mine.position += count
            mine.left -= count
        }
        let progress: Progress = mine.isRight ? (mine.parts.isEmpty ? .right : .waiting) : .wrong
        work.withLock { $0 = mine }
        return progress
    }
}

extension CachedObject {
    private enum Piece {
        case memory(Buffer, Range<Int>)
        case file(File, count: Int, generation: UInt64)
        case unverified(chunk: Int, blocks: Range<Int>)
    }

    /// Lends bytes that are here from `position` on, at most `most` and at most to the end of a block, and returns how many;
    /// nil when they are not here. Does not count as a use.
    fileprivate func withPiece(at position: Int64, atMost most: Int64, _ body: (RawSpan) -> Void) -> Int64? {
        // A block may leave between the two steps; then it is looked up again.
        for _ in 0..<4 {
            switch piece(at: position, atMost: most) {
            case nil: return nil
            case .memory(let buffer, let place):
                buffer.withBytes(place, body)
                return Int64(place.count)
            case .unverified(let chunk, let blocks):
                guard verify(blocks, in: chunk) else { return nil }
            case .file(let file, let count, let generation):
                let isRead = unsafe withUnsafeTemporaryAllocation(byteCount: count, alignment: 4096) { scratch in
                    guard let read = unsafe try? file.read(at: position, into: scratch), read == count,
                        state.withLock({ $0.generation == generation })
                    else { return false }
                    unsafe body(UnsafeRawBufferPointer(scratch).bytes)
                    return true
                }
                if isRead { return Int64(count) }
            }
        }
        return nil
    }

    private func piece(at position: Int64, atMost most: Int64) -> Piece? {
        let (chunk, block) = (Geometry.chunk(at: position), Geometry.block(at: position))
        let end = min(position + most, geometry.bytes(of: block..<block + 1, in: chunk).upperBound)
        return state.withLock { state in
            func place(from start: Int64) -> Range<Int> { Int(position - start)..<Int(end - start) }
            let fetch = state.fetches.entry(for: block, in: chunk)?.payload
            if let fetch, fetch.isFilled, let buffer = fetch.buffer {
                return .memory(buffer, place(from: fetch.range.lowerBound))
            }
            guard let record = state.chunks[chunk] else { return nil }
            if let item = record.shelved.first(where: { $0.blocks.contains(block) }) {
                return .memory(item.buffer, place(from: item.range.lowerBound))
            }
            if record.verified.contains(block), let file = state.file {
                return .file(file, count: Int(end - position), generation: state.generation)
            }
            return record.present.contains(block) ? .unverified(chunk: chunk, blocks: block..<block + 1) : nil
        }
    }
}
