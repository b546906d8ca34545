import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// `user.pailfs.*` attributes that can be set: the standard headers of an object.
@Suite struct HeaderAttributeTests: AttributedTree {
    let tree: MountedTree

    init() throws { tree = try MountedTree() }

    @Test(.rule("xattr.header"), arguments: StoredHeader.allCases)
    func aHeaderIsSetShownAndRemoved(_ header: StoredHeader) async throws {
        let name = "user.pailfs.\(header.rawValue)"
        tree.store.setObject("f", [1], metadata: ObjectMetadata(user: ["foreign": "stays"]))
        await #expect(throws: failure(.noData)) { try await get(name, of: "f") }
        await #expect(throws: failure(.noData)) { try await remove(name, of: "f") }
        await #expect(throws: failure(.noData)) { try await set(name, "v", of: "f", mode: .replace) }
        try await set(name, "some value; x=1", of: "f", mode: .create)
        #expect(tree.store.info("f")?.metadata[header] == "some value; x=1")
        #expect(tree.store.info("f")?.metadata.user["foreign"] == "stays")
        #expect(try await get(name, of: "f") == "some value; x=1")
        #expect(try await list("f") == ["user.meta.foreign", name])
        await #expect(throws: failure(.exists)) { try await set(name, "v", of: "f", mode: .create) }
        // It outlives other content, and another mount shows it.
        try await tree.store("f", [2])
        #expect(tree.store.info("f")?.metadata[header] == "some value; x=1")
        try await tree.remount()
        #expect(try await get(name, of: "f") == "some value; x=1")
        try await remove(name, of: "f")
        #expect(tree.store.info("f")?.metadata[header] == nil)
        #expect(try await list("f") == ["user.meta.foreign"])
        #expect(try await tree.load("f") == [2])
    }

    @Test(
        .rule("xattr.header"),
        arguments: ["", " ", " x", "x ", "a\nb", "a\tb", "caf\u{e9}", "a\u{0}", String(repeating: "x", count: 5000)])
    func whatAHeaderCannotCarryIsRefused(_ value: String) async throws {
        try await tree.store("f", [1])
        tree.store.forgetRequests()
        await #expect(throws: failure(.invalid)) { try await set("user.pailfs.cache-control", value, of: "f") }
        #expect(tree.store.requests.isEmpty)
    }

    @Test func settingTheSameCostsNothing() async throws {
        try await tree.store("f", [1])
        try await set("user.pailfs.expires", "0", of: "f")
        try await set("user.colour", "blue", of: "f")
        tree.store.forgetRequests()
        try await set("user.pailfs.expires", "0", of: "f")
        try await set("user.colour", "blue", of: "f")
        #expect(tree.store.requests.isEmpty)
    }

    @Test func headersOfAFileThatIsWrittenGoWithIt() async throws {
        tree.policy.contentTypes = ContentTypes(table: Array("text/css css".utf8))
        try await tree.remount()
        let file = try await tree.open("f.css", OpenFlags(reads: true, writes: true), create: true)
        #expect(try await get("user.pailfs.content-type", of: "f.css") == "text/css")
        try await set("user.pailfs.content-language", "de", of: "f.css")
        #expect(try await list("f.css") == ["user.pailfs.content-language"])
        try await tree.close(file)
        let metadata = try #require(tree.store.info("f.css")).metadata
        #expect((metadata.contentType, metadata.contentLanguage) == ("text/css", "de"))
        #expect(tree.store.count(.updateMetadata) == 0)
        #expect(tree.store.count(.put) == 1)
    }

    @Test(.rule("xattr.header")) func withoutATypeOfItsOwnAFileHasThatOfItsName() async throws {
        tree.policy.contentTypes = ContentTypes(table: Array("text/css css".utf8))
        try await tree.remount()
        try await tree.store("f.css", [1])
        try await set("user.pailfs.content-type", "x/own", of: "f.css")
        try await remove("user.pailfs.content-type", of: "f.css")
        #expect(tree.store.info("f.css")?.metadata.contentType == "text/css")
        #expect(try await get("user.pailfs.content-type", of: "f.css") == "text/css")
    }

    @Test(
        .rule("xattr.header"),
        arguments: [("f", "binary/octet-stream", false), ("f.css", "text/css", false), ("g.css", "x/own", true)])
    func aTypeThatNobodySetIsNotListed(name: String, type: String, isListed: Bool) async throws {
        tree.policy.contentTypes = ContentTypes(table: Array("text/css css".utf8))
        try await tree.remount()
        tree.store.setObject(ObjectKey(ByteString(name)), [1], metadata: ObjectMetadata(contentType: type))
        #expect(try await list(name) == (isListed ? ["user.pailfs.content-type"] : []))
        #expect(try await get("user.pailfs.content-type", of: name) == type)
    }

    @Test(.rule("xattr.header")) func directoriesHaveNone() async throws {
        try await tree.makeDirectory("d")
        #expect(try await list("d") == [])
        await #expect(throws: failure(.notSupported)) { try await set("user.pailfs.cache-control", "x", of: "d") }
        await #expect(throws: failure(.notSupported)) { try await set("user.pailfs.storage-class", "IA", of: "d") }
        await #expect(throws: failure(.noData)) { try await get("user.pailfs.acl", of: "d") }
    }

    @Test(
        .rule("xattr.property", "error.reason"),
        arguments: [
            ("user.pailfs.acl", "private"), ("user.pailfs.storage-class", "IA"), ("user.pailfs.restore", "3"),
        ])
    func aPropertyTheStoreHasNotIsRefusedWithTheReason(name: String, value: String) async throws {
        try await tree.store("f", [1])
        await #expect(throws: failure(.notSupported)) { try await set(name, value, of: "f") }
        #expect(try await get("user.pailfs.lasterror", of: "f").hasPrefix("setxattr: "))
        await #expect(throws: failure(.notPermitted)) { try await remove(name, of: "f") }
        #expect(try await list("f") == [])
    }

    @Test(
        .rule("xattr.property"),
        arguments: [
            ("user.pailfs.acl", ""), ("user.pailfs.acl", "two words"), ("user.pailfs.acl", "user:=READ"),
            ("user.pailfs.storage-class", ""), ("user.pailfs.storage-class", "a\nb"), ("user.pailfs.restore", "soon"),
            ("user.pailfs.restore", "0"), ("user.pailfs.restore", "-1"), ("user.pailfs.restore", "1 Bulk now"),
            ("user.pailfs.restore", ""),
        ])
    func aPropertyThatMeansNothingIsInvalid(name: String, value: String) async throws {
        try await tree.store("f", [1])
        await #expect(throws: failure(.invalid)) { try await set(name, value, of: "f") }
    }

    @Test(.rule("xattr.state")) func theKeyIsTheOneInTheBucket() async throws {
        tree.policy.prefix = "some/place/"
        try await tree.remount()
        try await tree.store("f", [1])
        let file = try await tree.find("f").ino
        #expect(try await tree.run(tree.system.extendedAttribute("user.pailfs.key", of: file)) == "some/place/f")
        #expect(try tree.system.explain(file).key == "some/place/f")
    }

    @Test(
        .rule("xattr.state"),
        arguments: ["user.pailfs.etag", "user.pailfs.key", "user.pailfs.dirty", "user.pailfs.none"])
    func whatTellsTheStateCannotBeSet(name: String) async throws {
        try await tree.store("f", [1])
        await #expect(throws: failure(.notPermitted)) { try await set(name, "x", of: "f") }
    }
}
