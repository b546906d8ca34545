import Basics
import Commits
import Digests
import Foundation
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import pailfs

/// A store and a directory, and copies between the two.
private final class Rig {
    static let partSize: Int64 = 5 << 20

    let store: MemoryStore
    let directory: TemporaryDirectory
    let shown = Shown()
    private(set) var tally = CopyTally()

    final class Shown: Sendable {
        let lines = Mutex<[String]>([])
    }

    init(_ capabilities: Capabilities = Capabilities()) throws {
        store = MemoryStore(capabilities: capabilities)
        directory = try TemporaryDirectory()
    }

    func path(_ name: String) -> String { directory.path(name) }

    func write(_ name: String, _ content: [UInt8]) throws {
        let path = path(name)
        try FileManager.default.createDirectory(
            atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        try Data(content).write(to: URL(fileURLWithPath: path))
    }

    func content(_ name: String) -> [UInt8]? { FileManager.default.contents(atPath: path(name)).map { Array($0) } }

    func journal() throws -> CopyJournal {
        try #require(try CopyJournal(in: path("journal"), identity: ["test"], boot: "boot"))
    }

    private func engine(_ rules: CopyRules, _ journal: CopyJournal?, present: [ByteString: String]) -> CopyEngine {
        tally = CopyTally()
        let context = CopyContext(rules: rules, journal: journal, tally: tally, present: present)
        return CopyEngine(
            context: context, jobs: 4, show: { [shown] line in shown.lines.withLock { $0.append(line.description) } })
    }

    /// Uploads the directory `source` below the key `root`.
    func upload(
        _ source: String, to root: ByteString, _ rules: CopyRules = CopyRules(), journal: CopyJournal? = nil,
        present: [ByteString: String] = [:]
    ) async throws {
        let engine = engine(rules, journal, present: present)
        var options = CommitOptions()
        options.partSize = Self.partSize
        let operation = UploadOperation(
            store: store, root: root, options: options, types: .ofSystem, context: engine.context)
        let walk = try LocalWalk(path(source), beginning: "", followsLinks: rules.followsLinks)
        try await engine.run([CopyEngine.Part(walk: walk, operation: operation)])
    }

    /// Downloads what is below the prefix into the directory `destination`.
    func download(
        _ prefix: ByteString, to destination: String, _ rules: CopyRules = CopyRules(), journal: CopyJournal? = nil
    ) async throws {
        let engine = engine(rules, journal, present: [:])
        let root = path(destination)
        let operation = DownloadOperation(
            store: store, root: root, umask: 0o022, directories: LocalDirectoryMaker(root), context: engine.context)
        let walk = ListedWalk(store, prefix: prefix, beginning: "", followsLinks: rules.followsLinks)
        try await engine.run([CopyEngine.Part(walk: walk, operation: operation)])
    }

    var failed: [String] { tally.failures.map { "\($0.name)" }.sorted() }
    /// Names of everything below a directory.
    func names(_ name: String) -> [String] {
        (FileManager.default.enumerator(atPath: path(name))?.allObjects as? [String] ?? []).sorted()
    }
}

/// Bytes whose pieces of any usual size differ.
private func bytes(_ count: Int64, seed: UInt64 = 1) -> [UInt8] {
    var generator = SeededGenerator(seed: seed)
    let block = (0..<4099).map { _ in UInt8.random(in: 0...255, using: &generator) }
    var bytes: [UInt8] = []
    while bytes.count < count { bytes += block }
    return Array(bytes[..<Int(count)])
}

@Suite struct CopyUploadTests {
    @Test func aTreeBecomesObjects() async throws {
        let rig = try Rig()
        try rig.write("t/a.txt", Array("one".utf8))
        try rig.write("t/d/e/b", [])
        try rig.write("t/big", bytes(2 * Rig.partSize + 3))
        try FileManager.default.createDirectory(atPath: rig.path("t/none"), withIntermediateDirectories: false)
        try await rig.upload("t", to: "p")
        #expect(rig.failed.isEmpty)
        #expect(rig.store.keys.map(\.description) == ["p/a.txt", "p/big", "p/d/e/b", "p/none/"])
        #expect(rig.store.content("p/a.txt") == Array("one".utf8))
        #expect(rig.store.content("p/big") == rig.content("t/big"))
        #expect(rig.store.requests(.uploadPart).count == 3 && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func anObjectHasTheTimeAndTheModeOfItsFile() async throws {
        let rig = try Rig()
        try rig.write("t/a.txt", [1])
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: rig.path("t/a.txt"))
        let file = try File(rig.path("t/a.txt"), .readWrite)
        try file.setTimes(modified: Timestamp(seconds: 1_000_000_000, nanoseconds: 5))
        try await rig.upload("t", to: "")
        let metadata = try #require(rig.store.info("a.txt")?.metadata)
        #expect(metadata.user["mtime"] == "1000000000.000000005")
        #expect(metadata.user["mode"] == "\(0o100640)")
        #expect(metadata.user["uid"] == nil)
    }

