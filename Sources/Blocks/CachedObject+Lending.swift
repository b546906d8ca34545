package import Basics
import ObjectStorage
import Synchronization

/// A file of the block cache with all bytes of an object's version and no others, for a caller that reads it directly. No
/// byte of it is removed before `BlockCache.takeBack`, whatever happens to the object. Later the file may lose its name, but
/// never a byte: the kernel ends a loan with the last descriptor, and a program's mapping outlives that.
package struct LentFile: Sendable {
    package let file: File
    /// The cache's number of the file, also in later processes.
    package let number: Int64

    package init(file: File, number: Int64) { (self.file, self.number) = (file, number) }
}

extension CachedObject {
    /// Lends the file, if all of it is here and this process has found it right. Does I/O on the local disk the first time.
    package func lend() -> LentFile? {
        guard version.size > 0, isComplete, let file = openedFile(), (try? file.size) == version.size else {
            return nil
        }
        // Recorded before a program can map the file, so that the next process knows it after a crash.
        let (claimed, isKnown) = state.withLock { ($0.fileID, $0.wasLent) }
        guard let claimed, isKnown || cache.noteLoan(of: claimed) else { return nil }
        let epoch = cache.epoch
        let number: Int64? = state.withLock { state in
            guard state.file === file, let number = state.fileID, number == claimed, state.isKnownWhole,
                !state.judgement.isOpen
            else {
                return nil
            }
            // Inside the lock: from here on no block is withdrawn.
            cache.lend(number)
            state.wasLent = true
            for index in state.chunks.keys where state.chunks[index]?.used != epoch {
                state.chunks[index]?.used = epoch
                state.changed.insert(index)
            }
            return number
        }
        guard let number else { return nil }
        cache.enqueueIfNeeded(self)
        return LentFile(file: file, number: number)
    }
}

extension CachedObject {
    /// Protects the blocks on disk from eviction until `unpin`, for readers of an object that is about to be deleted. With
    /// `whole`, returns false and pins nothing unless all blocks are here and right; blocks of an earlier process are checked
    /// first if the object is at most `largestChecked`. Wrong blocks are still discarded. Ends with this object: another
    /// process has to pin it anew.
    package func pin(whole: Bool) -> Bool {
        load()
        if whole, version.size <= Self.largestChecked { check() }
        return state.withLock { state in
            guard !whole || state.isComplete && state.isKnownWhole else { return false }
            state.pins += 1
            return true
        }
    }

    private static let largestChecked: Int64 = 64 << 20

    /// Compares those blocks with their checksums that this process has neither written nor checked.
    private func check() {
        guard isComplete else { return }
        sumAdopted()
        for chunk in 0..<geometry.chunkCount {
            let all = geometry.allBlocks(of: chunk)
            if state.withLock({ $0.chunks[chunk]?.verified != all }) {
                _ = verify(0..<geometry.blockCount(of: chunk), in: chunk)
            }
        }
    }

    /// Ends one `pin`.
    package func unpin() { state.withLock { $0.pins -= 1 } }
}
