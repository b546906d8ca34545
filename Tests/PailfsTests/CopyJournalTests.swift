import Basics
import TestSupport
import Testing

@testable import pailfs

@Suite struct CopyJournalTests {
    private let records: [CopyRecord] = [
        .upload(item: "a b", id: "up/1", partSize: 8, source: "s 1"),
        .partial(item: "d/ä", file: ".x.part", source: "s2"), .range(item: "d/ä", 0..<8), .range(item: "d/ä", 16..<24),
        .done(item: "c", source: "s3", result: "e3"),
    ]

    private func bytes(_ records: [CopyRecord], boot: String = "boot") -> [UInt8] {
        ([.process(boot: boot)] + records).flatMap(\.line)
    }

    @Test func linesReadAsTheyWereWritten() {
        for record in records { #expect(CopyRecord(line: record.line.dropLast()) == record) }
    }

    @Test func theRecordsSayWhatIsUnfinished() {
        let known = CopyRecords(bytes(records), boot: "boot")
        #expect(known.uploads["a b"] == CopyRecords.Upload(id: "up/1", partSize: 8, source: "s 1"))
        #expect(known.partials["d/ä"]?.ranges == [0..<8, 16..<24])
        #expect(known.done["c"] == CopyRecords.Done(source: "s3", result: "e3"))
        #expect(!known.hasNoTransfers)
        let ended = CopyRecords(
            bytes(records + [.ended(item: "a b"), .done(item: "d/ä", source: "", result: "")]), boot: "boot")
        #expect(ended.hasNoTransfers && ended.done.count == 2)
    }

    /// A power cut may have lost bytes that were written and not flushed.
    @Test func rangesOfAnEarlierBootDoNotCount() {
        let known = CopyRecords(bytes(records), boot: "next")
        #expect(known.partials["d/ä"]?.ranges == [])
        #expect(known.uploads.count == 1 && known.done.count == 1)
        #expect(CopyRecords(bytes(records, boot: ""), boot: "").partials["d/ä"]?.ranges == [])
    }

    /// A process can die, and a disk can fill up, in the middle of a line.
    @Test func aLineThatWasCutOffIsLeftOut() {
        let whole = bytes(records)
        for count in 0..<whole.count {
            let known = CopyRecords(Array(whole[..<count]), boot: "boot")
            for (item, partial) in known.partials {
                #expect(item == "d/ä" && partial.ranges.allSatisfy { [0..<8, 16..<24].contains($0) })
            }
            for upload in known.uploads { #expect(upload.key == "a b" && upload.value.id == "up/1") }
        }
    }

    @Test func aGapBeforeALineIsSkipped() {
        let known = CopyRecords(
            CopyRecord.process(boot: "b").line + [UInt8](repeating: 0, count: 9) + records[4].line, boot: "b")
        #expect(known.done.count == 1)
    }

    @Test func theNextProcessGoesOn() throws {
        let directory = try TemporaryDirectory()
        func open() throws -> CopyJournal? {
            try CopyJournal(in: directory.path + "/copies", identity: ["a", "b"], boot: "b")
        }
        do {
            let first = try #require(try open())
            #expect(try open() == nil, "two processes must not write the same journal")
            for record in records { first.add(record) }
        }
        let second = try #require(try open())
        #expect(second.upload(of: "a b")?.id == "up/1")
        #expect(second.partial(of: "d/ä")?.ranges.count == 2)
        #expect(second.doneBefore["c"] != nil)
        second.add(.ended(item: "a b"))
        second.add(.ended(item: "d/ä"))
        second.close(isComplete: true)
        #expect(try Directory.isEmpty(directory.path + "/copies"))
    }

    @Test func whatWasCopiedStaysKnownWhileSomethingFailed() throws {
        let directory = try TemporaryDirectory()
        let journal = try #require(try CopyJournal(in: directory.path, identity: ["a"], boot: "b"))
        journal.add(.done(item: "c", source: "s", result: "r"))
        journal.close(isComplete: false)
        #expect(try !Directory.isEmpty(directory.path))
    }

    @Test func aJournalThatNothingCanUseIsRemoved() throws {
        let directory = try TemporaryDirectory()
        let journal = try #require(try CopyJournal(in: directory.path, identity: ["a"], boot: "b"))
        journal.close(isComplete: false)
        #expect(try Directory.isEmpty(directory.path))
    }
}