    @Test func linksAreRefusedOrFollowed() async throws {
        let rig = try Rig()
        try rig.write("t/a", [1])
        try rig.write("other/b", [2])
        let manager = FileManager.default
        try manager.createSymbolicLink(atPath: rig.path("t/link"), withDestinationPath: "a")
        try manager.createSymbolicLink(atPath: rig.path("t/dir"), withDestinationPath: "../other")
        try manager.createSymbolicLink(atPath: rig.path("t/loop"), withDestinationPath: ".")
        try manager.createSymbolicLink(atPath: rig.path("t/nowhere"), withDestinationPath: "missing")
        try await rig.upload("t", to: "p")
        #expect(rig.store.keys.map(\.description) == ["p/a"])
        #expect(rig.failed.count == 4)
        try await rig.upload("t", to: "q", CopyRules(followsLinks: true))
        #expect(rig.store.keys.filter { $0.bytes.hasPrefix("q/") }.map(\.description) == ["q/a", "q/dir/b", "q/link"])
        #expect(rig.failed.count == 2, "the loop and the link to a missing file")
    }

    @Test func aFIFOIsRefused() async throws {
        let rig = try Rig()
        try rig.write("t/a", [1])
        #expect(mkfifo(rig.path("t/fifo"), 0o600) == 0)
        try await rig.upload("t", to: "p")
        #expect(rig.store.keys == ["p/a"] && rig.failed.count == 1)
    }

