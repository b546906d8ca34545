import Basics
import Foundation
import TestSupport
import Testing

@Suite struct FileTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test func bytesComeBackFromTheirOffsets() throws {
        let file = try File(directory.path("f"), .readWrite, create: .exclusive)
        try file.write(Array("hello".utf8), at: 3)
        #expect(try file.size == 8)
        #expect(try file.read(0..<8) == [0, 0, 0] + Array("hello".utf8))
        #expect(try file.read(6..<99) == Array("lo".utf8))
        #expect(try file.read(50..<60) == [])
        try file.truncate(to: 5)
        #expect(try file.read(3..<9) == Array("he".utf8))
        try file.syncData()
        try file.sync()
    }

    @Test func aSpanIsFilledBehindWhatItHolds() throws {
        let file = try File(directory.path("f"), .readWrite, create: .ifMissing)
        try file.write(Array(0..<10), at: 0)
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 8, alignment: 8)
        defer { memory.deallocate() }
        var output = OutputRawSpan(buffer: memory, initializedCount: 0)
        for byte in [98, 99] as [UInt8] { output.append(byte) }
        try file.read(at: 1, into: &output)
        #expect(output.finalize(for: memory) == 8)
        #expect(Array(memory) == [98, 99, 1, 2, 3, 4, 5, 6])
    }

    @Test func pathsAreResolvedFromTheRootOn() throws {
        try Directory.create(directory.path("a/b"))
        #expect(symlink("a/b", directory.path("link")) == 0)
        let whole = try #require(File.resolved(directory.path("a/b")))
        #expect(whole.hasPrefix("/") && whole.hasSuffix("/a/b"))
        #expect(File.resolved(directory.path("link/..//b/.")) == whole)
        #expect(File.resolved(directory.path("none")) == nil)
        #expect(Directory.working == File.resolved("."))
    }

    @Test func errorsNameThePathAndTheReason() throws {
        let error = try #require(throws: FileError.self, performing: { try File(directory.path("none")) })
        #expect(error.errno == ENOENT)
        #expect(error.description == "cannot open \(directory.path("none")): No such file or directory")
        _ = try File(directory.path("f"), .readWrite, create: .exclusive)
        let again = try #require(
            throws: FileError.self, performing: { try File(directory.path("f"), .readWrite, create: .exclusive) })
        #expect(again.errno == EEXIST)
        let full = try File("/dev/full", .readWrite)
        let outOfSpace = try #require(throws: FileError.self, performing: { try full.write([1], at: 0) })
        #expect(outOfSpace.isOutOfSpace)
    }

    @Test func aSymbolicLinkIsNotFollowed() throws {
        _ = try File(directory.path("f"), .readWrite, create: .exclusive)
        try FileManager.default.createSymbolicLink(
            atPath: directory.path("link"), withDestinationPath: directory.path("f"))
        let error = try #require(throws: FileError.self, performing: { try File(directory.path("link")) })
        #expect(error.errno == ELOOP)
    }

    @Test func aSymbolicLinkIsFollowedWhereThatIsAskedFor() throws {
        try File(directory.path("f"), .readWrite, create: .exclusive).write([1, 2, 3], at: 0)
        try FileManager.default.createSymbolicLink(
            atPath: directory.path("link"), withDestinationPath: directory.path("f"))
        let file = try File(directory.path("link"), followsLinks: true)
        let status = try LocalFileStatus(of: file)
        #expect(status.kind == .file && status.size == 3)
        #expect(try LocalFileStatus(of: directory.path("link"))?.kind == .symbolicLink)
    }

    @Test func aHoleGivesSpaceBackAndReadsAsZeros() throws {
        let file = try File(directory.path("f"), .readWrite, create: .exclusive)
        try file.write([UInt8](repeating: 7, count: 64 << 10), at: 0)
        try file.sync()
        let before = try file.allocated
        try file.punchHole(0..<(32 << 10))
        #expect(try file.size == 64 << 10)
        #expect(try file.read((32 << 10) - 1..<(32 << 10) + 1) == [0, 7])
        #expect(try file.allocated < before)
        try file.allocate(0..<(128 << 10))
        #expect(try file.size == 128 << 10)
    }

    @Test func aLockKeepsOthersOutUntilItsFileEnds() throws {
        let other = try File(directory.path("f"), .readWrite, create: .ifMissing)
        do {
            let file = try File(directory.path("f"), .readWrite)
            #expect(try file.tryLock())
            #expect(try !other.tryLock())
        }
        #expect(try other.tryLock())
    }

    @Test func anAtomicWriteReplacesTheWholeContent() throws {
        let path = directory.path("f")
        try File.writeAtomically(Array("a longer first content".utf8), to: path)
        try File.writeAtomically(Array("second".utf8), to: path)
        #expect(try File(path).read(0..<99) == Array("second".utf8))
        #expect(try Directory.names(in: directory.path) == ["f"])
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test func aFailedAtomicWriteLeavesNothing() throws {
        #expect(throws: FileError.self) { try File.writeAtomically([1], to: directory.path("none/f")) }
        try Directory.create(directory.path("d"))
        #expect(throws: FileError.self) { try File.writeAtomically([1], to: directory.path("d")) }
        #expect(try Directory.names(in: directory.path) == ["d"])
    }

    @Test func directoriesAreMadeWithTheirParentsForTheOwnerAlone() throws {
        let path = directory.path("a/b/c")
        try Directory.create(path)
        try Directory.create(path)
        for made in ["a", "a/b", "a/b/c"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: directory.path(made))
            #expect(attributes[.posixPermissions] as? Int == 0o700)
        }
        _ = try File(directory.path("f"), .readWrite, create: .exclusive)
        let error = try #require(throws: FileError.self, performing: { try Directory.create(directory.path("f")) })
        #expect(error.errno == EEXIST)
    }

    @Test func removingAMissingFileIsNoError() throws {
        try File.remove(directory.path("none"))
        _ = try File(directory.path("f"), .readWrite, create: .exclusive)
        try File.rename(directory.path("f"), to: directory.path("g"))
        try File.remove(directory.path("g"))
        #expect(try Directory.names(in: directory.path) == [])
    }

    @Test func freeSpaceIsKnown() throws {
        let (free, total) = try Directory.space(at: directory.path)
        #expect(free > 0 && total >= free)
    }

    @Test func aRangeOfAFileIsABody() throws {
        let file = try File(directory.path("f"), .readWrite, create: .exclusive)
        try file.write(Array(0..<200), at: 0)
        let source = FileSource(file, 50..<150)
        #expect(source.count == 100)
        #expect(try source.collect(piece: 7) == Array(50..<150))
        #expect(try source.collect(from: 99) == [149])
        #expect(try source.collect(from: 100) == [])
    }

    @Test func aBodyCutShortIsAnError() throws {
        let file = try File(directory.path("f"), .readWrite, create: .exclusive)
        try file.write(Array(0..<200), at: 0)
        let source = FileSource(file, 50..<150)
        try file.truncate(to: 100)
        #expect(throws: ByteTransferError.self) { try source.collect() }
    }
}
