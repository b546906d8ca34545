import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// What programs do to a file, or below a directory, while it is renamed.
@Suite(.timeLimit(.minutes(5)), .ownThreads) struct RenameTests {
    /// What goes on in `d` while its objects are copied, after they were listed.
    enum Act: String, CaseIterable, CustomTestStringConvertible {
        case unlink, rmdir, mkdir, symlink, rename, renameDirectory, create
        var testDescription: String { rawValue }
    }

    /// The act on the directory of that number, by a program that has found it before.
    private static func run(
        _ act: Act, in directory: InodeNumber, of system: BucketFileSystem, _ caller: Caller
    ) async -> Bool {
        switch act {
        case .unlink: await succeeded(system.unlink("gone", in: directory))
        case .rmdir: await succeeded(system.removeDirectory("empty", in: directory))
        case .mkdir: await succeeded(system.makeDirectory("new", in: directory, mode: 0o755, caller: caller))
        case .symlink: await succeeded(system.symlink("link", in: directory, target: "to", caller: caller))
        case .rename:
            await succeeded(system.rename("gone", in: directory, to: "moved", in: directory, noReplace: false))
        case .renameDirectory:
            await succeeded(
                system.rename("empty", in: directory, to: "other", in: directory, noReplace: false))
        case .create:
            await succeeded(
                system.create(
                    "made", in: directory, mode: 0o644, flags: OpenFlags(reads: false, writes: true), caller: caller))
        }
    }

    @Test(.rule("rename.directory"), arguments: Act.allCases)
    func nothingIsLostOrComesBack(act: Act) async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.makeDirectory("d/empty")
        for name in ["gone", "kept"] { try await tree.store("d/\(name)", Array(name.utf8)) }
        let directory = try await tree.find("d").ino
        let (system, caller) = (tree.system, tree.caller)
        let copying = tree.store.hold(.copy)
        let rename = tree.pool.start {
            await succeeded(system.rename("d", in: .root, to: "e", in: .root, noReplace: false))
        }
        await copying.waitForArrivals()
        let change = tree.pool.start { await Self.run(act, in: directory, of: system, caller) }
        for _ in 0..<1000 { await Task.yield() }
        copying.open()
        #expect(await rename.value)
        #expect(await change.value)

        var names = Set(["empty", "gone", "kept"])
        var keys = Set<ObjectKey>(["e/", "e/empty/", "e/gone", "e/kept"])
        switch act {
        case .unlink: (_, _) = (names.remove("gone"), keys.remove("e/gone"))
        case .rmdir: (_, _) = (names.remove("empty"), keys.remove("e/empty/"))
        case .mkdir: (_, _) = (names.insert("new"), keys.insert("e/new/"))
        case .symlink: (_, _) = (names.insert("link"), keys.insert("e/link.rclonelink"))
        case .rename:
            (_, _) = (names.remove("gone"), keys.remove("e/gone"))
            (_, _) = (names.insert("moved"), keys.insert("e/moved"))
        case .renameDirectory:
            (_, _) = (names.remove("empty"), keys.remove("e/empty/"))
            (_, _) = (names.insert("other"), keys.insert("e/other/"))
        case .create: names.insert("made")
        }
        #expect(try await Set(tree.names("e")) == names)
        #expect(Set(tree.store.keys) == keys)
        if act == .rename { #expect(try await tree.load("e/moved") == Array("gone".utf8)) }
        #expect(try await tree.load("e/kept") == Array("kept".utf8))
    }

    /// What a program does to `d/f`, which it has open and has not changed yet, while the objects of `d` are copied.
    enum Change: String, CaseIterable, CustomTestStringConvertible {
        case write, truncate, allocate, chmod, setxattr
        var testDescription: String { rawValue }
    }

    private static func run(
        _ change: Change, _ file: (InodeNumber, HandleID), of system: BucketFileSystem
    ) async -> Bool {
        let (ino, handle) = file
        var attributes = AttributeChange()
        switch change {
        case .write:
            let bytes = Array("XY".utf8)
            return await succeeded(system.write(ino, handle: handle, at: 1, bytes: bytes.span.bytes))
        case .truncate: attributes.size = 3
        case .allocate: return await succeeded(system.allocate(ino, handle: handle, range: 0..<8, mode: 0))
        case .chmod: attributes.mode = 0o600
        case .setxattr:
            return await succeeded(
                system.setExtendedAttribute("user.colour", of: ino, to: "blue", mode: .createOrReplace))
        }
        return await succeeded(system.setAttributes(ino, to: attributes, handle: handle))
    }

    @Test(.rule("rename.directory"), arguments: Change.allCases, [MountPolicy.Durability.remote, .local])
    func whatIsDoneToAFileBelowMeanwhileIsStored(change: Change, durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(durability: durability)
        for name in ["f", "other"] { tree.store.setObject(ObjectKey("d/" + name), Array("first".utf8)) }
        let file = try await tree.open("d/f", OpenFlags(reads: true, writes: true))
        let system = tree.system
        let copying = tree.store.hold(.copy)
        let rename = tree.pool.start {
            await succeeded(system.rename("d", in: .root, to: "e", in: .root, noReplace: false))
        }
        await copying.waitForArrivals()
        let changed = tree.pool.start { await Self.run(change, file, of: system) }
        for _ in 0..<1000 { await Task.yield() }
        copying.open()
        #expect(await rename.value)
        #expect(await changed.value)
        let content =
            switch change {
            case .write: "fXYst"
            case .truncate: "fir"
            case .allocate: "first\0\0\0"
            case .chmod, .setxattr: "first"
            }
        #expect(try await tree.read(file, at: 0, count: 100) == Array(content.utf8))
        try await tree.close(file)
        try await tree.remount()
        #expect(Set(tree.store.keys) == ["e/f", "e/other"])
        #expect(tree.store.content("e/f") == Array(content.utf8))
        #expect(try await tree.load("e/f") == Array(content.utf8))
        let status = try await tree.find("e/f")
        if change == .chmod { #expect(status.mode & 0o777 == 0o600) }
        if change == .setxattr {
            #expect(try await tree.run(tree.system.extendedAttribute("user.colour", of: status.ino)) == "blue")
        }
    }

    /// What a program asks about `d`, or a file there, whose answer the store owes when the objects have got other keys.
    enum Question: String, CaseIterable, CustomTestStringConvertible {
        case stat, open, lookup, list
        var testDescription: String { rawValue }
    }

    @Test(arguments: Question.allCases)
    func whatIsAskedMeanwhileIsAnswered(question: Question) async throws {
        let tree = try MountedTree(ttl: .zero)
        for name in ["f", "other"] { tree.store.setObject(ObjectKey("d/" + name), Array("first".utf8)) }
        let directory = try await tree.find("d").ino
        let file = try await tree.find("d/f").ino
        let stream = try await tree.run(tree.system.openDirectory(directory))
        let system = tree.system
        let copying = tree.store.hold(.copy)
        let rename = tree.pool.start {
            await succeeded(system.rename("d", in: .root, to: "e", in: .root, noReplace: false))
        }
        await copying.waitForArrivals()
        let isListed = question == .lookup || question == .list
        let asking = tree.store.hold(isListed ? .list : .head)
        let answer = tree.pool.start { () async -> Bool in
            switch question {
            case .stat: await succeeded(system.attributes(file, handle: nil))
            case .open: await succeeded(system.open(file, flags: OpenFlags(reads: true, writes: false)))
            case .lookup: await succeeded(system.lookup("none", in: directory))
            case .list:
                await succeeded(
                    system.readDirectory(
                        directory, handle: stream, from: 0, attributes: false, into: SmallReply(capacity: 9)))
            }
        }
        await asking.waitForArrivals()
        copying.open()
        // The rename has its second listing to make, once programs see the new place, and its removals after that.
        if isListed {
            await asking.waitForArrivals(2)
        } else {
            while tree.store.content("d/f") != nil { await Task.yield() }
        }
        asking.open()
        #expect(await rename.value)
        #expect(await answer.value)
        #expect(try await Set(tree.names("e")) == ["f", "other"])
    }

    @Test(arguments: ["d/f", "d"])
    func aReadThatIsUnderWayComesToItsEnd(what: String) async throws {
        let tree = try MountedTree()
        tree.store.setObject("d/f", Array("first".utf8))
        let file = try await tree.open("d/f", OpenFlags(reads: true, writes: false))
        let fetching = tree.store.hold(.get)
        let read = readWaiting(file, of: tree)
        await fetching.waitForArrivals()
        try await tree.rename(what, to: what == "d" ? "e" : "d/g")
        fetching.open()
        #expect(await read.value == Array("first".utf8))
        try await tree.close(file)
    }

    private func readWaiting(_ file: (InodeNumber, HandleID), of tree: MountedTree) -> Task<[UInt8]?, Never> {
        let (system, rooms) = (tree.system, tree.rooms)
        return tree.pool.start {
            guard let buffer = rooms.buffers.tryBorrow(100) else { return nil }
            let outcome = system.read(file.0, handle: file.1, at: 0, count: 100, into: buffer)
            guard case .pending(let work) = outcome, case .success(let count) = await work() else { return nil }
            return buffer.prefix(count).bytes
        }
    }

    @Test func aReadThatIsUnderWayComesToItsEndWhenTheFileIsStoredAnew() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("first".utf8))
        let file = try await tree.open("f", OpenFlags(reads: true, writes: true))
        let fetching = tree.store.hold(.get)
        let read = readWaiting(file, of: tree)
        await fetching.waitForArrivals()
        try await tree.write(file, Array("second".utf8), at: 0)
        let system = tree.system
        let flush = tree.pool.start { await succeeded(system.flush(file.0, handle: file.1) { false }) }
        while tree.store.content("f") != Array("second".utf8) { await Task.yield() }
        fetching.open()
        #expect(await read.value == Array("second".utf8))
        #expect(await flush.value)
        try await tree.close(file)
    }

    @Test(arguments: [MountPolicy.Durability.remote, .local])
    func whatGoesOnElsewhereDoesNotWait(durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(durability: durability)
        tree.store.setObject("d/f", Array("first".utf8))
        for name in ["old", "gone"] { tree.store.setObject(ObjectKey("x/" + name), Array(name.utf8)) }
        let open = try await tree.open("x/old", OpenFlags(reads: true, writes: true))
        let system = tree.system
        _ = try await tree.find("d/f")
        let copying = tree.store.hold(.copy)
        let rename = tree.pool.start {
            await succeeded(system.rename("d", in: .root, to: "e", in: .root, noReplace: false))
        }
        await copying.waitForArrivals()
        try await tree.write(open, Array("OLD".utf8), at: 0)
        try await tree.close(open)
        try await tree.store("x/new", Array("new".utf8))
        try await tree.store("dx", Array("beside".utf8))
        try await tree.unlink("x/gone")
        try await tree.makeDirectory("y")
        copying.open()
        #expect(await rename.value)
        try await tree.remount()
        #expect(Set(tree.store.keys) == ["dx", "e/f", "x/new", "x/old", "y/"])
        #expect(tree.store.content("x/old") == Array("OLD".utf8))
    }

    // MARK: A file

    @Test(arguments: [MountPolicy.Durability.remote, .local], [false, true])
    func whoOpensAFileMeanwhileGoesOnWithItUnderItsNewName(
        durability: MountPolicy.Durability, wasOpen: Bool
    ) async throws {
        let tree = try MountedTree(durability: durability)
        tree.store.setObject("log", Array("first\n".utf8))
        let ino = try await tree.find("log").ino
        let system = tree.system
        let before = wasOpen ? try await tree.open("log", OpenFlags(reads: true, writes: false)) : nil
        let copying = tree.store.hold(.copy)
        let rename = tree.pool.start {
            await succeeded(system.rename("log", in: .root, to: "log.1", in: .root, noReplace: false))
        }
        await copying.waitForArrivals()
        if let before { try await tree.close(before) }
        let reader = try await tree.run(system.open(ino, flags: OpenFlags(reads: true, writes: false))).handle
        let writer = try await tree.run(system.open(ino, flags: OpenFlags(reads: true, writes: true))).handle
        let write = tree.pool.start {
            let line = Array("second\n".utf8)
            return await succeeded(system.write(ino, handle: writer, at: nil, bytes: line.span.bytes))
        }
        for _ in 0..<1000 { await Task.yield() }
        copying.open()
        #expect(await rename.value)
        #expect(await write.value)
        #expect(try await tree.read((ino, reader), at: 0, count: 100) == Array("first\nsecond\n".utf8))
        try await tree.close((ino, writer))
        try await tree.close((ino, reader))
        try await tree.remount()
        #expect(try await tree.names("") == ["log.1"])
        #expect(tree.store.keys == ["log.1"])
        #expect(tree.store.content("log.1") == Array("first\nsecond\n".utf8))
    }

    @Test func aFileThatChangedElsewhereSinceItWasListedIsRenamedAsItIs() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", [1])
        #expect(try await tree.names("") == ["f"])
        tree.store.setObject("f", [1, 2, 3])
        try await tree.rename("f", to: "g")
        #expect(tree.store.content("g") == [1, 2, 3])
        #expect(tree.store.keys == ["g"])
        #expect(try await tree.load("g") == [1, 2, 3])
        #expect(try await tree.find("g").size == 3)
    }

    /// The copies of what was made in parts have other ETags, which the rows below the directory tell before the open files do.
    @Test func whoLooksWhileADirectoryIsRenamedDoesNotTakeTheCopiesForAnotherHosts() async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, partSize: 64 << 10)
        for number in 0..<1500 { tree.store.setObject(ObjectKey("d/b\(number)"), [2]) }
        try await tree.store("d/a", [UInt8](repeating: 1, count: 200_000))
        #expect(tree.store.info("d/a")?.version.etag.text.contains("-") == true)
        let directory = try await tree.find("d").ino
        #expect(try await tree.names("d").contains("b1499"))
        let file = try await tree.open("d/a", OpenFlags(reads: true, writes: true))
        let system = tree.system
        let looking = Task.detached {
            while !Task.isCancelled { _ = await system.lookup("a", in: directory).value() }
        }
        #expect(await succeeded(system.rename("d", in: .root, to: "e", in: .root, noReplace: false)))
        looking.cancel()
        await looking.value
        try await tree.write(file, [3], at: 0)
        try await tree.close(file)
        #expect(tree.store.content("e/a")?.first == 3)
    }
}
