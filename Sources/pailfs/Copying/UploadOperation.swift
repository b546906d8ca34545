import Basics
import Commits
import FileSystem
import Glibc
import ObjectStorage

/// Uploads files.
struct UploadOperation: CopyOperation {
    let store: any ObjectStore
    let root: ByteString
    let options: CommitOptions
    let named: NamedHeaders
    let context: CopyContext

    func destination(of item: CopyItem) -> ByteString { item.key(below: root) }

    func copy(_ item: CopyItem) async throws(ObjectStoreError) -> CopyOutcome {
        let name = destination(of: item)
        guard case .file(let path) = item.source else { return try await makeMarker(name) }
        guard !name.isEmpty else { throw ObjectStoreError(ofFile: "the copy has no name", errno: ENOENT, .put) }
        let key = ObjectKey(name)
        let file = try SourceFile(path, followsLinks: item.followsLink)
        if context.isDone(name, source: file.identity, result: context.present[name]) {
            context.tally.skip(file.size)
            return .same
        }
        if context.rules.updates, let info = try await store.headIfPresent(key),
            try await CopyComparison.isSame(file.status, as: info, key: key, in: store, open: { file.file })
        {
            context.tally.skip(file.size)
            return .same
        }
        if context.rules.isExclusive { try await store.requireAbsent(key) }
        if context.rules.isDry { return .planned }
        var metadata = file.metadata(at: key, named)
        for change in context.rules.headers { change.apply(to: &metadata) }
        var request = PutRequest(
            key, metadata: metadata, condition: context.rules.isExclusive ? .absent : nil,
            storageClass: context.rules.storageClass)
        let isWhole = file.size <= options.largestPut(for: store.capabilities)
        let limits = store.capabilities
        if !limits.putIfAbsent || !isWhole && !limits.completionCondition { request.condition = nil }
        let upload = FileUpload(
            store: store, options: options, journal: context.journal, item: name,
            skipped: { [tally = context.tally] in tally.skip($0) })
        do throws(ObjectStoreError) {
            let answer = try await upload.send(file, as: request)
            context.finished(name, source: file.identity, result: answer.etag.text)
            Entry.warn(of: answer.callback, name)
            return .copied
        } catch {
            if context.rules.isExclusive, error.kind == .preconditionFailed { throw ObjectStoreError(existing: name) }
            throw error
        }
    }

    /// An empty directory is its marker. The top of a bucket needs none.
    private func makeMarker(_ name: ByteString) async throws(ObjectStoreError) -> CopyOutcome {
        guard !name.isEmpty else { return .same }
        let key = ObjectKey(name)
        if try await store.headIfPresent(key) != nil { return .same }
        if context.rules.isDry { return .planned }
        _ = try await store.put(PutRequest(key), body: MemorySource([]))
        return .copied
    }
}

extension Entry {
    /// Warns of a callback that failed; the copy has succeeded.
    static func warn(of callback: CallbackResult?, _ name: ByteString) {
        guard let callback, callback.isFailure else { return }
        warn("\(SafeText.of(name.description)) is stored, but its callback failed: \(callback.text)")
    }
}
