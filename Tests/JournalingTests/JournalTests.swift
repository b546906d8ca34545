import Basics
import Foundation
import Journaling
import Synchronization
import TestSupport
import Testing

@Suite struct JournalTests {
    let directory: TemporaryDirectory
    var path: String { directory.path("journal.db") }

    init() throws { directory = try TemporaryDirectory() }

    @Test func theBootIsTheKernels() throws {
        let kernel = try String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        #expect(try Journal(path: path).boot == kernel.trimmingCharacters(in: .whitespacesAndNewlines))
    }

    /// Another program deletes the journal, or all of its directory, while it is used.
    @Test(.rule("space.state"), arguments: [false, true]) func aDeletedJournalIsMadeAnewWithItsRows(all: Bool) throws {
        let journal = try Journal(path: path)
        let intent = FileIntent(staging: "1", key: "k", base: nil, identity: "", boot: "")
        let ids = [journal.newID(), journal.newID()]
        try journal.write([.file(ids[0], intent)], flushed: true)
        #expect(journal.isInPlace)
        for name in all ? ["", "-wal", "-shm", "-made"] : [""] { try File.remove(path + name) }
        try journal.write([.file(ids[1], intent)], flushed: false)
        #expect(!journal.isInPlace)
        try journal.restore()
        #expect(journal.isInPlace)
        try journal.write([.endFile(ids[0])], flushed: true)
        // As another process finds it.
        let copy = try Journal(path: path)
        #expect(try copy.contents().files == [ids[1]: intent])
        copy.close()
        journal.close()
    }

    /// A row tells every fact of a file, whatever is in it.
    @Test(arguments: [
        "", "plain", "a \"quoted\" \\ path/", "lines\nand\rtabs\t", "\u{0}\u{1}\u{1f}\u{7f}", "grün 写真 👩‍👩‍👧 \u{2028}",
        "{\"a\": [1, null]}", "%2F%00",
    ])
    func whatAFileIsComesBackAsItWas(text: String) throws {
        var full = FileIntent(staging: text, key: ByteString(Array(text.utf8)), base: nil, identity: text, boot: text)
        full.base = VersionRecord(
            key: ByteString([0, 255, 34, 92]), etag: text, size: .max,
            modified: Timestamp(seconds: -1, nanoseconds: 999_999_999), versionID: text)
        full.ino = .max
        (full.isCopy, full.wasTried, full.attempt, full.ancestors) = (true, false, text, [text, "", text])
        full.condition = .match(etag: text)
        full.headers = HeadersRecord(standard: [text: text, "b": ""], user: ["": text])
        full.extents = [ExtentRecord(end: 1, source: 0), ExtentRecord(end: .max, source: 255)]
        (full.isAcknowledged, full.isFlushed, full.changed) = (true, false, .min)
        (full.isLeft, full.besideOf, full.stagedOver) = (true, .max, .min)
        var odd = FileIntent(staging: "", key: "", base: nil, identity: "", boot: text)
        (odd.condition, odd.extents, odd.headers) = (.absent, [], HeadersRecord(standard: [:], user: [:]))
        let least = FileIntent(staging: "1", key: "k", base: nil, identity: text, boot: "")
        let journal = try Journal(path: path)
        defer { journal.close() }
        let intents = [full, odd, least]
        let ids = intents.map { _ in journal.newID() }
        try journal.write(zip(ids, intents).map { .file($0, $1) }, flushed: false)
        let files = try journal.contents().files
        #expect(ids.map { files[$0] } == intents)
    }

