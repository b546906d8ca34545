import Basics
import ObjectStorage
import SQLite
import Synchronization

extension BlockCache {
    /// Evicts chunks, those used longest ago first, until about `bytes` of disk are free. Runs on the thread of the caller
    /// that needs the space.
    /// Locks: the caller holds none.
    func reclaim(_ bytes: Int64) {
        // A little more than was asked for, since each round writes rows first.
        reclaim(bytes, atLeast: min(ledger.limit / 32, 64 << 20))
    }

    func reclaim(_ bytes: Int64, atLeast least: Int64) {
        // The index orders by use, so uses go into it first.
        flush()
        let wanted = max(bytes, least)
        var freed: Int64 = 0
        var last: BlockIndex.Candidate?
        while freed < wanted {
            let candidates: [BlockIndex.Candidate]
            do throws(SQLiteError) { candidates = try index.oldest(after: last, limit: 32) } catch {
                disk.failed(error, doing: "index")
                return
            }
            if candidates.isEmpty { return }
            for candidate in candidates where freed < wanted {
                freed += evict(candidate.chunk, of: instance(candidate.key, candidate.version))
            }
            last = candidates.last
        }
    }

    @discardableResult
    func evict(_ chunk: Int, of object: CachedObject) -> Int64 {
        let freed = object.evict(chunk)
        count { $0.evictedBytes += freed }
        return freed
    }

    func evictAll(of object: CachedObject) {
        object.load()
        for chunk in object.state.withLock({ Array($0.chunks.keys) }) { evict(chunk, of: object) }
    }

    // MARK: Cleaning up after a crash

    /// Punches holes into files that were being written when the process died, until they have only the blocks that their
    /// rows name: the ledger does not count others.
    static func settle(
        _ index: BlockIndex, directory: String, unit: DiskUnit, except lent: Set<Int64> = []
    ) throws(SQLiteError) {
        for (file, size) in try index.unsettled() where !lent.contains(file.id) {
            let path = directory + "/" + String(file.id, radix: 16)
            let geometry = Geometry(size: size)
            var changes = BlockIndex.Changes(file: file.id, settles: true)
            var next: Int64 = 0
            do throws(FileError) {
                if file.chunks.isEmpty {
                    try File.remove(path)
                    changes.drops = true
                } else {
                    let open = try File(path, .readWrite)
                    var gaps: [ByteRange] = []
                    for row in file.chunks.sorted(by: { $0.chunk < $1.chunk }) {
                        for run in row.present.runs {
                            let bytes = geometry.bytes(of: run, in: row.chunk)
                            if next < bytes.lowerBound { gaps.append(next..<bytes.lowerBound) }
                            next = bytes.upperBound
                        }
                    }
                    let end = unit.roundedUp(next)
                    let length = max(try open.size, size)
                    if end < length { gaps.append(end..<length) }
                    if file.wasLent, !gaps.isEmpty { throw Self.lentOnce }
                    for gap in gaps { try open.punchHole(gap) }
                }
            } catch {
                // The space that the file takes cannot be known: it is removed whole.
                try? File.remove(path)
                changes.drops = true
            }
            try index.apply(changes)
        }
    }

    /// Why a file that was lent is not punched: `ObjectState.wasLent`.
    private static let lentOnce = FileError(errno: 16, operation: "cut", path: "")

    /// Removes files that no row names: left by a process that died between removing a row and its file, or by an index
    /// that was lost.
    func removeStrays() {
        var strays: [(name: ByteString, id: Int64?)] = []
        do throws(FileError) {
            for name in try inDirectory({ () throws(FileError) in try Directory.names(in: directory) }) {
                let id = Int64(name.description, radix: 16)
                if let id, (try? index.isKnown(id)) ?? true { continue }
                strays.append((name, id))
            }
        } catch {
            disk.failed(error, doing: "scan")
        }
        for stray in strays {
            let path = directory + "/" + stray.name.description
            // Inside the transaction no other thread can start to use the number.
            try? index.ifUnknown(stray.id ?? -1) { try? File.remove(path) }
        }
    }
}
