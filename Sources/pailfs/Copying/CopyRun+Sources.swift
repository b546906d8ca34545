import Basics
import FileSystem
import Glibc
import Metadata
import ObjectStorage
import Settings

extension CopyRun {
    /// A source after its pattern is expanded.
    struct CopySource {
        let end: CopyEnd
        /// A key, a prefix or a path.
        let path: ByteString
        let isTree: Bool
        /// nil for a local path.
        var session: ObjectStoreSession?
        /// Whether a pattern stands for it.
        var isMatch = false
        /// Of an object that is not to be read as it is now.
        var version: String?

        /// Reads the source.
        var store: (any ObjectStore)? {
            guard let session else { return nil }
            return version.map { PastStore(session.store, .version($0)) } ?? session.store
        }
    }

    /// The source, or those that its pattern stands for.
    func expand(_ end: CopyEnd) throws(CommandError) -> [CopySource] {
        guard case .stored(let target) = end else {
            return [CopySource(end: end, path: end.path, isTree: options.isRecursive && end.isTree)]
        }
        let session = try sessions.session(for: target)
        let path = target.path
        if let version = options.version {
            guard !path.isEmpty else {
                throw CommandError("\(target.request.url) names no object; write scheme://bucket/key")
            }
            let versions = try ObjectVersions(session, Output.text(end.label + path))
            guard try !versions.version(version, of: ObjectKey(path)).isDeleteMarker else {
                throw CommandError("the version \(version) is a delete marker, which has no content")
            }
            var source = CopySource(end: end, path: path, isTree: false, session: session)
            source.version = version
            return [source]
        }
        guard target.mount == nil, PathPattern.isPattern(path) else { return [try source(end, path, session)] }
        let isRecursive = options.isRecursive
        let keys = try session.answer(inTime: false) { store async throws(ObjectStoreError) -> [ByteString]? in
            // A key or prefix may have such characters itself.
            if !path.hasSuffix("/"), try await store.headIfPresent(ObjectKey(path)) != nil { return nil }
            if isRecursive, try await store.hasKeys(below: path) { return nil }
            return try await store.keys(matching: path)
        }
        guard let keys else { return [try source(end, path, session)] }
        let wanted = keys.filter { isRecursive || !$0.hasSuffix("/") }
        guard !wanted.isEmpty else { throw CommandError("\(target.request.url) matches no key; check the pattern") }
        return wanted.map { key in
            CopySource(end: end, path: key, isTree: key.hasSuffix("/"), session: session, isMatch: true)
        }
    }

    /// A URL or a path in a mount; with -r, all keys below it if there are any.
    private func source(
        _ end: CopyEnd, _ path: ByteString, _ session: ObjectStoreSession
    ) throws(CommandError) -> CopySource {
        var isTree = options.isRecursive
        if isTree, !path.isEmpty, !path.hasSuffix("/"), end.target?.isDirectory != true {
            isTree = try session.answer { store async throws(ObjectStoreError) in
                try await store.hasKeys(below: path)
            }
        }
        return CopySource(end: end, path: path, isTree: isTree, session: session)
    }

    func part(
        _ source: CopySource, _ target: ObjectStoreSession?, _ context: CopyContext,
        _ directories: LocalDirectoryMaker, into: Bool
    ) throws(CommandError) -> CopyEngine.Part {
        // The key of a directory ends in a slash, also where a pattern or a path without one has found it.
        let isNamed = source.isMatch || source.end.isNamedDirectory
        let given = source.isTree && isNamed ? CopyPlan.withoutSlash(source.path) : source.path
        let beginning = CopyPlan.beginning(of: given, isTree: source.isTree, into: into)
        let root = CopyPlan.path(destination.path, beginning)
        return CopyEngine.Part(
            walk: try walk(source, beginning), operation: try operation(source, target, context, directories, root),
            sourceLabel: source.end.label, destinationLabel: destination.label)
    }

    private func walk(_ source: CopySource, _ beginning: ByteString) throws(CommandError) -> any CopyWalk {
        guard let session = source.session, let target = source.end.target else {
            do throws(ObjectStoreError) {
                return try LocalWalk(
                    source.path.description, beginning: beginning, followsLinks: options.rules.followsLinks)
            } catch { throw CommandError(error.message) }
        }
        guard source.isTree else {
            guard !source.path.isEmpty else {
                throw CommandError("\(target.request.url) names no object; write scheme://bucket/key, or use -r")
            }
            return SingleWalk(CopyItem(source: .object(ObjectKey(source.path), nil), name: beginning))
        }
        // In a bucket, a copied link stays a link.
        let hasLinks = target.mount != nil && [.objects, .native].contains(target.request.settings.symlinks)
        return ListedWalk(
            session.store, prefix: Self.prefix(source), beginning: beginning,
            followsLinks: options.rules.followsLinks,
            linkNames: hasLinks && destination.target == nil ? NameCodec() : nil)
    }

    /// The beginning of all keys of a tree.
    private static func prefix(_ source: CopySource) -> ByteString {
        source.path.isEmpty || source.path.hasSuffix("/") ? source.path : source.path + "/"
    }

    /// `place` is the key of the copy, or the prefix of the copies.
    private func operation(
        _ source: CopySource, _ target: ObjectStoreSession?, _ context: CopyContext,
        _ directories: LocalDirectoryMaker, _ place: ByteString
    ) throws(CommandError) -> any CopyOperation {
        let root = destination.path
        switch (source.session, target) {
        case (nil, let target?):
            return UploadOperation(
                store: target.store, root: root, options: target.commitOptions, named: target.namedHeaders,
                context: context)
        case (let session?, nil):
            return DownloadOperation(
                store: source.store ?? session.store, root: CopyPlan.withoutSlash(root).description, umask: Self.umask,
                directories: directories, context: context)
        case (let session?, let target?):
            let route = CopyRoute(from: session, to: target)
            if let version = source.version, route.isOfOneProvider, route.bucket == nil, place == source.path {
                let versions = try ObjectVersions(session, Output.text(source.end.label + source.path))
                try versions.requireNoneReplaced(in: try versions.all(of: ObjectKey(place)), byCopying: version)
            }
            var overlap: ByteString?
            if source.isTree, route.isOfOneProvider, route.bucket == nil {
                let prefix = Self.prefix(source)
                guard !CopyPlan.isEndless(from: prefix, to: place) else {
                    throw CommandError(
                        "\(destinationText) is below \(Output.text(source.end.label + prefix)), which would be copied "
                            + "into itself; choose another destination")
                }
                overlap = prefix
            }
            return StoreCopyOperation(
                reader: source.store ?? session.store, store: route.target.store, bucket: route.bucket,
                isOfOneProvider: route.isOfOneProvider, version: source.version, overlap: overlap, root: root,
                context: context)
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

extension ObjectStore {
    /// Whether any key begins with the path and a slash.
    func hasKeys(below path: ByteString) async throws(ObjectStoreError) -> Bool {
        let prefix = path.isEmpty || path.hasSuffix("/") ? path : path + "/"
        let page = try await list(ListRequest(prefix: prefix, limit: 1))
        return !page.isEmpty || page.next != nil
    }
}
