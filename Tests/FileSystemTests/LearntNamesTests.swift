import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// What an answer of the store tells a call of a name counts from then on, before the `ttl` of what was listed is over.
@Suite(.timeLimit(.minutes(2))) struct LearntNamesTests {
    private static let theirs = Array("theirs".utf8)

    /// A call that finds a key of another host, and what programs see of it afterwards.
    struct Finder: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let key: ObjectKey
        let act: @Sendable (MountedTree) async throws -> Void
        let directory: String
        let names: [String]
    }

    static let finders: [Finder] = [
        Finder(
            testDescription: "rmdir", key: "d/theirs", act: { try await $0.removeDirectory("d") }, directory: "d",
            names: ["theirs"]),
        Finder(
            testDescription: "rmdir of what is deeper", key: "d/e/f/theirs",
            act: { try await $0.removeDirectory("d") }, directory: "d/e/f", names: ["theirs"]),
        Finder(
            testDescription: "rename over a directory", key: "d/theirs",
            act: { try await $0.rename("other", to: "d") }, directory: "d", names: ["theirs"]),
        Finder(
            testDescription: "rename of a directory to a new name", key: "new/theirs",
            act: { try await $0.rename("other", to: "new") }, directory: "", names: ["d", "file", "new", "other"]),
        Finder(
            testDescription: "rename that must not replace", key: "new",
            act: { tree in
                try await tree.run(tree.system.rename("file", in: .root, to: "new", in: .root, noReplace: true))
            }, directory: "", names: ["d", "file", "new", "other"]),
        Finder(
            testDescription: "mkdir", key: "new/", act: { try await $0.makeDirectory("new") }, directory: "",
            names: ["d", "file", "new", "other"]),
        Finder(
            testDescription: "symlink", key: "new.rclonelink", act: { try await $0.symlink("new", "file") },
            directory: "", names: ["d", "file", "new", "other"]),
    ]

    @Test(.rule("visible.remote"), arguments: finders)
    func aKeyThatACallFindsIsListed(finder: Finder) async throws {
        let tree = try MountedTree()
        for name in ["d", "other"] { try await tree.makeDirectory(name) }
        try await tree.store("other/f", [1])
        try await tree.store("file", [1])
        for directory in ["", "d", "other"] { _ = try await tree.names(directory) }
        tree.store.setObject(finder.key, Self.theirs)
        if finder.key == "new/" { tree.store.setObject(finder.key, []) }
        await #expect(throws: MountedTree.Failure.self) { try await finder.act(tree) }
        #expect(try await tree.names(finder.directory) == finder.names)
    }

    @Test(.rule("create.exclusive")) func aFileOfAnotherHostThatAnExclusiveOneMetIsRead() async throws {
        let tree = try MountedTree()
        _ = try await tree.names("")
        tree.store.setObject("new", Self.theirs)
        let file = try await tree.open("new", OpenFlags(reads: false, writes: true, exclusive: true), create: true)
        await #expect(throws: MountedTree.Failure.self) { try await tree.close(file) }
        #expect(try await tree.load("new") == Self.theirs)
    }

    /// As rm(1) does, which reads a directory once.
    @Test(.rule("rmdir")) func keysPutThereFromOutsideAreRemovedWithTheDirectory() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        for name in ["a", "b"] { try await tree.store("d/\(name)", [1]) }
        _ = try await tree.names("d")
        for key in ["d/c", "d/e/f"] as [ObjectKey] { tree.store.setObject(key, Self.theirs) }
        await #expect(throws: MountedTree.Failure(kind: .notEmpty, reason: "")) { try await remove("d", tree) }
        try await remove("d", tree)
        #expect(tree.store.keys.isEmpty)
        #expect(try await tree.names("") == [])
    }

    private func remove(_ directory: String, _ tree: MountedTree) async throws {
        for name in try await tree.names(directory) {
            let path = "\(directory)/\(name)"
            if try await tree.find(path).kind == .directory {
                try await remove(path, tree)
            } else {
                try await tree.unlink(path)
            }
        }
        try await tree.removeDirectory(directory)
    }

    /// A call that finds that an object is gone.
    struct Misser: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let name: String
        let act: @Sendable (MountedTree, InodeNumber) async throws -> Void
    }

    static let missers: [Misser] = [
        Misser(testDescription: "read", name: "file") { tree, _ in _ = try await tree.load("file") },
        Misser(testDescription: "getxattr", name: "file") { tree, ino in
            _ = try await tree.run(tree.system.extendedAttribute("user.colour", of: ino))
        },
        Misser(testDescription: "setxattr", name: "file") { tree, ino in
            try await tree.run(
                tree.system.setExtendedAttribute("user.colour", of: ino, to: "red", mode: .createOrReplace))
        },
        Misser(testDescription: "chmod", name: "file") { tree, _ in try await tree.change("file") { $0.mode = 0o600 } },
        Misser(testDescription: "property", name: "file") { tree, ino in
            _ = try await tree.run(tree.system.extendedAttribute("user.pailfs.storage-class", of: ino))
        },
        Misser(testDescription: "rename", name: "file") { tree, _ in try await tree.rename("file", to: "new") },
        Misser(testDescription: "append", name: "file") { tree, _ in
            let file = try await tree.open("file", OpenFlags(reads: true, writes: true))
            try await tree.append(file, [1])
            try await tree.close(file)
        },
        Misser(testDescription: "readlink", name: "link") { tree, _ in _ = try await tree.readLink("link") },
        Misser(testDescription: "rename of a link", name: "link") { tree, _ in
            try await tree.rename("link", to: "new")
        },
        Misser(testDescription: "rename of a directory", name: "d") { tree, _ in
            try await tree.rename("d", to: "new")
        },
    ]

    @Test(.rule("visible.remote"), arguments: missers)
    func aNameThatACallFindsGoneIsNotListed(misser: Misser) async throws {
        let tree = try MountedTree()
        for (key, bytes) in [
            ("file", Self.theirs), ("other", Self.theirs), ("link.rclonelink", Array("other".utf8)), ("d/f", [1]),
        ] as [(ObjectKey, [UInt8])] {
            tree.store.setObject(key, bytes)
        }
        #expect(try await tree.names("") == ["d", "file", "link", "other"])
        let ino = try await tree.find(misser.name).ino
        for key in tree.store.keys where key != "other" { tree.store.removeObject(key) }
        await #expect(throws: MountedTree.Failure.self) { try await misser.act(tree, ino) }
        #expect(try await !tree.names("").contains(misser.name))
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { _ = try await tree.find(misser.name) }
    }
}
