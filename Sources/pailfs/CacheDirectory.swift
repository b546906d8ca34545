import Basics
import FuseBridge
import Glibc
import Journaling
import Logging
import ObjectStorage
import SQLite
import Settings

/// The directory on local disk that one mount has to itself.
struct CacheDirectory: Sendable {
    let path: String
    let lock: CacheDirectoryLock

    /// Finds, creates and locks the directory for the request's bucket and prefix; `process` is who others are told has it.
    init(_ request: MountRequest, mountpoint: Mountpoint, process: pid_t = getpid()) throws(CommandError) {
        path = try Self.path(of: request)
        try Self.requireHome(request)
        do throws(JournalingError) {
            lock = try Self.lock(path, process, mountpoint)
        } catch {
            guard case .file(let failure) = error else { throw CommandError(error.description) }
            throw Self.unusable(path, failure.description)
        }
    }

    /// A command that looks into a directory that is not mounted has its lock for a moment, and says so by giving the
    /// directory as its mountpoint: a mount that begins right then waits for it. So it does for the process of a mount that
    /// is unmounted and still stores what was written.
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

    /// One that is there, for as long as a command works in it.
    init(existing path: String) throws(JournalingError) {
        self.path = path
        lock = try CacheDirectoryLock(directory: path, pid: getpid(), mountpoint: path)
    }

    /// Where it is, for the request's bucket and prefix.
    static func path(of request: MountRequest) throws(CommandError) -> String {
        guard let parent = Self.parent(of: request) else { throw Self.noParent }
        let found: FoundStore
        do { found = try request.foundStore() } catch { throw CommandError(error, request) }
        let name = CacheLocation.name(
            scheme: request.scheme.rawValue, endpoint: found.endpoint ?? request.settings.endpoint,
            account: found.account, bucket: request.bucket ?? "", prefix: request.prefix)
        return parent + "/" + name
    }

    /// Refuses a place that the mount would hide: pailfs would wait for itself there, for ever. To be asked before the mount is
    /// made.
    static func require(_ request: MountRequest, outside mountpoint: Mountpoint) throws(CommandError) {
        guard let parent = Self.parent(of: request) else { return }
        let place = nearest(to: parent)
        let resolved = File.resolved(place) ?? place
        guard (resolved + "/").hasPrefix(mountpoint.path == "/" ? "/" : mountpoint.path + "/") else { return }
        throw CommandError(
            "the cache directory \(parent) would be below the mountpoint \(mountpoint.path); "
                + "set cache-dir to a directory elsewhere")
    }

    /// The directory, or what is there of the way to it: it is made by the first mount.
    static func nearest(to directory: String) -> String {
        var place = directory
        while access(place, F_OK) != 0, let slash = place.lastIndex(of: "/"), slash > place.startIndex {
            place = String(place[..<slash])
        }
        return place
    }

    /// The nearest directory above `path` in which somebody other than its user and root can put another directory in the
    /// place of what leads to it, and who that is; nil when there is none.
    static func exposed(
        _ path: String, to user: UInt32 = LocalFileStatus.ourUser, in space: UserNameSpace = .current
    ) -> String? {
        var place = File.resolved(path) ?? path
        while let slash = place.lastIndex(of: "/") {
            let entry = place
            place = slash == place.startIndex ? "/" : String(place[..<slash])
            guard let above = try? LocalFileStatus(of: place) else { return nil }
            // Of a container's users outside, the owner is mostly the machine's root.
            if !above.isTrusted(by: user), !above.isOwnerUnmapped(at: place, space) {
                return "user \(above.owner) can replace files in \(place)"
            }
            // Where the sticky bit is, an entry is its owner's alone.
            let isSticky = above.permissions & 0o1000 != 0
            let isSafe = isSticky && (try? LocalFileStatus(of: entry))?.isTrusted(by: user) ?? true
            if above.permissions & 0o002 != 0, !isSafe {
                return "any user can replace files in \(place)"
            }
            if place == "/" { return nil }
        }
        return nil
    }