    /// The part that is under way when the file changes is not sent to its end.
    @Test func aFileThatChangesIsNoObject() async throws {
        let rig = try Rig()
        try rig.write("t/big", bytes(6 * Rig.partSize))
        let path = rig.path("t/big")
        let changed = Mutex(false)
        rig.store.fault = { operation, _ in
            guard operation == .uploadPart,
                !changed.withLock({
                    let was = $0; $0 = true; return was
                })
            else { return nil }
            let file = try? File(path, .readWrite)
            try? file?.write([0, 1, 2], at: 0)
            return nil
        }
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.failed == [path] && rig.tally.failures[0].reason.contains("changed while it was copied"))
        #expect(rig.store.keys.isEmpty && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func anUploadThatWasCutOffIsResumed() async throws {
        let rig = try Rig()
        try rig.write("t/big", bytes(6 * Rig.partSize))
        let sent = Mutex(0)
        rig.store.fault = { operation, key in
            guard operation == .uploadPart,
                sent.withLock({
                    $0 += 1; return $0
                }) > 3
            else { return nil }
            return ObjectStoreError(.interrupted, operation, key: key, message: "cut")
        }
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.failed.count == 1 && rig.store.uploadsInProgress.count == 1)
        rig.store.fault = nil
        rig.store.forgetRequests()
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.count(.createUpload) == 0 && rig.store.count(.uploadPart) == 3)
        #expect(rig.store.content("p/big") == rig.content("t/big") && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func aChangedSourceBeginsAnewAndGivesTheOldUploadUp() async throws {
        let rig = try Rig()
        try rig.write("t/big", bytes(3 * Rig.partSize))
        rig.store.fault = { operation, key in
            guard operation == .completeUpload else { return nil }
            return ObjectStoreError(.interrupted, operation, key: key, message: "cut")
        }
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.uploadsInProgress.count == 1)
        rig.store.fault = nil
        rig.store.forgetRequests()
        try rig.write("t/big", bytes(3 * Rig.partSize, seed: 2))
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.count(.abortUpload) == 1 && rig.store.count(.uploadPart) == 3)
        #expect(rig.store.content("p/big") == rig.content("t/big") && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func whatIsDoneIsNotCopiedAgain() async throws {
        let rig = try Rig()
        for name in ["a", "b", "c"] { try rig.write("t/\(name)", [1]) }
        rig.store.fault = { operation, key in
            guard operation == .put, key == "p/b" else { return nil }
            return ObjectStoreError(.interrupted, operation, key: key, message: "cut")
        }
        try await rig.upload("t", to: "p", journal: try rig.journal())
        rig.store.fault = nil
        rig.store.forgetRequests()
        try rig.write("t/c", [2, 2])
        let present = try ["p/a", "p/c"].reduce(into: [ByteString: String]()) { present, key in
            present[ByteString(key)] = try #require(rig.store.info(ObjectKey(key))).version.etag.text
        }
        try await rig.upload("t", to: "p", journal: try rig.journal(), present: present)
        #expect(Set(rig.store.requests(.put).compactMap(\.key)) == ["p/b", "p/c"])
        // An object that another client has removed is made again.
        rig.store.forgetRequests()
        try await rig.upload("t", to: "p", journal: try rig.journal(), present: [:])
        #expect(rig.store.count(.put) == 3)
    }

    @Test func updateLeavesOutWhatIsTheSame() async throws {
        let rig = try Rig()
        for name in ["a", "b", "c", "d"] { try rig.write("t/\(name)", Array(name.utf8)) }
        try await rig.upload("t", to: "p")
        rig.store.forgetRequests()
        try await rig.upload("t", to: "p", CopyRules(updates: true))
        #expect(rig.store.count(.put) == 0)
        try rig.write("t/a", [9])
        try rig.write("t/b", [9, 9])
        rig.store.removeObject("p/c")
        try await rig.upload("t", to: "p", CopyRules(updates: true))
        #expect(Set(rig.store.requests(.put).compactMap(\.key)) == ["p/a", "p/b", "p/c"])
    }

    /// Another program stored it, without the file's time.
    @Test func updateComparesChecksumsWhereTimesDiffer() async throws {
        let rig = try Rig()
        rig.store.checksum = { .md5(MD5.of($0)) }
        try rig.write("t/a", [1, 2])
        try rig.write("t/b", [1, 2])
        rig.store.setObject("p/a", [1, 2], modified: Timestamp(seconds: 1))
        rig.store.setObject("p/b", [1, 3], modified: Timestamp(seconds: 1))
        try await rig.upload("t", to: "p", CopyRules(updates: true))
        #expect(rig.store.requests(.put).map(\.key) == ["p/b"])
    }

    @Test func aDryRunChangesNothing() async throws {
        let rig = try Rig()
        try rig.write("t/a", [1])
        try rig.write("t/d/b", [1])
        try await rig.upload("t", to: "p", CopyRules(isDry: true))
        #expect(rig.store.requests.isEmpty)
        #expect(
            rig.shown.lines.withLock { $0.sorted() } == [
                "\(rig.path("t/a")) -> p/a", "\(rig.path("t/d/b")) -> p/d/b",
            ])
    }

    @Test func withoutClobberAnExistingObjectStays() async throws {
        let rig = try Rig()
        try rig.write("t/a", [1])
        try rig.write("t/b", [1])
        rig.store.setObject("p/a", [7])
        try await rig.upload("t", to: "p", CopyRules(isExclusive: true))
        #expect(rig.store.content("p/a") == [7] && rig.store.content("p/b") == [1])
        #expect(rig.failed.count == 1 && rig.tally.failures[0].reason.contains("already exists"))
    }

    /// Nothing else would succeed.
    @Test func aRefusalOfTheWholeStoreEndsTheRun() async throws {
        let rig = try Rig()
        for number in 0..<40 { try rig.write("t/\(number)", [1]) }
        rig.store.fault = { operation, key in
            ObjectStoreError(.credentialsExpired, operation, key: key, message: "expired")
        }
        await #expect(throws: ObjectStoreError.self) { try await rig.upload("t", to: "p") }
        #expect(rig.store.requests.count < 10)
    }
}

