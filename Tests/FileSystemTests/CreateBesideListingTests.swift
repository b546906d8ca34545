import Basics
import Metadata
import ObjectStorage
import TestSupport
import Testing

@testable import FileSystem

/// Another host makes a file while a program of this one opens it with O_CREAT, and a listing brings it between the look and
/// the making.
@Suite(.timeLimit(.minutes(1))) struct CreateBesideListingTests {
    @Test(arguments: [false, true]) func onlyOExclHearsThatTheFileExists(exclusive: Bool) async throws {
        let tree = try MountedTree(ttl: .seconds(1))
        #expect(try await tree.names("") == [])
        let (system, caller) = (tree.system, tree.caller)
        var flags = OpenFlags(reads: true, writes: true)
        flags.exclusive = exclusive
        let asked = flags
        // So the program has looked, and may not make the file yet.
        let pass = try await system.names.enter(alone: [""])
        let creation = Task {
            await system.create("f", in: .root, mode: 0o644, flags: asked, caller: caller).value()
        }
        while !system.nameClaims.contains(Place(parent: .root, name: "f")) { await Task.yield() }
        for _ in 0..<50 { await Task.yield() }
        tree.store.setObject("f", Array("theirs".utf8))
        tree.time.advance(by: .seconds(2))
        #expect(try await tree.names("") == ["f"])
        system.names.leave(pass)
        let answer = await creation.value
        if exclusive {
            guard case .failure(let error) = answer else { return #expect(Bool(false), "it is there already") }
            #expect(error.kind == .exists)
            return
        }
        let made = try answer.get()
        let status = try #require(made.entry.status)
        #expect(status.size == 6, "the file of the other host is open")
        try await tree.run(system.release(status.ino, handle: made.open.handle))
        #expect(tree.store.content("f") == Array("theirs".utf8))
    }
}
