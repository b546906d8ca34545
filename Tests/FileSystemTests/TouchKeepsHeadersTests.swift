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
}
