import Basics
import FileSystem
import Glibc
import ObjectStorage

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
        var info: ObjectInfo?
        if listed == nil {
            let found = try await store.head(key, condition: nil)
            info = found
            try found.requireNoLink(key)
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
            if try await CopyComparison.isSame(
                before, as: found, key: key, in: store, open: { () throws(FileError) in try File(path) })
            {
                context.tally.skip(version.size)
                return .same
            }
        }
        if before != nil, context.rules.isExclusive { throw ObjectStoreError(existing: name) }
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

extension ObjectInfo {
    /// Throws: when the object is a symbolic link by its headers, as in the s3fs family. Its bytes are not those of a file.
    func requireNoLink(_ key: ObjectKey) throws(ObjectStoreError) {
        guard AttributeCodec.isLink(metadata) else { return }
        throw ObjectStoreError(
            ofFile: "\(SafeText.of(key.description)) is a symbolic link; mount the bucket and use cp(1) to follow it",
            errno: ELOOP, .get)
    }
}

extension LocalFileStatus {
    /// Identifies the state of a file that was downloaded.
    var asResult: String { "\(size):\(AttributeCodec.text(modified))" }
}
