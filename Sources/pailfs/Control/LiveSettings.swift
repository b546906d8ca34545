import Basics
import Commits
import FileSystem
import Glibc
import HTTP
import Metadata
import ObjectStorage
import Settings
import Synchronization

/// Options that change while the bucket is mounted, and the objects that they configure.
///
/// The changes are written to a file of the state directory, so that a worker that takes the mount over has them too; a new mount
/// begins with its own options. Locks: the mutex is a leaf; the gate admits one change at a time.
final class LiveSettings: Sendable {
    private struct State {
        var settings: MountSettings
        /// The changed options, as the user wrote them.
        var changes: [String]
    }

    private let state: Mutex<State>
    private let changing = TaskGate()
    /// The number of connections for transfers.
    private let mostTransfers: Int
    private let file: String
    private let level: LogThreshold
    private let ledger: SpaceLedger
    private let uploads: UploadLimiter
    private let throttle: Throttle
    private let limits: TrafficLimits
    private let metadata: MetadataCache
    private let fileSystem: BucketFileSystem

    private static let fileName = "/changes"

    init(
        _ request: MountRequest, directory: String, level: LogThreshold, ledger: SpaceLedger, uploads: UploadLimiter,
        throttle: Throttle, limits: TrafficLimits, metadata: MetadataCache, fileSystem: BucketFileSystem
    ) {
        let settings = request.settings
        (self.level, self.ledger, self.uploads, self.throttle) = (level, ledger, uploads, throttle)
        (self.limits, self.metadata, self.fileSystem) = (limits, metadata, fileSystem)
        file = directory + Self.fileName
        mostTransfers = request.mostTransfers
        state = Mutex(State(settings: settings, changes: request.changes))
        if request.changes.isEmpty { try? File.remove(file) }
        metadata.absenceTTL = settings.negativeTTL
    }

    /// The options that differ from those of the mount.
    var changes: [String] { state.withLock { $0.changes } }

    /// Changes options, in lists as of `-o`: either all of them, or none and an error.
    func change(_ lists: [String]) throws(CommandError) {
        while !changing.tryEnter(alone: true) { usleep(10_000) }
        defer { changing.leave(alone: true) }
        var new = state.withLock { $0 }
        let old = new.settings
        do throws(SettingsError) { for list in lists { try new.settings.change(list) } } catch {
            throw CommandError(error)
        }
        guard new.settings.uploads + new.settings.downloads <= mostTransfers else {
            throw CommandError(
                "uploads and downloads together can be \(mostTransfers) at most in this mount; unmount, and mount again with more"
            )
        }
        new.changes = Self.merged(new.changes, lists)
        do throws(FileError) {
            try File.writeAtomically(Array((new.changes.joined(separator: "\n") + "\n").utf8), to: file)
        } catch {
            throw CommandError("the change cannot be saved for a restart of the worker: \(error)")
        }
        state.withLock { [new] in $0 = new }
        apply(new.settings, over: old)
    }

    /// The lists with the last value of each option only.
    private static func merged(_ old: [String], _ new: [String]) -> [String] {
        var values: [(name: Substring, item: String)] = []
        for item in old + new.flatMap({ $0.split(separator: ",").map(String.init) }) {
            let name = item.prefix { $0 != "=" }
            values.removeAll { $0.name == name }
            values.append((name, item))
        }
        return values.map(\.item)
    }

    private func apply(_ new: MountSettings, over old: MountSettings) {
        level.set(new.logLevel)
        ledger.setLimits(limit: new.cacheSize, floor: new.freeSpace)
        uploads.setLimit(new.uploads)
        throttle.setLimits(sends: new.uploads, fetches: new.downloads)
        throttle.setRate(new.requestLimit)
        limits.set(upload: new.uploadLimit, download: new.downloadLimit)
        metadata.limit = LocalDirectories.metadataShare(of: new.cacheSize)
        metadata.ttl = new.ttl
        metadata.absenceTTL = new.negativeTTL
        fileSystem.setPartSize(new.partSize)
        // The kernel caches attributes for the old, longer time: they are invalidated.
        if new.ttl < old.ttl || new.absenceTTL < old.absenceTTL { _ = try? fileSystem.distrust(.root) }
    }

    /// The changes that an earlier worker of a mount left.
    static func kept(in directory: String) -> [String] {
        guard let bytes = try? File(directory + fileName).read(atMost: 64 << 10) else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}

extension MountSettings {
    /// How long the absence of a name counts.
    fileprivate var absenceTTL: Duration { min(negativeTTL ?? ttl, ttl) }
}
