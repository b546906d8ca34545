import Basics
import Foundation
import Journaling
import TestSupport
import Testing

/// Rows of a journal that something has damaged are read or refused, and nothing traps.
@Suite struct FuzzTests {
    @Test func rowsOfTheJournal() throws {
        var intent = FileIntent(staging: "1", key: "dir/key", base: nil, identity: "i", boot: "b")
        intent.base = VersionRecord(
            key: "dir/key", etag: "e", size: 5, modified: Timestamp(seconds: 1, nanoseconds: 2), versionID: "v")
        intent.extents = [ExtentRecord(end: 5, source: 1), ExtentRecord(end: 10, source: 0)]
        let seeds = [Array(try JSONEncoder().encode(intent))]
        Fuzzer("rows of the journal", seeds: seeds, words: ["\"end\":", "\"size\":", "\"key\":"]).run(3000) { bytes in
            let read = try JSONDecoder().decode(FileIntent.self, from: Data(bytes))
            _ = read.size
            _ = try JSONEncoder().encode(read)
        }
    }

    /// A journal that something has damaged is refused, or tells exactly what was promised.
    @Test func damagedJournals() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("journal.db")
        let acknowledged = try Self.journal(at: path)
        let whole = Array(try Data(contentsOf: URL(filePath: path)))
        Fuzzer("journals", seeds: [whole], pageSize: 4096).run(40) { bytes in
            for suffix in ["-wal", "-shm"] { try File.remove(path + suffix) }
            try Data(bytes).write(to: URL(filePath: path))
            let journal = try Journal(path: path)
            defer { journal.close() }
            let contents = try journal.contents()
            guard bytes != whole, contents != acknowledged.contents else { return }
            Issue.record("\(bytes.count) bytes open, and say \(contents)")
        }
        // What is left of one that is refused is read without a trap as well.
        Fuzzer("journals, salvaged", seeds: [whole], pageSize: 4096).run(20) { bytes in
            try Data(bytes).write(to: URL(filePath: path))
            let copy = try TemporaryDirectory()
            for (id, file) in try JournalSalvage(of: path, in: copy.path("")).contents.files {
                #expect(acknowledged.contents.files[id] == file)
            }
        }
    }

    /// What a mount with files of each kind leaves when it is killed.
    private static func journal(at path: String) throws -> (contents: JournalContents, small: [IntentID: [UInt8]]) {
        let journal = try Journal(path: path)
        defer { journal.close() }
        var small: [IntentID: [UInt8]] = [:]
        for number in Int64(1)...60 {
            var intent = FileIntent(
                staging: "\(number)", key: ByteString("dir/key \(number)"), base: nil, identity: "i", boot: "b")
            (intent.isAcknowledged, intent.isFlushed) = (true, true)
            intent.extents = [ExtentRecord(end: number * 10, source: 1)]
            var changes: [JournalChange] = [.file(IntentID(rawValue: number), intent)]
            if number.isMultiple(of: 3) {
                let bytes = (0..<UInt8(number)).map { $0 &* 7 }
                small[IntentID(rawValue: number)] = bytes
                changes.append(.content(IntentID(rawValue: number), bytes))
            }
            try journal.write(changes, .now)
        }
        try journal.write([.job(IntentID(rawValue: 99), .tree(from: "a/", to: "b/"), items: [])], .now)
        journal.flush()
        return (try journal.contents(), small)
    }
}
