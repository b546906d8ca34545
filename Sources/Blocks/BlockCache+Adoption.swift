package import Basics
import Glibc
import Logging
package import ObjectStorage
import Synchronization

extension BlockCache {
    /// Makes the staging file of an object that was just committed a file of the cache, by rename; no byte is copied.
    ///
    /// `present` are the ranges whose bytes are the object's, `reserved` is what the ledger counts for the file. Both, and
    /// the file, belong to the cache from here on. Blocks can be read when this returns; their checksums are computed in the
    /// background. A failure removes the file.
    /// Requires: no writer of the file is left.
    package func adopt(
        stagingFile path: String, size: Int64, present: [ByteRange], key: ObjectKey, version: ObjectVersion,
        reserved: Int64
    ) {
        let geometry = Geometry(size: size, unit: unit)
        var chunks: [Int: BlockSet] = [:]
        for range in present {
            for chunk in Geometry.chunks(touching: range.clamped(to: 0..<size)) {
                let blocks = geometry.blocks(within: range, in: chunk)
                if !blocks.isEmpty { chunks[chunk, default: .empty].formUnion(BlockSet(blocks)) }
            }
        }
        let cost = chunks.reduce(0) { $0 + geometry.charge(for: $1.value, in: $1.key) }
        takeOver(reserved)
        var held = reserved
        let mayBegin = changes.begin()
        defer { if mayBegin { changes.end() } }
        do throws(FileError) {
            guard mayBegin, !isApart.load(ordering: .relaxed), size == version.size, !chunks.isEmpty, options.usesDisk,
                disk.isUsable
            else {
                throw Self.declined
            }
            if cost > held {
                guard reserve(cost - held) else { throw Self.declined }
                held = cost
            }
            let object = open(key, version)
            object.load()
            guard object.state.withLock({ $0.fileID == nil && $0.landings == 0 }) else { throw Self.declined }
            let file = try File(path, .readWrite)
            try punchGaps(of: chunks, geometry, in: file)
            if held > cost {
                release(held - cost)
                held = cost
            }
            let id = try claimFile(key, version)
            try take(path, to: self.path(of: id))
            guard object.install(file, id: id, present: chunks, epoch: nextEpoch()) else {
                // A fetch was faster and has the version's former file open, which stays readable without a name. The
                // adoption is given up.
                try File.remove(self.path(of: id))
                throw Self.declined
            }
            enqueueIfNeeded(object)
            pool.start { object.sumAdopted() }
        } catch {
            if error != Self.declined {
                logger.warning(
                    "a committed file cannot be moved to the cache; the next read downloads it",
                    metadata: ["key": "\(key)", "error": "\(error)"])
            }
            try? File.remove(path)
            release(held)
        }
    }

    /// Renames the file. A file on another disk is not copied: the next reader downloads the object.
    private func take(_ path: String, to target: String) throws(FileError) {
        do throws(FileError) {
            try inDirectory { () throws(FileError) in try File.rename(path, to: target) }
        } catch {
            guard error.errno == EXDEV else { throw error }
            isApart.store(true, ordering: .relaxed)
            throw Self.declined
        }
    }

    private static let declined = FileError(errno: 0, operation: "adopt", path: "")

    /// Frees the space of everything in the file that is not a whole block of the object.
    private func punchGaps(of chunks: [Int: BlockSet], _ geometry: Geometry, in file: File)
        throws(FileError)
    {
        var next: Int64 = 0
        for (chunk, blocks) in chunks.sorted(by: { $0.key < $1.key }) {
            for run in blocks.runs {
                let bytes = geometry.bytes(of: run, in: chunk)
                if next < bytes.lowerBound { try file.punchHole(next..<bytes.lowerBound) }
                next = bytes.upperBound
            }
        }
        let end = unit.roundedUp(next)
        if try end < file.size { try file.punchHole(end..<file.size) }
    }
}
