import Basics
import Commits
import FileSystem
import Foundation
import Journaling
import Metadata
import ObjectStorage
import Staging
import Synchronization
import TestSupport
import Testing

/// `durable=local`: what a close promises without the store, and what becomes of it.
@Suite struct AcknowledgeTests {
    private let tree: MountedTree
    private let readWrite = OpenFlags(reads: true, writes: true)
    private let body = Array("promised".utf8)

    init() throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        tree = try MountedTree(capabilities: capabilities, durability: .local, partSize: 64 << 10)
    }

    /// A read that waits for the object below what was promised, while that is promised anew.
    @Test func aReadGoesOnWithTheNewerPromise() async throws {
        tree.store.setObject("f", [UInt8](repeating: 0x61, count: 200_000))
        tree.refuseWrites()
        let file = try await tree.open("f", readWrite)
        let gate = tree.store.hold(.get)
        try await tree.write(file, body, at: 100_000)
        try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
        let (system, rooms) = (tree.system, tree.rooms)
        let buffer = try #require(rooms.buffers.tryBorrow(200_000))
        let read = tree.pool.start {
            await system.read(file.0, handle: file.1, at: 0, count: 200_000, into: buffer).value()
        }
        await gate.waitForArrivals()
        try await tree.write(file, Array("PROMISED".utf8), at: 100_000)
        try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
        gate.open()
        #expect(try await read.value.get() == 200_000)
        #expect(buffer.bytes[100_000..<100_008].elementsEqual(Array("PROMISED".utf8)))
        #expect(buffer.bytes[199_999] == 0x61)
        tree.store.fault = nil
        try await tree.close(file)
        try await tree.waitUntil("stored") { tree.store.content("f")?[100_000] == UInt8(ascii: "P") }
    }

    /// Whoever opens a file at the end of its upload may have read its entry before that.
    @Test func aFileKeepsItsNumberWhenItIsOpenedAtTheEndOfItsUpload() async throws {
        try await tree.store("f", body)
        let number = try await tree.find("f").ino
        for round in 0..<300 {
            try await tree.store("f", Array("\(round)".utf8))
            for _ in 0..<20 {
                try await tree.close(tree.open("f", OpenFlags(reads: true, writes: false)))
                try #require(try await tree.find("f").ino == number, "round \(round)")
            }
        }
    }

    /// A link has another key, so the object of what it replaces has to go, whether it was just stored or not.
    @Test func aFileThatALinkReplacesAtTheEndOfItsUploadIsGone() async throws {
        for round in 0..<300 {
            try await tree.symlink("link", "target")
            try await tree.store("f", Array("\(round)".utf8))
            for _ in 0..<round % 20 { _ = try await tree.find("f") }
            try await tree.rename("link", to: "f")
            _ = await tree.system.store(below: .root)
            try #require(tree.store.keys == ["f.rclonelink"], "round \(round)")
            try await tree.unlink("f")
        }
    }

    @Test func filesThatAreRemovedInARowAtTheEndOfTheirUploadsAreGone() async throws {
        for round in 0..<60 {
            let names = (0..<8).map { "f\($0)" }
            for name in names { try await tree.store(name, Array("\(round)".utf8)) }
            for name in names { try await tree.unlink(name) }
            _ = await tree.system.store(below: .root)
            try #require(tree.store.keys.isEmpty, "round \(round)")
        }
    }

    @Test(.rule("close.local", "visible.other")) func aCloseReturnsWithoutTheStoreAndTheBytesGetThere() async throws {
        let gate = tree.store.hold(.put)
        try await tree.store("f", body)
        #expect(tree.store.content("f") == nil)
        #expect(try await tree.load("f") == body)
        gate.open()
        try await tree.expectStored("f", body)
        #expect(try await tree.load("f") == body)
    }

    @Test(.rule("crash.acknowledged")) func theNextProcessStoresWhatWasPromised() async throws {
        try await tree.makeDirectory("d")
        tree.refuseWrites()
        try await tree.store("d/f", body)
        try await tree.store("g", Array(body.reversed()))
        tree.crash()
        tree.store.fault = nil
        try await tree.mountAgain()
        #expect(try await tree.load("d/f") == body)
        try await tree.expectStored("d/f", body)
        try await tree.expectStored("g", Array(body.reversed()))
        try await tree.waitUntil("the journal is empty") { (try? tree.rooms.journal.contents().isEmpty) == true }
        #expect(try await tree.names("") == ["d", "g"])
    }

    /// What is not flushed by itself is what a power cut takes: names, and bytes of files that are there.
    @Test(arguments: ["names", "bytes"])
    func aSmallFileIsWhollyInTheJournal(_ lost: String) async throws {
        tree.refuseWrites()
        try await tree.store("empty", [])
        try await tree.store("f", body)
        let large = [UInt8](repeating: 7, count: 100_000)
        try await tree.store("large", large)
        tree.crash()
        let staging = tree.rooms.staging.directory
        for name in try FileManager.default.contentsOfDirectory(atPath: staging) where Int(name) != nil {
            let path = "\(staging)/\(name)"
            let isSmall = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0 < large.count
            guard isSmall else { continue }
            if lost == "names" { try FileManager.default.removeItem(atPath: path) } else { truncate(path, 0) }
        }
        tree.store.fault = nil
        try await tree.mountAgain()
        #expect(try await tree.load("f") == body)
        try await tree.expectStored("f", body)
        try await tree.expectStored("empty", [])
        try await tree.expectStored("large", large)
    }

    @Test func whatWasPromisedIsSeenBeforeItIsStored() async throws {
        tree.refuseWrites()
        try await tree.store("f", body)
        tree.crash()
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
        try await tree.mountAgain()
        #expect(try await tree.load("f") == body)
        #expect(try await tree.names("") == ["f"])
        #expect(try await tree.find("f").size == Int64(body.count))
    }

    @Test(.rule("close.rewrite")) func writingOnLeavesThePromiseAsItWas() async throws {
        tree.refuseWrites()
        try await tree.store("f", body)
        let file = try await tree.open("f", readWrite)
        try await tree.write(file, Array("XX".utf8), at: 0)
        #expect(try await tree.read(file, at: 0, count: 100) == Array("XXomised".utf8))
        // Nothing of the second write was promised.
        tree.crash()
        tree.store.fault = nil
        try await tree.mountAgain()
        try await tree.expectStored("f", body)
    }

    @Test(arguments: ["emptied", "written anew", "written to"])
    func aChangeAfterThePromiseGoesOnWhenTheProcessDies(_ change: String) async throws {
        try await tree.store("f", [UInt8](repeating: 1, count: 50_000))
        try await tree.remount()
        tree.refuseWrites()
        let acknowledged = [UInt8](repeating: 2, count: 40_000)
        try await tree.store("f", acknowledged)
        let flags = OpenFlags(reads: true, writes: change != "emptied", truncate: change != "written to")
        let file = try await tree.open("f", flags)
        if change != "emptied" { try await tree.write(file, Array("news".utf8), at: 0) }
        let expected: [UInt8] =
            switch change {
            case "emptied": []
            case "written anew": Array("news".utf8)
            default: Array("news".utf8) + acknowledged[4...]
            }
        for _ in 0..<2 {
            try await tree.restart()
            #expect(try await tree.find("f").size == Int64(expected.count))
            #expect(try await tree.read(file, at: 0, count: 50_000) == expected)
        }
        tree.store.fault = nil
        try await tree.close(file)
        try await tree.expectStored("f", expected)
    }

    @Test func aSecondPromiseTakesThePlaceOfTheFirst() async throws {
        tree.refuseWrites()
        try await tree.store("f", body)
        let file = try await tree.open("f", readWrite)
        try await tree.write(file, Array("XX".utf8), at: 0)
        try await tree.close(file)
        #expect(try tree.rooms.journal.contents().files.count == 1)
        tree.crash()
        tree.store.fault = nil
        try await tree.mountAgain()
        try await tree.expectStored("f", Array("XXomised".utf8))
        try await tree.waitUntil("the journal is empty") { (try? tree.rooms.journal.contents().isEmpty) == true }
    }

    @Test func rewritingAFileDoesNotNeedWhatItHad() async throws {
        tree.refuseWrites()
        let big = [UInt8](repeating: 7, count: 6 << 20)
        try await tree.store("f", big)
        try await tree.store("f", body)
        tree.store.fault = nil
        try await tree.expectStored("f", body)
    }

    @Test func aRemovedFileDoesNotComeBack() async throws {
        tree.refuseWrites()
        try await tree.store("f", body)
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
        try await tree.unlink("f")
        tree.crash()
        tree.store.fault = nil
        try await tree.mountAgain()
        #expect(try await tree.names("") == [])
        #expect(tree.store.keys.isEmpty)
        #expect(try tree.rooms.journal.contents().isEmpty)
    }

    /// Whatever takes its name: the object that the promise was to replace is still in the bucket, and is not to come back.
    @Test(arguments: ["removed", "replaced by a link"], [false, true])
    func theObjectThatAPromiseReplacesGoesWithIt(_ how: String, emptied: Bool) async throws {
        try await tree.store("f", Array("before".utf8))
        try await tree.symlink("link", "target")
        try await tree.remount()
        tree.refuseWrites()
        let file = try await tree.open("f", OpenFlags(reads: true, writes: true, truncate: emptied))
        try await tree.write(file, body, at: 0)
        try await tree.close(file)
        tree.crash()
        tree.store.fault = { operation, key in
            guard operation == .put, key == "f" else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
        try await tree.mountAgain()
        if how == "removed" { try await tree.unlink("f") } else { try await tree.rename("link", to: "f") }
        tree.store.fault = nil
        try await tree.remount()
        #expect(tree.store.keys == (how == "removed" ? ["link.rclonelink"] : ["f.rclonelink"]))
        #expect(try await tree.names("") == (how == "removed" ? ["link"] : ["f"]))
    }

    /// A number is what a name keeps while nobody has the file open, whoever replaces its object.
    @Test func aFileThatItsRenameStoresBeforeItsTurnIsForgotten() async throws {
        tree.refuseWrites()
        try await tree.store("f", body)
        try await tree.waitUntil("it was tried") { tree.store.count(.put) > 0 }
        tree.store.fault = nil
        try await tree.rename("f", to: "g")
        try await tree.expectStored("g", body)
        let number = try await tree.find("g").ino
        for round in 0..<2 {
            tree.store.setObject("g", Array("theirs \(round)".utf8))
            tree.time.advance(by: .seconds(100))
            #expect(try await tree.find("g").ino == number)
            #expect(try await tree.load("g") == Array("theirs \(round)".utf8))
        }
    }

    /// `cp -p` and rsync set times after the close, when a first try may have reached the store without anybody knowing.
    @Test(arguments: [false, true])
    func whatATryMayHaveStoredGoesWithTheOldName(_ crashes: Bool) async throws {
        tree.store.faultAfter = { operation, key in
            guard [.put, .head].contains(operation) else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the answer was lost")
        }
        try await tree.store("f", body)
        try await tree.waitUntil("it is there") { tree.store.content("f") == body }
        try await tree.change("f") { $0.modified = Timestamp(seconds: 1_000_000) }
        if crashes { try await tree.restart() }
        tree.store.faultAfter = nil
        try await tree.rename("f", to: "g")
        try await tree.expectStored("g", body)
        try await tree.waitUntil("the old name is gone") { tree.store.keys == ["g"] }
    }

    @Test func aRenamedFileIsStoredUnderItsNewName() async throws {
        let gate = tree.store.hold(.put)
        try await tree.store("a", Array("old".utf8))
        try await tree.store("f", body)
        gate.open()
        try await tree.rename("f", to: "a")
        try await tree.expectStored("a", body)
        try await tree.waitUntil("the source is gone") { tree.store.keys == ["a"] }
        #expect(try await tree.load("a") == body)
    }

    /// pailfs-semantics(7), close.rewrite: of a file of more than 4 MiB a write waits for the upload.
    @Test(.rule("close.rewrite", "object.whole")) func writingOnToABigFileWaitsForItsUpload() async throws {
        let acknowledged = [UInt8](repeating: 1, count: 5 << 20)
        let gate = tree.store.hold(.completeUpload)
        try await tree.store("f", acknowledged)
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true))
        let isOver = Atomic(false)
        let write = Task { [system = tree.system] in
            let bytes: [UInt8] = [2]
            let written = await system.write(file.0, handle: file.1, at: nil, bytes: bytes.span.bytes).value()
            isOver.store(true, ordering: .releasing)
            return written
        }
        await gate.waitForArrivals()
        let hasWaited = !isOver.load(ordering: .acquiring)
        #expect(hasWaited && tree.store.content("f") == nil)
        gate.open()
        #expect(try await write.value.get() == 1)
        #expect(tree.store.content("f") == acknowledged)
        try await tree.close(file)
        try await tree.expectStored("f", acknowledged + [2])
    }

    /// pailfs-semantics(7), conflict: each descriptor of the file is stale, and the end of the mount names the file.
    @Test(.rule("conflict", "conflict.keep", "close.clean"), arguments: [true, false])
    func anotherWritersVersionIsAConflictThatIsTold(isOpen: Bool) async throws {
        tree.store.setObject("f", Array("before".utf8))
        let gate = tree.store.hold(.put)
        try await tree.store("f", body)
        let open = isOpen ? try await tree.open("f", OpenFlags(reads: false, writes: true)) : nil
        await gate.waitForArrivals()
        tree.store.setObject("f", Array("theirs".utf8))
        gate.open()
        try await tree.waitUntil("the conflict is kept") {
            tree.store.keys.count == 2 && tree.system.dirtyFiles(below: .root) == 0
        }
        #expect(tree.store.content("f") == Array("theirs".utf8))
        let kept = try #require(tree.store.keys.last)
        #expect(kept.bytes.hasPrefix("f.conflict-here-"))
        #expect(tree.store.content(kept) == body)
        if let open {
            await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) { try await tree.close(open) }
        }
        let unstored = await tree.system.shutDown()
        #expect(unstored.map(\.path) == ["f"])
        #expect(unstored.first?.reason.contains("\(kept)") == true)
    }

    @Test(.rule("attr.set")) func attributesArePromisedToo() async throws {
        tree.refuseWrites()
        try await tree.store("f", body)
        try await tree.change("f") { $0.mode = 0o600 }
        tree.crash()
        tree.store.fault = nil
        try await tree.mountAgain()
        #expect(try await tree.find("f").mode & 0o777 == 0o600)
        try await tree.expectStored("f", body)
        #expect(tree.store.info("f")?.metadata.user["mode"] == String(0o100600))
    }

    @Test(.rule("away.end")) func theEndOfTheMountWaitsForTheStoreAndNamesWhatItRefused() async throws {
        tree.refuseWrites()
        try await tree.store("f", body)
        try await tree.store("g", body)
        tree.store.fault = { operation, key in
            guard key == "g" else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, message: "not for you")
        }
        let unstored = await tree.system.shutDown()
        #expect(unstored.map(\.path) == ["g"])
        #expect(tree.store.content("f") == body)
        tree.store.fault = nil
        try await tree.mountAgain()
        try await tree.expectStored("g", body)
    }

    @Test(.rule("crash.acknowledged")) func aBigFileGoesOnWhereItsUploadWas() async throws {
        let big = SeededContent.bytes(5 * 64 << 10)
        // Each part counts by itself: all of them may be on their way at once.
        let sent = Atomic(0)
        tree.store.fault = { operation, key in
            guard operation == .uploadPart, sent.add(1, ordering: .relaxed).newValue > 3 else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
        try await tree.store("f", big)
        var parts = 0
        try await tree.waitUntil("parts are there, and known to be") {
            guard let upload = tree.store.uploadsInProgress.first?.upload else { return false }
            parts = try await tree.store.listParts("f", upload).count
            let known = try tree.rooms.journal.contents().uploads.values.first?.parts.count
            return parts == 3 && known == parts
        }
        tree.crash()
        tree.store.fault = nil
        tree.store.forgetRequests()
        try await tree.mountAgain()
        try await tree.expectStored("f", big)
        #expect(parts > 0 && tree.store.count(.uploadPart) == 5 - parts)
        #expect(tree.store.count(.createUpload) == 0)
        #expect(tree.store.uploadsInProgress.isEmpty)
    }
}

private enum SeededContent {
    static func bytes(_ count: Int) -> [UInt8] {
        var generator = SeededGenerator(seed: 5)
        return generator.bytes(count)
    }
}
