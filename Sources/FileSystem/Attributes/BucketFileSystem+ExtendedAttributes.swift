package import Basics
import Blocks
import Commits
package import Metadata
import ObjectStorage
import Synchronization

/// `user.*` attributes, kept in object metadata, and `user.pailfs.*`: the standard headers of an object, which can be set, and
/// what pailfs knows. Attributes that only the store knows are in `+Properties`.
extension BucketFileSystem {
    private static let userPrefix = "user."
    private static let ownPrefix = "user.pailfs."
    /// The longest value of a standard header, in bytes. Stores refuse requests whose headers together have not much more.
    private static let longestHeader = 4096

    package func extendedAttribute(_ name: ByteString, of ino: InodeNumber) -> Outcome<ByteString> {
        // The kernel asks for security.capability before writes, `ls -l` for ACLs: neither exists here.
        guard let text = userName(name) else { return .failure(.noData, "only attributes named user.* are stored") }
        if let property = ObjectProperty(rawValue: text) { return self.property(property, of: ino) }
        if let known = KnownAttribute(rawValue: text) { return knownAttribute(known, of: ino) }
        if isBucket(ino), let name = UserMetadataName(text) { return bucketMetadata(name) }
        return withHeaders(of: ino) { headers throws(FileSystemError) in
            let header =
                Self.header(text).map { headers[$0] } ?? UserMetadataName(text).flatMap { $0.value(in: headers) }
            let value =
                header.map { ByteString($0) } ?? ExtendedAttributeCodec.decode(headers)[text].map { ByteString($0) }
            guard let value else { throw FileSystemError(.noData, "\(name) is not set") }
            return value
        }
    }

    /// XATTR_NAME_MAX and the byte that ends a name, limits.h.
    private static let longestName = 256

    /// Whether a call only looks for ACLs, as ls(1) does since coreutils 9.6, with less room than one name may need: it gets what
    /// is known.
    private func onlyLooks(_ ino: InodeNumber, room: Int) -> Bool {
        (1..<Self.longestName).contains(room) && policy.attributes == .listing && files.find(ino) == nil
            && ((try? knownHeaders(of: ino)) ?? nil) == nil
    }

    package func extendedAttributes(of ino: InodeNumber, room: Int) -> Outcome<[ByteString]> {
        if onlyLooks(ino, room: room) { return .success([]) }
        return withHeaders(of: ino) { [self] headers throws(FileSystemError) in
            var names = Set(ExtendedAttributeCodec.decode(headers).keys)
            names.formUnion(UserMetadataName.attributes(of: headers))
            if isFile(ino) {
                var set = StoredHeader.allCases.filter { headers[$0] != nil }
                // A type from the name is not listed: programs that copy attributes would find it missing elsewhere.
                if let key = try? key(of: ino), policy.namedHeaders.isOfTheName(headers.contentType, key) {
                    set.removeAll { $0 == .contentType }
                }
                names.formUnion(set.map { Self.ownPrefix + $0.rawValue })
            }
            return names.sorted().map { ByteString($0) }
        }
    }

    package func setExtendedAttribute(
        _ name: ByteString, of ino: InodeNumber, to value: ByteString, mode: ExtendedAttributeMode
    ) -> Outcome<Void> {
        guard let text = userName(name) else {
            return .failure(.notSupported, "only attributes named user.* are stored")
        }
        if text == "user.pailfs.refresh" {
            return later { [self] () async throws(FileSystemError) in try await refresh(ino) }
        }
        if let header = Self.header(text) { return setHeader(header, of: ino, to: value, mode) }
        if let property = ObjectProperty(rawValue: text) { return setProperty(property, of: ino, to: value) }
        if let name = UserMetadataName(text) { return setUserMetadata(name, of: ino, to: value, mode) }
        guard !text.hasPrefix(Self.ownPrefix) else {
            return .failure(.notPermitted, "\(text) shows the state of the object and cannot be set")
        }
        // Too large whatever other attributes there are: no request is needed.
        guard text.utf8.count + value.count <= store.capabilities.metadataBudget else {
            return .failure(
                .argumentTooLong,
                "\(text) has \(value.count) bytes; the store keeps \(store.capabilities.metadataBudget) bytes of metadata"
            )
        }
        return changeAttributes(of: ino) { attributes throws(FileSystemError) in
            try Self.require(mode, of: text, isSet: attributes[text] != nil)
            attributes[text] = value.bytes
        }
    }

