import Basics
import Commits
import Journaling
import Staging

/// A journal that was copied: a file that its original may have stored, or stored and removed, is stored only by "pailfs
/// recover".
extension BucketFileSystem {
    /// The plan with the withheld files among those for "pailfs recover", and with all of their bytes in `staging/`.
    func withholding(_ plan: Recovery.Plan) throws(FileSystemError) -> Recovery.Plan {
        var plan = plan
        for (id, intent) in plan.withheld {
            var intent = intent
            let content: [UInt8]?
            do throws(JournalingError) { content = try rooms.journal.content(of: id) } catch {
                throw FileSystemError(error)
            }
            do throws(StagingError) {
                if let content { try rooms.staging.restore(intent.staging, content) }
            } catch { throw FileSystemError(error) }
            // Its row is written with those of the others that are left.
            (intent.isAcknowledged, intent.isFlushed, intent.isLeft) = (false, true, nil)
            plan.unacknowledged.append((id, intent))
        }
        return plan
    }

    /// Claims a copied journal, once its rows say which files are withheld: the next mount withholds nothing.
    func claimJournal() throws(FileSystemError) {
        guard rooms.journal.isCopy, !policy.readOnly else { return }
        try journalled { journal throws(JournalingError) in try journal.claim() }
    }
}