    /// Random changes, as a mount would make them and as it never would.
    private static func changes(_ count: Int, seed: UInt64) -> [JournalChange] {
        var dice = SeededGenerator(seed: seed)
        var changes: [JournalChange] = []
        for _ in 0..<count {
            let id = IntentID(rawValue: Int64.random(in: 1...6, using: &dice))
            let number = Int.random(in: 1...4, using: &dice)
            switch Int.random(in: 0..<10, using: &dice) {
            case 0...1:
                var intent = FileIntent(
                    staging: "\(id.rawValue)", key: ByteString([UInt8.random(in: 0...255, using: &dice), 47, 37, 0]),
                    base: nil, identity: "id", boot: "boot")
                if Bool.random(using: &dice) {
                    intent.base = version("base \(number)", &dice)
                    intent.condition = .match(etag: "\"e\"")
                    intent.headers = HeadersRecord(standard: ["content-type": "a/b"], user: ["mtime": "1.5"])
                    intent.extents = [ExtentRecord(end: 10, source: 0), ExtentRecord(end: 1 << 40, source: 2)]
                    intent.attempt = "id-\(number)"
                    intent.ancestors = ["before"]
                    (intent.isAcknowledged, intent.isFlushed) = (true, true)
                }
                changes.append(.file(id, intent))
            case 2: changes.append(.endFile(id))
            case 3:
                changes.append(
                    .upload(
                        id,
                        UploadRecord(
                            key: "key", upload: "u\(number)", file: number == 1 ? nil : id, attempt: "id-1",
                            headers: HeadersRecord(standard: [:], user: [:]), partSize: 5, layoutSize: 0)))
            case 4...5:
                changes.append(
                    .part(
                        upload: id,
                        PartRecord(
                            number: number, range: 0..<Int64.random(in: 0...9, using: &dice), etag: "e",
                            checksum: number == 1 ? nil : UInt32.max - UInt32(number),
                            copiedFrom: number == 1 ? "b" : nil)))
            case 6: changes.append(.endUpload(id))
            case 7:
                let items = (0..<number).map { ItemRecord(source: version("item \($0)", &dice), storageClass: nil) }
                let job: JobIntent =
                    switch number {
                    case 1: .removal(RemovalRecord(key: "gone", etag: nil, commits: ["c"]))
                    case 3: .removals(below: "a/")
                    case 2: .tree(from: "a/", to: "b/")
                    default:
                        .rename(
                            RenameRecord(
                                source: version("a", &dice), to: "b", storageClass: "COLD", replaced: nil,
                                displaced: Bool.random(using: &dice)
                                    ? RemovalRecord(key: "b%", etag: nil, commits: ["c"]) : nil))
                    }
                changes.append(.job(id, job, items: items))
            case 8: changes.append(.advance(id, .removals(below: "c/")))
            default: changes.append(.endJob(id))
            }
        }
        return changes
    }

    private static func version(_ key: String, _ dice: inout SeededGenerator) -> VersionRecord {
        VersionRecord(
            key: ByteString(key), etag: "e\(Int.random(in: 0...9, using: &dice))", size: 7,
            modified: Timestamp(seconds: -3, nanoseconds: 5), versionID: Bool.random(using: &dice) ? "v" : nil)
    }

    /// The version before knew nothing of a displaced target, nor of what a staging file began with.
    @Test func rowsOfTheVersionBeforeAreRead() throws {
        let rename = """
            {"source":{"key":"l","etag":"e","size":1,"modified":{"seconds":1,"nanoseconds":2}},"to":"b","replaced":"r"}
            """
        let read = try JSONDecoder().decode(RenameRecord.self, from: Data(rename.utf8))
        #expect(read.displaced == nil && read.replaced == "r" && read.keys == ["l", "b"])
        let file = """
            {"staging":"1","key":"k","base":{"key":"k","etag":"e","size":7,"modified":{"seconds":1,"nanoseconds":2}},
            "condition":{"any":{}},"identity":"i","ancestors":[],"isAcknowledged":false,"boot":"b","isFlushed":false,
            "changed":5}
            """
        let intent = try JSONDecoder().decode(FileIntent.self, from: Data(file.utf8))
        #expect(intent.stagedOver == nil && intent.baseSize == 7)
    }

    /// A commit whose answer was lost has made another version, of any length: the staging file is the one it was.
    @Test(arguments: [true, false]) func theStagingFileBeganWithWhatItBeganWith(isCopy: Bool) {
        func version(_ key: ByteString, _ size: Int64) -> VersionRecord {
            VersionRecord(key: key, etag: "\(size)", size: size, modified: Timestamp(seconds: 1), versionID: nil)
        }
        var intent = FileIntent(staging: "1", key: "k", base: nil, identity: "i", boot: "b")
        if isCopy { (intent.base, intent.isCopy) = (version("other", 9), true) }
        intent.rebase(on: version("k", 5))
        #expect(intent.baseSize == 0 && intent.isCopy == nil)
        intent.rebase(on: version("k", 6))
        #expect(intent.baseSize == 0 && intent.base?.size == 6)
        var other = FileIntent(staging: "1", key: "k", base: version("k", 7), identity: "i", boot: "b")
        other.rebase(on: other.base)
        #expect(other.stagedOver == nil && other.baseSize == 7)
        other.rebase(on: version("k", 5))
        #expect(other.baseSize == 7)
    }

