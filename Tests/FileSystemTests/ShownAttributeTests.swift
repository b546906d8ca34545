import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// What stat(2) shows, and what a change of it costs.
@Suite(.timeLimit(.minutes(2))) struct ShownAttributeTests {
    private static let theirs = ObjectMetadata(
        user: ["mode": String(0o100600), "uid": "7", "gid": "8", "mtime": "99"])

    @Test(.rule("attr.listing")) func whatAListingAloneHasToldOfHasModeAndOwnerOfTheMount() async throws {
        let tree = try MountedTree()
        (tree.policy.uid, tree.policy.gid) = (12, 34)
        try await tree.remount()
        tree.store.setObject("f", [1], metadata: Self.theirs)
        tree.store.setObject("d/", [], metadata: ObjectMetadata(user: ["mode": String(0o40700), "uid": "7"]))
        #expect(try await tree.names("") == ["d", "f"])
        let file = try await tree.find("f")
        #expect((file.mode, file.uid, file.gid) == (tree.policy.fileMode, 12, 34))
        #expect(file.modified == tree.store.info("f")?.version.modified)
        let directory = try await tree.find("d")
        #expect((directory.mode, directory.uid, directory.gid) == (tree.policy.directoryMode, 12, 34))
        try await tree.change("d") { $0.mode = 0o711 }
        #expect(try await tree.find("d").mode == 0o711)
        #expect(tree.store.count(.get) == 0)
    }

    @Test(.rule("attr.inode")) func anInodeKeepsItsNumberOverRemountsAndRenames() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.store("f", [1])
        let (file, directory) = (try await tree.find("f"), try await tree.find("d"))
        #expect((file.links, directory.links) == (1, 2))
        try await tree.remount()
        #expect(try await (tree.find("f").ino, tree.find("d").ino) == (file.ino, directory.ino))
        try await tree.rename("f", to: "d/g")
        try await tree.rename("d", to: "e")
        #expect(try await (tree.find("e/g").ino, tree.find("e").ino) == (file.ino, directory.ino))
        try await tree.unlink("e/g")
        try await tree.store("e/g", [1])
        #expect(try await tree.find("e/g").ino != file.ino)
        let open = try await tree.open("e/g", OpenFlags(reads: true, writes: false))
        try await tree.unlink("e/g")
        #expect(try await tree.run(tree.system.attributes(open.0, handle: open.1)).status.links == 0)
        try await tree.close(open)
    }

    @Test(.rule("attr.top")) func attributesOfTheTopAreInTheCacheAlone() async throws {
        let tree = try MountedTree()
        let time = Timestamp(seconds: 1_000_000_000)
        try await tree.change("") { ($0.mode, $0.uid, $0.modified) = (0o711, 7, time) }
        for _ in 0..<2 {
            let status = try await tree.find("")
            #expect((status.mode, status.uid, status.modified) == (0o711, 7, time))
            try await tree.remount()
        }
        #expect(tree.store.keys == [])
    }

    @Test(.rule("attr.set"), arguments: [Capabilities.MetadataUpdate.copy, .inPlace])
    func aChangeOfAStoredFileCostsARequestAndTheSameAgainNone(update: Capabilities.MetadataUpdate) async throws {
        var capabilities = Capabilities()
        capabilities.metadataUpdate = update
        let tree = try MountedTree(capabilities: capabilities)
        try await tree.store("f", [1])
        tree.store.forgetRequests()
        let time = Timestamp(seconds: 1_000_000_000)
        for _ in 0..<2 {
            try await tree.change("f") { ($0.mode, $0.uid, $0.modified) = (0o711, 7, time) }
            let status = try await tree.find("f")
            #expect((status.mode, status.uid, status.modified) == (0o711, 7, time))
            #expect(tree.store.requests.map(\.operation) == [.updateMetadata])
        }
        #expect(tree.store.info("f")?.metadata.user["mode"] == String(0o100711))
    }

    @Test(.rule("attr.set")) func aSymbolicLinkHasAnOwnerAndNoModeOfItsOwn() async throws {
        let tree = try MountedTree()
        try await tree.symlink("l", "target")
        #expect(try await tree.find("l").mode == 0o777)
        try await tree.change("l") { ($0.uid, $0.gid) = (7, 8) }
        try? await tree.change("l") { $0.mode = 0o600 }
        let status = try await tree.find("l")
        #expect((status.mode, status.uid, status.gid) == (0o777, 7, 8))
    }

    @Test(.rule("attr.atime")) func theTimeOfAnAccessIsThatOfTheLastChange() async throws {
        let tree = try MountedTree()
        try await tree.store("f", [1])
        let modified = try await tree.find("f").modified
        tree.time.advance(by: .seconds(5))
        _ = try await tree.load("f")
        let status = try await tree.find("f")
        #expect((status.accessed, status.modified) == (modified, modified))
    }

    @Test(.rule("xattr.state")) func theStateOfAFileIsShown() async throws {
        let tree = try MountedTree(durability: .local)
        func state(_ name: String, of path: String = "f") async throws(MountedTree.Failure) -> String {
            try await tree.run(
                tree.system.extendedAttribute(
                    ByteString("user.pailfs.\(name)"), of: try await tree.find(path).ino)
            ).description
        }
        let gate = tree.store.hold(.put)
        let file = try await tree.open("f", OpenFlags(reads: true, writes: true), create: true)
        try await tree.write(file, [1], at: 0)
        #expect(try await (state("dirty"), state("uploading")) == ("1", "0"))
        try await tree.close(file)
        await gate.waitForArrivals()
        #expect(try await (state("dirty"), state("uploading")) == ("1", "1"))
        #expect(try await state("sent") == "0")
        gate.open()
        try await tree.waitUntil("it is stored") { tree.system.dirtyFiles(below: .root) == 0 }
        #expect(try await (state("dirty"), state("uploading"), state("cached")) == ("0", "0", "1"))
        #expect(try await state("etag") == tree.store.info("f")?.version.etag.text)
        #expect(try await state("key") == "f")
        for name in ["lasterror", "sent"] {
            await #expect(throws: MountedTree.Failure(kind: .noData, reason: "")) { _ = try await state(name) }
        }
        tree.store.setObject("theirs", [1])
        try await tree.run(
            tree.system.setExtendedAttribute(
                "user.pailfs.refresh", of: .root, to: "", mode: .createOrReplace))
        #expect(try await state("cached", of: "theirs") == "0")
    }
}
