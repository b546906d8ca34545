import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// How much of what the store keeps extended attributes take.
@Suite(.timeLimit(.minutes(2))) struct ExtendedAttributeRoomTests {
    private func set(_ name: String, _ value: [UInt8], _ tree: MountedTree) async throws {
        let ino = try await tree.find("f").ino
        try await tree.run(
            tree.system.setExtendedAttribute(
                ByteString(name), of: ino, to: ByteString(value), mode: .createOrReplace))
    }

    private func value(_ name: String, _ tree: MountedTree) async throws -> [UInt8] {
        try await tree.run(tree.system.extendedAttribute(ByteString(name), of: try await tree.find("f").ino)).bytes
    }

    /// 20 attributes with 740 bytes of names and values took 1,361 bytes with every byte escaped that a URL cannot have.
    @Test(.rule("xattr.user")) func namesAndValuesTakeLittleMoreThanBase64() async throws {
        let tree = try MountedTree()
        try await tree.store("f", [1])
        func value(_ number: Int) -> [UInt8] { (0..<20).map { UInt8(truncatingIfNeeded: $0 * 37 + number) } }
        for number in 10..<30 { try await set("user.attribute-\(number)", value(number), tree) }
        let header = try #require(tree.store.info("f")?.metadata.user["xattr"])
        #expect(header.utf8.count <= 1050, "\(header.utf8.count)")
        tree.crash()
        try await tree.mountAgain()
        #expect(try await self.value("user.attribute-29", tree) == value(29))
    }

    @Test(.rule("xattr.user", "attr.foreign")) func whatWasStoredWithEveryByteEscapedIsReadAndKept() async throws {
        let tree = try MountedTree()
        let old = "%7B%22user.x%22%3A%22dmFs%22%7D"
        tree.store.setObject("f", [1], metadata: ObjectMetadata(user: ["xattr": old]))
        #expect(try await value("user.x", tree) == Array("val".utf8))
        tree.store.forgetRequests()
        try await set("user.x", Array("val".utf8), tree)
        #expect(tree.store.info("f")?.metadata.user["xattr"] == old)
        try await set("user.y", [0xff, 0xfe], tree)
        #expect(try await value("user.x", tree) == Array("val".utf8))
        #expect(try await value("user.y", tree) == [0xff, 0xfe])
    }

    /// Whatever the attribute was before stays.
    @Test(.rule("xattr.user")) func aValueThatIsTooLargeChangesNothing() async throws {
        let tree = try MountedTree()
        try await tree.store("f", [1])
        try await set("user.stream", [1], tree)
        tree.store.forgetRequests()
        await #expect(throws: MountedTree.Failure(kind: .argumentTooLong, reason: "")) {
            try await set("user.stream", Array(repeating: 2, count: 12_000), tree)
        }
        #expect(tree.store.requests.isEmpty)
        #expect(try await value("user.stream", tree) == [1])
    }
}
