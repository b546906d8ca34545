import Basics
import Logging
package import ObjectStorage
import Synchronization

/// Remembers the checksums of versions that the store returned, and counts and logs bytes that do not match.
extension BlockCache {
    /// Remembers the checksum in an answer to HEAD, for later readers of the version.
    package func note(_ info: ObjectInfo, of key: ObjectKey) {
        guard let checksum = info.checksum, info.version.size > 0 else { return }
        let parts = [CheckedPart(size: info.version.size, checksum)]
        checksums.withLock { _ = $0.insert(parts, for: Identity(key, info.version)) }
    }

    func noted(_ key: ObjectKey, _ version: ObjectVersion) -> [CheckedPart]? {
        checksums.withLock { $0.value(for: Identity(key, version)) }
    }

    func foundDamaged(_ key: ObjectKey, _ reason: String) {
        count { $0.damagedVersions += 1 }
        logger.warning(
            "damaged bytes of an object arrived; pailfs removes its cached blocks and fetches it again",
            metadata: ["key": "\(key)", "reason": "\(reason)"])
    }

    func foundCorrupt(_ blocks: Int, key: ObjectKey) {
        count { $0.corruptBlocks += blocks }
        logger.info(
            "cached blocks do not match their checksums; the next read downloads them", metadata: ["key": "\(key)"])
    }
}
