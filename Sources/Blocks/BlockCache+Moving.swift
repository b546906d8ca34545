import Basics
package import ObjectStorage
import SQLite
import Synchronization

extension BlockCache {
    /// The object was copied to `newKey` as `newVersion` with the same bytes, and is gone from `key`: passes its blocks on.
    ///
    /// Readers of the old version find no blocks any more. Blocks that cannot be passed on are evicted.
    package func move(
        _ key: ObjectKey, _ version: ObjectVersion, to newKey: ObjectKey, _ newVersion: ObjectVersion
    ) {
        let (old, new) = (open(key, version), open(newKey, newVersion))
        if old === new || !changes.begin() { return }
        defer { changes.end() }
        old.load()
        new.load()
        old.dropPassing()
        let isMoved = version.size == newVersion.size && give(old, to: new)
        if !isMoved {
            pool.start { [self] in evictAll(of: old) }
            return
        }
        enqueueIfNeeded(new)
        // The old instance stopped computing the checksums of an adopted file if they were not finished.
        pool.start { new.sumAdopted() }
    }

    /// The object got another version with the same bytes, as a change of its headers makes: passes its blocks on.
    package func renew(_ key: ObjectKey, from version: ObjectVersion, to newVersion: ObjectVersion) {
        move(key, version, to: key, newVersion)
    }

    private func give(_ old: CachedObject, to new: CachedObject) -> Bool {
        guard old.openedFile() != nil, let file = old.state.withLock({ $0.fileID }) else { return false }
        do throws(SQLiteError) {
            // Inside the transaction no other caller creates a file for either object, so no other code locks the two at
            // once.
            return try index.move(file, to: new.key, new.version) {
                old.state.withLock { old in
                    guard old.isMovable, old.fileID == file else { return false }
                    var given = old
                    let isTaken = new.state.withLock { new in
                        guard new.isVacant else { return false }
                        given.giveAway(to: &new)
                        return true
                    }
                    old = given
                    return isTaken
                }
            }
        } catch {
            disk.failed(error, doing: "index")
            return false
        }
    }
}