    package func removeExtendedAttribute(_ name: ByteString, of ino: InodeNumber) -> Outcome<Void> {
        guard let text = userName(name) else { return .failure(.noData, "only attributes named user.* are stored") }
        if let header = Self.header(text) { return removeHeader(header, of: ino) }
        if let name = UserMetadataName(text) { return removeUserMetadata(name, of: ino) }
        guard ObjectProperty(rawValue: text) == nil, KnownAttribute(rawValue: text) == nil else {
            return .failure(.notPermitted, "\(text) shows the state of the object and cannot be removed")
        }
        return changeAttributes(of: ino) { attributes throws(FileSystemError) in
            guard attributes.removeValue(forKey: text) != nil else {
                throw FileSystemError(.noData, "\(text) is not set")
            }
        }
    }

    static func require(
        _ mode: ExtendedAttributeMode, of text: String, isSet: Bool
    ) throws(FileSystemError) {
        switch (mode, isSet) {
        case (.create, true): throw FileSystemError(.exists, "\(text) already exists")
        case (.replace, false): throw FileSystemError(.noData, "\(text) is not set")
        default: break
        }
    }

    private func userName(_ name: ByteString) -> String? {
        guard let text = String(validating: name.bytes, as: UTF8.self), text.hasPrefix(Self.userPrefix) else {
            return nil
        }
        return text
    }

    // MARK: Standard headers

    private static func header(_ text: String) -> StoredHeader? {
        text.hasPrefix(ownPrefix) ? StoredHeader(rawValue: String(text.dropFirst(ownPrefix.count))) : nil
    }

    private func setHeader(
        _ header: StoredHeader, of ino: InodeNumber, to value: ByteString, _ mode: ExtendedAttributeMode
    ) -> Outcome<Void> {
        guard let text = String(validating: value.bytes, as: UTF8.self), StoredHeader.canCarry(text),
            value.count <= Self.longestHeader
        else {
            return .failure(
                .invalid, "\(header.rawValue) is limited to \(Self.longestHeader) printable ASCII characters")
        }
        return change(ino) { [self] headers throws(FileSystemError) in
            try requireHeader(header, of: ino)
            try Self.require(mode, of: header.rawValue, isSet: shown(headers, of: ino)[header] != nil)
            headers[header] = text
        }
    }

    /// Removes a header. A file whose name gives it the header gets that one.
    private func removeHeader(_ header: StoredHeader, of ino: InodeNumber) -> Outcome<Void> {
        change(ino) { [self] headers throws(FileSystemError) in
            try requireHeader(header, of: ino)
            guard shown(headers, of: ino)[header] != nil else {
                throw FileSystemError(.noData, "the object has no \(header.rawValue)")
            }
            headers[header] = nil
            if let key = try? key(of: ino) { headers[header] = policy.namedHeaders.completed(headers, at: key)[header] }
        }
    }

    private func requireHeader(_ header: StoredHeader, of ino: InodeNumber) throws(FileSystemError) {
        guard isFile(ino) else { throw FileSystemError(.notSupported, "only files have \(header.rawValue)") }
        guard store.capabilities.headers.contains(header) else {
            throw FileSystemError(.notSupported, "this store does not keep \(header.rawValue)")
        }
    }

    private func isFile(_ ino: InodeNumber) -> Bool {
        (files.find(ino)?.attributes.kind ?? (try? entry(ino))?.attributes.kind) == .file
    }

    /// The headers with the type from the file's name, which the next commit of a dirty file carries.
    private func shown(_ headers: ObjectMetadata, of ino: InodeNumber) -> ObjectMetadata {
        guard files.find(ino)?.isDirty == true, let key = try? key(of: ino) else { return headers }
        return policy.namedHeaders.completed(headers, at: key)
    }

    // MARK: Headers

    /// Answers from headers, which are requested first if they are not known.
    private func withHeaders<Value: Sendable>(
        of ino: InodeNumber,
        _ answer: @escaping @Sendable (ObjectMetadata) throws(FileSystemError) -> Value
    ) -> Outcome<Value> {
        if let headers = (try? knownHeaders(of: ino)) ?? nil {
            do { return .success(try answer(shown(headers, of: ino))) } catch { return .ready(.failure(error)) }
        }
        return later { [self] () async throws(FileSystemError) in
            try await withOrWithoutName(ino) { () async throws(FileSystemError) in
                if let headers = try knownHeaders(of: ino) { return try answer(shown(headers, of: ino)) }
                return try await asking(about: ino) { () async throws(FileSystemError) in
                    try answer(shown(try await headers(of: ino), of: ino))
                }
            }
        }
    }

