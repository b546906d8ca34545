package import Basics
package import Journaling
import Synchronization

/// The directory `staging/`, which has the files of uncommitted bytes.
///
/// Owns the directory; the lock on the cache directory keeps other processes out. A file is named by the number of its row in
/// the journal. Of the files of a dead process, those with a row stay, those whose row has ended are removed, and those
/// without any record in a journal are moved to `orphans/` below it. All files that stay count in the ledger.
package final class StagingArea: Sendable {
    /// Files that earlier processes left uncommitted.
    package struct Orphans: Sendable, Hashable {
        package var files = 0
        /// Disk space they take, in bytes.
        package var bytes: Int64 = 0
    }

    package let directory: String
    /// The unit in which its file system takes space.
    let unit: DiskUnit
    /// Counts the space of the files here.
    package let ledger: SpaceLedger
    /// Counts the bytes sent of the files here.
    package let traffic = StagingTraffic()
    /// Bounds the bytes of committed versions that commits read in at a time, to the space that writers leave them.
    let fills: MemoryBudget
    /// The files here that have a descriptor.
    let descriptors = OpenDescriptors()
    let live = LiveFiles()
    /// The bytes that `hold` counted, by name.
    private let held = Mutex<[String: Int64]>([:])

    /// The files in `orphans/`.
    package let orphans: Orphans

    /// Makes the directory if needed and clears it of leftovers, in time proportional to their number. `kept` are the names
    /// in rows of the journal; `lastKnown` is the last number that the journal gave to a file before this process. `unit` is
    /// by default that of the directory's file system.
    package init(
        directory: String, ledger: SpaceLedger, time: any TimeSource, kept: Set<String> = [],
        lastKnown: IntentID = IntentID(rawValue: 0), unit: DiskUnit? = nil
    ) throws(StagingError) {
        (self.directory, self.ledger) = (directory, ledger)
        // Half of the space that writers leave: databases grow, and space is allocated in blocks.
        fills = MemoryBudget(limit: ledger.commitShare > 0 ? Int(clamping: ledger.commitShare / 2) : .max)
        var orphans = Orphans()
        do {
            let orphanage = Self.orphanage(in: directory)
            try Directory.create(orphanage, lasting: true)
            let now = time.now()
            let prefix = "\(now.seconds).\(now.nanoseconds)-"
            for name in try Directory.names(in: directory) where name != "orphans" {
                // A file beside a staging file is treated like that.
                let row = name.description.split(separator: ".").first.map(String.init) ?? ""
                let path = "\(directory)/\(name)"
                // A file that cannot be removed does no harm: no number is given out twice.
                if name.description.hasSuffix(LocalFile.unfinishedSuffix) {
                    try? File.remove(path)
                    continue
                }
                if kept.contains(row) { continue }
                if let number = Int64(row), number <= lastKnown.rawValue {
                    try? File.remove(path)
                } else {
                    try? File.rename(path, to: "\(orphanage)/\(prefix)\(name)")
                }
            }
            for name in try Directory.names(in: orphanage) {
                if !name.description.hasSuffix(Self.mapSuffix) { orphans.files += 1 }
                orphans.bytes += (try? File("\(orphanage)/\(name)").allocated) ?? 0
            }
        } catch { throw StagingError(error) }
        ledger.adopt(orphans.bytes, as: .written)
        self.orphans = orphans
        self.unit = unit ?? DiskUnit(of: directory)
    }

    /// The suffix of the log that records which bytes of a staging file are staged.
    package static let mapSuffix = ExtentLog.suffix

    /// The name of the staging file of a row.
    package static func name(of row: IntentID) -> String { "\(row.rawValue)" }

    /// A new dirty file over a committed version of `baseSize` bytes (0 for a new file); `row` will record it.
    package func create(_ row: IntentID, baseSize: Int64) throws(StagingError) -> StagedFile {
        try StagedFile(path: path(Self.name(of: row)), baseSize: baseSize, area: self)
    }

    /// A file that an earlier process left, with the extents of its row, over a version of `baseSize` bytes.
    package func open(_ name: String, extents: ExtentMap, baseSize: Int64) throws(StagingError) -> StagedFile {
        try StagedFile(reopening: path(name), extents: extents, baseSize: baseSize, area: self)
    }

    /// Whether the file of a row exists. If not, no program has written to it.
    package func has(_ name: String) throws(StagingError) -> Bool {
        do { return try LocalFileStatus(of: path(name)) != nil } catch { throw StagingError(error) }
    }

    /// A file that an earlier process of the same boot was writing; nil if its map is not known. `baseSize` is the length of
    /// the version below it, 0 without one.
    package func reopen(_ name: String, baseSize: Int64) throws(StagingError) -> StagedFile? {
        guard let extents = ExtentLog.read(of: path(name), baseSize: baseSize) else { return nil }
        return try open(name, extents: extents, baseSize: baseSize)
    }

    /// When a file of an earlier process was last changed, as programs saw it. Call before the file is reopened.
    package func modified(_ name: String) -> Timestamp? {
        let status = (try? LocalFileStatus(of: path(name))) ?? nil
        return status.map { LocalFile.told($0.accessed, $0.modified) }
    }

    /// A separate file over the same version as `original`, with all of its staged bytes or, `emptying`, without a byte. A
    /// crash leaves all of it or nothing.
    /// Requires: `original` does not change meanwhile.
    package func copy(
        _ original: StagedFile, _ row: IntentID, emptying: Bool = false
    ) throws(StagingError) -> StagedFile {
        let copy = try StagedFile(
            path: path(Self.name(of: row)), baseSize: original.baseSize, isUnfinished: true, area: self)
        do throws(StagingError) {
            if emptying { try copy.truncate(to: 0) } else { try copy.take(original) }
            try copy.file.complete()
            return copy
        } catch {
            copy.discard()
            throw error
        }
    }

    /// Counts a file that stays as it is, with its map, and returns how many bytes of disk its content takes; 0 when it does
    /// not exist.
    package func hold(_ name: String) throws(StagingError) -> Int64 {
        do {
            guard try LocalFileStatus(of: path(name)) != nil else { return 0 }
            let allocated = try File(path(name)).allocated
            let map = path(name) + ExtentLog.suffix
            let isMapped = try LocalFileStatus(of: map) != nil
            let bytes = try allocated + (isMapped ? File(map).allocated : 0)
            ledger.adopt(bytes, as: .written)
            held.withLock { $0[name] = bytes }
            return allocated
        } catch { throw StagingError(error) }
    }

    /// Ends the count of a file by `hold`: another owner counts it, or it is removed.
    package func giveBack(_ name: String) {
        if let bytes = held.withLock({ $0.removeValue(forKey: name) }) { ledger.release(bytes, of: .written) }
    }

    /// Removes a file that is not open, and releases the bytes that `hold` counted for it.
    package func remove(_ name: String) throws(StagingError) {
        do {
            try File.remove(path(name))
            try File.remove(path(name) + ExtentLog.suffix)
        } catch { throw StagingError(error) }
        giveBack(name)
    }

    /// The map of a file that a dead process left in `directory`, over a version of `baseSize` bytes; nil when it was not
    /// recorded.
    package static func recordedMap(of name: String, in directory: String, baseSize: Int64) -> ExtentMap? {
        ExtentLog.read(of: "\(directory)/\(name)", baseSize: baseSize)
    }

    /// Writes the file again with `bytes`: a power cut may have removed it or some of them.
    package func restore(_ name: String, _ bytes: [UInt8]) throws(StagingError) {
        do throws(FileError) {
            let file = try File(path(name), .readWrite, create: .ifMissing)
            try file.truncate(to: Int64(bytes.count))
            try file.write(bytes, at: 0)
        } catch { throw StagingError(error) }
    }

    /// Whether the directory exists. True when a failing disk gives no answer.
    package var isInPlace: Bool {
        do { return try LocalFileStatus(of: directory) != nil } catch { return true }
    }

    /// Makes the directory again after another program has deleted it, and the files in it that are still open here. Returns
    /// each file whose bytes are gone once.
    package func findDeleted() -> [StagedFile] {
        try? Directory.create(Self.orphanage(in: directory), lasting: true)
        return live.all.filter { !$0.stayInPlace() }
    }

    /// Runs `act`, which needs the directory. If another program has deleted the directory, makes it again and runs `act`
    /// once more.
    func inDirectory<Value>(_ act: () throws(StagingError) -> Value) throws(StagingError) -> Value {
        do throws(StagingError) { return try act() } catch {
            guard error == .deleted else { throw error }
            do {
                try Directory.create(Self.orphanage(in: directory), lasting: true)
            } catch { throw StagingError(error) }
            return try act()
        }
    }

    private static func orphanage(in directory: String) -> String { directory + "/orphans" }

    /// Makes the names of new files survive a power cut. fsync(2)
    package func syncNames() throws(StagingError) {
        do { try Directory.sync(directory) } catch { throw StagingError(error) }
    }

    private func path(_ name: String) -> String { "\(directory)/\(name)" }
}