@Suite struct CopyDownloadTests {
    @Test func objectsBecomeATree() async throws {
        let rig = try Rig()
        let big = bytes(2 * CopyPlan.rangeLength + 5)
        rig.store.setObject(
            "p/a", [1], metadata: ObjectMetadata(user: ["mtime": "1000000000.5", "mode": "\(0o100751)"]))
        rig.store.setObject("p/d/b", [])
        rig.store.setObject("p/d/big", big, modified: Timestamp(seconds: 5))
        rig.store.setObject("p/none/", [])
        rig.store.setObject("p/", [])
        try await rig.download("p/", to: "t")
        #expect(rig.failed.isEmpty)
        #expect(rig.names("t") == ["a", "d", "d/b", "d/big", "none"])
        #expect(rig.content("t/a") == [1] && rig.content("t/d/big") == big)
        let status = try #require(try LocalFileStatus(of: rig.path("t/a")))
        #expect(status.modified == Timestamp(seconds: 1_000_000_000, nanoseconds: 500_000_000))
        // Without what the umask takes away.
        #expect(status.permissions == 0o751 & ~0o022)
        #expect(try LocalFileStatus(of: rig.path("t/d/big"))?.modified == Timestamp(seconds: 5))
    }

    @Test func namesThatLeadElsewhereAreRefused() async throws {
        let rig = try Rig()
        for key: ObjectKey in ["p/../out", "p/a/../../out", "p//x", "p/./y", "p/dir/", "p/z\u{0}", "p/good"] {
            rig.store.setObject(key, [1])
        }
        try rig.write("t/keep", [7])
        try await rig.download("p/", to: "t")
        #expect(rig.names("t") == ["good", "keep"])
        #expect(rig.names("").filter { !$0.hasPrefix("t") } == [], "nothing is written outside of the destination")
        #expect(rig.failed.count == 6)
    }

    @Test func aLinkInTheDestinationIsNotFollowed() async throws {
        let rig = try Rig()
        rig.store.setObject("p/d/a", [1])
        rig.store.setObject("p/link", [1])
        try rig.write("t/x", [7])
        try rig.write("other/y", [7])
        try FileManager.default.createSymbolicLink(atPath: rig.path("t/d"), withDestinationPath: "../other")
        try FileManager.default.createSymbolicLink(atPath: rig.path("t/link"), withDestinationPath: "../other/y")
        try await rig.download("p/", to: "t")
        #expect(rig.failed == ["p/d/a", "p/link"])
        #expect(rig.names("other") == ["y"] && rig.content("other/y") == [7])
    }

    @Test func aKeyThatIsAlsoADirectoryIsNamed() async throws {
        let rig = try Rig()
        rig.store.setObject("p/a", [1])
        rig.store.setObject("p/a/b", [1])
        try await rig.download("p/", to: "t")
        #expect(rig.failed.count == 1)
        #expect(rig.names("t").filter { $0.hasSuffix(".part") }.isEmpty)
    }

