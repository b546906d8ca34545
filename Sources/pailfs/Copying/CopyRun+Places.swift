import Basics
import FileSystem
import HTTP
import ObjectStorage
import Settings

extension CopyRun {
    // MARK: The journal

    /// Most objects of earlier processes that are looked at one by one.
    private static let fewObjects = 1000

    /// Identifies the command: the same copies, with the same properties.
    var identity: [String] {
        let places = (sources + [destination]).map { $0.identity.joined(separator: "\n") }
        let headers = options.rules.headers.map { "--header \($0.text)" }
        let version = options.version.map { ["--version \($0)"] } ?? []
        return places + headers + ["--class \(options.rules.storageClass ?? "")"] + version + options.storeOptions
    }

    /// The journal of this command; nil, with a warning, where this machine has no place for it.
    func openJournal(_ request: MountRequest) throws(CommandError) -> CopyJournal? {
        let directory: String
        do throws(CommandError) {
            directory = try DirectoryPair.parents(request.settings, request.environment).cache + "/copies"
        } catch {
            Entry.warn("an interrupted copy cannot be resumed: \(error.message)")
            return nil
        }
        do throws(FileError) {
            if let journal = try CopyJournal(in: directory, identity: identity) {
                return journal
            }
        } catch {
            Entry.warn("an interrupted copy cannot be resumed: \(error)")
            return nil
        }
        throw CommandError("another process makes this copy now; wait until it has ended")
    }

    /// The ETags of the objects that an earlier process has copied, as far as they are still there.
    func present(
        _ journal: CopyJournal?, in target: ObjectStoreSession
    ) throws(CommandError) -> [ByteString: String] {
        guard let done = journal?.doneBefore, !done.isEmpty else { return [:] }
        if done.count <= Self.fewObjects {
            let names = Array(done.keys)
            let etags = try target.answer(inTime: false) { store async throws(ObjectStoreError) in
                // An object that cannot be looked at is copied again.
                try await concurrently(names, width: 16) { (name) throws(ObjectStoreError) in
                    try? await store.head(ObjectKey(name), condition: nil).version.etag.text
                }
            }
            return Dictionary(zip(names, etags).compactMap { name, etag in etag.map { (name, $0) } }) { $1 }
        }
        var found: [ByteString: String] = [:]
        let common = CopyPlan.commonDirectory(of: done.keys)
        try target.pages(ListRequest(prefix: common)) { (page) throws(CommandError) in
            for object in page.objects where done[object.key.bytes] != nil {
                found[object.key.bytes] = object.version.etag.text
            }
            return true
        }
        return found
    }

    // MARK: Standard input and output

    func copyInput(to there: ObjectTarget) throws(CommandError) {
        let session = try sessions.session(for: there)
        let key = ObjectKey(there.path)
        var metadata = session.namedHeaders.completed(ObjectMetadata(), at: key)
        for change in options.rules.headers { change.apply(to: &metadata) }
        let rules = options.rules
        if rules.isDry {
            if rules.isExclusive {
                try perform(in: session, CopyTally()) { () async throws(ObjectStoreError) in
                    try await session.store.requireAbsent(key)
                }
            }
            return Output.line(naming: "- -> " + destination.label + key.bytes)
        }
        let limits = session.capabilities
        var request = PutRequest(key, metadata: metadata, storageClass: rules.storageClass)
        if rules.isExclusive, limits.putIfAbsent, limits.completionCondition { request.condition = .absent }
        defer { there.noteChange(of: key) }
        let upload = StreamUpload(store: session.store, options: session.commitOptions, descriptor: 0)
        let tally = CopyTally { [traffic = session.traffic] in traffic.sent }
        try perform(in: session, tally) { [request] () async throws(ObjectStoreError) in
            if rules.isExclusive { try await session.store.requireAbsent(key) }
            do throws(ObjectStoreError) {
                Entry.warn(of: try await upload.run(request).callback, key.bytes)
            } catch {
                if rules.isExclusive, error.kind == .preconditionFailed { throw ObjectStoreError(existing: key.bytes) }
                throw error
            }
        }
    }

    func copyOutput(of from: ObjectTarget) throws(CommandError) {
        let found = try expand(sources[0])
        guard found.count == 1, let session = found[0].session, let store = found[0].store else {
            throw CommandError(
                "\(from.request.url) matches \(found.count) keys, and standard output takes one object; "
                    + "write one of them")
        }
        guard !found[0].path.isEmpty else {
            throw CommandError("\(from.request.url) names no object; write scheme://bucket/key")
        }
        let key = ObjectKey(found[0].path)
        if options.rules.isDry { return Output.line(naming: sources[0].label + key.bytes + " -> -") }
        let tally = CopyTally { [traffic = session.traffic] in traffic.received }
        try perform(in: session, tally) { () async throws(ObjectStoreError) in
            let version = try await store.head(key, condition: nil).version
            tally.expect(version.size)
            tally.counted()
            try await StreamDownload(store: store, key: key, version: version).run()
        }
    }

    /// Runs a copy of one stream, with its progress on a terminal.
    private func perform(
        in session: ObjectStoreSession, _ tally: CopyTally,
        _ copy: @escaping @Sendable () async throws(ObjectStoreError) -> Void
    ) throws(CommandError) {
        var failure: ObjectStoreError?
        ProgressLine.watch(isShown: ProgressLine.isTerminal && !options.isQuiet, { tally.progress(after: $0, $1) }) {
            failure = session.perform { () async -> ObjectStoreError? in
                do throws(ObjectStoreError) { try await copy() } catch { return error }
                return nil
            }
        }
        if let failure { throw session.problem(failure) }
    }
}

extension ObjectStoreSession {
    /// The headers that files get for their names.
    var namedHeaders: NamedHeaders {
        NamedHeaders(types: request.settings.contentTypes, rules: request.settings.headerRules)
    }
}

extension MountSettings {
    /// The types of this system's table; without one, and where the store finds the types out, no name has a type.
    var contentTypes: ContentTypes {
        guard !uploadPolicy.detectsType, let table = try? File(ContentTypes.systemTable).read(atMost: 1 << 20) else {
            return ContentTypes()
        }
        return ContentTypes(table: table)
    }
}
