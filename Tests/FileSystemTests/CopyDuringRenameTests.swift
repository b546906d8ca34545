import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// copy_file_range waits for the rename of the source's directory, and copies the object as it is then.
@Suite(.timeLimit(.minutes(2)), .ownThreads) struct CopyDuringRenameTests {
    @Test func aFileBelowADirectoryThatIsRenamedIsCopied() async throws {
        let tree = try MountedTree()
        let bytes = Array("content".utf8)
        tree.store.setObject("d/f", bytes)
        let source = try await tree.open("d/f", OpenFlags(reads: true, writes: false))
        let target = try await tree.open("copy", OpenFlags(reads: true, writes: true), create: true)
        let system = tree.system
        let copying = tree.store.hold(.copy)
        let rename = tree.pool.start { () async -> Bool in
            let outcome = system.rename("d", in: .root, to: "e", in: .root, noReplace: false)
            return await succeeded(outcome)
        }
        await copying.waitForArrivals()
        let copy = tree.pool.start { () async -> Result<Int64, FileSystemError> in
            await system.copyRange(
                from: FileRange(ino: source.0, handle: source.1, offset: 0),
                to: FileRange(ino: target.0, handle: target.1, offset: 0), count: 7
            ).value()
        }
        for _ in 0..<1000 { await Task.yield() }
        copying.open()
        #expect(await rename.value)
        #expect(try await copy.value.get() == 7)
        try await tree.close(source)
        try await tree.close(target)
        #expect(tree.store.content("copy") == bytes)
    }

    /// A copy that is begun while the source's object goes would have nothing to copy when it is stored.
    @Test func aFileThatIsBeingRemovedIsNotCopiedAtTheStore() async throws {
        let tree = try MountedTree()
        let bytes = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        try await tree.store("f", bytes)
        let source = try await tree.open("f", OpenFlags(reads: true, writes: false))
        let target = try await tree.open("copy", OpenFlags(reads: true, writes: true), create: true)
        let system = tree.system
        let deleting = tree.store.hold(.delete)
        let unlink = tree.pool.start { () async -> Bool in
            let outcome = system.unlink("f", in: .root)
            return await succeeded(outcome)
        }
        await deleting.waitForArrivals()
        // The kernel copies by reading and writing then.
        await #expect(throws: MountedTree.Failure(kind: .notSupported, reason: "")) {
            try await tree.run(
                system.copyRange(
                    from: FileRange(ino: source.0, handle: source.1, offset: 0),
                    to: FileRange(ino: target.0, handle: target.1, offset: 0), count: 100_000))
        }
        #expect(try await tree.read(source, at: 0, count: 100_000) == bytes)
        deleting.open()
        #expect(await unlink.value)
        try await tree.close(source)
        try await tree.close(target)
    }
}
