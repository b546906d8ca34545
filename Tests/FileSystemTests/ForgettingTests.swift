import Basics
import FileSystem
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// What is known of names is forgotten while programs work with them, and they see nothing of it (SEMANTICS section 3).
@Suite(.timeLimit(.minutes(5))) struct ForgettingTests {
    private static let names = (0..<600).map { "f\($0)" }

    private func tree() async throws -> MountedTree {
        let tree = try MountedTree(ttl: .seconds(3600))
        tree.store.setObject("d/", [])
        tree.store.setObject("other/x", [1])
        for name in Self.names { tree.store.setObject(ObjectKey("d/\(name)"), Array(name.utf8)) }
        tree.rooms.metadata.limit = 1
        return tree
    }

    /// Runs `act` again and again, each time with everything known and old enough to be forgotten, beside a call that does.
    private func whileForgetting(
        _ tree: MountedTree, _ act: (Int) async throws -> Void
    ) async throws -> Int {
        var forgotten = 0
        for round in 1...25 {
            _ = try await tree.names("d")
            tree.time.advance(by: .seconds(20))
            let metadata = tree.rooms.metadata
            let forgets = tree.pool.start { try? metadata.trim(inNeed: true) }
            try await act(round)
            if await forgets.value == true { forgotten += 1 }
        }
        return forgotten
    }

    @Test func aListingPastTheLimitIsForgottenOnceItWasRead() async throws {
        let tree = try await tree()
        #expect(try await tree.names("d").count == Self.names.count)
        let (metadata, directory) = (tree.rooms.metadata, try await tree.find("d").ino)
        try await tree.waitUntil("the names are forgotten", each: .seconds(2)) {
            (try? metadata.directory(directory).isComplete) == false
        }
        #expect(try await tree.names("d").sorted() == Self.names.sorted())
    }

    /// The names that were handed out go while the others come in, and are there again for who seeks back.
    @Test(.rule("space.bound")) func aDirectoryThatDoesNotFitIsReadWhole() async throws {
        let tree = try MountedTree(ttl: .seconds(3600))
        tree.store.setObject("d/", [])
        let expected = (0..<20_000).map { "f\($0)" }.sorted()
        for name in expected { tree.store.setObject(ObjectKey("d/\(name)"), [1]) }
        tree.rooms.metadata.limit = 1
        let directory = try await tree.find("d").ino
        // The third page comes when the first is being read.
        let pages = Atomic(0)
        let isReading = Basics.Semaphore()
        tree.store.fault = { [time = tree.time] operation, _ in
            guard operation == .list else { return nil }
            time.advance(by: .seconds(2))
            if pages.add(1, ordering: .relaxed).newValue == 3 { isReading.wait() }
            return nil
        }
        let handle = try await tree.run(tree.system.openDirectory(directory))
        func read(from start: UInt64, atMost most: Int = .max) async throws -> [DirectoryEntry] {
            var entries: [DirectoryEntry] = []
            var offset = start
            while entries.count < most {
                let reply = SmallReply(capacity: 50)
                try await tree.run(
                    tree.system.readDirectory(
                        directory, handle: handle, from: offset, attributes: true, into: reply))
                guard let last = reply.entries.last else { break }
                entries += reply.entries
                if entries.count == 500 { isReading.signal() }
                offset = last.offset
            }
            return entries.filter { $0.name != "." && $0.name != ".." }
        }
        let entries = try await read(from: 0)
        #expect(entries.map(\.name.description) == expected)
        let early = try tree.rooms.metadata.lookup(entries[100].name, in: directory)
        #expect(early == .unknown, "it was forgotten")
        let again = try await read(from: entries[100].offset, atMost: 300)
        #expect(again.prefix(300).map(\.name.description) == Array(expected[101..<401]))
        tree.system.releaseDirectory(directory, handle: handle)
        #expect(try await tree.names("d") == expected)
    }

    /// A listing that waits for its reader continues when the reader has seen pages of names that the mount hides.
    @Test(.rule("filter")) func aDirectoryThatDoesNotFitIsReadPastHiddenNames() async throws {
        var capabilities = Capabilities()
        capabilities.limits.filter = KeyFilter([try #require(KeyFilter.Rule("*.tmp", isIncluded: false))])
        let tree = try MountedTree(capabilities: capabilities, ttl: .seconds(3600))
        let shown = (0..<100).map { "a\(100 + $0)" } + ["z"]
        for name in shown + (0..<6000).map({ "m\(1000 + $0).tmp" }) {
            tree.store.setObject(ObjectKey("d/\(name)"), [1])
        }
        tree.rooms.metadata.limit = 1
        #expect(try await tree.names("d") == shown)
    }

    @Test func aDirectoryIsReadWhole() async throws {
        let tree = try await tree()
        let expected = Self.names.sorted()
        let forgotten = try await whileForgetting(tree) { _ async throws in
            let names = try await tree.names("d").sorted()
            #expect(names == expected)
        }
        #expect(forgotten > 0)
    }

    @Test func namesAreFoundAndFilesWritten() async throws {
        let tree = try await tree()
        let forgotten = try await whileForgetting(tree) { (number) async throws in
            let path = "d/f\(number)"
            // The kernel comes back with the name's new number when it is told that the old one is stale.
            func again(_ act: () async throws(MountedTree.Failure) -> Void) async throws {
                for _ in 0..<3 {
                    do throws(MountedTree.Failure) { return try await act() } catch {
                        guard error.kind == .stale else { throw error }
                    }
                }
                Issue.record("\(path): stale again and again")
            }
            try await again { () async throws(MountedTree.Failure) in
                let bytes = try await tree.load("d/f599")
                #expect(bytes == Array("f599".utf8))
            }
            let file = Mutex<(InodeNumber, HandleID)?>(nil)
            try await again { () async throws(MountedTree.Failure) in
                let opened = try await tree.open(path, OpenFlags(reads: true, writes: true))
                file.withLock { $0 = opened }
            }
            let opened = try #require(file.withLock { $0 })
            try await tree.write(opened, [UInt8(number)], at: 0)
            try await tree.close(opened)
            #expect(tree.store.content(ObjectKey(path))?.first == UInt8(number))
        }
        #expect(forgotten > 0)
    }

    @Test func namesAreRemovedAndRenamed() async throws {
        let tree = try await tree()
        let forgotten = try await whileForgetting(tree) { (number) async throws in
            try await tree.unlink("d/f\(number)")
            try await tree.rename("d/f\(number + 100)", to: "d/g\(number)")
            #expect(tree.store.content(ObjectKey("d/f\(number)")) == nil)
            #expect(tree.store.content(ObjectKey("d/g\(number)")) == Array("f\(number + 100)".utf8))
            let names = try await tree.names("d")
            #expect(names.count == 600 - number)
        }
        #expect(forgotten > 0)
    }
}
