import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A commit that reached the store without anybody knowing is not the end of what was written after it.
@Suite(.timeLimit(.minutes(2))) struct WrittenAfterAFailedCommitTests {
    @Test(arguments: ["restart", "crash"])
    func whatWasWrittenSinceIsThere(how: String) async throws {
        let tree = try MountedTree()
        let file = try await tree.open("f", OpenFlags(reads: true, writes: true), create: true)
        try await tree.write(file, Array("first".utf8), at: 0)
        tree.store.faultAfter = { operation, key in
            guard [.put, .head].contains(operation) else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the answer was lost")
        }
        await #expect(throws: MountedTree.Failure.self) {
            try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
        }
        tree.store.faultAfter = nil
        #expect(tree.store.content("f") == Array("first".utf8))
        try await tree.write(file, Array(" second".utf8), at: 5)
        if how == "restart" {
            try await tree.restart()
            #expect(try await tree.read(file, at: 0, count: 100) == Array("first second".utf8))
            try await tree.close(file)
            #expect(tree.store.content("f") == Array("first second".utf8))
        } else {
            let dead = tree.system
            defer { withExtendedLifetime(dead) {} }
            tree.crash()
            try await tree.mountAgain()
            #expect(tree.system.listRecoverableFiles().count == 1, "it was not acknowledged, and is kept")
        }
    }
}
