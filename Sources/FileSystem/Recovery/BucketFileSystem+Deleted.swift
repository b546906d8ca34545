import Journaling
import Staging
import Synchronization

/// Another program may delete the directory of the state while the mount uses it.
extension BucketFileSystem {
    /// Makes files in `staging/` anew that another program has deleted: those that are open here, and small ones that the journal
    /// has. For the others it keeps and logs the error that their bytes are gone. Reads the journal.
    package func putBackStaging() {
        let gone = rooms.staging.findDeleted().filter { staged in
            guard let row = Int64(staged.name),
                let bytes = (try? rooms.journal.content(of: IntentID(rawValue: row))) ?? nil
            else { return true }
            return !staged.putBack(bytes)
        }
        let names = Set(gone.map(ObjectIdentifier.init))
        for file in files.dirty {
            let (draft, behind) = file.state.withLock { ($0.life.draft?.staged, $0.life.behind?.staged) }
            guard [draft, behind].contains(where: { $0.map { names.contains(ObjectIdentifier($0)) } ?? false })
            else { continue }
            remember(FileSystemError(StagingError.deleted), "write", file.ino)
        }
    }
}
