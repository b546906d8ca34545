import Basics
import Commits
import Journaling
import ObjectStorage
import TestSupport
import Testing

/// A file's record says what its row says.
@Suite struct RecordTests {
    private let directory: TemporaryDirectory
    private let journal: Journal

    init() throws {
        directory = try TemporaryDirectory()
        journal = try Journal(path: directory.path("journal.db"))
    }

    private func make() throws -> FileRecord {
        try FileRecord(journal.newID(), key: "file", base: nil, now: Timestamp(seconds: 5), in: journal)
    }

    @Test func whatCouldNotBeWrittenIsNotSo() throws {
        let (record, newer) = (try make(), try make())
        let before = (record.intent, newer.intent)
        journal.close()
        #expect(throws: JournalingError.self) { try record.describe(ObjectMetadata(contentType: "a/b")) }
        #expect(throws: JournalingError.self) {
            try record.moved(FileRecord.Move(to: "other", of: 7, condition: .absent), with: newer)
        }
        #expect(record.intent == before.0)
        #expect(newer.intent == before.1)
    }

    @Test func changesThatComeTogetherAreAllThere() async throws {
        let (record, pool) = (try make(), WorkerPool(threads: 4, name: "record"))
        let version = ObjectVersion(etag: ETag("e"), size: 5, modified: Timestamp(seconds: 1), versionID: nil)
        for round in 0..<50 {
            let metadata = ObjectMetadata(contentType: "a/\(round)")
            let tasks = [
                pool.start { _ = try? record.describe(metadata) },
                pool.start {
                    _ = try? record.moved(
                        FileRecord.Move(to: ObjectKey(ByteString("\(round)")), of: UInt64(round), condition: .absent))
                },
                pool.start { _ = try? record.copies("source", version) },
            ]
            for task in tasks { await task.value }
            #expect(record.intent.key == ByteString("\(round)"))
            #expect(record.intent.headers == HeadersRecord(metadata))
            #expect(try journal.contents().files[record.id] == record.intent)
        }
    }
}
