import Basics
import FileSystem
import Glibc
import HTTP
import ObjectStorage

/// One `pailfs cp`: its places, the stores that they need, and the copies, several at the same time.
///
/// After a crash: see `CopyJournal`.
struct CopyRun {
    struct Options: Sendable {
        var storeOptions: [String] = []
        var rules = CopyRules()
        var isRecursive = false
        /// Files copied at the same time.
        var jobs = 8
        var isQuiet = false
    }

    let options: Options
    let sources: [CopyEnd]
    let destination: CopyEnd
    /// As the command line has it.
    private let destinationText: String
    let sessions = CopySessions()

    init(_ paths: [String], _ options: Options) throws(CommandError) {
        self.options = options
        destinationText = paths[paths.count - 1]
        sources = try paths.dropLast().map { (text) throws(CommandError) in
            try CopyEnd(source: text, options: options.storeOptions, isTree: options.isRecursive)
        }
        destination = try CopyEnd(destination: destinationText, options: options.storeOptions)
        for (text, source) in zip(paths, sources) { try check(source, text) }
        if sources.count > 1 { try requireDirectory() }
        if destination.target == nil, !options.rules.headers.isEmpty || options.rules.storageClass != nil {
            throw CommandError("--header and --class are for objects, and \(destinationText) is local; leave them out")
        }
    }

    private func check(_ source: CopyEnd, _ text: String) throws(CommandError) {
        let isAlone = sources.count == 1 && !options.isRecursive && !options.rules.updates
        switch (source, destination) {
        case (.local, .local), (.local, .standard), (.standard, .local), (.standard, .standard):
            throw CommandError("neither \(text) nor \(destinationText) is in a bucket; use cp(1)")
        case (.stored, .standard) where !isAlone:
            throw CommandError("standard output takes one object, without -r and --update")
        case (.standard, _) where !isAlone:
            throw CommandError("standard input is one file; copy it alone, without -r and --update")
        case (.standard, _) where destination.isDirectory:
            throw CommandError("standard input has no name; write the whole key instead of \(destinationText)")
        default: break
        }
        if !options.isRecursive, source.isTree {
            throw CommandError("\(text) is a directory, which is many objects; use -r to copy what is in it")
        }
    }

    private func requireDirectory() throws(CommandError) {
        guard !destination.isDirectory else { return }
        throw CommandError("\(destinationText) is not a directory; write a slash at its end to make one")
    }

    func run() throws(CommandError) {
        switch (sources[0], destination) {
        case (.standard, .stored(let there)): try copyInput(to: there)
        case (.stored(let from), .standard): try copyOutput(of: from)
        default: try copyFiles()
        }
    }

    // MARK: Files and objects

    private func copyFiles() throws(CommandError) {
        let target = try destination.target.map { (target) throws(CommandError) in try sessions.session(for: target) }
        var found: [(source: CopySource, session: ObjectStoreSession?)] = []
        for end in sources { found += try expand(end) }
        if found.count > 1 { try requireDirectory() }
        let isSingle = found.count == 1 && !found[0].source.isTree
        let into =
            found.count > 1 || (isSingle ? destination.isDirectory : destinationText.hasSuffix("/"))
        guard let anySession = target ?? found[0].session else { preconditionFailure("neither place is in a bucket") }
        var context = CopyContext()
        context.rules = options.rules
        context.journal = options.rules.isDry ? nil : try openJournal(anySession.request)
        if let target { context.present = try present(context.journal, in: target) }
        let (moves, isUpload) = (target.map { [$0] } ?? found.compactMap(\.session), target != nil)
        context.tally = CopyTally { moves.reduce(0) { $0 + (isUpload ? $1.traffic.sent : $1.traffic.received) } }
        let directories = LocalDirectoryMaker(CopyPlan.withoutSlash(destination.path).description)
        var parts: [CopyEngine.Part] = []
        for (source, session) in found {
            parts.append(try part(source, session, target, context, directories, into: into))
        }
        defer { destination.target?.noteChange(of: isSingle && target != nil ? key(of: parts) : nil) }
        let engine = CopyEngine(context: context, jobs: options.jobs, isSingle: isSingle)
        let isShown = ProgressLine.isTerminal && !options.isQuiet && !options.rules.isDry
        var failure: ObjectStoreError?
        ProgressLine.watch(isShown: isShown, { [tally = context.tally] in tally.progress(after: $0, $1) }) {
            failure = anySession.perform { [parts] () async -> ObjectStoreError? in
                async let counted: Void = isShown ? engine.count(parts) : ()
                do throws(ObjectStoreError) { try await engine.run(parts) } catch { return error }
                await counted
                return nil
            }
        }
        if target == nil, !options.rules.isDry { directories.sync() }
        try finish(context, failure, readers: found.compactMap(\.session), target)
    }

    private func key(of parts: [CopyEngine.Part]) -> ObjectKey? {
        var walk = parts[0].walk as? SingleWalk
        guard case .item(let item)? = walk?.next() else { return nil }
        let name = parts[0].operation.destination(of: item)
        return name.isEmpty ? nil : ObjectKey(name)
    }

