import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// rmdir(2) while other calls act in the directory. The kernel keeps programs from that, unless it has let the program of one
/// call go, which was killed.
@Suite(.ownThreads, .timeLimit(.minutes(1))) struct RemoveDirectoryTests {
    @Test(.rule("visible.own")) func aNameMadeMeanwhileComesAfterTheRemoval() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        let directory = try await tree.find("d").ino
        for name in ["f", "e"] {
            #expect(try await tree.run(tree.system.lookup(ByteString(name), in: directory)).status == nil)
        }
        let deletion = tree.store.hold(.delete)
        let (system, caller) = (tree.system, tree.caller)
        async let removed = system.removeDirectory("d", in: .root).value()
        try await waitUntil("the deletion is on its way") { deletion.arrivals > 0 }
        // The name is known to be absent: nothing but the removal is waited for.
        let creation = system.create(
            "f", in: directory, mode: 0o644, flags: OpenFlags(reads: true, writes: true), caller: caller)
        let made = tree.pool.start { await creation.value() }
        if case .ready = creation { Issue.record("the file is made while its directory is being removed") }
        let alsoMade = tree.pool.start {
            await system.makeDirectory("e", in: directory, mode: 0o755, caller: caller).value()
        }
        for _ in 0..<100 { await Task.yield() }
        deletion.open()
        try await removed.get()
        if case .success = await made.value { Issue.record("a file in a directory that is gone") }
        if case .success = await alsoMade.value { Issue.record("a directory in one that is gone") }
        #expect(try await tree.names("") == [])
        #expect(tree.store.keys == [])
    }
}
