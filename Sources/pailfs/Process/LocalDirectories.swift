import Basics
import FuseBridge
import Glibc
import Journaling
import Logging
import ObjectStorage
import SQLite
import Settings

/// The local directories of one mount, locked. The state directory is locked first, and its lock names the process and the
/// mountpoint to other mounts.
struct LocalDirectories: Sendable {
    let place: DirectoryPair
    let lock: CacheDirectoryLock
    /// nil where the cache lies in the state directory.
    let cacheLock: CacheDirectoryLock?

    /// Finds, creates and locks the directories for the request's bucket and prefix, and takes over the former directories of
    /// earlier versions of this program. `process` is the process that the lock names to others.
    init(_ request: MountRequest, mountpoint: Mountpoint, process: pid_t = getpid()) throws(CommandError) {
        let place = try DirectoryPair(of: request)
        try Self.requireHome(request)
        self.place = place
        for former in try FormerDirectory.all(of: request, place) {
            try Self.usable(former.path, place) { () throws(JournalingError) in
                let lock = try Self.lock(former.path, process, mountpoint)
                try withExtendedLifetime(lock) { () throws(JournalingError) in try former.takeOver() }
            }
        }
        lock = try Self.usable(place.state, place) { () throws(JournalingError) in
            try Self.lock(place.state, process, mountpoint)
        }
        cacheLock = try Self.usable(place.cache, place) { () throws(JournalingError) in
            place.isOne ? nil : try Self.lock(place.cache, process, mountpoint)
        }
        FormerDirectory.sort(place)
        // If the files cannot be written now, a command finds the pair by the other directory or by the URL.
        try? place.nameEachOther()
    }

    private static func usable<Value>(
        _ path: String, _ place: DirectoryPair, _ act: () throws(JournalingError) -> Value
    ) throws(CommandError) -> Value {
        do throws(JournalingError) { return try act() } catch {
            guard case .file(let failure) = error else { throw CommandError(error.description) }
            throw unusable(path, place, failure.description)
        }
    }

    /// Locks a directory, and waits for a process that has the lock only for a moment or until it is done: a command on a
    /// directory that is not mounted, which gives the directory as its mountpoint, or the process of a mount that is unmounted
    /// and still stores its files.
    private static func lock(
        _ path: String, _ process: pid_t, _ mountpoint: Mountpoint
    ) throws(JournalingError) -> CacheDirectoryLock {
        let time = SystemTime()
        let start = time.uptime()
        var hasSaid = false
        while true {
            do throws(JournalingError) {
                return try CacheDirectoryLock(directory: path, pid: process, mountpoint: mountpoint.path)
            } catch {
                guard case .held(_, let pid, let place) = error else { throw error }
                let waited = time.uptime() - start
                if let pid, let place, place != path {
                    guard LeavingMount.isLeaving(pid, mountpoint: place) else { throw error }
                    if waited >= .seconds(2), !hasSaid {
                        hasSaid = true
                        Entry.say(
                            "pailfs: waiting for process \(pid), which still stores what was written to \(place) before it "
                                + "was unmounted")
                    }
                } else if waited >= patience {
                    throw error
                }
            }
            usleep(20_000)
        }
    }

    private static let patience = Duration.seconds(3)

    /// Locks existing directories, for as long as a command works in them.
    init(existing place: DirectoryPair) throws(JournalingError) {
        self.place = place
        lock = try CacheDirectoryLock(directory: place.state, pid: getpid(), mountpoint: place.state)
        cacheLock =
            place.isOne ? nil : try CacheDirectoryLock(directory: place.cache, pid: getpid(), mountpoint: place.cache)
    }

    /// Refuses a place that the mount would hide: pailfs would wait for itself there, for ever.
    /// Requires: called before the mount is made.
    static func require(_ request: MountRequest, outside mountpoint: Mountpoint) throws(CommandError) {
        guard let parents = try? DirectoryPair.parents(request.settings, request.environment) else { return }
        for (parent, kind) in [(parents.cache, "cache"), (parents.state, "state")] {
            let place = nearest(to: parent)
            let resolved = File.resolved(place) ?? place
            guard (resolved + "/").hasPrefix(mountpoint.path == "/" ? "/" : mountpoint.path + "/") else { continue }
            throw CommandError(
                "the \(kind) directory \(parent) would be below the mountpoint \(mountpoint.path); "
                    + "set \(kind)-dir to a directory elsewhere")
        }
    }

    /// The directory, or the nearest existing one above it: the first mount makes it.
    static func nearest(to directory: String) -> String {
        var place = directory
        while access(place, F_OK) != 0, let slash = place.lastIndex(of: "/"), slash > place.startIndex {
            place = String(place[..<slash])
        }
        return place
    }

    /// Whether a user other than `user` and root can replace one of the directories on the way to `path`, and in words which user
    /// and where; nil when none can.
    static func exposed(
        _ path: String, to user: UInt32 = LocalFileStatus.ourUser, in space: UserNameSpace = .current
    ) -> String? {
        var place = File.resolved(path) ?? path
        while let slash = place.lastIndex(of: "/") {
            let entry = place
            place = slash == place.startIndex ? "/" : String(place[..<slash])
            guard let above = try? LocalFileStatus(of: place) else { return nil }
            // The owner is a user outside the container, mostly the machine's root.
            if !above.isTrusted(by: user), !above.isOwnerUnmapped(at: place, space) {
                return "user \(above.owner) can replace files in \(place)"
            }
            // With the sticky bit, only its owner can replace an entry.
            let isSticky = above.permissions & 0o1000 != 0
            let isSafe = isSticky && (try? LocalFileStatus(of: entry))?.isTrusted(by: user) ?? true
            if above.permissions & 0o002 != 0, !isSafe {
                return "any user can replace files in \(place)"
            }
            if place == "/" { return nil }
        }
        return nil
    }

