import Basics
import Commits
import Digests
import FileSystem
import Glibc
import Metadata
import ObjectStorage

/// Copies single items from one place to another; several at the same time.
protocol CopyOperation: Sendable {
    /// The name of the copy in the destination, for the journal and for people.
    func destination(of item: CopyItem) -> ByteString
    /// Copies the item, unless `rules` leave it out.
    func copy(_ item: CopyItem) async throws(ObjectStoreError) -> CopyOutcome
}

/// What became of an item.
enum CopyOutcome: Sendable, Hashable {
    case copied
    /// The destination has it already.
    case same
    /// It would be copied.
    case planned
}

/// What the options of the command say about every item.
struct CopyRules: Sendable {
    var headers: [HeaderChange] = []
    var storageClass: String?
    /// Fails where the destination exists.
    var isExclusive = false
    /// Leaves out what is the same.
    var updates = false
    /// Changes nothing.
    var isDry = false
    var followsLinks = false
}

/// What all works of one command share. Any thread may use it.
struct CopyContext: Sendable {
    var rules = CopyRules()
    var journal: CopyJournal?
    var tally = CopyTally()
    /// The objects in the destination that the process before has made, with their ETags.
    var present: [ByteString: String] = [:]

    /// Whether an earlier process has copied this state of the source, and `result` is still there.
    func isDone(_ item: ByteString, source: String, result: String?) -> Bool {
        guard let done = journal?.doneBefore[item], let result else { return false }
        return done.source == source && done.result == result
    }

    func finished(_ item: ByteString, source: String, result: String) {
        journal?.add(.done(item: item, source: source, result: result))
    }
}

/// Whether two copies of something are the same.
enum CopyComparison {
    /// Whether a file has the bytes of an object: as many, and the same time of their change or the same checksum.
    static func isSame(
        _ file: String, _ status: LocalFileStatus, as info: ObjectInfo, key: ObjectKey, in store: any ObjectStore
    ) async throws(ObjectStoreError) -> Bool {
        guard status.kind == .file, status.size == info.version.size else { return false }
        if status.modified == modified(info) { return true }
        var parts = try await store.checksums(of: key, info.version)
        if parts.isEmpty, let whole = info.checksum { parts = [CheckedPart(size: info.version.size, whole)] }
        guard case .same = FileSums.compare(ByteString(file), with: parts) else { return false }
        return true
    }

    /// Whether two objects have the same bytes: as many, and the same ETag, checksum or stored time of their change.
    static func isSame(_ one: ObjectInfo, as other: ObjectInfo) -> Bool {
        guard one.version.size == other.version.size else { return false }
        if one.version.etag == other.version.etag { return true }
        if let checksum = one.checksum, checksum == other.checksum { return true }
        guard let time = one.metadata.user["mtime"] else { return false }
        return time == other.metadata.user["mtime"]
    }

    /// The time that a file made from the object has.
    static func modified(_ info: ObjectInfo) -> Timestamp {
        var attributes = Attributes(kind: .file, mtime: info.version.modified)
        AttributeCodec.decode(info.metadata, into: &attributes)
        return attributes.mtime
    }
}

extension ObjectStore {
    /// nil where there is no such object.
    func headIfPresent(_ key: ObjectKey) async throws(ObjectStoreError) -> ObjectInfo? {
        do throws(ObjectStoreError) { return try await head(key, condition: nil) } catch {
            guard error.kind == .notFound else { throw error }
            return nil
        }
    }

    /// Throws when the object exists.
    func requireAbsent(_ key: ObjectKey) async throws(ObjectStoreError) {
        if try await headIfPresent(key) != nil { throw ObjectStoreError(existing: key.bytes) }
    }
}

extension ObjectStoreError {
    /// The destination of a copy exists and must not be replaced.
    init(existing name: ByteString) {
        self.init(
            ofFile: "\(SafeText.of(name.description)) already exists; leave out -n to replace it", errno: EEXIST, .put)
    }
}

/// Uploads files.
struct UploadOperation: CopyOperation {
    let store: any ObjectStore
    let root: ByteString
    let options: CommitOptions
    let types: ContentTypes
    let context: CopyContext

    func destination(of item: CopyItem) -> ByteString { CopyPlan.path(root, item.name) }

