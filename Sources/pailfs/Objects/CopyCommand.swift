import ArgumentParser
import Basics
import ObjectStorage
import Settings

/// Copies an object. Within a provider the store makes the copy, and none of the bytes pass through this machine.
struct CopyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cp", abstract: "Copies an object, in its bucket or to another one, at the store.",
        discussion: """
            The copy gets the headers and metadata of the source; --header replaces one, and without a value removes \
            it. Between providers, and where a provider refuses to copy from one bucket to another, the bytes pass \
            through this machine, in pieces of 16 MiB. "pailfs uploads list" shows the upload that an interrupted copy \
            leaves.
            """)

    @Argument(help: "scheme://bucket/key, or a path in a mount") var source: String
    @Argument(help: "The same. If it is a directory or ends in a slash, the copy goes into it.")
    var destination: String
    @OptionGroup var location: StoreOptions
    @Option(
        help: ArgumentHelp(
            "Content-Type, Cache-Control, Content-Disposition, Content-Encoding, Content-Language or Expires.",
            valueName: "name: value"))
    var header: [String] = []
    @Option(name: .customLong("class"), help: "Storage class of the copy. Default: the class of the source.")
    var storageClass: String?
    @Flag(name: .short, help: "Fail if the destination exists.") var noClobber = false

    mutating func run() throws {
        let changes = try header.map(HeaderChange.init)
        let (session, from) = try location.open(source)
        guard session.target?.isDirectory != true else {
            throw CommandError("\(source) is a directory, which is many objects; use cp -r of the paths")
        }
        let there = try ObjectTarget(destination, options: location.options, new: true)
        try there.requireWritable()
        let route = try route(from: session, to: there)
        var to = there.path
        if to.hasSuffix("/") || to.isEmpty {
            to += ByteString(from.bytes.split(separator: UInt8(ascii: "/")).last ?? [])
        }
        guard !from.isEmpty, to != from || route.isElsewhere || !changes.isEmpty || storageClass != nil else {
            throw CommandError("\(destination) is the object itself; write another key for the copy")
        }
        let (source, target) = (ObjectKey(from), ObjectKey(to))
        let info = try session.answer { store async throws(ObjectStoreError) in
            try await store.head(source, condition: nil)
        }
        var metadata = info.metadata
        for change in changes { change.apply(to: &metadata) }
        let keepsHeaders = changes.isEmpty && (to != from || route.isElsewhere)
        var request = CopyRequest(
            CopySource(source, in: route.bucket, ifMatch: info.version.etag), to: target,
            metadata: keepsHeaders ? nil : metadata, condition: noClobber ? .absent : nil,
            storageClass: storageClass ?? (route.isOfOneProvider ? info.storageClass : nil))
        if noClobber,
            !(route.isOfOneProvider ? route.target.capabilities.copyCondition : route.target.capabilities.putIfAbsent)
        {
            request.condition = nil
            try refuseExisting(target, route.target)
        }
        // A copy that failed may still have been made.
        defer { there.noteChange(of: target) }
        do throws(CommandError) {
            if route.isOfOneProvider {
                try copy(request, info, metadata, route.target)
            } else {
                try carry(request, info, metadata, from: session, to: route.target)
            }
        } catch {
            if noClobber { try refuseExisting(target, route.target) }
            throw error
        }
    }

    /// The stores between which the bytes go.
    private struct Route {
        let target: ObjectStoreSession
        /// The source's bucket; nil where it is the target's.
        let bucket: OtherBucket?
        let isOfOneProvider: Bool

        var isElsewhere: Bool { bucket != nil || !isOfOneProvider }
    }

    private func route(from session: ObjectStoreSession, to there: ObjectTarget) throws(CommandError) -> Route {
        let (from, to) = (session.request, there.request)
        let isOfOneProvider = from.scheme == to.scheme && from.settings.endpoint == to.settings.endpoint
        if isOfOneProvider, from.bucket == to.bucket {
            return Route(target: session, bucket: nil, isOfOneProvider: true)
        }
        let target = try ObjectStoreSession(to, target: there)
        guard isOfOneProvider, let bucket = from.bucket, to.bucket != nil else {
            return Route(target: target, bucket: nil, isOfOneProvider: false)
        }
        let other = OtherBucket(bucket, region: from.settings.region, store: session.store)
        return Route(target: target, bucket: other, isOfOneProvider: true)
    }

    /// Copies through this machine: reads from one store and writes to the other.
    private func carry(
        _ request: CopyRequest, _ info: ObjectInfo, _ metadata: ObjectMetadata, from session: ObjectStoreSession,
        to target: ObjectStoreSession
    ) throws(CommandError) {
        // The kept properties of one provider mean nothing to another.
        var metadata = metadata
        metadata.kept = KeptProperties()
        let put = PutRequest(
            request.key, metadata: metadata, condition: request.condition, storageClass: request.storageClass)
        var source = request.source
        source.bucket = OtherBucket(session.request.bucket ?? "", region: nil, store: session.store)
        _ = try target.answer(inTime: false) { [source] store async throws(ObjectStoreError) in
            try await CarriedCopy(of: source, info.version, to: put, in: store).make(
                put: { (put, body) throws(ObjectStoreError) in try await store.put(put, body: body) },
                create: { (put) throws(ObjectStoreError) in try await store.createUpload(put) })
        }
    }

    private func refuseExisting(_ key: ObjectKey, _ session: ObjectStoreSession) throws(CommandError) {
        let exists = try session.answer { store async throws(ObjectStoreError) in
            do throws(ObjectStoreError) { _ = try await store.head(key, condition: nil) } catch {
                guard error.kind == .notFound else { throw error }
                return false
            }
            return true
        }
        if exists { throw CommandError("\(destination) already exists; leave out -n to replace it") }
    }

    private func copy(
        _ request: CopyRequest, _ info: ObjectInfo, _ metadata: ObjectMetadata, _ session: ObjectStoreSession
    ) throws(CommandError) {
        let limits = session.capabilities
        guard info.version.size > limits.largestCopy else {
            _ = try session.answer(inTime: false) { store async throws(ObjectStoreError) in
                try await store.copy(request)
            }
            return
        }
        guard limits.partCopy else {
            throw CommandError(
                "\(source) is larger than the \(ByteSize.format(limits.largestCopy)) this store copies at once; mount the bucket and use cp(1)"
            )
        }
        let key = request.key
        let upload = try session.answer { store async throws(ObjectStoreError) in
            try await store.createUpload(PutRequest(key, metadata: metadata, storageClass: request.storageClass))
        }
        do throws(CommandError) {
            var parts: [UploadedPart] = []
            let size = info.version.size
            let count = (size + limits.largestPart - 1) / limits.largestPart
            let step = (size + count - 1) / count
            for index in 0..<count {
                let range = index * step..<min(size, (index + 1) * step)
                parts.append(
                    try session.answer(inTime: false) { store async throws(ObjectStoreError) in
                        try await store.uploadPartCopy(
                            PartRequest(key, upload, number: Int(index) + 1), from: request.source, range: range)
                    })
            }
            _ = try session.answer(inTime: false) { [parts] store async throws(ObjectStoreError) in
                try await store.completeUpload(key, upload, parts: parts, condition: request.condition)
            }
        } catch {
            try? session.answer { store async throws(ObjectStoreError) in try await store.abortUpload(key, upload) }
            throw error
        }
    }
}

/// A header to set or remove, as the command line has it: `Name: value`.
private struct HeaderChange {
    private let header: StoredHeader
    private let value: String?

    init(_ text: String) throws(CommandError) {
        guard let colon = text.firstIndex(of: ":"), let header = StoredHeader(rawValue: text[..<colon].lowercased())
        else {
            throw CommandError(
                "--header \(text) is not a stored header; write one of "
                    + "\(StoredHeader.allCases.map(\.rawValue).joined(separator: ", ")), a colon and its value")
        }
        var value = text[text.index(after: colon)...].drop { $0 == " " }
        while value.last == " " { value.removeLast() }
        guard value.isEmpty || StoredHeader.canCarry(String(value)) else {
            throw CommandError("--header \(text): a header can have printable ASCII only")
        }
        (self.header, self.value) = (header, value.isEmpty ? nil : String(value))
    }

    func apply(to metadata: inout ObjectMetadata) { metadata[header] = value }
}
