import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// The object whose key is a directory's own (SEMANTICS 4): with bytes it is a file, `%%file`, and nothing that is done to the
/// directory takes them; without, it holds the directory's attributes, and what nobody here has seen of them stays.
@Suite(.timeLimit(.minutes(2))) struct MarkerTests {
    private static let bytes = Array("precious".utf8)
    private static let others = ["mode": String(0o40777), "uid": "1234", "gid": "1235", "mtime": "77"]

    enum Act: CaseIterable { case mode, time, attribute }

    private func change(_ tree: MountedTree, _ path: String, _ act: Act) async throws {
        switch act {
        case .mode: try await tree.change(path) { $0.mode = 0o700 }
        case .time: try await tree.change(path) { $0.modified = Timestamp(seconds: 99) }
        case .attribute:
            let ino = try await tree.find(path).ino
            try await tree.run(
                tree.system.setExtendedAttribute("user.a", of: ino, to: "b", mode: .createOrReplace))
        }
    }

    @Test func aDirectoryIsMadeThoughAListingHasSeenItBefore() async throws {
        let tree = try MountedTree()
        let putting = tree.store.hold(.put, beforeReply: true)
        let (system, pool) = (tree.system, tree.pool)
        let make = pool.start { () async -> FileSystemError? in
            let outcome = system.makeDirectory("d", in: .root, mode: 0o710, caller: Caller(uid: 0, gid: 0))
            return if case .failure(let error) = await outcome.value() { error } else { nil }
        }
        await putting.waitForArrivals()
        tree.time.advance(by: .seconds(1000))
        #expect(try await tree.names("") == [])
        putting.open()
        #expect(await make.value == nil)
        #expect(try await tree.find("d").mode == 0o710)
        #expect(try await tree.names("") == ["d"])
    }

    /// Where the store compares, and where it has to be asked.
    private static let stores: [Capabilities] = [true, false].map { compares in
        var capabilities = Capabilities()
        (capabilities.putIfAbsent, capabilities.putIfMatch) = (compares, compares)
        return capabilities
    }

    @Test(arguments: Act.allCases, [0, 1])
    func attributesOfADirectoryLeaveItsFileAlone(act: Act, store: Int) async throws {
        let tree = try MountedTree(capabilities: Self.stores[store])
        tree.store.setObject("d/", Self.bytes)
        tree.store.setObject("d/other", [1])
        #expect(try await tree.names("d") == ["%%file", "other"])
        try await change(tree, "d", act)
        #expect(tree.store.content("d/") == Self.bytes)
        #expect(try await tree.load("d/%%file") == Self.bytes)
    }

    /// Another host has put it there since this one looked.
    @Test(arguments: Act.allCases, [0, 1])
    func aFileThatCameMeanwhileStays(act: Act, store: Int) async throws {
        let tree = try MountedTree(capabilities: Self.stores[store])
        try await tree.makeDirectory("d")
        tree.store.setObject("d/", Self.bytes)
        try await change(tree, "d", act)
        #expect(tree.store.content("d/") == Self.bytes)
    }

    @Test(.rule("mkdir.last", "name.escaped")) func theLastFileOfADirectoryMayBeItsOwn() async throws {
        for isRead in [true, false] {
            let tree = try MountedTree()
            tree.store.setObject("d/", Self.bytes)
            if isRead { #expect(try await tree.load("d/%%file") == Self.bytes) }
            try await tree.rename("d/%%file", to: "moved")
            #expect(tree.store.content("moved") == Self.bytes)
            #expect(try await tree.names("") == ["d", "moved"])
            #expect(try await tree.names("d") == [])
            #expect(tree.store.content("d/") == [], "directories do not vanish")
        }
    }

    /// However soon what is known grows old.
    @Test(arguments: [Duration.zero, .seconds(60)])
    func theOwnFileIsFoundInADirectoryThatNobodyListed(ttl: Duration) async throws {
        let tree = try MountedTree(ttl: ttl)
        tree.store.setObject("d/", Self.bytes)
        #expect(try await tree.find("d").kind == .directory)
        #expect(try await tree.load("d/%%file") == Self.bytes)
    }

    @Test(.rule("mkdir.last", "name.escaped")) func aDirectoryStaysWhenItsOwnFileIsRemoved() async throws {
        let tree = try MountedTree()
        tree.store.setObject("d/", Self.bytes)
        try await tree.unlink("d/%%file")
        #expect(tree.store.content("d/") == [])
        tree.store.setObject("e/", Self.bytes)
        tree.store.setObject("e/other", [1])
        try await tree.unlink("e/%%file")
        #expect(tree.store.content("e/") == nil)
        #expect(try await tree.names("") == ["d", "e"])
    }

    @Test(.rule("mkdir.last")) func removingTheLastFileKeepsADirectoryWhoseOthersAreGoneElsewhere() async throws {
        let tree = try MountedTree()
        for name in ["d/a", "d/b", "d/c"] { tree.store.setObject(ObjectKey(name), [1]) }
        #expect(try await tree.names("d") == ["a", "b", "c"])
        tree.time.advance(by: .seconds(61))
        for key in ["d/b", "d/c"] as [ObjectKey] { tree.store.removeObject(key) }
        try await tree.unlink("d/a")
        #expect(tree.store.keys == ["d/"])
        #expect(try await tree.find("d").kind == .directory)
    }

    @Test func aDirectoryThatWasListedLongAgoIsAskedForItsOthersOnce() async throws {
        let tree = try MountedTree()
        let names = (0..<20).map { "f\($0 + 10)" }
        for name in names { tree.store.setObject(ObjectKey("d/\(name)"), [1]) }
        #expect(try await tree.names("d") == names)
        tree.time.advance(by: .seconds(61))
        tree.store.forgetRequests()
        for name in names.dropLast() { try await tree.unlink("d/\(name)") }
        #expect(tree.store.count(.list) < 5)
        #expect(try await tree.names("d") == ["f29"])
    }

    @Test(arguments: Act.allCases)
    func whatNobodyHasSeenOfADirectoryStays(act: Act) async throws {
        let tree = try MountedTree()
        var headers = Self.others
        headers["xattr"] = "%7B%22user.x%22%3A%22dmFs%22%7D"
        tree.store.setObject("d/", [], metadata: ObjectMetadata(contentType: "application/x-directory", user: headers))
        _ = try await tree.names("")
        try await change(tree, "d", act)
        let ino = try await tree.find("d").ino
        #expect(try await tree.run(tree.system.extendedAttribute("user.x", of: ino)) == "val")
        let stored = try #require(tree.store.info("d/")).metadata.user
        switch act {
        case .mode: headers["mode"] = String(0o40700)
        case .time: headers["mtime"] = "99"
        case .attribute: headers["xattr"] = stored["xattr"]
        }
        headers["ctime"] = "\(try await tree.find("d").changed.seconds).000000001"
        #expect(stored == headers)
    }

    /// The mode that is shown for want of a better one may be another than the stored one.
    @Test func theModeThatIsShownIsStored() async throws {
        let tree = try MountedTree()
        tree.store.setObject("d/", [], metadata: ObjectMetadata(user: Self.others))
        _ = try await tree.names("")
        let shown = try await tree.find("d").mode
        #expect(shown & 0o777 == 0o755)
        try await tree.change("d") { $0.mode = shown }
        #expect(tree.store.info("d/")?.metadata.user["mode"] == String(0o40755))
    }

    @Test func aDirectoryThatSomebodyElseMadeExists() async throws {
        for store in [0, 1] {
            let tree = try MountedTree(capabilities: Self.stores[store])
            _ = try await tree.names("")
            tree.store.setObject("d/", Self.bytes)
            await #expect(throws: MountedTree.Failure(kind: .exists, reason: "")) {
                try await tree.makeDirectory("d")
            }
            #expect(tree.store.content("d/") == Self.bytes)
        }
    }

    @Test(arguments: [Duration.zero, .seconds(60)])
    func aRenamedDirectoryWithAFileOfItsOwnKeepsItsMode(ttl: Duration) async throws {
        let tree = try MountedTree(ttl: ttl)
        tree.store.setObject("d/", Self.bytes)
        tree.store.setObject("d/other", [1])
        #expect(try await tree.names("d") == ["%%file", "other"])
        try await tree.change("d") { $0.mode = 0o711 }
        #expect(try await tree.find("d").mode == 0o711)
        try await tree.rename("d", to: "e")
        #expect(try await tree.find("e").mode == 0o711)
        _ = try await tree.names("e")
        #expect(try await tree.find("e").mode == 0o711)
        #expect(tree.store.content("e/") == Self.bytes)
        // Bytes that go leave the directory there.
        try await tree.rename("e/other", to: "other")
        try await tree.rename("e/%%file", to: "bytes")
        #expect(try await tree.find("e").kind == .directory)
        #expect(tree.store.content("e/") == [])
    }

    /// What is below it is there still.
    @Test(arguments: [[], Self.bytes])
    func aMarkerThatAnotherHostRemovedIsMadeAnew(bytes: [UInt8]) async throws {
        let tree = try MountedTree(ttl: .zero)
        tree.store.setObject("d/", bytes)
        tree.store.setObject("d/other", [1])
        _ = try await tree.names("d")
        try await tree.change("d") { $0.mode = 0o700 }
        tree.store.removeObject("d/")
        try await tree.change("d") { $0.mode = 0o711 }
        #expect(tree.store.info("d/")?.metadata.user["mode"] == String(0o40711))
        #expect(tree.store.content("d/") == [])
    }
}