    @Test func bytesStayAsLongAsTheirFile() throws {
        var journal: Journal? = try Journal(path: path)
        let (one, two) = (IntentID(rawValue: 1), IntentID(rawValue: 2))
        var intent = FileIntent(staging: "1", key: "key", base: nil, identity: "id", boot: "boot")
        try journal?.write([.file(one, intent), .content(one, [1, 2])], .soon)
        try journal?.write([.file(two, intent), .content(two, [])], .now)
        intent.attempt = "id-1"
        try journal?.write([.file(one, intent)], .soon)
        journal?.flush()
        journal = try Journal(path: path)
        #expect(try journal?.content(of: one) == [1, 2])
        #expect(try journal?.content(of: two) == [])
        try journal?.write([.file(one, intent), .content(one, nil)], .now)
        try journal?.write([.endFile(two)], .soon)
        #expect(try journal?.content(of: one) == nil)
        #expect(try journal?.content(of: two) == nil)
    }

    @Test(arguments: 0..<20)
    func theDatabaseHoldsWhatTheChangesLeadTo(seed: UInt64) throws {
        var model = JournalContents()
        var journal: Journal? = try Journal(path: path)
        var rest = Self.changes(80, seed: seed)[...]
        var dice = SeededGenerator(seed: seed ^ 99)
        while !rest.isEmpty {
            let some = Array(rest.prefix(Int.random(in: 1...5, using: &dice)))
            rest = rest.dropFirst(some.count)
            try journal?.write(some, flushed: Bool.random(using: &dice))
            for change in some { model.apply(change) }
            if Int.random(in: 0..<10, using: &dice) == 0 {
                journal?.close()
                journal = try Journal(path: path)
            }
            #expect(try journal?.contents() == model, "seed \(seed)")
        }
    }

