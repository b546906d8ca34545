import Basics
package import Commits
import Journaling
import Logging
import Metadata
import Staging
import Synchronization

/// What an earlier process left, taken up before the kernel asks for anything.
extension BucketFileSystem {
    /// Throws when the caches or the journal cannot be written.
    package func takeUp(_ plan: Recovery.Plan) throws(FileSystemError) {
        for key in plan.touched {
            try cached { metadata throws(MetadataError) in try metadata.distrust(key) }
            // A block cache keeps its blocks by version: what it has of another one is of no use, and harms nobody.
        }
        // Before the files: some have to wait for these.
        for left in plan.left { takeUp(left) }
        for (id, intent) in plan.promised {
            do throws(FileSystemError) { try takeUp(id, intent, uploads: plan.uploads[id] ?? []) } catch {
                // The row and what there is of the bytes stay where they are.
                rooms.logger.error(
                    "a file that was promised cannot be taken up",
                    metadata: ["key": "\(intent.key)", "reason": "\(error.reason)"])
            }
        }
        for (id, intent) in plan.unpromised {
            do throws(StagingError) {
                if try rooms.staging.hold(intent.staging) > 0 {
                    kept.withLock { $0[id] = intent }
                    continue
                }
            } catch { throw FileSystemError(error) }
            // Nothing was written to it.
            try journalled { journal throws(JournalingError) in try journal.write([.endFile(id)], flushed: false) }
            do throws(StagingError) { try rooms.staging.remove(intent.staging) } catch { throw FileSystemError(error) }
        }
        let count = kept.withLock { $0.count }
        if count > 0 {
            rooms.logger.warning(
                "files that were being written when pailfs ended are kept for \"pailfs recover\"",
                metadata: ["files": "\(count)"])
        }
    }
}
