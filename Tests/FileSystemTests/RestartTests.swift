import Basics
import Blocks
import Commits
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// The process that serves a mount dies and another one goes on: what programs have open stays as it was, or says so.
@Suite struct RestartTests {
    private let readWrite = OpenFlags(reads: true, writes: true)

    @Test(.rule("crash.process")) func anEditGoesOnWhereItWas() async throws {
        let tree = try MountedTree()
        let old = Array(repeating: UInt8(ascii: "o"), count: 100_000)
        try await tree.store("f", old)
        let file = try await tree.open("f", readWrite)
        try await tree.write(file, Array("first".utf8), at: 50_000)
        try await tree.restart()
        try await tree.write(file, Array("second".utf8), at: 70_000)
        try await tree.restart()
        try await tree.close(file)
        var expected = old
        expected.replaceSubrange(50_000..<50_005, with: Array("first".utf8))
        expected.replaceSubrange(70_000..<70_006, with: Array("second".utf8))
        #expect(tree.store.content("f") == expected)
    }

    @Test(.rule("readdir", "crash.process"), arguments: [1, 5, 100], [false, true])
    func aListingGoesOnWhereItWas(page: Int, isRemoving: Bool) async throws {
        var capabilities = Capabilities()
        capabilities.listPage = page
        let tree = try MountedTree(capabilities: capabilities)
        let names = (10..<22).map { "f\($0)" }
        for name in names { tree.store.setObject(ObjectKey(ByteString(name)), [1]) }
        let handle = try await tree.run(tree.system.openDirectory(.root))
        var (found, offset, replies) = ([String](), UInt64(0), 0)
        while true {
            let reply = SmallReply(capacity: 7)
            try await tree.run(
                tree.system.readDirectory(.root, handle: handle, from: offset, attributes: true, into: reply))
            guard let last = reply.entries.last else { break }
            found += reply.entries.map { $0.name.description }
            offset = last.offset
            replies += 1
            // As rm -r does: what was listed is gone when the rest is asked for.
            for entry in reply.entries where isRemoving && entry.name != "." && entry.name != ".." {
                try await tree.unlink(entry.name.description)
            }
            // The next process asks the store again.
            tree.time.advance(by: .seconds(1000))
            if replies < 3 { try await tree.restart() }
        }
        #expect(found == [".", ".."] + names)
    }

    @Test func whatIsOpenOutlivesAnUnlinkWhoseAnswerNobodyHeard() async throws {
        let tree = try MountedTree()
        let content = [UInt8](repeating: 7, count: 200_000)
        try await tree.store("f", content)
        let file = try await tree.open("f", OpenFlags(reads: true, writes: false))
        let deleting = tree.store.hold(.delete, beforeReply: true)
        let (system, pool) = (tree.system, tree.pool)
        let unlink = pool.start { _ = await system.unlink("f", in: .root).value() }
        await deleting.waitForArrivals()
        #expect(tree.store.keys.isEmpty)
        try await tree.restart()
        deleting.open()
        unlink.cancel()
        // The kernel asks again; the bridge knows that it is gone.
        _ = await Result { () async throws(MountedTree.Failure) in try await tree.unlink("f") }
        #expect(try await tree.names("") == [])
        #expect(try await tree.read(file, at: 0, count: 200_000) == content)
        try await tree.close(file)
    }

