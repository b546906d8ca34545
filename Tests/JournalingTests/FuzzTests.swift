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
}
