import Basics
import ObjectStorage
import Settings
import Synchronization

/// Checks of the requests that a mount sends, one after the other.
struct StoreCheckup {
    let session: ObjectStoreSession
    let place: DoctorPlace
    let writes: Bool

    private var request: MountRequest { session.request }

    /// How the doctor continues after these checks.
    enum Next { case stop, clear, goOn }

    func run(_ report: DoctorReport) -> Next {
        report.check("credentials found") { () throws(CommandError) in
            let found = try session.answer { [request] _ async throws(ObjectStoreError) in
                try await Composition.identity(of: request)
            }
            guard let found else { return "none: requests are anonymous" }
            return found.origin + (found.keyID.map { ", key ID \(Self.shortened($0))" } ?? "")
        }
        let lists: Bool
        let access = report.attempt("bucket, credentials", lack: "list", session) {
            [request] store async throws(ObjectStoreError) in
            try await store.checkAccess()
            return request.url
        }
        switch access {
        case .done: lists = true
        // Credentials that may not list may allow other requests.
        case .refused where !session.isAccount: lists = false
        case .refused, .failed: return skip("everything else", "the check \"bucket, credentials\" failed", report)
        }
        if lists {
            report.attempt("list", lack: "list", session) { store async throws(ObjectStoreError) in
                let page = try await store.list(ListRequest(delimiter: UInt8(ascii: "/"), limit: 1))
                return page.isEmpty && page.next == nil ? "empty" : nil
            }
        }
        guard !session.isAccount else { return skip("writing", "the URL names no bucket", report) }
        guard writes else {
            if lists { reading(report) }
            return skip("writing", "--read-only or ro is set", report)
        }
        let (key, copy) = (place.key("object"), place.key("object-copy"))
        let put = report.attempt("put", lack: "put", session) { store async throws(ObjectStoreError) in
            var metadata = ObjectMetadata(contentType: "text/plain")
            metadata.user["pailfs-doctor"] = "1"
            _ = try await store.put(PutRequest(key, metadata: metadata), body: MemorySource(DoctorPlace.body))
            return nil
        }
        guard put == .done else {
            if put == .refused, lists { reading(report) }
            return skip("everything else", "the check \"put\" failed", report)
        }
        let head = report.attempt("head, metadata", lack: "head", session) { store async throws(ObjectStoreError) in
            try await Self.checkMetadata(of: key, at: store)
            return nil
        }
        if head == .done { clock(key, report) }
        objects(key, copy, report)
        let parts = multipart(copy, report)
        if parts == .done, session.capabilities.partCopy, session.capabilities.mostParts > 1 {
            partCopy(of: key, copy, report)
        }
        if session.capabilities.deleteBatch > 1 { several(report) }
        let deletion = report.attempt("delete", lack: "delete", session) { store async throws(ObjectStoreError) in
            try await store.delete(key, ifMatch: nil)
            try await store.delete(copy, ifMatch: nil)
            return nil
        }
        // Without deletes the objects of the other checks would remain; without listings they would not be found.
        guard deletion == .done else { return .clear }
        return lists ? .goOn : .stop
    }

    /// Checks reading with the first object that exists, where none can be made.
    private func reading(_ report: DoctorReport) {
        let found = try? session.answer { store async throws(ObjectStoreError) in
            try await store.list(ListRequest(limit: 100)).objects.first { $0.version.size > 0 }
        }
        guard let object = found ?? nil else { return report.skip("reading", "the listing shows no object with bytes") }
        report.attempt("head", lack: "head", session) { store async throws(ObjectStoreError) in
            _ = try await store.head(object.key, condition: nil)
            return "\(object.key)"
        }
        report.attempt("get", lack: "get", session) { store async throws(ObjectStoreError) in
            _ = try await store.get(GetRequest(object.key, range: 0..<1), into: ReceivedBytes())
            return "\(object.key)"
        }
    }

    private func skip(_ name: String, _ reason: String, _ report: DoctorReport) -> Next {
        report.skip(name, reason)
        return .stop
    }

    /// A key ID is not secret, but long.
    private static func shortened(_ text: String) -> String {
        text.count > 12 ? "\(text.prefix(4))…\(text.suffix(4))" : text
    }

    /// A larger difference makes the times of files wrong for other machines.
    private static let mostSkew: Int64 = 60

