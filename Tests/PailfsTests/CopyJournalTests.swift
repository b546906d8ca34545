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

    @Test func theNextProcessResumes() throws {
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

    /// A file that grows with each run would be read whole for ever.
    @Test func aFileOfDeadLinesIsRewritten() throws {
        let directory = try TemporaryDirectory()
        func open() throws -> CopyJournal {
            try #require(try CopyJournal(in: directory.path, identity: ["a"], boot: "b"))
        }
        func size() throws -> Int64 {
            let name = try #require(try Directory.names(in: directory.path).first)
            return try #require(try LocalFileStatus(of: "\(directory.path)/\(name)")).size
        }
        do {
            let journal = try open()
            for record in records { journal.add(record) }
            for number in 0..<2000 { journal.add(.done(item: "x", source: "\(number)", result: "r")) }
            journal.add(.upload(item: "x", id: "up/2", partSize: 8, source: "s"))
            journal.close(isComplete: false)
        }
        let before = try size()
        do {
            let journal = try open()
            #expect(try size() < before / 10)
            #expect(try CopyJournal(in: directory.path, identity: ["a"], boot: "b") == nil, "the new file is locked")
            #expect(journal.upload(of: "x")?.id == "up/2" && journal.upload(of: "a b")?.id == "up/1")
            #expect(journal.doneBefore["x"] == CopyRecords.Done(source: "1999", result: "r"))
        }
        let journal = try open()
        #expect(journal.upload(of: "x")?.id == "up/2" && journal.partial(of: "d/ä")?.ranges.count == 2)
        #expect(journal.doneBefore.count == 2)
        #expect(try Directory.names(in: directory.path).count == 1)
    }

    /// A process that ends removes the file that another one has opened and not locked yet.
    @Test func aLockOnARemovedFileDoesNotCount() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/journal"
        var opened: [File] = []
        let file = try CopyJournal.open(path) { (path) throws(FileError) in
            let file = try File(path, .readWrite, create: .ifMissing)
            if opened.isEmpty { try File.remove(path) }
            opened.append(file)
            return file
        }
        #expect(opened.count == 2 && file === opened[1])
        #expect(try CopyJournal.open(path) == nil)
    }

    @Test func aRefusedNameDoesNotKeepTheJournal() {
        let tally = CopyTally()
        tally.refused("link", "it is a symbolic link")
        #expect(!tally.hasRepairable && tally.failures.count == 1)
        tally.failed("file", "the disk is full")
        #expect(tally.hasRepairable && tally.failures.count == 2)
    }

    // MARK: Which commands resume each other

    private static let places = ["s3://b/a", "s3://b/c"]

    private func identity(
        _ paths: [String] = places, _ change: (inout CopyRun.Options) throws -> Void
    ) throws -> [String] {
        var options = CopyRun.Options()
        try change(&options)
        return try CopyRun(paths, options).identity
    }

    @Test func theSameCopyResumes() throws {
        let first = try identity { _ in }
        #expect(try identity { $0.jobs = 2 } == first)
        #expect(try identity(["s3://b/a", "s3://b/d"]) { _ in } != first)
        #expect(try identity { $0.rules.headers = [try HeaderChange("Cache-Control: no-store")] } != first)
        #expect(try identity { $0.rules.storageClass = "STANDARD_IA" } != first)
        #expect(try identity { $0.storeOptions = ["path-style"] } != first)
    }
}
