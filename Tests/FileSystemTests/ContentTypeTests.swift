import Basics
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// The types that names tell: SEMANTICS section 3, and section 6 for what a crash leaves.
@Suite struct ContentTypeTests {
    private static let table = ContentTypes(
        table: Array(
            """
            # a comment	jpg
            image/jpeg\t\t\tjpeg JPG jpe
            image/png png\r
            text/html  html htm
            text/other html
            application/x-nothing
            not-a-type x
            application/gzip gz
            """.utf8))

    private func tree(
        _ capabilities: Capabilities = Capabilities(), durability: MountPolicy.Durability = .remote
    ) async throws -> MountedTree {
        let tree = try MountedTree(capabilities: capabilities, durability: durability)
        tree.policy.contentTypes = Self.table
        try await tree.remount()
        return tree
    }

    private func type(of key: ObjectKey, in tree: MountedTree) -> String? { tree.store.info(key)?.metadata.contentType }

    private let away = ObjectStoreError(.unreachable, .put, message: "the store is away")

    // MARK: The table

    @Test(
        "the last extension tells the type",
        arguments: [
            ("a.jpg", "image/jpeg"), ("d/a.JPEG", "image/jpeg"), ("a.b.png", "image/png"),
            ("d.png/a.html", "text/html"),
            ("a.tar.gz", "application/gzip"), ("d/.jpg", nil), (".jpg", nil), ("a", nil), ("a.", nil), ("a.png/", nil),
            ("a.unknown", nil), ("a.x", nil), ("jpg", nil), ("d.jpg/a", nil),
        ] as [(String, String?)])
    func extensions(key: String, type: String?) {
        #expect(Self.table.type(of: ObjectKey(ByteString(key))) == type)
        #expect(ContentTypes().type(of: ObjectKey(ByteString(key))) == nil)
    }

    // MARK: New objects

    @Test(.rule("create.type")) func aNewFileHasTheTypeOfItsName() async throws {
        let tree = try await tree()
        try await tree.store("a.jpg", [1])
        try await tree.store("a.unknown", [1])
        try await tree.makeDirectory("d.png")
        try await tree.symlink("link.png", "a.jpg")
        #expect(type(of: "a.jpg", in: tree) == "image/jpeg")
        #expect(type(of: "a.unknown", in: tree) == nil)
        #expect(type(of: "d.png/", in: tree) == "application/x-directory")
        #expect(type(of: "link.png.rclonelink", in: tree) == "text/plain")
    }