    @Test func whatAKilledProcessWroteIsThere() throws {
        let journal = try Journal(path: path)
        let intent = FileIntent(staging: "1", key: "a/b", base: nil, identity: "x", boot: journal.boot)
        try journal.write([.file(journal.newID(), intent)], flushed: false)
        // The files as they are, without a close: what kill -9 leaves.
        let copy = directory.path("copy.db")
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
        }
        #expect(try Journal(path: copy).contents().files.values.map(\.key) == ["a/b"])
        withExtendedLifetime(journal) {}
    }

    @Test func numbersAreNotUsedAgainWhileARowHasThem() throws {
        let journal = try Journal(path: path)
        let ids = (0..<3).map { _ in journal.newID() }
        #expect(Set(ids).count == 3)
        let last = try #require(ids.last)
        try journal.write(
            [.job(last, .removal(RemovalRecord(key: "k", etag: "e", commits: [])), items: [])], flushed: true)
        journal.close()
        #expect(try Journal(path: path).newID() > last)
    }

    @Test func manyWritersShareTheirCommits() async throws {
        let journal = try Journal(path: path)
        await withTaskGroup(of: Void.self) { group in
            for writer in 0..<8 {
                let pool = WorkerPool(threads: 1, name: "writer")
                group.addTask {
                    await pool.start {
                        for _ in 0..<50 {
                            let id = journal.newID()
                            do throws(JournalingError) {
                                try journal.write(
                                    [
                                        .job(
                                            id,
                                            .removal(
                                                RemovalRecord(key: ByteString("\(writer)"), etag: nil, commits: [])),
                                            items: [])
                                    ], flushed: true)
                                if id.rawValue % 2 == 0 { try journal.write([.endJob(id)], flushed: false) }
                            } catch { Issue.record("\(error)") }
                        }
                    }.value
                }
            }
        }
        let jobs = try journal.contents().jobs
        #expect(jobs.count == 200)
        #expect(jobs.keys.allSatisfy { $0.rawValue % 2 == 1 })
    }

    @Test func aWriteThatFailsIsToldToItsCallerAlone() throws {
        let journal = try Journal(path: path)
        journal.close()
        #expect(throws: JournalingError.self) {
            try journal.write([.endFile(IntentID(rawValue: 1))], flushed: true)
        }
    }

    @Test(.rule("crash.disk")) func aDamagedJournalIsNotReplaced() throws {
        try File.writeAtomically(Array("no database, but somebody's only hope".utf8), to: path)
        let error = #expect(throws: JournalingError.self) { try Journal(path: path) }
        #expect(error?.description.contains("copy both before you move it away") == true)
        #expect(try File(path).size > 10)
    }

    /// A journal with rows of `count` files; returns its length in bytes.
    private func fill(_ count: Int64) throws -> Int64 {
        let journal = try Journal(path: path)
        var changes: [JournalChange] = []
        for number in 1...count {
            let name = "file \(number)" + String(repeating: "x", count: 300)
            let intent = FileIntent(
                staging: "\(number)", key: ByteString(name), base: nil, identity: "i", boot: "b")
            changes.append(.file(IntentID(rawValue: number), intent))
        }
        try journal.write(changes, flushed: true)
        journal.close()
        return try File(path).size
    }

    @Test(.rule("crash.disk"), arguments: [3, 5])
    func whatIsLeftOfADamagedJournalCanBeRead(tenths: Int64) throws {
        let size = try fill(3000)
        let file = try File(path, .readWrite)
        try file.write([UInt8](repeating: 0xa5, count: 8192), at: size * tenths / 10 / 4096 * 4096)
        let before = try file.read(0..<size)
        #expect(throws: JournalingError.self) { try Journal(path: path) }
        let scratch = try TemporaryDirectory()
        let salvage = try JournalSalvage(of: path, in: scratch.path)
        #expect(salvage.contents.files.count > 10)
        #expect(salvage.contents.files.allSatisfy { $0.value.key.hasPrefix(ByteString("file \($0.key.rawValue)x")) })
        #expect(salvage.contents.files.count == 3000 || !salvage.lost.isEmpty)
        #expect(try file.read(0..<size) == before)
    }

    @Test func nothingIsLostOfAJournalThatIsWhole() throws {
        _ = try fill(50)
        let scratch = try TemporaryDirectory()
        let salvage = try JournalSalvage(of: path, in: scratch.path)
        #expect(salvage.contents == (try Journal(path: path).contents()))
        #expect(salvage.lost.isEmpty)
    }

    @Test(arguments: [
        ("before:open", true), ("after:rename:3", true), ("after", false), ("during:open", false), ("after::1", false),
        ("after:open:0", false), ("after:open:x", false), ("", false),
    ])
    func stopPointsAreReadFromText(text: String, isOne: Bool) { #expect((StopPoint(text) != nil) == isOne) }

    @Test func aStopPointKillsTheProcessAtItsStep() async throws {
        await #expect(processExitsWith: .signal(SIGKILL)) {
            let directory = try TemporaryDirectory()
            let journal = try Journal(path: directory.path("journal.db"), stop: StopPoint("after:end-job:2"))
            for _ in 0..<2 { try journal.write([.endJob(journal.newID())], flushed: false) }
        }
    }

    @Test func straysAreTheUploadsOfNoFile() {
        var contents = JournalContents()
        let headers = HeadersRecord(standard: [:], user: [:])
        func upload(_ id: Int64, of file: Int64?) {
            contents.apply(
                .upload(
                    IntentID(rawValue: id),
                    UploadRecord(
                        key: "k", upload: "u\(id)", file: file.map { IntentID(rawValue: $0) }, attempt: "a",
                        headers: headers, partSize: 1, layoutSize: 0)))
        }
        contents.apply(
            .file(
                IntentID(rawValue: 1), FileIntent(staging: "1", key: "k", base: nil, identity: "i", boot: "b")))
        upload(2, of: 1)
        upload(3, of: 9)
        upload(4, of: nil)
        #expect(contents.strayUploads.map(\.id.rawValue) == [3, 4])
        #expect(contents.uploads(of: IntentID(rawValue: 1)).map(\.id.rawValue) == [2])
    }
}
