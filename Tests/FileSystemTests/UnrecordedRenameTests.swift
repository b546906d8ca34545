import Basics
import Metadata
import ObjectStorage
import SQLite
import TestSupport
import Testing

@testable import FileSystem

/// A rename while the metadata cache cannot be written, as on a disk that is full: it fails, and nothing is renamed.
@Suite(.timeLimit(.minutes(1))) struct UnrecordedRenameTests {
    /// Neither file is in the bucket: `t` is acknowledged, `s` still being written.
    @Test(.rule("rename.pending", "crash.process"), arguments: ["the same process", "the next process"])
    func bothFilesAreWhatTheyWere(who: String) async throws {
        let tree = try MountedTree(durability: .local)
        tree.refuseWrites()
        try await tree.store("t", Array("acknowledged".utf8))
        let file = try await tree.open("s", OpenFlags(reads: true, writes: true), create: true)
        try await tree.write(file, Array("written".utf8), at: 0)
        try tree.executeInMetadata(
            "CREATE TRIGGER broken BEFORE INSERT ON entry BEGIN SELECT RAISE(ABORT, 'broken'); END")
        await #expect(throws: MountedTree.Failure.self) { try await tree.rename("s", to: "t") }
        if who == "the next process" {
            try await tree.restart { _ in try tree.executeInMetadata("DROP TRIGGER broken") }
        } else {
            try tree.executeInMetadata("DROP TRIGGER broken")
        }
        #expect(try await tree.names("") == ["s", "t"])
        #expect(try await tree.load("t") == Array("acknowledged".utf8))
        #expect(try await tree.read(file, at: 0, count: 100) == Array("written".utf8))
        tree.store.fault = nil
        try await tree.close(file)
        try await tree.waitUntil("both are stored") {
            tree.store.content("t") == Array("acknowledged".utf8) && tree.store.content("s") == Array("written".utf8)
        }
        try await tree.rename("s", to: "t")
        #expect(tree.store.keys == ["t"])
        #expect(tree.store.content("t") == Array("written".utf8))
    }
}