    private func finish(
        _ context: CopyContext, _ failure: ObjectStoreError?, readers: [ObjectStoreSession],
        _ target: ObjectStoreSession?
    ) throws(CommandError) {
        let failures = context.tally.failures
        context.journal?.close(isComplete: failure == nil && failures.isEmpty)
        for (name, reason) in failures {
            Entry.say("pailfs: not copied: \(Output.text(name)): \(reason)")
        }
        if let failure {
            let isOfReading = [.get, .head, .list].contains(failure.operation)
            let session = isOfReading ? readers.first ?? target : target ?? readers.first
            throw session?.problem(failure) ?? CommandError(failure.message)
        }
        let count = context.tally.items
        if !failures.isEmpty {
            throw CommandError("\(failures.count) of \(StatusText.count(count, "file")) were not copied")
        }
        guard count > 0 else { throw CommandError("there is nothing to copy; check the names of the sources") }
    }

    // MARK: Sources

    /// A source after its pattern is expanded.
    private struct CopySource {
        let end: CopyEnd
        /// A key, a prefix or a path.
        let path: ByteString
        let isTree: Bool
    }

    private func expand(
        _ end: CopyEnd
    ) throws(CommandError) -> [(source: CopySource, session: ObjectStoreSession?)] {
        guard case .stored(let target) = end else {
            return [(CopySource(end: end, path: end.path, isTree: options.isRecursive && end.isTree), nil)]
        }
        let session = try sessions.session(for: target)
        let path = target.path
        guard target.mount == nil, PathPattern.isPattern(path) else {
            return [(try source(end, path, session), session)]
        }
        let keys = try session.answer(inTime: false) { store async throws(ObjectStoreError) -> [ByteString] in
            // A key may have such characters itself.
            if !path.hasSuffix("/"), try await store.headIfPresent(ObjectKey(path)) != nil { return [path] }
            return try await store.keys(matching: path)
        }
        let wanted = keys.filter { options.isRecursive || !$0.hasSuffix("/") }
        guard !wanted.isEmpty else { throw CommandError("\(target.request.url) matches no key; check the pattern") }
        return wanted.map { (CopySource(end: end, path: $0, isTree: $0.hasSuffix("/")), session) }
    }

    /// A URL or a path in a mount; with -r, all keys below it if there are any.
    private func source(
        _ end: CopyEnd, _ path: ByteString, _ session: ObjectStoreSession
    ) throws(CommandError) -> CopySource {
        guard options.isRecursive else { return CopySource(end: end, path: path, isTree: false) }
        if path.isEmpty || path.hasSuffix("/") || end.target?.isDirectory == true {
            return CopySource(end: end, path: path, isTree: true)
        }
        let prefix = path + "/"
        let isTree = try session.answer { store async throws(ObjectStoreError) in
            let page = try await store.list(ListRequest(prefix: prefix, limit: 1))
            return !page.isEmpty || page.next != nil
        }
        return CopySource(end: end, path: path, isTree: isTree)
    }

    private func part(
        _ source: CopySource, _ session: ObjectStoreSession?, _ target: ObjectStoreSession?, _ context: CopyContext,
        _ directories: LocalDirectoryMaker, into: Bool
    ) throws(CommandError) -> CopyEngine.Part {
        // What a pattern or a list of sources names goes into the destination under its own name.
        let given =
            source.isTree && PathPattern.isPattern(source.end.path) ? CopyPlan.withoutSlash(source.path) : source.path
        let beginning = CopyPlan.beginning(of: given, isTree: source.isTree, into: into)
        let walk: any CopyWalk
        if let session {
            guard !source.path.isEmpty || source.isTree else {
                throw CommandError("\(session.request.url) names no object; write scheme://bucket/key, or use -r")
            }
            let prefix = source.path.isEmpty || source.path.hasSuffix("/") ? source.path : source.path + "/"
            walk =
                source.isTree
                ? ListedWalk(
                    session.store, prefix: prefix, beginning: beginning, followsLinks: options.rules.followsLinks)
                : SingleWalk(CopyItem(source: .object(ObjectKey(source.path), nil), name: beginning))
        } else {
            do throws(ObjectStoreError) {
                walk = try LocalWalk(
                    source.path.description, beginning: beginning, followsLinks: options.rules.followsLinks)
            } catch { throw CommandError(error.message) }
        }
        return CopyEngine.Part(
            walk: walk, operation: operation(session, target, context, directories), sourceLabel: source.end.label,
            destinationLabel: destination.label)
    }

    private func operation(
        _ session: ObjectStoreSession?, _ target: ObjectStoreSession?, _ context: CopyContext,
        _ directories: LocalDirectoryMaker
    ) -> any CopyOperation {
        let root = destination.path
        switch (session, target) {
        case (nil, let target?):
            return UploadOperation(
                store: target.store, root: root, options: target.commitOptions, types: .ofSystem, context: context)
        case (let session?, nil):
            return DownloadOperation(
                store: session.store, root: CopyPlan.withoutSlash(root).description, umask: Self.umask,
                directories: directories, context: context)
        case (let session?, let target?):
            let route = CopyRoute(from: session, to: target)
            return StoreCopyOperation(
                reader: session.store, store: route.target.store, bucket: route.bucket,
                isOfOneProvider: route.isOfOneProvider, root: root, context: context)
        case (nil, nil): preconditionFailure("neither place is in a bucket")
        }
    }

    /// umask(2) reads it only by setting it.
    private static var umask: UInt16 {
        let mask = Glibc.umask(0o077)
        Glibc.umask(mask)
        return UInt16(mask)
    }
}