    /// The error if so few free bytes on the disk are too few to write anything.
    static func lack(of free: Int64, at path: String, _ settings: MountSettings) -> CommandError? {
        guard free <= settings.freeSpace else { return nil }
        return CommandError(
            "the disk of \(path) has \(ByteSize.format(free)) free, and \(ByteSize.format(settings.freeSpace)) must stay free "
                + "(free-space); make room, or set another cache-dir")
    }

    /// Throws when the home directory does not exist: pailfs does not create it.
    static func requireHome(_ request: MountRequest) throws(CommandError) {
        let settings = request.settings
        guard settings.cacheDirectory == nil, let home = request.environment["HOME"], access(home, F_OK) != 0,
            errno == ENOENT, let parents = try? DirectoryPair.parents(settings, request.environment),
            [parents.cache, settings.stateDirectory == nil ? parents.state : ""].contains(where: { $0.hasPrefix(home) })
        else { return }
        throw CommandError(
            "the home directory \(home) does not exist; set cache-dir, or HOME to a directory that exists")
    }

    /// A database of the cache and the cache that `open` makes on it. A database that is damaged, another program's or newer than
    /// this one holds nothing that cannot be fetched again: it is recreated.
    func cache<Cache>(
        _ name: String, migrations: [String], logger: Logger, _ open: (Database) throws(SQLiteError) -> Cache
    ) throws(CommandError) -> (Database, Cache) {
        let file = place.cache + "/" + name
        var options = Database.Options()
        options.remembersDamage = true
        options.shrinks = true
        options.application = Self.cacheMark
        options.whenReadOnly = { error in
            logger.warning(
                "the disk of cache-dir is read-only; pailfs keeps what it learns of the bucket in memory until the unmount",
                metadata: ["file": "\(file)", "reason": "\(error)"])
        }
        func attempt() throws(SQLiteError) -> (Database, Cache) {
            let database = try Database(.file(file), options: options, migrations: migrations)
            // On a full disk the database does without headroom.
            try? database.takeHeadroom()
            do throws(SQLiteError) { return (database, try open(database)) } catch {
                database.close()
                throw error
            }
        }
        for _ in 1..<Self.attempts {
            do throws(SQLiteError) { return try attempt() } catch {
                switch error.kind {
                case .corrupt, .newerSchema:
                    logger.warning(
                        "a cache cannot be used; pailfs starts with an empty one",
                        metadata: ["file": "\(file)", "reason": "\(error)"])
                    Database.remove(file)
                case .cannotOpen, .inputOutput, .readOnly:
                    // Another program may delete the directory at any moment.
                    try? Directory.create(place.cache)
                case .full, .busy, .constraint, .outOfMemory, .closed, .misuse:
                    throw Self.unusable(place.cache, place, error.description)
                }
            }
        }
        do throws(SQLiteError) { return try attempt() } catch {
            throw Self.unusable(place.cache, place, error.description)
        }
    }

    /// How often a database is opened before the cache counts as unusable.
    private static let attempts = 3

    /// The journal, which is never replaced. A test may have the process killed at one of its steps.
    func journal(environment: [String: String]) throws(CommandError) -> Journal {
        var stop: StopPoint?
        if let text = environment[Self.stopVariable] {
            stop = StopPoint(text)
            guard stop != nil else {
                throw CommandError(
                    "\(Self.stopVariable)=\(text) is not a stop point; write before:STEP or after:STEP, or unset it")
            }
        }
        do throws(JournalingError) { return try Journal(path: place.journal, stop: stop) } catch {
            throw CommandError(error.description)
        }
    }

    /// "pail" in ASCII, and c.
    private static let cacheMark: Int32 = 0x7061_6963

    private static let stopVariable = "PAILFS_STOP_POINT"

    /// Most bytes of the cache's size for names and attributes.
    static func metadataShare(of size: Int64) -> Int64 { size / 4 }

    /// The quota on local disk: the databases count too, with room to grow until they are measured again.
    func ledger(limit: Int64, floor: Int64, time: any TimeSource) -> SpaceLedger {
        let databases = DatabaseSpace(place, growth: min(limit / 16, 16 << 20), time: time)
        let (state, cache) = (place.state, place.cache)
        let devices = Set(place.directories.map { ((try? LocalFileStatus(of: $0)) ?? nil)?.identity.device })
        var stagingSpace: (@Sendable () -> Int64)?
        if devices.count > 1 { stagingSpace = { Self.free(at: state) } }
        return SpaceLedger(
            limit: limit, floor: floor, commitShare: min(limit / 4, 256 << 20), overhead: { databases.bytes },
            freeSpace: { Self.free(at: cache) }, stagingSpace: stagingSpace)
    }

    /// Free bytes on the disk of a directory, which may have been deleted.
    static func free(at path: String) -> Int64 {
        if let space = try? Directory.space(at: path) { return space.free }
        return (try? Directory.space(at: nearest(to: path)).free) ?? 0
    }

    func unusable(_ reason: String) -> CommandError { Self.unusable(place.state, place, reason) }

    private static func unusable(_ path: String, _ place: DirectoryPair, _ reason: String) -> CommandError {
        let kind = path == place.cache ? "cache" : "state"
        return CommandError(
            "the \(kind) directory \(path) cannot be used: \(reason); make it writable and make room, or set another \(kind)-dir"
        )
    }
}
