import Basics
import ObjectStorage

/// The versions in the bucket of a command's URL or path.
struct ObjectVersions {
    let session: ObjectStoreSession
    /// As the command line has it.
    let url: String

    /// Throws: when the store has no versions.
    init(_ session: ObjectStoreSession, _ url: String) throws(CommandError) {
        (self.session, self.url) = (session, url)
        guard session.capabilities.versions else {
            throw CommandError(
                "the store of \(url) has no versions of objects; use a bucket of Amazon S3, OSS, COS or a store with S3's "
                    + "protocol")
        }
    }

    /// Every version and delete marker of the key, newest first.
    ///
    /// Throws: when there is none, or when the bucket keeps no versions.
    func all(of key: ObjectKey) throws(CommandError) -> [StoredVersion] {
        let found = try session.answer(inTime: false) { store async throws(ObjectStoreError) in
            try await store.versions(of: key)
        }
        if found.allSatisfy({ $0.id == StoredVersion.null && !$0.isDeleteMarker }) { try requireVersioning(key) }
        guard !found.isEmpty else { throw CommandError("\(url) has no version; check its name") }
        return found
    }

    /// The version or delete marker of the key with this ID.
    func version(_ id: String, of key: ObjectKey) throws(CommandError) -> StoredVersion {
        try version(id, in: try all(of: key))
    }

    func version(_ id: String, in history: [StoredVersion]) throws(CommandError) -> StoredVersion {
        guard let found = history.first(where: { $0.id == id }) else {
            throw CommandError("\(url) has no version \(id); \"pailfs versions\" lists those that it has")
        }
        return found
    }

    /// Refuses a copy of the version `id` onto its own key if it would replace another version for good: while versioning is
    /// suspended, a write replaces the version `null`.
    func requireNoneReplaced(in history: [StoredVersion], byCopying id: String) throws(CommandError) {
        guard id != StoredVersion.null, let replaced = history.first(where: { $0.id == StoredVersion.null }),
            !replaced.isDeleteMarker
        else { return }
        let versioning = try versioning(of: replaced.key)
        // As the latest, the version shows that versioning was suspended when it was written.
        guard versioning == .suspended || versioning == nil && replaced.isLatest else { return }
        throw CommandError(
            "\(bucket) has versioning suspended, so this would replace the version null of \(url); enable versioning, or "
                + "copy it elsewhere with \"pailfs cp --version null\" and delete it with \"pailfs rm --version null\"")
    }

    private var bucket: String { session.request.bucket.map { "the bucket \($0)" } ?? "the bucket of \(url)" }

    /// Calls `body` with each page of the versions below a prefix.
    ///
    /// Throws: when there is none, or when the bucket keeps no versions.
    func pages(below prefix: ByteString, _ body: ([StoredVersion]) throws(CommandError) -> Void) throws(CommandError) {
        var request = VersionsRequest(prefix: prefix)
        var isKept = false
        while true {
            let page = try session.answer { [request] store async throws(ObjectStoreError) in
                try await store.versions(request)
            }
            if !isKept, page.versions.allSatisfy({ $0.id == StoredVersion.null && !$0.isDeleteMarker }) {
                try requireVersioning(page.versions.first?.key ?? ObjectKey(prefix.isEmpty ? "/" : prefix))
            }
            isKept = true
            try body(page.versions)
            guard let next = page.next else { return }
            request.cursor = next
        }
    }

    /// Whether the key's bucket keeps versions; nil for credentials that may not read that.
    private func versioning(of key: ObjectKey) throws(CommandError) -> Versioning? {
        try session.answer { store async throws(ObjectStoreError) -> Versioning? in
            do throws(ObjectStoreError) { return try await store.versioning(of: key) } catch {
                guard error.kind == .accessDenied else { throw error }
                return nil
            }
        }
    }

    /// Throws: when the bucket never had versioning.
    private func requireVersioning(_ key: ObjectKey) throws(CommandError) {
        guard try versioning(of: key) == .never else { return }
        throw CommandError(
            "\(bucket) keeps no versions; enable versioning in the store's console, and it keeps those of later writes")
    }
}

/// What `versions --json` prints of one version, on a line of its own.
struct VersionLine: Encodable {
    let key: String
    /// The key in base64 (RFC 4648), where it is no UTF-8.
    let keyBase64: String?
    let version: String
    /// ISO 8601.
    let modified: String
    let isLatest: Bool
    let isDeleteMarker: Bool
    let bytes: Int64?
    let etag: String?
    let storageClass: String?

    init(_ version: StoredVersion) {
        (key, keyBase64) = Output.names(version.key.bytes)
        (self.version, modified) = (version.id, version.version.modified.iso8601())
        (isLatest, isDeleteMarker) = (version.isLatest, version.isDeleteMarker)
        bytes = version.isDeleteMarker ? nil : version.version.size
        etag = version.isDeleteMarker ? nil : version.version.etag.text
        storageClass = version.storageClass
    }

    /// Time, size, storage class, whether it is the latest, and version ID, in columns; the key follows.
    var text: String {
        let size = bytes.map { "\($0)" } ?? "-"
        let padding = String(repeating: " ", count: max(0, 14 - size.utf8.count))
        let columns = [
            Output.padded(modified, to: 24), padding + size,
            Output.padded(isDeleteMarker ? "delete-marker" : storageClass ?? "-", to: 13),
            Output.padded(isLatest ? "latest" : "-", to: 6), Output.padded(version, to: 32),
        ]
        return columns.joined(separator: "  ") + "  "
    }
}
