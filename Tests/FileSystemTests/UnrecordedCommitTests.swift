import Basics
import Commits
import Metadata
import ObjectStorage
import SQLite
import TestSupport
import Testing

@testable import FileSystem

/// The store has the bytes, and the metadata cache cannot be written, as on a disk that is full, while the journal can.
@Suite(.timeLimit(.minutes(1))) struct UnrecordedCommitTests {
    private static let refusal = "CREATE TRIGGER broken BEFORE INSERT ON entry BEGIN SELECT RAISE(ABORT, 'broken'); END"

    @Test(.rule("crash.process"), arguments: [MountPolicy.Durability.remote, .local])
    func theNextProcessShowsWhatIsStored(durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(durability: durability)
        try await tree.store("f", Array("before".utf8))
        _ = await tree.system.store(below: .root)
        #expect(try await tree.load("f") == Array("before".utf8))
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Array("afterwards".utf8), at: 0)
        try tree.executeInMetadata(Self.refusal)
        try await tree.close(file)
        try await tree.waitUntil("it is stored") { tree.store.content("f") == Array("afterwards".utf8) }
        try await tree.waitUntil("it cannot be recorded") { !tree.system.jobs.unfinished.isEmpty }
        #expect(try await tree.load("f") == Array("afterwards".utf8))
        try await tree.restart { _ in try tree.executeInMetadata("DROP TRIGGER broken") }
        #expect(try await tree.find("f").size == 10)
        #expect(try await tree.load("f") == Array("afterwards".utf8))
        #expect(tree.system.listRecoverableFiles().isEmpty)
    }

    /// It is written down as soon as that works, and nothing is left of it.
    @Test(.rule("crash.process")) func itIsRecordedLater() async throws {
        let tree = try MountedTree()
        try await tree.store("f", Array("before".utf8))
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Array("afterwards".utf8), at: 0)
        try tree.executeInMetadata(Self.refusal)
        try await tree.close(file)
        try await tree.waitUntil("it cannot be recorded") { !tree.system.jobs.unfinished.isEmpty }
        try tree.executeInMetadata("DROP TRIGGER broken")
        try await tree.waitUntil("it is recorded") { tree.system.jobs.unfinished.isEmpty }
        try await tree.restart()
        #expect(try await tree.find("f").size == 10)
        #expect(try await tree.load("f") == Array("afterwards".utf8))
    }
}
