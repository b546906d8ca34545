package import Basics
import ObjectStorage
import Synchronization

/// A file of the block cache with all bytes of an object's version and no others, for somebody who reads it himself. Not a
/// byte of it leaves before `BlockCache.takeBack`, whatever becomes of the object. Later the file may lose its name, but
/// never a byte: the kernel ends a loan with the last descriptor, and a program's mapping lives on.
package struct LentFile: Sendable {
    package let file: File
    /// What the cache calls it, also in later processes.
    package let number: Int64

    package init(file: File, number: Int64) { (self.file, self.number) = (file, number) }
}

extension CachedObject {
    /// Lends the file, if all of it is here and was found right by this process. Does I/O on the local disk the first time.
    package func lend() -> LentFile? {
        guard version.size > 0, isComplete, let file = openedFile(), (try? file.size) == version.size else {
            return nil
        }
        // The process that comes after a crash has to know it before anybody maps the file.
        let (claimed, isKnown) = state.withLock { ($0.fileID, $0.wasLent) }
        guard let claimed, isKnown || cache.noteLoan(of: claimed) else { return nil }
        let epoch = cache.epoch
        let number: Int64? = state.withLock { state in
            guard state.file === file, let number = state.fileID, number == claimed, state.isKnownWhole,
                !state.judgement.isOpen
            else {
                return nil
            }
            // Inside the lock: from here on nothing is withdrawn.
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
    /// Keeps what is on disk from making room for others until `unpin`, for those who read an object that is about to go.
    /// False, and nothing is kept, when `whole` is wanted and not all of it is here and was found right: what an earlier process
    /// has left is checked, if that takes no longer than a moment. Blocks that turn out to be wrong go all the same. Ends with
    /// this object: another process has to pin it anew.
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

    /// Compares all blocks with their checksums that this process has neither written nor checked.
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

    /// Ends what one `pin` began.
    package func unpin() { state.withLock { $0.pins -= 1 } }
}
