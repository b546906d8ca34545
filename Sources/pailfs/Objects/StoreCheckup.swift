import Basics
import ObjectStorage
import Settings
import Synchronization

/// What a mount asks of the store, one request after the other.
struct StoreCheckup {
    let session: ObjectStoreSession
    let place: DoctorPlace
    let writes: Bool

    private var request: MountRequest { session.request }

    /// False when objects cannot be made, so that there is nothing more to try.
    func run(_ report: DoctorReport) -> Bool {
        report.check("credentials found") { () throws(CommandError) in
            let found = try session.answer { [request] _ async throws(ObjectStoreError) in
                try await Composition.identity(of: request)
            }
            guard let found else { return "none: requests are anonymous" }
            return found.origin + (found.keyID.map { ", key ID \(Self.shortened($0))" } ?? "")
        }
        let isOpen = report.check("bucket, credentials") { () throws(CommandError) in
            try session.answer { store async throws(ObjectStoreError) in try await store.checkAccess() }
            return request.url
        }
        guard isOpen else { return skip("everything else", "the check \"bucket, credentials\" failed", report) }
        report.check("list") { () throws(CommandError) in
            let page = try session.answer { store async throws(ObjectStoreError) in
                try await store.list(ListRequest(delimiter: UInt8(ascii: "/"), limit: 1))
            }
            return page.isEmpty && page.next == nil ? "empty" : nil
        }
        guard !session.isAccount else { return skip("writing", "the URL names no bucket", report) }
        guard writes else { return skip("writing", "--read-only or ro is set", report) }
        let (key, copy) = (place.key("object"), place.key("object-copy"))
        guard
            report.check(
                "put",
                { () throws(CommandError) in
                    var metadata = ObjectMetadata(contentType: "text/plain")
                    metadata.user["pailfs-doctor"] = "1"
                    let put = PutRequest(key, metadata: metadata)
                    _ = try session.answer { store async throws(ObjectStoreError) in
                        try await store.put(put, body: MemorySource(DoctorPlace.body))
                    }
                    return nil
                })
        else { return skip("everything else", "the check \"put\" failed", report) }
        clock(key, report)
        objects(key, copy, report)
        multipart(copy, report)
        report.check("delete") { () throws(CommandError) in
            try session.answer { store async throws(ObjectStoreError) in
                try await store.delete(key, ifMatch: nil)
                try await store.delete(copy, ifMatch: nil)
            }
            return nil
        }
        return true
    }

    private func skip(_ name: String, _ reason: String, _ report: DoctorReport) -> Bool {
        report.skip(name, reason)
        return false
    }

    /// A key ID is no secret, and long.
    private static func shortened(_ text: String) -> String {
        text.count > 12 ? "\(text.prefix(4))…\(text.suffix(4))" : text
    }

    /// More than this makes times of files wrong for other machines.
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

    private func objects(_ key: ObjectKey, _ copy: ObjectKey, _ report: DoctorReport) {
        report.check("head, metadata") { () throws(CommandError) in
            let info = try session.answer { store async throws(ObjectStoreError) in
                try await store.head(key, condition: nil)
            }
            guard info.metadata.user["pailfs-doctor"] == "1" else {
                throw CommandError(
                    "the store does not keep the metadata of an object: mode, owner and times of files are lost")
            }
            return nil
        }
        report.check("get") { () throws(CommandError) in
            let bytes = try session.answer { store async throws(ObjectStoreError) in
                let sink = ReceivedBytes()
                _ = try await store.get(GetRequest(key), into: sink)
                return sink.bytes
            }
            guard bytes == DoctorPlace.body else { throw CommandError("the store returned other bytes than were sent") }
            return nil
        }
        report.check("copy") { () throws(CommandError) in
            _ = try session.answer { store async throws(ObjectStoreError) in
                try await store.copy(CopyRequest(CopySource(key), to: copy))
            }
            return nil
        }
        guard session.capabilities.metadataUpdate != .none else { return }
        report.check("new metadata") { () throws(CommandError) in
            _ = try session.answer { store async throws(ObjectStoreError) in
                try await store.updateMetadata(
                    key, to: ObjectMetadata(contentType: "text/plain", user: ["pailfs-doctor": "2"]), ifMatch: nil)
            }
            return nil
        }
    }

    private func multipart(_ key: ObjectKey, _ report: DoctorReport) {
        report.check("multipart upload") { () throws(CommandError) in
            let upload = try session.answer { store async throws(ObjectStoreError) in
                try await store.createUpload(PutRequest(key))
            }
            do throws(CommandError) {
                try session.answer { store async throws(ObjectStoreError) in
                    let part = PartRequest(key, upload, number: 1)
                    _ = try await store.uploadPart(part, body: MemorySource(DoctorPlace.body))
                    let parts = try await store.listParts(key, upload)
                    _ = try await store.completeUpload(key, upload, parts: parts, condition: nil)
                }
            } catch {
                // Also of one that was not answered in time.
                try? session.answer { store async throws(ObjectStoreError) in try await store.abortUpload(key, upload) }
                throw error
            }
            return nil
        }
    }
}

/// A small body in memory. A leaf lock.
private final class ReceivedBytes: ByteSink {
    private let received = Mutex<[UInt8]>([])

    var bytes: [UInt8] { received.withLock { $0 } }

    func receive(_ bytes: RawSpan) throws(ByteTransferError) {
        received.withLock { received in bytes.withUnsafeBytes { received += $0 } }
    }

    func restart() { received.withLock { $0 = [] } }
}
