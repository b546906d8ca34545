import Basics
import Commits
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// What the store refuses after there is no way back: done later, while the mount lives or by the next one.
@Suite struct UnfinishedJobTests {
    private let tree: MountedTree
    private let readWrite = OpenFlags(reads: true, writes: true)
    private let body = Array("content".utf8)

    init() throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        tree = try MountedTree(capabilities: capabilities, partSize: 64 << 10)
    }

    private func refuse(
        _ operations: Set<ObjectStoreError.Operation>, _ kind: ObjectStoreError.Kind = .unreachable
    ) {
        tree.store.fault = { operation, key in
            guard operations.contains(operation) else { return nil }
            return ObjectStoreError(kind, operation, key: key, message: "not now")
        }
    }

    private func waitUntil(_ what: String, _ condition: () -> Bool) async throws {
        try await tree.waitUntil(what, each: .seconds(1), condition)
    }

    /// Lets the store do everything again, and sees to it that nothing is left to do.
    private func settled() async throws {
        tree.store.fault = nil
        try await waitUntil("no job is left") { tree.system.unfinishedJobs().isEmpty }
        try await waitUntil("the journal is empty") { (try? tree.rooms.journal.contents().isEmpty) == true }
    }

    // MARK: Removals

    /// `f` is unlinked while a handle needs its object, and the store refuses to delete it.
    private func unlinkRefused() async throws {
        tree.store.setObject("f", body)
        let file = try await tree.open("f", OpenFlags(reads: true, writes: false))
        try await tree.unlink("f")
        refuse([.delete])
        try await tree.close(file)
        try await waitUntil("it was refused") { !tree.system.unfinishedJobs().isEmpty }
    }

    @Test(.rule("crash.background")) func anUnlinkedObjectThatStayedIsNamedHiddenAndRemovedLater() async throws {
        try await unlinkRefused()
        let job = try #require(tree.system.unfinishedJobs().first)
        #expect((job.act, job.key) == (.removal, "f"))
        #expect(job.lastError.contains("not now"))
        tree.time.advance(by: .seconds(120))
        #expect(try await tree.names("").isEmpty)
        try await settled()
        #expect(tree.store.keys.isEmpty)
    }

    @Test func aNewFileUnderTheNameOfOneThatIsStillToGoStays() async throws {
        try await unlinkRefused()
        try await tree.store("f", Array("new".utf8))
        try await settled()
        tree.time.advance(by: .seconds(120))
        #expect(tree.store.content("f") == Array("new".utf8))
    }

    @Test(.rule("crash.background")) func theNextMountRemovesWhatThisOneCouldNot() async throws {
        try await unlinkRefused()
        let unstored = await tree.system.shutDown()
        #expect(unstored.map(\.path) == ["f"])
        #expect(unstored.first?.reason.contains("its removal is not finished") == true)
        tree.store.fault = nil
        try await tree.mountAgain()
        #expect(tree.store.keys.isEmpty)
        #expect(try await tree.names("").isEmpty)
    }

    // MARK: Renames

    @Test(.rule("crash.background")) func aRenamedFileWhoseOldObjectWillNotGoIsRenamedAllTheSame() async throws {
        tree.store.setObject("a", body)
        refuse([.delete])
        try await tree.rename("a", to: "b")
        tree.time.advance(by: .seconds(120))
        #expect(try await tree.names("") == ["b"])
        #expect(tree.store.keys == ["a", "b"])
        #expect(tree.system.unfinishedJobs().map(\.key) == ["a"])
        try await settled()
        #expect(tree.store.keys == ["b"])
        #expect(try await tree.load("b") == body)
    }

    @Test(.rule("rename.replace")) func aRenameThatIsNotAllowedFails() async throws {
        tree.store.setObject("a", body)
        refuse([.delete], .accessDenied)
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) {
            try await tree.rename("a", to: "b")
        }
        #expect(try await tree.load("a") == body)
        #expect(tree.system.unfinishedJobs().isEmpty)
        #expect(try tree.rooms.journal.contents().isEmpty)
    }

    /// The store takes the deletion of the copy, and not that of what was copied.
    @Test func aRenameThatIsNotAllowedLeavesNoCopy() async throws {
        tree.store.setObject("a", body)
        tree.store.fault = { operation, key in
            guard operation == .delete, key == "a" else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, message: "never")
        }
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) {
            try await tree.rename("a", to: "b")
        }
        #expect(tree.store.keys == ["a"])
        #expect(try await tree.names("") == ["a"])
    }

    /// What the target was is gone when the source does not go: there is no way back.
    @Test(arguments: [true, false])
    func aRenameOverAFileIsDoneEvenIfTheOldNameIsNotAllowedToGo(isOpen: Bool) async throws {
        tree.store.setObject("a", body)
        tree.store.setObject("b", Array("replaced".utf8))
        let old = isOpen ? try await tree.open("b", readWrite) : nil
        if let old { try await tree.write(old, [1], at: 0) }
        refuse([.delete], .accessDenied)
        try await tree.rename("a", to: "b")
        #expect(try await tree.load("b") == body)
        #expect(try await tree.names("") == ["b"])
        #expect(tree.system.unfinishedJobs().count == 1)
        // Who opens the name now writes to what has it.
        try await tree.store("b", Array("newer".utf8))
        #expect(tree.store.content("b") == Array("newer".utf8))
        if let old { try await tree.close(old) }
        try await settled()
        #expect(tree.store.keys == ["b"])
        #expect(tree.store.content("b") == Array("newer".utf8))
    }

    /// A link in the place of a file has another key.
    @Test func aLinkReplacesAFileEvenIfThatIsNotAllowedToGo() async throws {
        try await tree.symlink("a", "somewhere")
        tree.store.setObject("b", body)
        let old = try await tree.open("b", readWrite)
        try await tree.write(old, [1], at: 0)
        tree.store.fault = { operation, key in
            guard operation == .delete, key == "b" else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, message: "never")
        }
        try await tree.rename("a", to: "b")
        #expect(try await tree.readLink("b") == "somewhere")
        #expect(try await tree.names("") == ["b"])
        try await tree.close(old)
        try await settled()
        #expect(tree.store.keys == ["b.rclonelink"])
    }

    @Test func aDirectoryIsRenamedEvenIfItsOldObjectsAreNotAllowedToGo() async throws {
        for name in ["d/x", "d/s/y"] { tree.store.setObject(ObjectKey(name), Array(name.utf8)) }
        refuse([.deleteMany], .accessDenied)
        try await tree.rename("d", to: "e")
        #expect(try await tree.names("") == ["e"])
        #expect(tree.system.unfinishedJobs().count == 1)
        try await settled()
        #expect(tree.store.keys == ["e/s/y", "e/x"])
    }

    @Test func aNewFileUnderTheOldNameWaitsForTheOldObjectToGo() async throws {
        tree.store.setObject("a", body)
        refuse([.delete])
        try await tree.rename("a", to: "b")
        await #expect(throws: MountedTree.Failure.self) { try await tree.store("a", Array("new".utf8)) }
        tree.store.fault = nil
        try await tree.store("a", Array("newer".utf8))
        try await settled()
        tree.time.advance(by: .seconds(120))
        #expect(tree.store.content("a") == Array("newer".utf8))
        #expect(tree.store.content("b") == body)
    }

    @Test func aRenamedDirectoryWhoseOldObjectsWillNotGoIsRenamedAllTheSame() async throws {
        for name in ["d/x", "d/s/y"] { tree.store.setObject(ObjectKey(name), Array(name.utf8)) }
        refuse([.deleteMany])
        try await tree.rename("d", to: "e")
        tree.time.advance(by: .seconds(120))
        #expect(try await tree.names("") == ["e"])
        #expect(try await tree.names("e") == ["s", "x"])
        try await settled()
        #expect(tree.store.keys == ["e/s/y", "e/x"])
    }

    @Test func whatWasRemovedFromARenamedDirectoryDoesNotComeBackFromTheOldOne() async throws {
        for name in ["d/x", "d/y"] { tree.store.setObject(ObjectKey(name), Array(name.utf8)) }
        refuse([.deleteMany])
        try await tree.rename("d", to: "e")
        try await tree.unlink("e/x")
        tree.crash()
        tree.store.fault = nil
        try await tree.mountAgain()
        #expect(tree.store.keys == ["e/y"])
        #expect(try await tree.names("e") == ["y"])
    }

    @Test(.rule("crash.later")) func aDirectoryThatFailsToBeRenamedIsNotRenamedLater() async throws {
        for name in ["top/d/x", "top/d/y"] { tree.store.setObject(ObjectKey(name), Array(name.utf8)) }
        // The marker of the directory that would be left empty.
        refuse([.put])
        await #expect(throws: MountedTree.Failure.self) { try await tree.rename("top/d", to: "e") }
        tree.crash()
        tree.store.fault = nil
        try await tree.mountAgain()
        #expect(tree.store.keys == ["top/d/x", "top/d/y"])
    }

    // MARK: What an earlier process left

    @Test(.rule("crash.jobs", "rename.directory")) func aTreeThatTheNextMountCouldNotFinishIsFinishedWhileItLives()
        async throws
    {
        for name in ["d/x", "d/y"] { tree.store.setObject(ObjectKey(name), Array(name.utf8)) }
        let items = try ["d/x", "d/y"].map { name in
            let key = ObjectKey(name)
            return ItemRecord(
                source: VersionRecord(key, try #require(tree.store.info(key)).version), storageClass: nil)
        }
        let journal = tree.rooms.journal
        try journal.write([.job(journal.newID(), .tree(from: "d/", to: "e/"), items: items)], flushed: true)
        tree.crash()
        refuse([.copy, .head])
        try await tree.mountAgain()
        #expect(tree.system.unfinishedJobs().map(\.act) == [.tree(to: "e/")])
        try await settled()
        #expect(tree.store.keys == ["e/x", "e/y"])
        #expect(try await tree.names("") == ["e"])
    }

    @Test func anUploadThatTheStoreWillNotAbortIsAbortedLater() async throws {
        let file = try await tree.open("f", readWrite, create: true)
        try await tree.write(file, [UInt8](repeating: 1, count: 200 << 10), at: 0)
        try await waitUntil("parts are sent") { tree.store.count(.uploadPart) >= 2 }
        refuse([.abortUpload])
        try await tree.unlink("f")
        try await tree.close(file)
        try await waitUntil("it was refused") { tree.system.unfinishedJobs().contains { $0.act == .abort } }
        #expect(!tree.store.uploadsInProgress.isEmpty)
        try await settled()
        #expect(tree.store.uploadsInProgress.isEmpty)
    }

    @Test(.rule("crash.jobs")) func uploadsOfAnotherHostAreLeft() async throws {
        let theirs = try await tree.store.createUpload(PutRequest("theirs"))
        let file = try await tree.open("f", readWrite, create: true)
        try await tree.write(file, [UInt8](repeating: 1, count: 200 << 10), at: 0)
        try await waitUntil("parts are sent") { tree.store.count(.uploadPart) >= 2 }
        #expect(tree.store.uploadsInProgress.count == 2)
        let killed = tree.system
        defer { withExtendedLifetime(killed) {} }
        tree.crash()
        try await tree.mountAgain()
        try await waitUntil("ours is aborted") { tree.store.uploadsInProgress.map(\.upload) == [theirs] }
    }
}
