import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// The time of change, and the access time that a program sets.
@Suite struct ChangeTimeTests {
    /// What moves the time of change of `f`, or of `d`.
    enum Change: CaseIterable {
        case write, truncate, mode, owner, modified, accessed, setAttribute, removeAttribute, rename, renameDirectory
        case replaceItself
        var name: String { self == .renameDirectory ? "d" : "f" }
    }

    /// Returns the name that it has then.
    private func make(_ change: Change, in tree: MountedTree) async throws -> String {
        let readWrite = OpenFlags(reads: true, writes: true)
        switch change {
        case .write:
            let file = try await tree.open("f", readWrite)
            try await tree.append(file, [2])
            try await tree.close(file)
        case .truncate: try await tree.change("f") { $0.size = 0 }
        case .mode: try await tree.change("f") { $0.mode = 0o600 }
        case .owner: try await tree.change("f") { $0.uid = 77 }
        case .modified: try await tree.change("f") { $0.modified = Timestamp(seconds: 1000) }
        case .accessed: try await tree.change("f") { $0.accessed = Timestamp(seconds: 1000) }
        case .setAttribute:
            try await tree.run(
                tree.system.setExtendedAttribute(
                    "user.new", of: try await tree.find("f").ino, to: "1", mode: .createOrReplace))
        case .removeAttribute:
            try await tree.run(tree.system.removeExtendedAttribute("user.old", of: try await tree.find("f").ino))
        case .rename:
            try await tree.rename("f", to: "g")
            return "g"
        case .renameDirectory:
            try await tree.rename("d", to: "e")
            return "e"
        case .replaceItself: try await tree.store("f", [7, 7])
        }
        return change.name
    }

    private func made(_ durability: MountPolicy.Durability = .remote) async throws -> MountedTree {
        let tree = try MountedTree(durability: durability)
        try await tree.store("f", [1])
        try await tree.makeDirectory("d")
        try await tree.store("d/inner", [1])
        try await tree.run(
            tree.system.setExtendedAttribute(
                "user.old", of: try await tree.find("f").ino, to: "1", mode: .createOrReplace))
        return tree
    }

    /// The clock stands still, and is set back.
    @Test(.rule("attr.ctime"), arguments: Change.allCases)
    func eachChangeIsLaterThanTheOneBefore(_ change: Change) async throws {
        let tree = try await made()
        let before = try await tree.find(change.name).changed
        let name = try await make(change, in: tree)
        let after = try await tree.find(name).changed
        #expect(after > before)
        tree.time.setWallClock(tree.time.now() + .seconds(-100))
        try await tree.change(name) { $0.mode = 0o711 }
        #expect(try await tree.find(name).changed > after)
    }

    @Test(.rule("attr.ctime"), arguments: Change.allCases)
    func itStaysOverTtlAndRemounts(_ change: Change) async throws {
        let tree = try await made()
        tree.time.advance(by: .milliseconds(1234))
        let name = try await make(change, in: tree)
        let changed = try await tree.find(name).changed
        tree.time.advance(by: .seconds(100))
        #expect(try await tree.find(name).changed == changed)
        _ = try await tree.names("")
        #expect(try await tree.find(name).changed == changed)
        try await tree.remount()
        tree.time.advance(by: .seconds(100))
        #expect(try await tree.find(name).changed == changed)
    }

    @Test(.rule("attr.ctime"), arguments: [MountPolicy.Durability.remote, .local])
    func itStaysOverADeathBeforeTheUpload(_ durability: MountPolicy.Durability) async throws {
        let tree = try await made(durability)
        tree.time.advance(by: .milliseconds(1234))
        if durability == .local { tree.refuseWrites() }
        try await tree.store("new", [1, 2, 3])
        let changed = try await tree.find("new").changed
        #expect(changed.nanoseconds != 0)
        try await tree.restart()
        #expect(try await tree.find("new").changed == changed)
    }

    @Test(.rule("attr.ctime")) func readsAndTheSameValuesDoNotMoveIt() async throws {
        let tree = try await made()
        let before = try await tree.find("f")
        tree.time.advance(by: .seconds(1))
        _ = try await tree.load("f")
        try await tree.change("f") { $0.mode = before.mode }
        #expect(try await tree.find("f").changed == before.changed)
    }

    @Test(.rule("attr.ctime", "attr.stored")) func anotherHostShowsWhatWasStored() async throws {
        let tree = try await made()
        tree.time.advance(by: .milliseconds(1234))
        try await tree.change("f") { $0.mode = 0o600 }
        let changed = try await tree.find("f").changed
        let headers = try #require(tree.store.info("f")).metadata
        var attributes = Attributes(kind: .file, mtime: .epoch)
        AttributeCodec.decode(headers, into: &attributes)
        #expect(attributes.ctime == changed)
    }

    @Test(.rule("attr.atime"), arguments: [false, true])
    func anAccessTimeThatWasSetStays(isDirty: Bool) async throws {
        let tree = try await made()
        let set = Timestamp(seconds: 1_000_000_000, nanoseconds: 5)
        let file = isDirty ? try await tree.open("f", OpenFlags(reads: true, writes: true)) : nil
        if let file { try await tree.append(file, [9]) }
        try await tree.change("f") { $0.accessed = set }
        if let file { try await tree.close(file) }
        #expect(try await tree.find("f").accessed == set)
        let writer = try await tree.open("f", OpenFlags(reads: true, writes: true))
        try await tree.append(writer, [9])
        _ = try await tree.read(writer, at: 0, count: 10)
        try await tree.close(writer)
        #expect(try await tree.find("f").accessed == set)
        tree.time.advance(by: .seconds(100))
        #expect(try await tree.find("f").accessed == set)
        try await tree.remount()
        #expect(try await tree.find("f").accessed == set)
        #expect(tree.store.info("f")?.metadata.user["atime"] == "1000000000.000000005")
    }
}