    /// Headers as the next commit would carry them, without a request; nil when only the store has them.
    private func knownHeaders(of ino: InodeNumber) throws(FileSystemError) -> ObjectMetadata? {
        if let file = files.find(ino) {
            let (changed, isUnlinked) = file.state.withLock { ($0.metadata, $0.life.isUnlinked) }
            if let changed { return changed }
            if isUnlinked { return ObjectMetadata() }
        }
        if let former = former(ino) { return former.headers ?? ObjectMetadata() }
        let entry = try entry(ino)
        let isKnown =
            entry.attributes.kind == .directory ? !mayHaveMarker(entry) : entry.attributes.version == nil
        if entry.isPending || isKnown {
            return try cached({ metadata throws(MetadataError) in try metadata.metadata(of: ino) }) ?? ObjectMetadata()
        }
        guard entry.attributes.headersKnown else { return nil }
        return try cached { metadata throws(MetadataError) in try metadata.metadata(of: ino) }
    }

    private func headers(of ino: InodeNumber) async throws(FileSystemError) -> ObjectMetadata {
        if let headers = try knownHeaders(of: ino) { return headers }
        _ = try await learnHeaders(of: try entry(ino))
        return try cached({ metadata throws(MetadataError) in try metadata.metadata(of: ino) }) ?? ObjectMetadata()
    }

    private func changeAttributes(
        of ino: InodeNumber, _ edit: @escaping @Sendable (inout [String: [UInt8]]) throws(FileSystemError) -> Void
    ) -> Outcome<Void> {
        change(ino) { headers throws(FileSystemError) in
            var attributes = ExtendedAttributeCodec.decode(headers)
            try edit(&attributes)
            ExtendedAttributeCodec.encode(attributes, into: &headers)
        }
    }

    func change(
        _ ino: InodeNumber, _ edit: @escaping @Sendable (inout ObjectMetadata) throws(FileSystemError) -> Void
    ) -> Outcome<Void> {
        later { [self] () async throws(FileSystemError) in
            try requireWritable()
            try await withOrWithoutName(ino) { () async throws(FileSystemError) in
                try await changingHeaders(of: ino) { () async throws(FileSystemError) in
                    let file = try await holdFile(ino)
                    defer { if let file { releaseInBackground(file) } }
                    if let file {
                        try await changeNow(ino, try await lock(file, unless: { $0.needsRelease }), edit)
                    } else {
                        try await changeNow(ino, nil, edit)
                    }
                }
            }
        }
    }

    /// `lock` is nil if the inode is no file.
    private func changeNow(
        _ ino: InodeNumber, _ lock: borrowing FileLock?, _ edit: (inout ObjectMetadata) throws(FileSystemError) -> Void
    ) async throws(FileSystemError) {
        let file: ActiveFile?
        switch lock {
        case .some(let lock): file = lock.file
        case nil: file = nil
        }
        if let file, !file.needsRelease {
            try await finishJobs(at: try key(of: ino))
            try await learnHeadersToKeep(of: file)
        }
        if file == nil, needsHeadersToChange(try entry(ino)) { _ = try await learnHeaders(of: try entry(ino)) }
        let before = try await headers(of: ino)
        var headers = before
        try edit(&headers)
        // Setting the same costs nothing.
        if headers == before { return }
        // Room for what every later commit carries, whatever time and owner the file has then. Fewer bytes than before are always
        // allowed.
        let cost = AttributeCodec.longestCost(headers, commitHeader: CommitOptions.commitHeader)
        guard cost <= store.capabilities.metadataBudget || AttributeCodec.cost(headers) <= AttributeCodec.cost(before)
        else {
            throw FileSystemError(
                .argumentTooLong,
                "the attributes need \(cost) bytes of metadata; the store keeps \(store.capabilities.metadataBudget)")
        }
        if let longest = store.capabilities.longestMetadataValue,
            let long = headers.user.first(where: { $0.value.utf8.count > longest && before.user[$0.key] != $0.value })
        {
            throw FileSystemError(
                .argumentTooLong,
                "\(long.key) needs \(long.value.utf8.count) bytes; the store keeps values of \(longest)")
        }
        guard let file, file.needsRelease else { return try await storeHeaders(headers, of: try entry(ino), file) }
        // Tried now: a refusal of the later commit would not reach this program.
        let tried = store.capabilities.longestTriedValue
        let untried = headers.user.filter { $0.value.utf8.count > tried && before.user[$0.key] != $0.value }
        if !untried.isEmpty, !file.state.withLock({ $0.life.isUnlinked }) {
            let key = try key(of: ino)
            try await remote { store throws(ObjectStoreError) in
                try await store.tryToKeep(key, ObjectMetadata(user: untried))
            }
        }
        // The next commit carries the headers, if the file still has a name.
        let now = time.now()
        let (isAcknowledged, isUnlinked) = file.state.withLock { state in
            state.metadata = headers
            state.attributes.noteChange(at: now)
            return (state.life.isAcknowledged, state.life.isUnlinked)
        }
        if isUnlinked { return keepOrphan(file) }
        try describe(file)
        guard isAcknowledged else { return }
        switch lock {
        case .some(let lock): try await acknowledge(lock)
        case nil: break
        }
    }