    func copy(_ item: CopyItem) async throws(ObjectStoreError) -> CopyOutcome {
        let name = destination(of: item)
        guard !name.isEmpty else { throw ObjectStoreError(ofFile: "the copy has no name", errno: ENOENT, .put) }
        let key = ObjectKey(name)
        guard case .file(let path) = item.source else { return try await makeMarker(key) }
        let file = try SourceFile(path, followsLinks: true)
        if context.isDone(name, source: file.identity, result: context.present[name]) {
            context.tally.skip(file.size)
            return .same
        }
        if context.rules.updates, let info = try await store.headIfPresent(key),
            try await CopyComparison.isSame(path, file.status, as: info, key: key, in: store)
        {
            context.tally.skip(file.size)
            return .same
        }
        if context.rules.isDry { return .planned }
        var metadata = file.metadata(at: key, types: types)
        for change in context.rules.headers { change.apply(to: &metadata) }
        var request = PutRequest(
            key, metadata: metadata, condition: context.rules.isExclusive ? .absent : nil,
            storageClass: context.rules.storageClass)
        let isWhole = file.size <= options.largestPut(for: store.capabilities)
        if context.rules.isExclusive {
            try await store.requireAbsent(key)
            let limits = store.capabilities
            if !limits.putIfAbsent || !isWhole && !limits.completionCondition { request.condition = nil }
        }
        let upload = FileUpload(
            store: store, options: options, journal: context.journal, item: name,
            skipped: { [tally = context.tally] in tally.skip($0) })
        do throws(ObjectStoreError) {
            let answer = try await upload.send(file, as: request)
            context.finished(name, source: file.identity, result: answer.etag.text)
            return .copied
        } catch {
            if context.rules.isExclusive, error.kind == .preconditionFailed { throw ObjectStoreError(existing: name) }
            throw error
        }
    }

    /// An empty directory is its marker, where the store has markers.
    private func makeMarker(_ key: ObjectKey) async throws(ObjectStoreError) -> CopyOutcome {
        if try await store.headIfPresent(key) != nil { return .same }
        if context.rules.isDry { return .planned }
        _ = try await store.put(PutRequest(key), body: MemorySource([]))
        return .copied
    }
}

/// Downloads objects into local files.
struct DownloadOperation: CopyOperation {
    let store: any ObjectStore
    /// The path of the destination.
    let root: String
    let umask: UInt16
    /// Makes and checks the directories below `root`.
    let directories: LocalDirectoryMaker
    let context: CopyContext

    func destination(of item: CopyItem) -> ByteString { CopyPlan.path(ByteString(root), item.name) }

    func copy(_ item: CopyItem) async throws(ObjectStoreError) -> CopyOutcome {
        guard case .object(let key, let listed) = item.source else { preconditionFailure("a file is not downloaded") }
        let isMarker = item.isMarker
        if !item.name.isEmpty, let reason = CopyPlan.objection(toLocalName: item.name, isMarker: isMarker) {
            throw ObjectStoreError(ofFile: reason, errno: EINVAL, .get)
        }
        let name = destination(of: item)
        let path = name.description
        if isMarker {
            if context.rules.isDry { return .planned }
            try directories.make(item.name)
            return .copied
        }
        let before = try directories.status(of: item.name)
        if let before, before.kind != .file {
            throw ObjectStoreError(ofFile: "\(path) exists and is not a regular file", errno: EISDIR, .get)
        }
        if before != nil, context.rules.isExclusive { throw ObjectStoreError(existing: name) }
        var info: ObjectInfo?
        if listed == nil {
            let found = try await store.head(key, condition: nil)
            info = found
            context.tally.learn(found.version.size)
        }
        guard let version = listed?.version ?? info?.version else { preconditionFailure("an object has a version") }
        let source = "\(version.size):\(version.etag.text)"
        if context.isDone(name, source: source, result: before?.asResult) {
            context.tally.skip(version.size)
            return .same
        }
        if context.rules.updates, let before, before.size == version.size {
            let found = try await store.head(key, condition: .ifMatch(version.etag))
            info = found
            if try await CopyComparison.isSame(path, before, as: found, key: key, in: store) {
                context.tally.skip(version.size)
                return .same
            }
        }
        if context.rules.isDry { return .planned }
        if !item.name.isEmpty { try directories.make(CopyPlan.parent(of: item.name)) }
        let download = ObjectDownload(
            store: store, key: key, version: version, path: path, info: info,
            isExclusive: context.rules.isExclusive, umask: umask, journal: context.journal, item: name,
            skipped: { [tally = context.tally] in tally.skip($0) })
        let status = try await download.run()
        context.finished(name, source: source, result: status.asResult)
        return .copied
    }
}

extension LocalFileStatus {
    /// Identifies the state of a file that was downloaded.
    var asResult: String { "\(size):\(AttributeCodec.text(modified))" }
}