    /// What is wrong with so few free bytes on the disk, if they are too few for anything to be written.
    static func lack(of free: Int64, at path: String, _ settings: MountSettings) -> CommandError? {
        guard free <= settings.freeSpace else { return nil }
        return CommandError(
            "the disk of \(path) has \(ByteSize.format(free)) free, and \(ByteSize.format(settings.freeSpace)) must stay free "
                + "(free-space); make room, or set another cache-dir")
    }

    /// Where the directories of all mounts are; nil without a home.
    static func parent(of request: MountRequest) -> String? {
        request.settings.cacheDirectory ?? CacheLocation.userDirectory(environment: request.environment)
    }

    /// A home directory that does not exist is not for pailfs to make.
    static func requireHome(_ request: MountRequest) throws(CommandError) {
        guard request.settings.cacheDirectory == nil, request.environment["XDG_CACHE_HOME"]?.hasPrefix("/") != true,
            let home = request.environment["HOME"], access(home, F_OK) != 0, errno == ENOENT
        else { return }
        throw CommandError(
            "the home directory \(home) does not exist; set cache-dir, or HOME to a directory that exists")
    }

    static let noParent = CommandError(
        "the cache needs a home directory or cache-dir; set cache-dir")

    /// What is kept in a database of the directory, made by `open`. One that is damaged, another program's or newer than this
    /// one holds nothing that the bucket has not: it is made anew.
    func cache<Cache>(
        _ name: String, migrations: [String], logger: Logger, _ open: (Database) throws(SQLiteError) -> Cache
    ) throws(CommandError) -> (Database, Cache) {
        let file = path + "/" + name
        var options = Database.Options()
        options.remembersDamage = true
        options.shrinks = true
        options.application = Self.cacheMark
        func attempt() throws(SQLiteError) -> (Database, Cache) {
            let database = try Database(.file(file), options: options, migrations: migrations)
            // On a disk that is full already it goes without.
            try? database.takeHeadroom()
            do throws(SQLiteError) { return (database, try open(database)) } catch {
                database.close()
                throw error
            }
        }
        do throws(SQLiteError) {
            do throws(SQLiteError) { return try attempt() } catch {
                switch error.kind {
                case .corrupt, .newerSchema: break
                case .full, .inputOutput, .busy, .constraint, .cannotOpen, .readOnly, .outOfMemory, .closed, .misuse:
                    throw error
                }
                logger.warning(
                    "a cache cannot be used; pailfs starts with an empty one",
                    metadata: ["file": "\(file)", "reason": "\(error)"])
                Database.remove(file)
                return try attempt()
            }
        } catch { throw unusable(error.description) }
    }

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
        do throws(JournalingError) { return try Journal(path: path + "/journal.db", stop: stop) } catch {
            throw CommandError(error.description)
        }
    }

    /// "pail" in ASCII, and c.
    private static let cacheMark: Int32 = 0x7061_6963

    private static let stopVariable = "PAILFS_STOP_POINT"

    /// Most bytes of the cache's size that what is known of names takes.
    static func metadataShare(of size: Int64) -> Int64 { size / 4 }

    /// The quota on what is kept here: the databases count too, with room to grow until they are looked at again.
    func ledger(limit: Int64, floor: Int64, time: any TimeSource) -> SpaceLedger {
        let databases = DatabaseSpace(directory: path, growth: min(limit / 16, 16 << 20), time: time)
        return SpaceLedger(
            limit: limit, floor: floor, commitShare: min(limit / 4, 256 << 20), overhead: { databases.bytes },
            freeSpace: { [path] in (try? Directory.space(at: path).free) ?? 0 })
    }

    func unusable(_ reason: String) -> CommandError { Self.unusable(path, reason) }

    private static func unusable(_ path: String, _ reason: String) -> CommandError {
        CommandError(
            "the cache directory \(path) cannot be used: \(reason); make it writable and make room, or set another cache-dir"
        )
    }
}
