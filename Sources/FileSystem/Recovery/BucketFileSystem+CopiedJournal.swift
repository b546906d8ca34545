import Basics
import Commits
import Journaling
import Staging

/// A journal that was copied: what its original may have stored, or stored and removed, is stored only when somebody asks for it.
extension BucketFileSystem {
    /// The plan with what is withheld among the files for "pailfs recover", and with all of their bytes in `staging/`.
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

    /// Nothing is withheld from the next mount, once the rows say what this one has withheld.
    func claimJournal() throws(FileSystemError) {
        guard rooms.journal.isCopy, !policy.readOnly else { return }
        try journalled { journal throws(JournalingError) in try journal.claim() }
    }
}