    /// Where a process is killed that unlinks an open file: before the store has heard of it, and after.
    @Test(.rule("crash.process"), arguments: [false, true], ["cached", "partly cached", "acknowledged", "dirty"])
    func anUnlinkIsCarriedOnAndWhatIsOpenStays(isDone: Bool, state: String) async throws {
        let tree = try MountedTree(durability: state == "acknowledged" ? .local : .remote)
        var content = [UInt8](repeating: 7, count: 1_200_000)
        if state == "partly cached" {
            tree.store.setObject("f", content)
        } else {
            try await tree.store("f", content)
            if state != "cached" { try await tree.remount() }
        }
        let file = try await tree.open("f", readWrite)
        if state == "acknowledged" || state == "dirty" {
            try await tree.write(file, Array("changed".utf8), at: 600_000)
            content.replaceSubrange(600_000..<600_007, with: Array("changed".utf8))
            // The object has to outlive the name: not all of its bytes are here.
            tree.rooms.blocks.prune(to: 0)
        }
        if state == "acknowledged" {
            let again = try await tree.open("f", readWrite)
            tree.store.fault = { operation, key in
                operation == .put ? ObjectStoreError(.unreachable, .put, key: key, message: "away") : nil
            }
            try await tree.close(again)
            tree.store.fault = nil
        }
        let requests = tree.store.hold(.delete, beforeReply: isDone)
        let journals = tree.rooms.journal
        let (system, pool) = (tree.system, tree.pool)
        let jobs = try journals.contents().jobs.count
        let unlink = pool.start { _ = await system.unlink("f", in: .root).value() }
        for _ in 0..<2000 {
            let begun = try journals.contents().jobs.count
            if requests.arrivals > 0 || begun > jobs { break }
            try await Task.sleep(for: .milliseconds(1))
        }
        defer { withExtendedLifetime(system) {} }
        tree.crash()
        // What is on its way arrives.
        requests.open()
        try await tree.mountAgain(isRestart: true)
        unlink.cancel()
        // The kernel asks again; the bridge knows that it is gone.
        _ = await Result { () async throws(MountedTree.Failure) in try await tree.unlink("f") }
        #expect(try await tree.names("") == [])
        let read = await Result { () async throws(MountedTree.Failure) in
            try await tree.read(file, at: 0, count: content.count)
        }
        #expect((try? read.get()) == content, "\(read.map(\.count))")
        try await tree.write(file, [1, 2, 3], at: 1)
        #expect(try await tree.read(file, at: 0, count: 5) == [content[0], 1, 2, 3, content[4]])
        try await tree.close(file)
        #expect(try await tree.names("") == [])
        try await tree.remount()
        #expect(tree.store.keys.isEmpty)
        #expect(tree.system.listRecoverableFiles().isEmpty)
    }

    @Test(.rule("rename.replace", "crash.jobs")) func aRenameThatTwoProcessesDidNotComeToTheEndOfIsThere() async throws
    {
        let tree = try MountedTree()
        let content = [UInt8](repeating: 7, count: 200_000)
        try await tree.store("f", content)
        let file = try await tree.open("f", OpenFlags(reads: true, writes: false))
        let copying = tree.store.hold(.copy, beforeReply: true)
        let (system, pool) = (tree.system, tree.pool)
        let rename = pool.start {
            _ = await system.rename("f", in: .root, to: "g", in: .root, noReplace: false).value()
        }
        await copying.waitForArrivals()
        try await tree.dieAtStart()
        copying.open()
        rename.cancel()
        #expect(tree.store.keys == ["g"])
        try await tree.mountAgain(isRestart: true)
        #expect(try await tree.names("") == ["g"])
        #expect(try await tree.load("g") == content)
        #expect(try await tree.read(file, at: 0, count: 200_000) == content)
        try await tree.close(file)
    }

