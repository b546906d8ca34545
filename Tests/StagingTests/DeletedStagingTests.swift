import Basics
import Journaling
import Staging
import TestSupport
import Testing

/// Another program deletes the directory while it is used.
@Suite struct DeletedStagingTests {
    private let directory: TemporaryDirectory
    private let area: StagingArea
    private let ledger: SpaceLedger
    private let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 256 &* 7) }

    init() throws {
        directory = try TemporaryDirectory()
        ledger = SpaceLedger(limit: 8 << 20, floor: 0) { 1 << 40 }
        area = try StagingArea(directory: directory.path("staging"), ledger: ledger, time: SystemTime())
    }

    private func file(_ number: Int64, baseSize: Int64 = 0) throws -> StagedFile {
        let file = try area.create(IntentID(rawValue: number), baseSize: baseSize)
        try file.write(bytes.span.bytes, at: 0)
        return file
    }

    private func content(_ file: StagedFile) throws -> [UInt8] {
        let size = Int(file.size)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        defer { buffer.deallocate() }
        #expect(try file.read(0..<Int64(size), into: buffer) == size)
        return Array(buffer)
    }

    private func delete() { Directory.removeTree(area.directory) }

    @Test(.rule("space.state")) func whatIsOpenIsPutBack() throws {
        let plain = try file(1)
        // One with a map beside it: bytes of the version below, a hole, and bytes past it.
        let edited = try file(2, baseSize: 1 << 20)
        try edited.zero(8192..<20_000)
        let time = Timestamp(seconds: 1_700_000_000, nanoseconds: 7)
        try plain.setModified(time)
        let used = ledger.used
        delete()
        #expect(!area.isInPlace)
        #expect(area.findDeleted().isEmpty)
        #expect(area.isInPlace && ledger.used == used)
        #expect(area.modified("1") == time)
        let more = Array("more".utf8)
        #expect(try plain.append(more.span.bytes) == 300_000)
        #expect(try content(plain) == bytes + Array("more".utf8))
        plain.leave()
        edited.leave()
        // As the next process finds them.
        let again = try #require(try area.reopen("1", baseSize: 0))
        #expect(try content(again) == bytes + Array("more".utf8))
        let map = try #require(try area.reopen("2", baseSize: 1 << 20))
        #expect(map.size == 1 << 20)
        #expect(map.pieces(in: 0..<1 << 20).map(\.source) == [.staged, .hole, .staged, .base])
        for file in [again, map] { file.discard() }
    }

    @Test(.rule("space.state")) func aNewFileMakesTheDirectoryAgain() throws {
        delete()
        let new = try file(1)
        #expect(try content(new) == bytes)
        try area.syncNames()
        new.discard()
        #expect(ledger.used == 0)
    }

    @Test(.rule("space.state")) func aFlushPutsTheFileBack() throws {
        let flushed = try file(1)
        delete()
        try Directory.create(area.directory)
        try flushed.flush()
        flushed.leave()
        let again = try #require(try area.reopen("1", baseSize: 0))
        #expect(try content(again) == bytes)
        again.discard()
    }

    @Test(.rule("space.state")) func whatNobodyHasOpenIsNamedOnceAndCanBeWrittenAgain() throws {
        let resting = try file(1)
        resting.rest()
        delete()
        #expect(area.findDeleted().map(\.name) == ["1"])
        #expect(area.findDeleted().isEmpty)
        #expect(throws: StagingError.deleted) { try content(resting) }
        #expect(throws: StagingError.deleted) { try resting.write(bytes.span.bytes, at: 0) }
        #expect(throws: StagingError.deleted) { try resting.flush() }
        try resting.truncate(to: 0)
        try resting.write(bytes.span.bytes, at: 0)
        try resting.flush()
        #expect(try content(resting) == bytes)
        resting.discard()
        #expect(ledger.used == 0)
    }

    @Test(.rule("space.state")) func whatIsKnownElsewhereIsPutBack() throws {
        let resting = try file(1)
        resting.rest()
        delete()
        #expect(area.findDeleted().count == 1)
        #expect(!resting.putBack([1, 2, 3]))
        #expect(resting.putBack(bytes))
        try resting.flush()
        #expect(try content(resting) == bytes)
        resting.discard()
    }
}
