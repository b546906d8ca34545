import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// touch(1) opens the file and sets its times through the handle.
@Suite(.timeLimit(.minutes(2))) struct TouchKeepsHeadersTests {
    @Test(arguments: [true, false])
    func headersThatNobodyHasSeenStay(isOpen: Bool) async throws {
        let tree = try MountedTree()
        var headers = ObjectMetadata(contentType: "image/png", user: ["foreign": "header"])
        headers.cacheControl = "no-cache"
        tree.store.setObject("f", [1, 2, 3], metadata: headers)
        #expect(try await tree.names("") == ["f"])
        let ino = try await tree.find("f").ino
        let file = isOpen ? try await tree.open("f", OpenFlags(reads: false, writes: true)) : nil
        var change = AttributeChange()
        change.modified = Timestamp(seconds: 1_000_000)
        _ = try await tree.run(tree.system.setAttributes(ino, to: change, handle: file?.1))
        if let file { try await tree.close(file) }
        let now = try #require(tree.store.info("f")).metadata
        #expect((now.contentType, now.cacheControl, now.user["foreign"]) == ("image/png", "no-cache", "header"))
        #expect(now.user["mtime"] == "1000000")
    }

    private static let theirs = ["mode": String(0o100600), "uid": "7", "gid": "8", "mtime": "99"]

    /// Another host's file, of which a listing alone has told.
    private func listed() async throws -> MountedTree {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("content".utf8), metadata: ObjectMetadata(user: Self.theirs))
        #expect(try await tree.names("") == ["f"])
        return tree
    }

    @Test(arguments: ["chmod", "chown", "setxattr"])
    func whatIsNotChangedStays(act: String) async throws {
        let tree = try await listed()
        var expected = Self.theirs
        switch act {
        case "chmod":
            try await tree.change("f") { $0.mode = 0o700 }
            expected["mode"] = String(0o100700)
        case "chown":
            try await tree.change("f") { $0.uid = 5 }
            expected["uid"] = "5"
        default:
            let ino = try await tree.find("f").ino
            try await tree.run(
                tree.system.setExtendedAttribute("user.a", of: ino, to: "b", mode: .createOrReplace))
            expected["xattr"] = try #require(tree.store.info("f")).metadata.user["xattr"]
        }
        let status = try await tree.find("f")
        expected["ctime"] = "\(status.changed.seconds).000000001"
        #expect(tree.store.info("f")?.metadata.user == expected)
        #expect(status.modified == Timestamp(seconds: 99))
    }

    /// Headers that come with a read, or are asked for, when a file is being written, or is about to be.
    @Test(arguments: ["read", "listxattr"])
    func modeAndOwnerOfAFileThatIsWrittenAreShown(act: String) async throws {
        let tree = try await listed()
        let file = try await tree.open("f", OpenFlags(reads: true, writes: true))
        if act == "listxattr" { _ = try await tree.run(tree.system.extendedAttributes(of: file.0)) }
        try await tree.write(file, Array("C".utf8), at: 0)
        if act == "read" {
            #expect(try await tree.read(file, at: 1, count: 10) == Array("ontent".utf8))
            // The block cache tells it from a thread of its own.
            try await waitUntil("the mode is told") { try await tree.find("f").mode == 0o600 }
        }
        try await tree.close(file)
        let status = try await tree.find("f")
        #expect((status.mode, status.uid, status.gid) == (0o600, 7, 8))
        let stored = try #require(tree.store.info("f")).metadata.user
        #expect(stored["mode"] == String(0o100600) && stored["uid"] == "7")
        #expect(tree.store.content("f") == Array("Content".utf8))
    }
}
