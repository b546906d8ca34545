import Basics
import Metadata
import ObjectStorage
import TestSupport
import Testing

@testable import FileSystem

/// Calls take their locks in the order of LockPlaces.swift. A debug build traps when one does not, in every test; these are the
/// calls that no other test brings to the point where they would wait for each other.
@Suite(.ownThreads, .timeLimit(.minutes(1))) struct LockOrderTests {
    /// O_CREAT and O_TRUNC of a file that another host has made: it is emptied here, which may wait for local space. A rename
    /// that waits for space has its place in the line before it claims names.
    @Test func openWithOCreatWaitsForSpaceWithoutTheClaimOnItsName() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("theirs".utf8))
        let (system, caller) = (tree.system, tree.caller)
        system.space.beginWait()
        try await system.space.line.enter(alone: true)
        let flags = OpenFlags(reads: true, writes: true, truncate: true)
        let opening = tree.pool.start {
            await system.create("f", in: .root, mode: 0o644, flags: flags, caller: caller).value()
        }
        try await waitUntil("the file is open") { system.files.all.contains { system.files.isOpen($0.ino) } }
        for _ in 0..<100 { await Task.yield() }
        #expect(system.nameClaims.all.isEmpty)
        system.space.line.leave(alone: true)
        system.space.endWait()
        let made = try await opening.value.get()
        let status = try #require(made.entry.status)
        try await tree.close((status.ino, made.open.handle))
        #expect(tree.store.content("f") == [])
    }

    /// A commit waits for the files that copy the object which it replaces. They have smaller inode numbers here, and may wait for
    /// it in turn.
    @Test func aCommitHoldsNoFileWhileItWaitsForThoseThatCopyIt() async throws {
        let tree = try MountedTree()
        try await tree.store("copy", [])
        try await tree.store("source", Array("content".utf8))
        let source = try await tree.open("source", OpenFlags(reads: true, writes: true))
        let copy = try await tree.open("copy", OpenFlags(reads: false, writes: true))
        let count = try await tree.run(
            tree.system.copyRange(
                from: FileRange(ino: source.0, handle: source.1, offset: 0),
                to: FileRange(ino: copy.0, handle: copy.1, offset: 0), count: 7))
        #expect(count == 7)
        try await tree.write(source, Array("CONTENT".utf8), at: 0)
        try await tree.close(source)
        #expect(tree.store.content("source") == Array("CONTENT".utf8))
        #expect(tree.store.content("copy") == Array("content".utf8))
        try await tree.close(copy)
    }

    /// The store is away, and what one program copies from the file cannot be committed: closes and chmod of the file need not
    /// wait for that.
    @Test(.rule("close.local")) func acknowledgingAFileDoesNotWaitForThoseThatCopyIt() async throws {
        let tree = try MountedTree(durability: .local)
        try await tree.store("source", Array("content".utf8))
        _ = await tree.system.store(below: .root)
        let source = try await tree.open("source", OpenFlags(reads: true, writes: true))
        let copy = try await tree.open("copy", OpenFlags(reads: false, writes: true), create: true)
        let count = try await tree.run(
            tree.system.copyRange(
                from: FileRange(ino: source.0, handle: source.1, offset: 0),
                to: FileRange(ino: copy.0, handle: copy.1, offset: 0), count: 7))
        #expect(count == 7)
        tree.store.fault = { operation, key in
            ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
        try await tree.write(source, Array("CONTENT".utf8), at: 0)
        try await tree.change("source") { $0.mode = 0o600 }
        try await tree.close(source)
        tree.store.fault = nil
        try await tree.close(copy)
        try await tree.waitUntil("both are stored") {
            tree.store.content("source") == Array("CONTENT".utf8) && tree.store.content("copy") == Array("content".utf8)
        }
    }

    /// The target of a rename has the smaller inode number.
    @Test func aRenameLocksBothFilesInTheOrderOfTheirNumbers() async throws {
        let tree = try MountedTree()
        for name in ["target", "source"] { try await tree.store(name, Array(name.utf8)) }
        let target = try await tree.open("target", OpenFlags(reads: true, writes: false))
        let source = try await tree.open("source", OpenFlags(reads: true, writes: true))
        try await tree.write(source, Array("SOURCE".utf8), at: 0)
        try await tree.rename("source", to: "target")
        try await tree.close(source)
        #expect(try await tree.read(target, at: 0, count: 100) == Array("target".utf8))
        try await tree.close(target)
        #expect(tree.store.content("target") == Array("SOURCE".utf8))
    }
}