    /// A directory is renamed, its objects are copied, and the process is killed before the metadata cache knows.
    @Test(.rule("rename.directory"), arguments: [false, true])
    func aDirectoryHasTheNameThatTheJournalTells(isKnown: Bool) async throws {
        let tree = try MountedTree()
        let content = [UInt8](repeating: 7, count: 200_000)
        for name in ["a", "s/b"] { tree.store.setObject(ObjectKey("d/\(name)"), content) }
        let clean = try await tree.open("d/s/b", OpenFlags(reads: true, writes: false))
        #expect(try await tree.names("d") == ["a", "s"])
        let new = try await tree.open("d/new", readWrite, create: true)
        try await tree.write(new, Array("new".utf8), at: 0)
        var items: [ItemRecord] = []
        for name in ["a", "s/b"] {
            let version = try #require(tree.store.info(ObjectKey("d/\(name)"))).version
            items.append(ItemRecord(source: VersionRecord(ObjectKey("d/\(name)"), version), storageClass: nil))
            tree.store.setObject(ObjectKey("e/\(name)"), content)
        }
        let journal = tree.rooms.journal
        try journal.write([.job(journal.newID(), .moved(from: "d/", to: "e/"), items: items)], flushed: true)
        if isKnown { _ = try tree.rooms.metadata.rename(try await tree.find("d").ino, to: .root, "e/") }
        try await tree.restart()
        #expect(try await tree.names("") == ["e"])
        #expect(try await tree.names("e") == ["a", "new", "s"])
        #expect(try await tree.read(clean, at: 0, count: 200_000) == content)
        #expect(try await tree.read(new, at: 0, count: 100) == Array("new".utf8))
        try await tree.write(new, Array("er".utf8), at: 3)
        try await tree.close(new)
        try await tree.close(clean)
        #expect(tree.store.keys.filter { !$0.bytes.hasSuffix("/") } == ["e/a", "e/new", "e/s/b"])
        #expect(tree.store.content("e/new") == Array("newer".utf8))
        try await tree.makeDirectory("d")
        try await tree.restart()
        #expect(try await tree.names("") == ["d", "e"])
    }

    @Test func aNewFileHasTheNameThatTheJournalTells() async throws {
        let tree = try MountedTree()
        let file = try await tree.open("f", readWrite, create: true)
        try await tree.rename("f", to: "g")
        try await tree.rename("g", to: "h")
        // The process is killed before the metadata cache knows of the last one.
        _ = try tree.rooms.metadata.rename(file.0, to: .root, "g")
        try await tree.restart()
        #expect(try await tree.names("") == ["h"])
        try await tree.write(file, Array("new".utf8), at: 0)
        try await tree.close(file)
        #expect(tree.store.keys == ["h"])
        #expect(tree.store.content("h") == Array("new".utf8))
    }

    @Test func whatIsOpenIsKnownBeforeItIsUsedAgain() async throws {
        let tree = try MountedTree()
        let content = [UInt8](repeating: 7, count: 200_000)
        for name in ["clean", "dirty", "replaced", "other"] { try await tree.store(name, content) }
        try await tree.remount()
        tree.rooms.blocks.forget("clean")
        tree.rooms.blocks.forget("replaced")
        let clean = try await tree.open("clean", OpenFlags(reads: true, writes: false))
        let again = try await tree.open("clean", OpenFlags(reads: true, writes: false))
        let dirty = try await tree.open("dirty", readWrite)
        let replaced = try await tree.open("replaced", readWrite)
        try await tree.write(dirty, Array("changed".utf8), at: 100)
        try await tree.restart()
        try await tree.unlink("clean")
        try await tree.unlink("dirty")
        try await tree.rename("other", to: "replaced")
        #expect(try await tree.names("") == ["replaced"])
        #expect(try await tree.read(clean, at: 0, count: 200_000) == content)
        try await tree.close(clean)
        #expect(try await tree.read(again, at: 100_000, count: 100_000) == Array(content[100_000...]))
        #expect(try await tree.read(dirty, at: 100, count: 7) == Array("changed".utf8))
        try await tree.write(dirty, Array("more".utf8), at: 0)
        try await tree.write(replaced, Array("kept".utf8), at: 0)
        #expect(try await tree.read(replaced, at: 0, count: 4) == Array("kept".utf8))
        for file in [again, dirty, replaced] { try await tree.close(file) }
        #expect(tree.store.keys == ["replaced"])
        #expect(tree.store.content("replaced") == content)
    }