    private func clock(_ key: ObjectKey, _ report: DoctorReport) {
        report.check("clock") { () throws(CommandError) in
            let info = try session.answer { store async throws(ObjectStoreError) in
                try await store.head(key, condition: nil)
            }
            // The object was made a moment ago, by the store's clock.
            let ahead = SystemTime().now().seconds - info.version.modified.seconds
            guard abs(ahead) > Self.mostSkew else { return nil }
            throw CommandError(
                "this machine's clock is \(DurationText.format(.seconds(abs(ahead)))) \(ahead > 0 ? "ahead of" : "behind") "
                    + "the store's; set it, or times of files are wrong (timedatectl set-ntp true)")
        }
    }

    private static func checkMetadata(of key: ObjectKey, at store: any ObjectStore) async throws(ObjectStoreError) {
        guard try await store.head(key, condition: nil).metadata.user["pailfs-doctor"] == "1" else {
            throw ObjectStoreError(
                .contradiction, .head, key: key, code: "NoMetadata",
                message: "the store does not keep the metadata of an object: mode, owner and times of files are lost")
        }
    }

    private func objects(_ key: ObjectKey, _ copy: ObjectKey, _ report: DoctorReport) {
        report.attempt("get", lack: "get", session) { store async throws(ObjectStoreError) in
            let sink = ReceivedBytes()
            _ = try await store.get(GetRequest(key), into: sink)
            guard sink.bytes == DoctorPlace.body else {
                throw ObjectStoreError(
                    .contradiction, .get, key: key, code: "OtherBytes",
                    message: "the store returned other bytes than were sent")
            }
            return nil
        }
        report.attempt("copy", lack: "copy", session) { store async throws(ObjectStoreError) in
            _ = try await store.copy(CopyRequest(CopySource(key), to: copy))
            return nil
        }
        guard session.capabilities.metadataUpdate != .none else { return }
        report.attempt("new metadata", lack: "new metadata", session) { store async throws(ObjectStoreError) in
            _ = try await store.updateMetadata(
                key, to: ObjectMetadata(contentType: "text/plain", user: ["pailfs-doctor": "2"]), ifMatch: nil)
            return nil
        }
    }

    private func multipart(_ key: ObjectKey, _ report: DoctorReport) -> DoctorReport.Outcome {
        report.attempt("multipart upload", lack: "multipart upload", session) { store async throws(ObjectStoreError) in
            let upload: UploadID
            do throws(ObjectStoreError) { upload = try await store.createUpload(PutRequest(key)) } catch {
                // The store has recorded it as a departure of the server.
                guard store.capabilities.mostParts <= 1 else { throw error }
                return nil
            }
            do throws(ObjectStoreError) {
                let part = PartRequest(key, upload, number: 1)
                _ = try await store.uploadPart(part, body: MemorySource(DoctorPlace.body))
                let parts = try await store.listParts(key, upload)
                _ = try await store.completeUpload(key, upload, parts: parts, condition: nil)
            } catch {
                // Also an upload whose completion was not answered in time.
                try? await store.abortUpload(key, upload)
                throw error
            }
            return nil
        }
    }

    /// The upload is aborted: it makes no object.
    private func partCopy(of source: ObjectKey, _ key: ObjectKey, _ report: DoctorReport) {
        report.attempt("copy of a part", lack: "copy", session) { store async throws(ObjectStoreError) in
            let version = try await store.head(source, condition: nil).version
            let upload = try await store.createUpload(PutRequest(key))
            do throws(ObjectStoreError) {
                _ = try await store.uploadPartCopy(
                    PartRequest(key, upload, number: 1), from: CopySource(source, ifMatch: version.etag),
                    range: 0..<version.size)
            } catch {
                try? await store.abortUpload(key, upload)
                throw error
            }
            try await store.abortUpload(key, upload)
            return nil
        }
    }

    private func several(_ report: DoctorReport) {
        let keys = [place.key("several-1"), place.key("several-2")]
        report.attempt("delete of several", lack: "delete", session) { store async throws(ObjectStoreError) in
            for key in keys { _ = try await store.put(PutRequest(key), body: MemorySource(DoctorPlace.body)) }
            if let failure = try await store.deleteMany(keys).first { throw failure }
            return nil
        }
    }
}

/// A small body in memory. Locks: a leaf.
private final class ReceivedBytes: ByteSink {
    private let received = Mutex<[UInt8]>([])

    var bytes: [UInt8] { received.withLock { $0 } }

    func receive(_ bytes: RawSpan) throws(ByteTransferError) {
        received.withLock { received in bytes.withUnsafeBytes { received += $0 } }
    }

    func restart() { received.withLock { $0 = [] } }
}
