import Basics
import Journaling
import ObjectStorage
import Settings

/// The local directories of one mount: two, which may be the same.
///
/// `state` has data that must not be lost, and the lock of the mount. `cache` has data that can be fetched again: any program may
/// delete it, or a part of it, at any time. Each names the other in a file, so that a command finds both by either.
struct DirectoryPair: Sendable, Hashable {
    let state: String
    let cache: String

    /// Whether the cache lies in the state directory.
    var isOne: Bool { state == cache }
    var directories: [String] { isOne ? [state] : [state, cache] }

    var journal: String { state + "/journal.db" }
    var staging: String { state + "/staging" }
    var orphans: String { staging + "/orphans" }
    var blocks: String { cache + "/blocks" }

    init(state: String, cache: String) { (self.state, self.cache) = (state, cache) }

    /// The directories for the request's bucket and prefix.
    init(of request: MountRequest) throws(CommandError) {
        let parents = try Self.parents(request.settings, request.environment)
        let name = try Self.name(of: request)
        self.init(state: "\(parents.state)/\(name)", cache: "\(parents.cache)/\(name)")
    }

    /// The pair that `directory` belongs to.
    init(existing directory: String) {
        if !Journal.exists(at: directory + "/journal.db"), let state = Self.named(in: directory + Self.stateName) {
            self.init(state: state, cache: directory)
        } else {
            self.init(state: directory, cache: Self.named(in: directory + Self.cacheName) ?? directory)
        }
    }

    /// The pair of the request, or a former directory that the next mount takes over.
    static func found(for request: MountRequest) throws(CommandError) -> DirectoryPair {
        let place = try DirectoryPair(of: request)
        if Journal.exists(at: place.journal) { return place }
        let former = try FormerDirectory.all(of: request, place).first
        return former.map { DirectoryPair(state: $0.path, cache: $0.path) } ?? place
    }

    /// Whether `directory` belongs to a mount.
    static func isOne(_ directory: String) -> Bool {
        func isThere(_ name: String) -> Bool { (try? LocalFileStatus(of: directory + name)) ?? nil != nil }
        return isThere("/lock") && (Journal.exists(at: directory + "/journal.db") || isThere(stateName))
    }

    static func name(of request: MountRequest) throws(CommandError) -> String {
        let found: FoundStore
        do { found = try request.foundStore() } catch { throw CommandError(error, request) }
        return CacheLocation.name(
            scheme: request.scheme.rawValue, endpoint: found.endpoint ?? request.settings.endpoint,
            account: found.account, bucket: request.bucket ?? "", prefix: request.prefix,
            asOf: request.settings.asOf)
    }

    /// The parent directories for all mounts.
    static func parents(
        _ settings: MountSettings, _ environment: [String: String]
    ) throws(CommandError) -> (state: String, cache: String) {
        let isRoot = LocalFileStatus.ourUser == 0
        func usual(_ kind: CacheLocation.Kind) -> String? {
            CacheLocation.directory(for: kind, environment: environment, isRoot: isRoot)
        }
        // With only one of the options, the other directory is where it was before there were two.
        guard let cache = settings.cacheDirectory ?? usual(.cache),
            let state = settings.stateDirectory ?? settings.cacheDirectory ?? usual(.state)
        else { throw CommandError("the cache needs a home directory or cache-dir; set cache-dir") }
        return (state, cache)
    }

    // MARK: The files that name the other directory

    private static let stateName = "/state"
    private static let cacheName = "/cache"

    /// Requires: both directories are locked.
    func nameEachOther() throws(FileError) {
        guard !isOne else {
            for name in [Self.stateName, Self.cacheName] { try File.remove(state + name) }
            return
        }
        for (directory, name, other) in [(cache, Self.stateName, state), (state, Self.cacheName, cache)]
        where Self.named(in: directory + name) != other {
            try File.writeAtomically(Array(other.utf8), to: directory + name)
        }
    }

    private static func named(in file: String) -> String? {
        guard let bytes = try? File(file).read(atMost: 8192) else { return nil }
        let path = String(decoding: bytes, as: UTF8.self)
        return path.hasPrefix("/") ? path : nil
    }
}
