import Basics
import Blocks
import Metadata
import ObjectStorage
import Synchronization

/// Objects that another host replaces while they are open here.
///
/// To the kernel an inode number is one length and one set of pages. So the new object gets another inode number, as after a
/// rename(2): a lookup of the name shows all of the new object, and open handles keep the length and the bytes that they began
/// with, as far as those are here.
extension BucketFileSystem {
    /// The entry as programs are to see it: with another inode number where its object is not the one that is open under this
    /// number.
    func current(_ entry: Entry) -> Entry {
        guard let file = files.find(entry.ino) else { return entry }
        let (epoch, shown, successor) = file.state.withLock { ($0.life.epoch, $0.attributes, $0.life.successor) }
        if let successor {
            // The file was superseded since the entry was read.
            let known = (try? metadata.entry(successor)) ?? nil
            return known.flatMap { ($0.parent, $0.component) == (entry.parent, entry.component) ? $0 : nil } ?? entry
        }
        guard file.isSettled, shown != entry.attributes else { return entry }
        // A commit may have finished since the entry was read.
        guard let known = (try? metadata.entry(entry.ino)) ?? nil, let version = known.attributes.version else {
            return entry
        }
        let base = file.state.withLock { $0.life.object }
        guard let base, !base.version.hasContent(of: version) else {
            let object = base ?? committed(known)
            file.state.withLock { state in
                guard state.life.epoch == epoch, state.life.draft == nil, !state.life.isUnlinked
                else { return }
                state.attributes = known.attributes
                state.life.renew(object)
            }
            return known
        }
        // A call that is changing the file has newer state than the entry. A call that has changed it since has begun another
        // epoch.
        guard !directoryRenames.isSwitching, let lock = tryLock(file) else { return entry }
        guard lock.file.isSettled, file.state.withLock({ $0.life.epoch == epoch }),
            let renumbered = (try? metadata.renumber(entry.ino)) ?? nil
        else { return entry }
        file.state.withLock { $0.life.supersede(by: renumbered.ino) }
        return renumbered
    }

    /// Throws ESTALE, which makes the kernel look the name up again, when the entry's object is not the one that is open.
    func requireCurrent(_ entry: Entry) throws(FileSystemError) {
        guard current(entry).ino == entry.ino else {
            throw FileSystemError(.stale, "\(entry.name) was replaced in the bucket")
        }
    }

    /// Throws when the file is not what its name leads to any more, because another host replaced or removed its object: bytes
    /// that are written to it could not be stored there.
    func requireName(_ file: ActiveFile) throws(FileSystemError) {
        try requireOwn(file)
        let (successor, isUnlinked) = file.state.withLock { ($0.life.successor, $0.life.isUnlinked) }
        guard successor == nil else {
            throw FileSystemError(
                .stale, "the object was replaced in the bucket since the file was opened; open the file again")
        }
        if !isUnlinked { _ = try entry(file.ino) }
    }

    /// Throws when the bytes written through the file's handles are in a conflict file or kept for recovery.
    func requireOwn(_ file: ActiveFile) throws(FileSystemError) {
        if file.state.withLock({ $0.life.hasLostConflict }) {
            throw FileSystemError(
                .stale,
                "another host changed the file; the bytes written here are in a conflict file or in \"pailfs recover\"")
        }
    }
}
