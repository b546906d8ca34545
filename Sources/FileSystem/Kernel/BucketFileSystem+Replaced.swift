import Basics
import Blocks
import Metadata
import ObjectStorage
import Synchronization

/// Objects that somebody else replaces while they are open here.
///
/// To the kernel an inode number is one length and one set of pages. So the new object gets a number of its own, as if it had
/// come by rename(2): whoever looks at the name sees it whole, and open handles keep the length and the bytes they began
/// with, as far as those are here.
extension BucketFileSystem {
    /// The entry as programs are to see it: with another number where its object is not the one that is open under this.
    func current(_ entry: Entry) -> Entry {
        guard let file = files.find(entry.ino) else { return entry }
        let (epoch, shown, successor) = file.state.withLock { ($0.life.epoch, $0.attributes, $0.life.successor) }
        if let successor {
            // Since the entry was read.
            let known = (try? metadata.entry(successor)) ?? nil
            return known.flatMap { ($0.parent, $0.component) == (entry.parent, entry.component) ? $0 : nil } ?? entry
        }
        guard file.isSettled, shown != entry.attributes else { return entry }
        // A commit may have come to its end since the entry was read.
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
        // Whoever is changing the file knows better than the entry. One who has done so since has begun another epoch.
        guard !directoryRenames.isSwitching, let lock = tryLock(file) else { return entry }
        guard lock.file.isSettled, file.state.withLock({ $0.life.epoch == epoch }),
            let renumbered = (try? metadata.renumber(entry.ino)) ?? nil
        else { return entry }
        file.state.withLock { $0.life.supersede(by: renumbered.ino) }
        return renumbered
    }

    /// Throws ESTALE, upon which the kernel looks the name up again, when the entry's object is not the one that is open.
    func requireCurrent(_ entry: Entry) throws(FileSystemError) {
        guard current(entry).ino == entry.ino else {
            throw FileSystemError(.stale, "\(entry.name) was replaced in the bucket")
        }
    }

    /// Throws when the file is not what its name leads to any more, because somebody else replaced or removed its object:
    /// nothing that is written to it could be stored there.
    func requireName(_ file: ActiveFile) throws(FileSystemError) {
        try requireOwn(file)
        let (successor, isUnlinked) = file.state.withLock { ($0.life.successor, $0.life.isUnlinked) }
        guard successor == nil else {
            throw FileSystemError(
                .stale, "the object was replaced in the bucket since the file was opened; open the file again")
        }
        if !isUnlinked { _ = try entry(file.ino) }
    }

    /// Throws when what was written through the file's handles is elsewhere.
    func requireOwn(_ file: ActiveFile) throws(FileSystemError) {
        if file.state.withLock({ $0.life.hasLostConflict }) {
            throw FileSystemError(
                .stale,
                "another host changed the file; the bytes written here are in a conflict file or in \"pailfs recover\"")
        }
    }
}
