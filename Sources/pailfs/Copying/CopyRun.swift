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
        /// Whether the copies are to have an ACL, which is among the options of the store.
        var setsACL = false
        /// The version of the one source; nil is its latest.
        var version: String?

        /// Whether the copies are to have what files do not.
        var changesObjects: Bool { !rules.headers.isEmpty || rules.storageClass != nil || setsACL }
    }

    let options: Options
    let sources: [CopyEnd]
    let destination: CopyEnd
    /// As the command line has it.
    let destinationText: String
    let sessions = CopySessions()

    init(_ paths: [String], _ options: Options) throws(CommandError) {
        self.options = options
        destinationText = paths[paths.count - 1]
        sources = try paths.dropLast().map { (text) throws(CommandError) in
            try CopyEnd(
                source: text, options: options.storeOptions, isTree: options.isRecursive,
                mayBeDeleted: options.version != nil)
        }
        destination = try CopyEnd(destination: destinationText, options: options.storeOptions)
        for (text, source) in zip(paths, sources) { try check(source, text) }
        if sources.count > 1 { try requireDirectory() }
        if destination.target == nil, options.changesObjects {
            throw CommandError(
                "--header, --class and --acl are for objects, and \(destinationText) is local; leave them out")
        }
    }

    private func check(_ source: CopyEnd, _ text: String) throws(CommandError) {
        if options.version != nil, source.target == nil {
            throw CommandError("--version names a version of an object, and \(text) is a local file; leave it out")
        }
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
        var found: [CopySource] = []
        for end in sources { found += try expand(end) }
        if found.count > 1 { try requireDirectory() }
        let isSingle = found.count == 1 && !found[0].isTree
        let into =
            found.count > 1 || (isSingle ? destination.isDirectory : destinationText.hasSuffix("/"))
        guard let anySession = target ?? found[0].session else { preconditionFailure("neither place is in a bucket") }
        var context = CopyContext()
        context.rules = options.rules
        context.journal = options.rules.isDry ? nil : try openJournal(anySession.request)
        var isComplete = false
        defer { context.journal?.close(isComplete: isComplete) }
        if let target { context.present = try present(context.journal, in: target) }
        context.tally = CopyTally(moved: moved(target, found))
        let directories = LocalDirectoryMaker(CopyPlan.withoutSlash(destination.path).description)
        let parts = try found.map { (source) throws(CommandError) in
            try part(source, target, context, directories, into: into)
        }
        defer { destination.target?.noteChange(of: isSingle && target != nil ? key(of: parts) : nil) }
        let engine = CopyEngine(context: context, jobs: options.jobs, isSingle: isSingle)
        let isShown = ProgressLine.isTerminal && !options.isQuiet && !options.rules.isDry
        var failure: ObjectStoreError?
        ProgressLine.watch(isShown: isShown, { [tally = context.tally] in tally.progress(after: $0, $1) }) {
            failure = anySession.perform { [context] () async -> ObjectStoreError? in
                async let counted: Void = isShown ? engine.count(parts) : ()
                do throws(ObjectStoreError) { try await engine.run(parts) } catch { return error }
                await counted
                if !context.tally.hasRepairable { await context.journal?.endTransfers(in: target?.store) }
                return nil
            }
        }
        if target == nil, !options.rules.isDry { directories.sync() }
        isComplete = failure == nil && !context.tally.hasRepairable
        try finish(context, failure, readers: found.compactMap(\.session), target)
    }

    /// The bytes that the copy has sent into the destination's bucket or received from the sources', each of which may have several
    /// sources.
    private func moved(_ target: ObjectStoreSession?, _ found: [CopySource]) -> @Sendable () -> Int64 {
        if let traffic = target?.traffic { return { traffic.sent } }
        let all = found.compactMap(\.session?.traffic).map { (ObjectIdentifier($0), $0) }
        let traffic = Array(Dictionary(all, uniquingKeysWith: { first, _ in first }).values)
        return { traffic.reduce(0) { $0 + $1.received } }
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
}
