import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Another host makes something at a name that is known to be free here: what may not replace it does not.
@Suite(.timeLimit(.minutes(2))) struct OtherHostTests {
    private static let theirs = Array("theirs".utf8)

    private func rename(_ tree: MountedTree, _ name: ByteString, to newName: ByteString, noReplace: Bool) async throws {
        try await tree.run(
            tree.system.rename(name, in: .root, to: newName, in: .root, noReplace: noReplace))
    }

    @Test(arguments: [true, false])
    func aRenameThatMustNotReplaceDoesNot(isStored: Bool) async throws {
        let tree = try MountedTree()
        let file = try await tree.open("a", OpenFlags(reads: false, writes: true), create: true)
        try await tree.write(file, [1], at: 0)
        if isStored { try await tree.close(file) }
        _ = try await tree.names("")
        tree.store.setObject("b", Self.theirs)
        await #expect(throws: MountedTree.Failure(kind: .exists, reason: "")) {
            try await rename(tree, "a", to: "b", noReplace: true)
        }
        if !isStored { try await tree.close(file) }
        #expect(tree.store.content("b") == Self.theirs)
        #expect(tree.store.content("a") == [1])
        #expect(try await tree.load("b") == Self.theirs)
    }

    @Test(arguments: [true, false])
    func aDirectoryDoesNotReplaceOneWithFiles(noReplace: Bool) async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.store("d/f", [1])
        _ = try await tree.names("")
        tree.store.setObject("e/f", Self.theirs)
        await #expect(throws: MountedTree.Failure(kind: noReplace ? .exists : .notEmpty, reason: "")) {
            try await rename(tree, "d", to: "e", noReplace: noReplace)
        }
        #expect(tree.store.content("e/f") == Self.theirs)
        #expect(try await tree.names("") == ["d", "e"])
        #expect(try await tree.load("e/f") == Self.theirs)
        #expect(try await tree.load("d/f") == [1])
    }

    @Test func aDirectoryReplacesAnEmptyOne() async throws {
        let tree = try MountedTree()
        tree.store.setObject("d/f", [1])
        _ = try await tree.names("")
        tree.store.setObject("e/", [])
        await #expect(throws: MountedTree.Failure(kind: .exists, reason: "")) {
            try await rename(tree, "d", to: "e", noReplace: true)
        }
        try await rename(tree, "d", to: "e", noReplace: false)
        #expect(try await tree.load("e/f") == [1])
        #expect(try await tree.names("") == ["e"])
    }

    /// A try that came to no end, as that of a process that died, may leave copies that the store makes late.
    @Test(arguments: [true, false])
    func copiesOfAnEarlierTryAreNobodyElses(noReplace: Bool) async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        for name in ["f", "g"] { try await tree.store("d/\(name)", Array(name.utf8)) }
        _ = try await tree.names("")
        for key in ["d/", "d/f"] as [ObjectKey] {
            let target = ObjectKey("e/" + key.bytes.dropFirst(2))
            _ = try await tree.store.copy(CopyRequest(CopySource(key), to: target))
        }
        try await rename(tree, "d", to: "e", noReplace: noReplace)
        #expect(tree.store.keys == ["e/", "e/f", "e/g"])
        #expect(try await tree.load("e/g") == Array("g".utf8))
    }

    /// SEMANTICS 3: a lost race is EEXIST.
    @Test func aFileThatMustBeNewIsNot() async throws {
        let tree = try MountedTree()
        _ = try await tree.names("")
        tree.store.setObject("f", Self.theirs)
        let file = try await tree.open(
            "f", OpenFlags(reads: false, writes: true, exclusive: true), create: true)
        try await tree.write(file, [1], at: 0)
        await #expect(throws: MountedTree.Failure(kind: .exists, reason: "")) { try await tree.close(file) }
        #expect(tree.store.content("f") == Self.theirs)
    }
}
