package import Basics
import Synchronization

/// The directory `staging/`: where the files of uncommitted bytes are made.
///
/// Owns the directory; one process at a time uses it (the lock on the cache directory sees to that). What a dead
/// process left there is moved to `orphans/` below it, kept, and counted in the ledger.
package final class StagingArea: Sendable {
    /// What processes before this one left uncommitted.
    package struct Orphans: Sendable, Hashable {
        package var files = 0
        /// Disk space they take, in bytes.
        package var bytes: Int64 = 0
    }

    private let directory: String
    private let ledger: SpaceLedger
    private let next = Atomic<UInt64>(1)

    /// What lies in `orphans/`.
    package let orphans: Orphans

    /// Makes the directory if needed and moves leftovers away, in time proportional to their number.
    package init(directory: String, ledger: SpaceLedger, time: any TimeSource) throws(StagingError) {
        (self.directory, self.ledger) = (directory, ledger)
        var orphans = Orphans()
        do {
            let orphanage = directory + "/orphans"
            try Directory.create(orphanage)
            let now = time.now()
            let prefix = "\(now.seconds).\(now.nanoseconds)-"
            // The names are our own: numbers.
            for name in try Directory.names(in: directory) where name != "orphans" {
                try File.rename("\(directory)/\(name)", to: "\(orphanage)/\(prefix)\(name)")
            }
            for name in try Directory.names(in: orphanage) {
                orphans.files += 1
                orphans.bytes += try File("\(orphanage)/\(name)").allocated
            }
        } catch { throw StagingError(error) }
        ledger.adopt(orphans.bytes)
        self.orphans = orphans
    }

    /// A new dirty file over a committed version of `baseSize` bytes (0 for a new file).
    package func create(baseSize: Int64) throws(StagingError) -> StagedFile {
        let number = next.add(1, ordering: .relaxed).oldValue
        return try StagedFile(path: "\(directory)/\(number)", baseSize: baseSize, ledger: ledger)
    }
}
