import Basics
import FileSystem
import Metadata
import ObjectStorage
import Staging
import TestSupport
import Testing

/// A program has walked a path, and the name goes before its call arrives: what it came to is a file without a name.
@Suite(.rule("name.gone")) struct FormerInodeTests {
    /// How the file is stored when its name goes.
    enum State: CaseIterable { case stored, listed, acknowledged }

    /// How its name goes.
    enum End: CaseIterable { case removed, replaced }

    private static let body = Array("as it was".utf8)
    private let reads = OpenFlags(reads: true, writes: false)
    private let writes = OpenFlags(reads: true, writes: true)

    /// Returns the tree and the inode that `f` had.
    private func gone(_ state: State, _ end: End) async throws -> (MountedTree, InodeNumber) {
        let tree = try MountedTree(durability: state == .acknowledged ? .local : .remote)
        if state == .listed {
            tree.store.setObject("f", Self.body)
            _ = try await tree.load("f")
        } else {
            if state == .acknowledged { tree.refuseWrites() }
            try await tree.store("f", Self.body)
        }
        let ino = try await tree.find("f").ino
        switch end {
        case .removed: try await tree.unlink("f")
        case .replaced:
            tree.store.setObject("g", Array("what came instead".utf8))
            try await tree.rename("g", to: "f")
            #expect(try await tree.find("f").ino != ino)
        }
        return (tree, ino)
    }

    private func expectStale(
        sourceLocation: SourceLocation = #_sourceLocation, _ act: () async throws -> Void
    ) async {
        let failure = await #expect(throws: MountedTree.Failure.self, sourceLocation: sourceLocation) {
            try await act()
        }
        #expect(failure?.kind == .stale, sourceLocation: sourceLocation)
    }

    @Test(arguments: State.allCases, End.allCases)
    func itIsOpenedAndReadAsItWas(_ state: State, _ end: End) async throws {
        let (tree, ino) = try await gone(state, end)
        for _ in 0..<2 {
            let status = try await tree.run(tree.system.attributes(ino, handle: nil)).status
            #expect(status.links == 0)
            #expect(status.size == Int64(Self.body.count))
            let file = (ino, try await tree.run(tree.system.open(ino, flags: reads)).handle)
            #expect(try await tree.read(file, at: 0, count: 100) == Self.body)
            try await tree.close(file)
        }
        if end == .removed { #expect(try await tree.names("") == []) }
    }

    @Test(.rule("crash.process"), arguments: State.allCases, End.allCases)
    func whoHasOpenedItReadsItFromTheNextProcessToo(_ state: State, _ end: End) async throws {
        let (tree, ino) = try await gone(state, end)
        // A handle that has gone before takes nothing with it that a later one needs.
        for _ in 0..<2 {
            let file = (ino, try await tree.run(tree.system.open(ino, flags: reads)).handle)
            try await tree.restart()
            #expect(try await tree.run(tree.system.attributes(ino, handle: file.1)).status.links == 0)
            #expect(try await tree.read(file, at: 0, count: 100) == Self.body)
            try await tree.close(file)
        }
    }

    @Test(arguments: State.allCases, End.allCases)
    func itIsChangedAndTheNameIsNot(_ state: State, _ end: End) async throws {
        let (tree, ino) = try await gone(state, end)
        var change = AttributeChange()
        change.mode = 0o600
        let changed = try await tree.run(tree.system.setAttributes(ino, to: change, handle: nil)).status
        #expect((changed.mode, changed.links) == (0o600, 0))
        try await tree.run(
            tree.system.setExtendedAttribute("user.colour", of: ino, to: "red", mode: .createOrReplace))
        #expect(try await tree.run(tree.system.extendedAttribute("user.colour", of: ino)) == "red")
        let file = (ino, try await tree.run(tree.system.open(ino, flags: writes)).handle)
        try await tree.append(file, Array(", and more".utf8))
        #expect(try await tree.read(file, at: 0, count: 100) == Self.body + Array(", and more".utf8))
        try await tree.close(file)
        var shorter = AttributeChange()
        shorter.size = 2
        #expect(try await tree.run(tree.system.setAttributes(ino, to: shorter, handle: nil)).status.size == 2)
        #expect(try await tree.run(tree.system.attributes(ino, handle: nil)).status.mode == 0o600)
        tree.store.fault = nil
        if end == .removed {
            #expect(try await tree.names("") == [])
        } else {
            #expect(try await tree.load("f") == Array("what came instead".utf8))
        }
    }

    @Test(arguments: State.allCases, End.allCases)
    func whatTheKernelForgetsIsGone(_ state: State, _ end: End) async throws {
        let (tree, ino) = try await gone(state, end)
        let staged = try staged(tree)
        #expect(staged.isEmpty == (state != .acknowledged))
        tree.system.forget(ino, count: 1)
        await expectStale { _ = try await tree.run(tree.system.attributes(ino, handle: nil)) }
        await expectStale { _ = try await tree.run(tree.system.open(ino, flags: reads)) }
        #expect(try self.staged(tree).isEmpty)
    }

    private func staged(_ tree: MountedTree) throws -> Set<ByteString> {
        Set(try Directory.names(in: tree.rooms.staging.directory)).subtracting(["orphans"])
    }

    /// Bytes that are nowhere any more are not opened: the kernel walks the path again.
    @Test(arguments: End.allCases) func whatWasNeverReadIsStale(_ end: End) async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Self.body)
        let ino = try await tree.find("f").ino
        if end == .removed {
            try await tree.unlink("f")
        } else {
            try await tree.store("g", [1])
            try await tree.rename("g", to: "f")
        }
        await expectStale { _ = try await tree.run(tree.system.open(ino, flags: reads)) }
        #expect(try await tree.run(tree.system.attributes(ino, handle: nil)).status.links == 0)
    }

    /// The last close has sent the deletion of an object of which nothing was read.
    @Test func whatIsBeingDeletedIsStale() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Self.body)
        let ino = try await tree.find("f").ino
        let system = tree.system
        let handle = try await tree.run(system.open(ino, flags: reads)).handle
        try await tree.unlink("f")
        let deleting = tree.store.hold(.delete, beforeReply: true)
        let close = tree.pool.start { await succeeded(system.release(ino, handle: handle)) }
        await deleting.waitForArrivals()
        await expectStale { _ = try await tree.run(system.open(ino, flags: reads)) }
        deleting.open()
        #expect(await close.value)
    }

    @Test func aDirectoryIsEmptyAndHasNoLinks() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        let ino = try await tree.find("d").ino
        try await tree.removeDirectory("d")
        #expect(try await tree.run(tree.system.attributes(ino, handle: nil)).status.links == 0)
        let handle = try await tree.run(tree.system.openDirectory(ino))
        try await tree.run(tree.system.syncDirectory(ino))
        tree.system.releaseDirectory(ino, handle: handle)
        var change = AttributeChange()
        change.mode = 0o700
        #expect(try await tree.run(tree.system.setAttributes(ino, to: change, handle: nil)).status.mode == 0o700)
    }

    @Test(arguments: End.allCases) func aLinkIsReadAsItWas(_ end: End) async throws {
        let tree = try MountedTree()
        try await tree.symlink("f", "where it led")
        let ino = try await tree.find("f").ino
        if end == .removed {
            try await tree.unlink("f")
        } else {
            try await tree.store("g", [1])
            try await tree.rename("g", to: "f")
        }
        #expect(try await tree.run(tree.system.readLink(ino)) == "where it led")
        #expect(try await tree.run(tree.system.attributes(ino, handle: nil)).status.kind == .symlink)
    }

    /// The object has gone, and its call has not come to an end: nobody hears that before the name has gone as well.
    @Test func aLinkThatIsBeingRemovedIsReadOrGone() async throws {
        let tree = try MountedTree(ttl: .zero)
        tree.store.setObject("f.rclonelink", Array("somewhere".utf8))
        let ino = try await tree.find("f").ino
        let deleting = tree.store.hold(.delete, beforeReply: true)
        let system = tree.system
        let unlink = tree.pool.start { await succeeded(system.unlink("f", in: .root)) }
        await deleting.waitForArrivals()
        let reading = tree.pool.start { await succeeded(system.readLink(ino)) }
        for _ in 0..<100 { await Task.yield() }
        deleting.open()
        #expect(await unlink.value)
        #expect(await !reading.value)
        #expect(try await tree.run(system.lookup("f", in: .root)).status == nil)
    }

    /// `exec 3<d; rmdir d`, or a rename over it, and the worker dies.
    @Test(.rule("name.gone", "crash.process"), arguments: End.allCases)
    func anOpenDirectoryWithoutANameOutlivesTheProcess(_ end: End) async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.change("d") { $0.mode = 0o710 }
        let before = try await tree.find("d")
        let handle = try await tree.run(tree.system.openDirectory(before.ino))
        switch end {
        case .removed: try await tree.removeDirectory("d")
        case .replaced:
            try await tree.makeDirectory("e")
            try await tree.rename("e", to: "d")
        }
        let gone = try await tree.run(tree.system.attributes(before.ino, handle: nil)).status
        #expect(gone.links == 0)
        #expect(gone.changed > before.changed)
        for _ in 0..<2 {
            try await tree.restart()
            let status = try await tree.run(tree.system.attributes(before.ino, handle: nil)).status
            #expect(status == gone)
            try await tree.run(tree.system.syncDirectory(before.ino))
        }
        tree.system.releaseDirectory(before.ino, handle: handle)
        #expect(try tree.rooms.metadata.unlinked().isEmpty)
    }
}
