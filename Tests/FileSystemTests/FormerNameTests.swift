import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A name that a listing gave leads to its file for as long as that is there, though the file has another name by then.
@Suite(.timeLimit(.minutes(2))) struct FormerNameTests {
    private static let long = String(repeating: "n", count: 253)
    private static let keys = [
        "a", "a/x", "a.rclonelink", "b", "b/", "c/y", "c.rclonelink", "l", "l.rclonelink", long, long + "/",
    ]

    private func tree(ttl: Duration) throws -> MountedTree {
        let tree = try MountedTree(ttl: ttl)
        for key in Self.keys { tree.store.setObject(ObjectKey(key), key.hasSuffix("/") ? [] : Array(key.utf8)) }
        return tree
    }

    private func remove(_ path: String, in tree: MountedTree) async throws {
        if try await tree.find(path).kind == .directory {
            for name in try await tree.names(path) { try await remove(path + "/" + name, in: tree) }
            try await tree.removeDirectory(path)
        } else {
            try await tree.unlink(path)
        }
    }

    enum Order: CaseIterable { case ascending, descending, directoriesFirst }

    @Test(.rule("name.escaped"), arguments: Order.allCases, [Duration.seconds(60), .zero])
    func everyNameOfAListingCanBeRemoved(order: Order, ttl: Duration) async throws {
        let tree = try tree(ttl: ttl)
        var names = try await tree.names("")
        #expect(names.count == Self.keys.count)
        #expect(names.contains("a%%file") && names.contains("a%%link") && names.contains("l%%link"))
        switch order {
        case .ascending: break
        case .descending: names.reverse()
        case .directoriesFirst: names.sort { !$0.contains("%%") && $1.contains("%%") }
        }
        for name in names { try await remove(name, in: tree) }
        // Removals in a row are stored together, a little later.
        try await tree.remount()
        #expect(tree.store.keys == [])
        #expect(try await tree.names("") == [])
    }

    @Test(.rule("name.escaped"), arguments: [false, true])
    func theNextProcessGoesOn(isRemovedByAnotherHost: Bool) async throws {
        let tree = try tree(ttl: .seconds(60))
        let ino = try await tree.find("a%%file").ino
        if isRemovedByAnotherHost {
            tree.store.removeObject("a/x")
            try tree.rooms.metadata.invalidate(.root, subtree: true)
            // Another name is asked for: the directory is listed, and no program reads it.
            _ = try? await tree.find("none")
            await #expect(throws: MountedTree.Failure.self) { try await tree.find("a/x") }
        } else {
            try await remove("a", in: tree)
        }
        try await tree.restart()
        #expect(try await tree.find("a").ino == ino)
        #expect(try await tree.find("a%%file").ino == ino)
        #expect(try await tree.load("a%%file") == Array("a".utf8))
        // Another program reads the directory: who has the name from before goes on with it.
        #expect(try await tree.names("").contains("a"))
        #expect(try await tree.find("a%%file").ino == ino)
        try await tree.unlink("a%%file")
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { try await tree.find("a%%file") }
    }

    @Test func theNameFollowsTheFileThatReplacesItAndNoOther() async throws {
        let tree = try tree(ttl: .seconds(60))
        _ = try await tree.names("")
        try await remove("a", in: tree)
        try await tree.store("a%%file", Array("written".utf8))
        #expect(tree.store.content("a") == Array("written".utf8))
        try await tree.store("new", Array("renamed".utf8))
        try await tree.rename("new", to: "a%%file")
        #expect(tree.store.content("a") == Array("renamed".utf8))
        #expect(try await tree.load("a%%file") == Array("renamed".utf8))
        try await tree.rename("a%%file", to: "elsewhere")
        #expect(tree.store.content("elsewhere") == Array("renamed".utf8))
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { try await tree.find("a%%file") }
        await #expect(throws: MountedTree.Failure(kind: .invalid, reason: "")) {
            try await tree.store("a%%file", [1])
        }
    }

    @Test func aDirectoryThatIsRenamedLeavesTheName() async throws {
        let tree = try tree(ttl: .seconds(60))
        _ = try await tree.names("")
        try await tree.rename("a", to: "z")
        #expect(try await tree.load("a%%file") == Array("a".utf8))
        #expect(try await tree.load("a") == Array("a".utf8))
        try await tree.unlink("a%%file")
        #expect(try await tree.readLink("a%%link") == "a.rclonelink")
        #expect(try await tree.readLink("a") == "a.rclonelink")
    }
}