    private func storeHeaders(
        _ headers: ObjectMetadata, of entry: Entry, _ file: ActiveFile?
    ) async throws(FileSystemError) {
        let hold = metadata.hold([entry.ino])
        defer { metadata.release(hold) }
        let key = try key(of: entry.ino)
        var attributes = file?.attributes ?? entry.attributes
        attributes.noteChange(at: time.now())
        let headers = AttributeCodec.encode(attributes, over: headers)
        if attributes.kind == .directory {
            attributes.version = try await putMarker(key, headers, over: attributes.version)
        } else {
            attributes.version = try await updateHeaders(key, attributes.version, headers)
        }
        attributes.headersKnown = true
        try cached { metadata throws(MetadataError) in
            try metadata.update(entry.ino, attributes, metadata: headers, pending: false)
        }
        guard let file, let version = attributes.version else { return }
        file.rebase(on: rooms.blocks.open(key, version), attributes)
    }

    // MARK: What pailfs knows

    private enum KnownAttribute: String {
        case etag = "user.pailfs.etag"
        case key = "user.pailfs.key"
        case url = "user.pailfs.url"
        case version = "user.pailfs.version"
        case dirty = "user.pailfs.dirty"
        case uploading = "user.pailfs.uploading"
        case sent = "user.pailfs.sent"
        case cached = "user.pailfs.cached"
        case lastError = "user.pailfs.lasterror"
        case hidden = "user.pailfs.hidden"
        case stats = "user.pailfs.stats"
    }

    private func knownAttribute(_ name: KnownAttribute, of ino: InodeNumber) -> Outcome<ByteString> {
        if name == .stats {
            return later { [self] () async throws(FileSystemError) in
                guard ino == .root, let text = figuresText else {
                    throw FileSystemError(.noData, "only the top directory of the mount has user.pailfs.stats")
                }
                return text
            }
        }
        if name == .hidden {
            return later { [self] () async throws(FileSystemError) in try await hiddenKeys(in: ino) }
        }
        return now { () throws(FileSystemError) in
            let entry = try entry(ino)
            let file = files.find(ino)
            let version = file?.attributes.version ?? entry.attributes.version
            let value: ByteString? =
                switch name {
                case .etag: version.map { ByteString($0.etag.text) }
                case .key: policy.prefix + (try key(of: ino).bytes)
                case .version: version?.versionID.map { ByteString($0) }
                case .dirty: file?.isDirty == true ? "1" : "0"
                case .uploading: isUploading(ino) ? "1" : "0"
                case .sent: sentBytes(of: file).map { ByteString("\($0)") }
                case .cached: try isCached(entry, version) ? "1" : "0"
                case .lastError: lastErrors.withLock { $0.value(for: ino) }.map { ByteString($0.text) }
                case .url: try presigned(ino)
                case .hidden, .stats: nil
                }
            guard let value else { throw FileSystemError(.noData, "\(name.rawValue) has no value for this path") }
            return value
        }
    }

    /// How many bytes of a changed file the store has; nil when nothing has to be sent.
    private func sentBytes(of file: ActiveFile?) -> Int64? {
        file?.state.withLock { $0.life.draft }.map { $0.commit.progress.sentBytes }
    }

    private func isCached(_ entry: Entry, _ version: ObjectVersion?) throws(FileSystemError) -> Bool {
        guard let version, entry.attributes.kind != .directory else { return false }
        return rooms.blocks.open(try key(of: entry.ino), version).isComplete
    }

    private func presigned(_ ino: InodeNumber) throws(FileSystemError) -> ByteString {
        do { return ByteString(try store.presign(try key(of: ino), lifetime: .seconds(3600))) } catch let error
            as FileSystemError
        { throw error } catch { throw FileSystemError(.notSupported, "\(error)") }
    }
}