    @Test func aDownloadThatWasCutOffIsResumed() async throws {
        let rig = try Rig()
        let content = bytes(6 * CopyPlan.rangeLength + 1)
        rig.store.setObject("p/big", content)
        let count = Mutex(0)
        rig.store.fault = { operation, key in
            guard operation == .get,
                count.withLock({
                    $0 += 1; return $0
                }) > 4
            else { return nil }
            return ObjectStoreError(.interrupted, operation, key: key, message: "cut")
        }
        try rig.write("t/big", [7])
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.failed.count == 1 && rig.content("t/big") == [7], "the file from before stays until the end")
        rig.store.fault = nil
        rig.store.forgetRequests()
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.store.count(.get) == 3 && rig.content("t/big") == content)
        #expect(rig.names("t") == ["big"])
    }

    @Test func anotherVersionBeginsAnew() async throws {
        let rig = try Rig()
        rig.store.setObject("p/big", bytes(3 * CopyPlan.rangeLength))
        let count = Mutex(0)
        rig.store.fault = { operation, key in
            guard operation == .get,
                count.withLock({
                    $0 += 1; return $0
                }) > 1
            else { return nil }
            return ObjectStoreError(.interrupted, operation, key: key, message: "cut")
        }
        try await rig.download("p/", to: "t", journal: try rig.journal())
        rig.store.fault = nil
        let other = bytes(3 * CopyPlan.rangeLength, seed: 2)
        rig.store.setObject("p/big", other)
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.content("t/big") == other && rig.names("t") == ["big"])
    }

    @Test func anObjectThatIsReplacedMeanwhileIsNoFile() async throws {
        let rig = try Rig()
        rig.store.setObject("p/big", bytes(6 * CopyPlan.rangeLength))
        let store = rig.store
        let count = Mutex(0)
        rig.store.beforeDelivery = { _, _ in
            if count.withLock({
                $0 += 1; return $0
            }) == 1 {
                store.setObject("p/big", [1, 2, 3])
            }
        }
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.failed == ["p/big"] && rig.names("t").isEmpty)
    }

    @Test func bytesThatArriveDamagedAreNoFile() async throws {
        let rig = try Rig()
        rig.store.checksum = { .md5(MD5.of($0)) }
        rig.store.setObject("p/big", bytes(3 * CopyPlan.rangeLength))
        rig.store.alterBody = { _, body in [body[0] ^ 1] + body.dropFirst() }
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.failed == ["p/big"] && rig.tally.failures[0].reason.contains("MD5"))
        #expect(rig.names("t").isEmpty)
    }

    @Test func updateLeavesOutWhatIsTheSame() async throws {
        let rig = try Rig()
        for key: ObjectKey in ["p/a", "p/b", "p/c"] { rig.store.setObject(key, [1], modified: Timestamp(seconds: 9)) }
        try await rig.download("p/", to: "t")
        rig.store.forgetRequests()
        try await rig.download("p/", to: "t", CopyRules(updates: true))
        #expect(rig.store.count(.get) == 0)
        rig.store.setObject("p/a", [2], modified: Timestamp(seconds: 10))
        try rig.write("t/b", [3])
        try FileManager.default.removeItem(atPath: rig.path("t/c"))
        try await rig.download("p/", to: "t", CopyRules(updates: true))
        #expect(Set(rig.store.requests(.get).compactMap(\.key)) == ["p/a", "p/b", "p/c"])
        #expect(rig.content("t/a") == [2] && rig.content("t/b") == [1])
    }

    @Test func aDryRunChangesNothing() async throws {
        let rig = try Rig()
        rig.store.setObject("p/d/a", [1])
        try await rig.download("p/", to: "t", CopyRules(isDry: true))
        #expect(rig.names("t").isEmpty && !FileManager.default.fileExists(atPath: rig.path("t")))
        #expect(rig.shown.lines.withLock { $0 } == ["p/d/a -> \(rig.path("t"))/d/a"])
    }
}

@Suite struct CopyListingTests {
    @Test func patternsMatchComponentByComponent() async throws {
        let store = MemoryStore()
        for key: ObjectKey in ["l/a.gz", "l/b.gz", "l/c.txt", "l/d/e.gz", "l/f/e.gz", "m/e.gz", "l/.x.gz"] {
            store.setObject(key, [1])
        }
        #expect(try await store.keys(matching: "l/*.gz") == ["l/a.gz", "l/b.gz"])
        #expect(try await store.keys(matching: "*/e.gz") == ["m/e.gz"])
        #expect(try await store.keys(matching: "l/*/e.gz") == ["l/d/e.gz", "l/f/e.gz"])
        #expect(try await store.keys(matching: "l/[df]*") == ["l/d/", "l/f/"])
        #expect(try await store.keys(matching: "l/*/") == ["l/d/", "l/f/"])
        #expect(try await store.keys(matching: "none*").isEmpty)
    }

    @Test func progressShowsBytesRateAndTimeLeft() {
        let tally = CopyTally { 3 << 20 }
        tally.expect(10 << 20)
        let style = StatusStyle(columns: 100, isUTF8: false)
        #expect(tally.progress(after: .seconds(3), style) == "0 files, 3MiB, 1MiB/s; counting")
        tally.counted()
        tally.skip(2 << 20)
        #expect(
            tally.progress(after: .seconds(3), style)
                == "[##########----------]  50%  5MiB of 10MiB, 1MiB/s, 5s left")
    }
}