    @Test func aFileThatIsSentInPartsHasTheTypeOfItsName() async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, partSize: 16 << 10)
        tree.policy.contentTypes = Self.table
        try await tree.remount()
        try await tree.store("a.png", Array(repeating: 7, count: 100_000))
        #expect(type(of: "a.png", in: tree) == "image/png")
        #expect(tree.store.count(.createUpload) == 1)
        #expect(tree.store.count(.updateMetadata) == 0)
    }

    @Test func theTypeThatSomebodySetIsKeptWhenTheContentChanges() async throws {
        let tree = try await tree()
        for (key, type) in [("a.jpg", "x/own"), ("b.jpg", "application/octet-stream")] {
            tree.store.setObject(ObjectKey(ByteString(key)), [1], metadata: ObjectMetadata(contentType: type))
            try await tree.store(key, [2, 3])
            #expect(tree.store.content(ObjectKey(ByteString(key))) == [2, 3])
            #expect(self.type(of: ObjectKey(ByteString(key)), in: tree) == type)
        }
    }

    // MARK: Renames

    @Test(
        "a download that is renamed gets its new name's type in the same request", .rule("create.type", "xattr.copied"),
        arguments: [nil, "binary/octet-stream", "application/octet-stream"] as [String?])
    func renamedDownload(stored: String?) async throws {
        let tree = try await tree()
        var metadata = ObjectMetadata(contentType: stored, user: ["mode": "33152", "foreign": "header"])
        (metadata.cacheControl, metadata.expires) = ("no-store", "later")
        tree.store.setObject("a.part", [1, 2], metadata: metadata, storageClass: "IA")
        _ = try await tree.run(tree.system.extendedAttributes(of: try await tree.find("a.part").ino))
        tree.store.forgetRequests()
        try await tree.rename("a.part", to: "a.jpg")
        #expect(tree.store.requests.map(\.operation).filter { $0 != .list } == [.copy, .delete])
        let info = try #require(tree.store.info("a.jpg"))
        var wanted = metadata
        wanted.contentType = "image/jpeg"
        wanted.user["pailfs-commit"] = info.metadata.user["pailfs-commit"]
        #expect(info.metadata == wanted)
        #expect(info.storageClass == "IA")
        #expect(tree.store.keys == ["a.jpg"])
        // What is known of it is what it has.
        try await tree.change("a.jpg") { $0.mode = 0o600 }
        try await tree.change("a.jpg") { $0.mode = 0o640 }
        #expect(type(of: "a.jpg", in: tree) == "image/jpeg")
        #expect(try #require(tree.store.info("a.jpg")).metadata.cacheControl == "no-store")
        #expect(try await tree.load("a.jpg") == [1, 2])
    }

    @Test func aFileMadeHereGoesFromTypeToType() async throws {
        let tree = try await tree()
        try await tree.store("a.tmp", [1])
        try await tree.store("a.html", [2])
        for (name, type) in [("a.html", "text/html"), ("a.png", "image/png"), ("a.bak", "image/png")] {
            let from = try #require(tree.store.keys.first { tree.store.content($0) == [1] })
            try await tree.rename(from.bytes.description, to: name)
            #expect(self.type(of: ObjectKey(ByteString(name)), in: tree) == type)
        }
        #expect(tree.store.keys == ["a.bak"])
        #expect(tree.store.count(.head) == 0)
    }

    @Test(.rule("create.type")) func aTypeThatIsNotTheNamesStaysWithTheObject() async throws {
        let tree = try await tree()
        try await tree.store("a.png", [1])
        let ino = try await tree.find("a.png").ino
        try await tree.run(
            tree.system.setExtendedAttribute("user.pailfs.content-type", of: ino, to: "x/own", mode: .createOrReplace))
        try await tree.rename("a.png", to: "a.jpg")
        #expect(type(of: "a.jpg", in: tree) == "x/own")
    }

    @Test func headersThatNobodyHasSeenAreNotAskedForByARename() async throws {
        let tree = try await tree()
        tree.store.setObject("a.part", [1], metadata: ObjectMetadata(contentType: "binary/octet-stream"))
        try await tree.rename("a.part", to: "a.jpg")
        #expect(tree.store.count(.head) == 0)
        #expect(tree.store.count(.copy) == 1)
        #expect(type(of: "a.jpg", in: tree) == "binary/octet-stream")
    }

    @Test(.rule("create.type")) func aStoreThatMovesObjectsMovesThemAsTheyAre() async throws {
        var capabilities = Capabilities()
        capabilities.move = true
        let tree = try await tree(capabilities)
        try await tree.store("a.tmp", [1])
        tree.store.forgetRequests()
        try await tree.rename("a.tmp", to: "a.jpg")
        #expect(tree.store.requests.map(\.operation).filter { $0 != .list } == [.move])
        #expect(type(of: "a.jpg", in: tree) == nil)
    }

    @Test func aLargeObjectGetsItsNewTypeToo() async throws {
        var capabilities = Capabilities()
        capabilities.largestCopy = 10
        let tree = try await tree(capabilities)
        try await tree.store("a.tmp", Array(repeating: 7, count: 20))
        try await tree.rename("a.tmp", to: "a.jpg")
        #expect(type(of: "a.jpg", in: tree) == "image/jpeg")
        #expect(tree.store.count(.uploadPartCopy) > 0)
        #expect(tree.store.count(.head) == 0)
    }

    @Test func aFileThatIsRenamedBeforeItIsStoredHasTheLastNamesType() async throws {
        let tree = try await tree()
        let file = try await tree.open("a.png", OpenFlags(reads: true, writes: true), create: true)
        try await tree.write(file, [1], at: 0)
        try await tree.run(
            tree.system.setExtendedAttribute("user.colour", of: file.0, to: "blue", mode: .createOrReplace))
        try await tree.rename("a.png", to: "a.jpg")
        try await tree.close(file)
        #expect(type(of: "a.jpg", in: tree) == "image/jpeg")
        #expect(tree.store.count(.copy) == 0)
    }

    // MARK: Crashes

    @Test func aPromisedFileHasItsHeadersAfterACrash() async throws {
        let tree = try await tree(durability: .local)
        tree.store.fault = { [away] operation, _ in operation == .put ? away : nil }
        let file = try await tree.open("a.png", OpenFlags(reads: true, writes: true), create: true)
        try await tree.write(file, [1, 2], at: 0)
        try await tree.run(
            tree.system.setExtendedAttribute(
                "user.pailfs.cache-control", of: file.0, to: "no-cache", mode: .createOrReplace))
        try await tree.close(file)
        #expect(tree.store.keys == [])
        tree.crash()
        tree.store.fault = nil
        // Another process knows the type from the journal alone.
        tree.policy.contentTypes = ContentTypes()
        try await tree.mountAgain()
        _ = await tree.system.store(below: .root)
        let metadata = try #require(tree.store.info("a.png")).metadata
        #expect((metadata.contentType, metadata.cacheControl) == ("image/png", "no-cache"))
    }

    @Test func anOpenFileThatWasRenamedHasItsTypeAfterARestart() async throws {
        let tree = try await tree()
        let file = try await tree.open("a.png", OpenFlags(reads: true, writes: true), create: true)
        try await tree.write(file, [1], at: 0)
        // Has the headers written down.
        try await tree.run(
            tree.system.setExtendedAttribute("user.colour", of: file.0, to: "blue", mode: .createOrReplace))
        try await tree.rename("a.png", to: "a.jpg")
        try await tree.restart()
        try await tree.close(file)
        #expect(type(of: "a.jpg", in: tree) == "image/jpeg")
        #expect(tree.store.keys == ["a.jpg"])
    }

    @Test("a rename that a crash interrupts stores the new type", arguments: [true, false])
    func interruptedRename(afterTheCopy: Bool) async throws {
        let tree = try await tree()
        try await tree.store("a.tmp", [1])
        // The same bytes, of another type.
        tree.store.setObject("a.jpg", [1], metadata: ObjectMetadata(contentType: "x/old"))
        let crash: MemoryStore.Fault = { [away, journal = tree.rooms.journal] operation, _ in
            guard operation == .copy else { return nil }
            journal.close()
            return away
        }
        if afterTheCopy { tree.store.faultAfter = crash } else { tree.store.fault = crash }
        await #expect(throws: MountedTree.Failure.self) { try await tree.rename("a.tmp", to: "a.jpg") }
        tree.crash()
        (tree.store.fault, tree.store.faultAfter) = (nil, nil)
        #expect(tree.store.keys == ["a.jpg", "a.tmp"])
        tree.store.forgetRequests()
        try await tree.mountAgain()
        #expect(tree.store.keys == ["a.jpg"])
        #expect(type(of: "a.jpg", in: tree) == "image/jpeg")
        #expect(tree.store.count(.copy) == (afterTheCopy ? 0 : 1))
    }
}
