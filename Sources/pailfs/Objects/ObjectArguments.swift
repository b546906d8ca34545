import ArgumentParser
import Basics
import ObjectStorage

/// What the commands on objects have in common: an object, and the options that find its store.
struct ObjectArguments: ParsableArguments {
    @Argument(help: "scheme://bucket/key, or a path in a mount") var url: String
    @OptionGroup var location: StoreOptions

    /// The object of the URL or path; with `whole`, and everything below it. `changing` it is refused in a mount that may not.
    func object(
        whole: Bool = false, following: Bool = true, changing: Bool = false
    ) throws(CommandError) -> (store: ObjectStoreSession, key: ObjectKey) {
        let (store, path) = try location.open(
            url, whole: whole, following: following, changing: changing)
        guard !path.isEmpty else { throw CommandError("\(url) names no object; write scheme://bucket/key") }
        return (store, ObjectKey(path))
    }
}

/// Where a command's store is, told as for `mount`.
struct StoreOptions: ParsableArguments {
    @Option(
        name: [.customShort("o", allowingJoined: true)],
        help: ArgumentHelp("Options, as for mount.", valueName: "name=value,..."))
    var options: [String] = []

    /// The store of the bucket of a URL or of a path in a mount, proved to be there, and the rest, which is a key or a
    /// prefix: a slash at its end belongs to it. For a `hastened` command see `MountRequest.hastened`.
    func open(
        _ place: String, whole: Bool = false, following: Bool = true, changing: Bool = false, hastened: Bool = false
    ) throws(CommandError) -> (store: ObjectStoreSession, path: ByteString) {
        let target = try ObjectTarget(place, options: options, whole: whole, following: following)
        if changing { try target.requireWritable() }
        let request = hastened ? target.request.hastened() : target.request
        return (try ObjectStoreSession(request, target: target), target.path)
    }
}

/// A bucket, or an account, while a command works on it. Requests are made from the command's one thread.
struct ObjectStoreSession: Sendable {
    let request: MountRequest
    let store: any ObjectStore
    /// What the session was opened for.
    let target: ObjectTarget?
    private let pool: WorkerPool
    private let notice = SilenceNotice()

    /// Proves first that the bucket is there and open to us, unless it is not `checked`. With `probes` every condition is sent,
    /// whether servers of the kind are known to keep it or not.
    init(
        _ request: MountRequest, checked: Bool = true, probes: Bool = false, target: ObjectTarget? = nil
    ) throws(CommandError) {
        (self.request, self.target) = (request, target)
        pool = WorkerPool(threads: 4, name: "pailfs-work")
        let logger = try LogTarget(request.settings, foreground: true).logger(request.settings)
        store =
            checked
            ? try Composition.openStore(request, at: target?.path ?? "", pool: pool, time: SystemTime(), logger: logger)
            : try Composition.makeStore(request, probes: probes, time: SystemTime(), logger: logger)
    }

    var capabilities: Capabilities { store.capabilities }
    var isAccount: Bool { request.bucket == nil }

    /// What requests to the store answer. Give it few at a time: there is one deadline for all of them, unless they copy bytes
    /// or are as many as the store has pages, and so need not be `inTime`.
    func answer<Value: Sendable>(
        inTime: Bool = true, _ body: @escaping @Sendable (any ObjectStore) async throws(ObjectStoreError) -> Value
    ) throws(CommandError) -> Value {
        try Composition.answer(request, pool, inTime: inTime, notice: notice) {
            [store] () async throws(ObjectStoreError) in
            try await body(store)
        }
    }

    /// The pages of a listing, each as soon as it is here, as long as `body` wants another.
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
