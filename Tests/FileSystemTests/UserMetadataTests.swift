import Basics
import FileSystem
import ObjectStorage
import TestSupport
import Testing

/// `user.meta.*`: the objects' own metadata.
@Suite struct UserMetadataTests: AttributedTree {
    let tree: MountedTree

    init() throws { tree = try MountedTree() }

    @Test(.rule("xattr.metadata"), arguments: ["f", "d/"]) func itIsTheHeaderOfTheObject(key: String) async throws {
        let path = key == "d/" ? "d" : key
        tree.store.setObject(ObjectKey(key), [], metadata: ObjectMetadata(user: ["color": "red", "mtime": "5"]))
        #expect(try await list(path) == ["user.meta.color"])
        #expect(try await get("user.meta.Color", of: path) == "red", "names of headers do not differ by case")
        await #expect(throws: failure(.exists)) { try await set("user.meta.color", "x", of: path, mode: .create) }
        await #expect(throws: failure(.noData)) { try await set("user.meta.size", "x", of: path, mode: .replace) }
        try await set("user.meta.Color", "green", of: path, mode: .replace)
        try await set("user.meta.a-b_c.9", "1", of: path, mode: .create)
        try await set("user.plain", "2", of: path)
        let stored = try #require(tree.store.info(ObjectKey(key))?.metadata.user)
        #expect(stored["color"] == "green" && stored["a-b_c.9"] == "1" && stored["plain"] == nil)
        #expect(try await list(path) == ["user.meta.a-b_c.9", "user.meta.color", "user.plain"])
        try await tree.remount()
        #expect(try await get("user.meta.a-b_c.9", of: path) == "1")
        try await remove("user.meta.COLOR", of: path)
        #expect(tree.store.info(ObjectKey(key))?.metadata.user["color"] == nil)
        await #expect(throws: failure(.noData)) { try await remove("user.meta.color", of: path) }
    }

    /// Its own attributes are not shown a second time, and no program can break them.
    @Test(.rule("xattr.metadata"), arguments: ["mode", "mtime", "XATTR", "pailfs-commit", "--symlink-target"])
    func whatPailfsKeepsThereIsNotSet(name: String) async throws {
        try await tree.store("f", [1])
        let before = try #require(tree.store.info("f")?.metadata.user)
        #expect(try await list("f") == [])
        await #expect(throws: failure(.notPermitted)) { try await set("user.meta.\(name)", "1", of: "f") }
        await #expect(throws: failure(.notPermitted)) { try await remove("user.meta.\(name)", of: "f") }
        await #expect(throws: failure(.noData)) { try await get("user.meta.\(name)", of: "f") }
        #expect(tree.store.info("f")?.metadata.user == before)
    }

    @Test(
        .rule("xattr.metadata"),
        arguments: [
            ("", "v"), ("a b", "v"), ("ä", "v"), (String(repeating: "n", count: 129), "v"), ("a", ""), ("a", " v"),
            ("a", "v\nw"), ("a", "ü"),
        ])
    func whatNoHeaderCarriesIsRefused(name: String, value: String) async throws {
        try await tree.store("f", [1])
        await #expect(throws: failure(.invalid)) { try await set("user.meta.\(name)", value, of: "f") }
    }

    @Test(.rule("xattr.metadata")) func moreThanTheStoreKeepsIsRefusedBeforeAnythingChanges() async throws {
        try await tree.store("f", [1])
        let value = String(repeating: "v", count: tree.store.capabilities.metadataBudget)
        await #expect(throws: failure(.argumentTooLong)) { try await set("user.meta.a", value, of: "f") }
        #expect(try await list("f") == [])
    }

    /// As ls(1) asks for every file of a directory, and everything that copies attributes does not.
    @Test(.rule("xattr.list"), arguments: [(152, 0), (255, 0), (256, 1), (0, 1)])
    func whoLooksForAccessControlListsCostsNoRequest(room: Int, requests: Int) async throws {
        tree.store.setObject("f", [1], metadata: ObjectMetadata(user: ["color": "red"]))
        let ino = try await tree.find("f").ino
        // The name is known from a listing, and nothing of its headers.
        try await tree.remount()
        _ = try await tree.names("")
        let file = try await tree.find("f").ino
        #expect(file == ino)
        let before = tree.store.count(.head)
        let names = try await tree.run(tree.system.extendedAttributes(of: file, room: room)).map(\.description)
        #expect(tree.store.count(.head) - before == requests)
        #expect(names == (requests == 0 ? [] : ["user.meta.color"]))
        // Once they were seen they are named, whatever room there is.
        #expect(try await get("user.meta.color", of: "f") == "red")
        let again = try await tree.run(tree.system.extendedAttributes(of: file, room: 152)).map(\.description)
        #expect(again == ["user.meta.color"])
    }

    /// An earlier pailfs has stored it among the other attributes.
    @Test func whatWasStoredAsAnAttributeIsStillOne() async throws {
        let header = "{\"user.meta.old\":\"YQ==\",\"user.x\":\"Yg==\"}"
        tree.store.setObject("f", [1], metadata: ObjectMetadata(user: ["xattr": header]))
        #expect(try await list("f") == ["user.meta.old", "user.x"])
        #expect(try await get("user.meta.old", of: "f") == "a")
        try await remove("user.meta.old", of: "f")
        #expect(try await list("f") == ["user.x"])
    }
}
