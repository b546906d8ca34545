import ArgumentParser
import Basics
import Commits
import HTTP
import ObjectStorage
import Settings

/// The arguments that the commands on objects have in common: an object, and the options for its store.
struct ObjectArguments: ParsableArguments {
    @Argument(help: "scheme://bucket/key, or a path in a mount") var url: String
    @OptionGroup var location: StoreOptions

    /// The object of the URL or path; with `whole`, and everything below it. A `new` path in a mount need not exist. A command
    /// that is `changing` it is refused in a read-only mount.
    func object(
        whole: Bool = false, new: Bool = false, following: Bool = true, changing: Bool = false
    ) throws(CommandError) -> (store: ObjectStoreSession, key: ObjectKey) {
        let (store, path) = try location.open(
            url, whole: whole, new: new, following: following, changing: changing)
        return (store, try key(path))
    }

    func key(_ path: ByteString) throws(CommandError) -> ObjectKey {
        guard !path.isEmpty else { throw CommandError("\(url) names no object; write scheme://bucket/key") }
        return ObjectKey(path)
    }
}

/// The options for a command's store, the same as for `mount`.
struct StoreOptions: ParsableArguments {
    @Option(
        name: [.customShort("o", allowingJoined: true)],
        help: ArgumentHelp("Options, as for mount.", valueName: "name=value,..."))
    var options: [String] = []

    /// The store of the bucket of a URL or of a path in a mount, checked to exist, and the rest, which is a key or a prefix: a
    /// slash at its end belongs to it. For a `hastened` command see `MountRequest.hastened`.
    func open(
        _ place: String, whole: Bool = false, new: Bool = false, following: Bool = true, changing: Bool = false,
        hastened: Bool = false
    ) throws(CommandError) -> (store: ObjectStoreSession, path: ByteString) {
        let target = try ObjectTarget(place, options: options, whole: whole, new: new, following: following)
        if changing { try target.requireWritable() }
        if changing, new { try target.requireRemoved(place) }
        let request = hastened ? target.request.hastened() : target.request
        return (try ObjectStoreSession(request, target: target), target.path)
    }
}

/// The bucket, or account, that a command works on. Requests are made from the command's one thread.
struct ObjectStoreSession: Sendable {
    let request: MountRequest
    let store: any ObjectStore
    /// The target that the session was opened for.
    let target: ObjectTarget?
    /// Counts the bytes of all bodies.
    let traffic = HTTPTraffic()
    private let pool: WorkerPool
    private let notice = SilenceNotice()

    /// If `checked`, proves first that the bucket exists and is open to these credentials. With `probes` every condition is sent,
    /// whether or not servers of the kind are known to honour it.
    init(
        _ request: MountRequest, checked: Bool = true, probes: Bool = false, target: ObjectTarget? = nil
    ) throws(CommandError) {
        (self.request, self.target) = (request, target)
        pool = WorkerPool(threads: 4, name: "pailfs-work")
        let logger = try LogTarget(request.settings, foreground: true).logger(request.settings)
        store =
            checked
            ? try Composition.openStore(
                request, at: target?.path ?? "", pool: pool, traffic: traffic, time: SystemTime(), logger: logger)
            : try Composition.makeStore(request, probes: probes, traffic: traffic, time: SystemTime(), logger: logger)
    }

    var capabilities: Capabilities { store.capabilities }
    var isAccount: Bool { request.bucket == nil }

    /// The result of requests to the store. Give it few at a time: they have one deadline together, unless `inTime` is false, for
    /// requests that copy bytes or are as many as a listing has pages.
    func answer<Value: Sendable>(
        inTime: Bool = true, _ body: @escaping @Sendable (any ObjectStore) async throws(ObjectStoreError) -> Value
    ) throws(CommandError) -> Value {
        try Composition.answer(request, pool, inTime: inTime, notice: notice) {
            [store] () async throws(ObjectStoreError) in
            try await body(store)
        }
    }

    /// The result of `body`, which runs on the session's threads for as long as it takes.
    func perform<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Value {
        WorkAnswer.wait(on: pool, body)
    }

    /// An error as the command reports it.
    func problem(_ error: ObjectStoreError) -> CommandError {
        if error.code == ObjectStoreError.localFile { return CommandError(error.message) }
        do throws(CommandError) {
            try answer { (_) async throws(ObjectStoreError) -> Void in throw error }
            return CommandError(error, request)
        } catch { return error }
    }

    /// How files are uploaded, by the options of the command.
    var commitOptions: CommitOptions {
        var options = CommitOptions()
        options.partSize = request.settings.partSize
        return options
    }

    /// Calls `body` with each page of a listing as soon as it has arrived, as long as `body` returns true.
    func pages(
        _ request: ListRequest, _ body: (ListingPage) throws(CommandError) -> Bool
    ) throws(CommandError) {
        var request = request
        var progress = ListingProgress()
        while true {
            let page = try answer { [request] store async throws(ObjectStoreError) in try await store.list(request) }
            do throws(ObjectStoreError) { try progress.take(page) } catch { throw CommandError(error, self.request) }
            guard try body(page), let next = page.next else { return }
            request.cursor = next
        }
    }
}
