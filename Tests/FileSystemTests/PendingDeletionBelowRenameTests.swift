import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A directory is renamed to where a removed file is still open: the file that comes to its key is another one.
@Suite(.timeLimit(.minutes(2))) struct PendingDeletionBelowRenameTests {
    private let readOnly = OpenFlags(reads: true, writes: false)

    @Test(arguments: [true, false])
    func whatComesToTheKeyOfARemovedFileStays(isAlike: Bool) async throws {
        let tree = try MountedTree()
        let old = Array("only in the bucket".utf8)
        let new = isAlike ? old : Array("another".utf8)
        tree.store.setObject("live/f", old)
        tree.store.setObject("next/f", new)
        let file = try await tree.open("live/f", readOnly)
        try await tree.unlink("live/f")
        try await tree.rename("next", to: "live")
        #expect(try await tree.names("live") == ["f"])
        // SEMANTICS section 3, unlink: an open file stays readable.
        let read = await Result { () async throws(MountedTree.Failure) in
            try await tree.read(file, at: 0, count: 100)
        }
        #expect((try? read.get()) == old)
        try await tree.close(file)
        #expect(tree.store.content("live/f") == new)
        tree.time.advance(by: .seconds(100))
        #expect(try await tree.names("live") == ["f"])
    }

    @Test(arguments: [true, false])
    func whatNothingComesInPlaceOfGoesWithItsLastHandle(isMadeAnew: Bool) async throws {
        let tree = try MountedTree()
        let old = Array("only in the bucket".utf8)
        tree.store.setObject("live/f", old)
        tree.store.setObject("next/g", old)
        let file = try await tree.open("live/f", readOnly)
        try await tree.unlink("live/f")
        try await tree.rename("next", to: "live")
        if isMadeAnew { try await tree.store("live/f", Array("new".utf8)) }
        #expect(try await tree.names("live") == (isMadeAnew ? ["f", "g"] : ["g"]))
        let read = await Result { () async throws(MountedTree.Failure) in
            try await tree.read(file, at: 0, count: 100)
        }
        #expect((try? read.get()) == old)
        try await tree.close(file)
        #expect(
            tree.store.keys.filter { !$0.bytes.hasSuffix("/") } == (isMadeAnew ? ["live/f", "live/g"] : ["live/g"]))
    }

    @Test func theNextMountLeavesItAsWell() async throws {
        let tree = try MountedTree()
        let bytes = Array("only in the bucket".utf8)
        tree.store.setObject("live/f", bytes)
        tree.store.setObject("next/f", bytes)
        _ = try await tree.open("live/f", readOnly)
        try await tree.unlink("live/f")
        try await tree.rename("next", to: "live")
        tree.crash()
        try await tree.mountAgain()
        #expect(tree.store.content("live/f") == bytes)
    }
}
