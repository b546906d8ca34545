import ArgumentParser
import Basics
import FuseBridge
import Glibc
import ObjectStorage
import Settings
import Synchronization

/// Goes through everything a mount needs, on this machine and at the store, and tells of each thing whether it is so.
struct DoctorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Checks what a mount needs, here and at the store.",
        discussion: """
            One line a check: ok, FAILED with the reason and the remedy, or skipped. Unless --read-only or -o ro is given, \
            an object .pailfs-doctor-... is made, copied and deleted below the URL. The exit status is not 0 when a check \
            failed.
            """)

    @Argument(help: "scheme://bucket, scheme://bucket/prefix, or a path in a mount") var place: String
    @OptionGroup var location: StoreOptions
    @Flag(help: "Make no objects.") var readOnly = false

    mutating func run() throws {
        let request = try request()
        let report = DoctorReport()
        MachineCheckup(request).run(report)
        let session = try ObjectStoreSession(request, checked: false)
        StoreCheckup(session: session, writes: !readOnly && !request.settings.readOnly).run(report)
        guard report.failures == 0 else {
            throw CommandError("\(report.failures) of \(report.count) checks failed for \(place)")
        }
    }

    /// Of a mount that is there, its own.
    private func request() throws(CommandError) -> MountRequest {
        if place.contains("://") {
            return try MountRequest(
                url: place, mountpoint: "", options: location.options, environment: Entry.environment)
        }
        let mount: MountPlace
        do throws(CommandError) { mount = try MountPlace(place) } catch {
            throw CommandError("\(error.message); or write scheme://bucket")
        }
        return try mount.locate("").request(options: location.options)
    }
}

/// Prints the checks as they end, and counts them.
final class DoctorReport {
    private(set) var failures = 0
    private(set) var count = 0

    /// Performs one check. False when it failed.
    @discardableResult
    func check(_ name: String, _ body: () throws(CommandError) -> String?) -> Bool {
        count += 1
        do throws(CommandError) {
            say("ok", name, try body())
            return true
        } catch {
            failures += 1
            say("FAILED", name, error.message)
            return false
        }
    }

    func skip(_ name: String, _ reason: String) { say("skipped", name, reason) }

    private func say(_ verdict: String, _ name: String, _ detail: String?) {
        let told = detail.map { Output.padded(name, to: 22) + $0 } ?? name
        Output.line(ByteString(Output.padded(verdict, to: 9) + told))
    }
}

/// What a mount needs of this machine.
private struct MachineCheckup {
    private let request: MountRequest

    init(_ request: MountRequest) { self.request = request }

    func run(_ report: DoctorReport) {
        report.check("kernel and fuse") { () throws(CommandError) in
            do throws(FuseError) { try Mountpoint.checkMachine(allowOther: request.settings.allowOther) } catch {
                throw CommandError(error)
            }
            return nil
        }
        report.check("cache directory") { () throws(CommandError) in
            guard let parent = CacheDirectory.parent(of: request) else { throw CacheDirectory.noParent }
            // Until it is made what counts is where it will be.
            let place = CacheDirectory.nearest(to: parent)
            guard access(place, W_OK | X_OK) == 0 else {
                throw CommandError("\(place) cannot be written; give another directory as cache-dir")
            }
            let free: Int64
            do { free = try Directory.space(at: place).free } catch {
                throw CommandError("\(place) cannot be looked at: \(error); give another directory as cache-dir")
            }
            if let lack = CacheDirectory.lack(of: free, at: parent, request.settings) { throw lack }
            let size = request.settings.cacheSize
            return "\(parent), \(ByteSize.format(free)) free, cache-size \(ByteSize.format(size))"
        }
    }
}

/// What a mount asks of the store, one request after the other.
private struct StoreCheckup {
    let session: ObjectStoreSession
    let writes: Bool

    private static let body = Array("pailfs was here".utf8)

    private var request: MountRequest { session.request }

    func run(_ report: DoctorReport) {
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
        guard isOpen else { return report.skip("everything else", "the store must be open to us first") }
        report.check("list") { () throws(CommandError) in
            let page = try session.answer { store async throws(ObjectStoreError) in
                try await store.list(ListRequest(delimiter: UInt8(ascii: "/"), limit: 1))
            }
            return page.isEmpty && page.next == nil ? "empty" : nil
        }
        guard !session.isAccount else { return report.skip("writing", "the URL names no bucket") }
        guard writes else { return report.skip("writing", "not asked for") }
        let key = ObjectKey(ByteString(".pailfs-doctor-" + RandomID.hex()))
        let copy = ObjectKey(key.bytes + "-copy")
        guard
            report.check(
                "put",
                { () throws(CommandError) in
                    var metadata = ObjectMetadata(contentType: "text/plain")
                    metadata.user["pailfs-doctor"] = "1"
                    let put = PutRequest(key, metadata: metadata)
                    _ = try session.answer { store async throws(ObjectStoreError) in
                        try await store.put(put, body: MemorySource(Self.body))
                    }
                    return nil
                })
        else { return report.skip("everything else", "there is no object to try it on") }
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
                    "the store forgot the metadata of an object: mode, owner and times of files will not be kept")
            }
            return nil
        }
        report.check("get") { () throws(CommandError) in
            let bytes = try session.answer { store async throws(ObjectStoreError) in
                let sink = ReceivedBytes()
                _ = try await store.get(GetRequest(key), into: sink)
                return sink.bytes
            }
            guard bytes == Self.body else { throw CommandError("other bytes came back than were sent") }
            return nil
        }
        if session.capabilities.putIfAbsent {
            report.check("create only if absent") { () throws(CommandError) in
                let isRefused = try session.answer { store async throws(ObjectStoreError) in
                    do throws(ObjectStoreError) {
                        let put = PutRequest(key, condition: .absent)
                        _ = try await store.put(put, body: MemorySource(Self.body))
                        return false
                    } catch {
                        guard error.kind == .preconditionFailed else { throw error }
                        return true
                    }
                }
                guard isRefused else {
                    throw CommandError("the store replaced an object it was told to leave: two writers can lose data")
                }
                return nil
            }
        } else {
            report.skip("create only if absent", "not in this store: a look before stands in for it")
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
                    _ = try await store.uploadPart(part, body: MemorySource(Self.body))
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
