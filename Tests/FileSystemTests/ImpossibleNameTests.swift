import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Names of which the store has no object.
@Suite struct ImpossibleNameTests {
    /// What the store would refuse at the close is refused before there is anything to close, or to remove.
    @Test(.rule("name.bytes"), arguments: [[0x66, 0xff], [0x66, 0x1a], [0x5c, 0x66]] as [[UInt8]])
    func namesThatTheStoreCannotHaveAreNotMade(bytes: [UInt8]) async throws {
        var capabilities = Capabilities()
        capabilities.keyRules.areText = true
        capabilities.keyRules.refused = 0x18...0x1B
        capabilities.keyRules.refusedFirst = UInt8(ascii: "\\")
        let tree = try MountedTree(capabilities: capabilities)
        tree.store.fault = { operation, key in
            ObjectStoreError(.invalidRequest, operation, key: key, message: "no request is made for such a name")
        }
        let name = ByteString(bytes)
        let (system, caller) = (tree.system, tree.caller)
        let refused = MountedTree.Failure(kind: .illegalBytes, reason: "")
        await #expect(throws: refused) {
            _ = try await tree.run(
                system.create(
                    name, in: .root, mode: 0o644, flags: OpenFlags(reads: false, writes: true), caller: caller))
        }
        await #expect(throws: refused) {
            _ = try await tree.run(system.makeDirectory(name, in: .root, mode: 0o755, caller: caller))
        }
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) {
            try await tree.run(system.unlink(name, in: .root))
        }
        tree.store.fault = nil
        try await tree.store("f", [1])
        await #expect(throws: refused) {
            try await tree.run(system.rename("f", in: .root, to: name, in: .root, noReplace: false))
        }
        #expect(tree.store.keys == ["f"])
    }

    @Test(.rule("name.escaped", "symlink"), arguments: ["a%%25x", "a%%file", "%%2F", "a.rclonelink"])
    func aNameThatNoNewFileCanHaveIsInvalid(name: String) async throws {
        let tree = try MountedTree()
        await #expect(throws: MountedTree.Failure(kind: .invalid, reason: "")) { try await tree.store(name, [1]) }
        #expect(tree.store.keys == [])
    }
}