    @Test func aCommitWhoseReplyNobodyHeardKeepsItsAttributes() async throws {
        let tree = try MountedTree(durability: .local)
        try await tree.store("f", Array("old".utf8))
        try await tree.remount()
        let gate = tree.store.hold(.put, beforeReply: true)
        try await tree.store("f", Array("stored".utf8))
        await gate.waitForArrivals()
        let before = try await tree.find("f")
        tree.crash()
        gate.open()
        try await tree.restart()
        #expect(try await tree.names("") == ["f"])
        let after = try await tree.find("f")
        #expect((after.mode, after.modified, after.size) == (0o640, before.modified, 6))
    }

    @Test func aCopyGoesOnWhereItWas() async throws {
        let tree = try MountedTree()
        let content = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        try await tree.store("from", content)
        let source = try await tree.open("from", OpenFlags(reads: true, writes: false))
        let target = try await tree.open("to", readWrite, create: true)
        func copy(_ range: Range<Int64>) async throws {
            let done = try await tree.run(
                tree.system.copyRange(
                    from: FileRange(ino: source.0, handle: source.1, offset: range.lowerBound),
                    to: FileRange(ino: target.0, handle: target.1, offset: range.lowerBound),
                    count: range.upperBound - range.lowerBound))
            #expect(done == range.upperBound - range.lowerBound)
        }
        try await copy(0..<100_000)
        try await tree.restart()
        try await copy(100_000..<200_000)
        try await tree.restart()
        try await tree.write(target, Array("end".utf8), at: 200_000)
        // The copy is taken before what it was copied from is another object.
        try await tree.store("from", [1, 2, 3])
        try await tree.close(target)
        try await tree.close(source)
        #expect(tree.store.content("to") == Array(content[..<200_000]) + Array("end".utf8))
    }

    @Test func whoCannotGoOnIsToldAtEveryCall() async throws {
        let tree = try MountedTree()
        try await tree.store("f", Array("stored".utf8))
        let file = try await tree.open("f", readWrite)
        try await tree.write(file, Array("lost".utf8), at: 0)
        try await tree.restart { directory in
            for name in try Directory.names(in: directory + "/staging") where name.description.hasSuffix(".map") {
                try File.remove("\(directory)/staging/\(name)")
            }
        }
        let failure = MountedTree.Failure(kind: .inputOutput, reason: "")
        await #expect(throws: failure) { try await tree.write(file, Array("more".utf8), at: 4) }
        await #expect(throws: failure) { try await tree.read(file, at: 0, count: 10) }
        await #expect(throws: failure) { try await tree.close(file) }
        // What the store has is there for whoever opens it now, and the bytes are kept.
        #expect(try await tree.load("f") == Array("stored".utf8))
        #expect(tree.system.listRecoverableFiles().count == 1)
    }

    /// The bytes of another mount, kept for "pailfs recover", are not what a program has open when the next process goes on.
    @Test func whatIsKeptForRecoverIsNotGoneOnWith() async throws {
        let tree = try MountedTree(durability: .local)
        try await tree.store("f", Array("the first version".utf8))
        try await tree.remount()
        let edited = try await tree.open("f", readWrite)
        try await tree.write(edited, Array("HALF".utf8), at: 0)
        // Mount and worker are killed, and the bucket is mounted anew.
        let killed = tree.system
        defer { withExtendedLifetime(killed) {} }
        tree.crash()
        try await tree.mountAgain()
        #expect(tree.system.listRecoverableFiles().count == 1)
        let refused = tree.store
        refused.fault = { operation, key in
            operation == .put ? ObjectStoreError(.unreachable, .put, key: key, message: "away") : nil
        }
        try await tree.store("f", Array("promised".utf8))
        try await tree.restart()
        try await tree.restart()
        #expect(try await tree.load("f") == Array("promised".utf8))
        #expect(tree.system.listRecoverableFiles().map(\.here) == [[0..<4]])
        refused.fault = nil
        try await tree.remount()
        #expect(refused.content("f") == Array("promised".utf8))
        #expect(tree.system.listRecoverableFiles().count == 1)
    }
}
