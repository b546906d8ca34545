import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A close that returned 0 stands for an empty file as for any other (SEMANTICS 1.5), also where it was not the last descriptor
/// of its program and had nothing stored yet.
@Suite(.timeLimit(.minutes(2))) struct EmptyFileTests {
    private static let writeAnew = OpenFlags(reads: false, writes: true, truncate: true)

    private func refuseWrites(_ tree: MountedTree) {
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
    }

    @Test func closeTellsThatItIsNotStored() async throws {
        let tree = try MountedTree()
        refuseWrites(tree)
        await #expect(throws: MountedTree.Failure.self) { try await tree.store("f", []) }
    }

    /// A shell's redirection to a program that writes nothing.
    @Test(.rule("create.empty"), arguments: ["new", "emptied"], [true, false])
    func itIsStoredOnceTheStoreIsBack(what: String, isLast: Bool) async throws {
        let tree = try MountedTree()
        if what == "emptied" { tree.store.setObject("f", Array("old".utf8)) }
        _ = try await tree.names("")
        let file = try await tree.open("f", Self.writeAnew, create: true)
        let other = isLast ? nil : try await tree.open("f", OpenFlags(reads: true, writes: false))
        refuseWrites(tree)
        try await tree.close(file, ifGoingOn: true)
        tree.store.fault = nil
        try await tree.waitUntil("it is stored", each: .seconds(1)) { tree.store.content("f") == [] }
        #expect(tree.store.content("f") == [])
        if let other { try await tree.close(other) }
        tree.crash()
        try await tree.mountAgain()
        #expect(try await tree.names("") == ["f"])
        #expect(try await tree.load("f").isEmpty)
    }

    @Test(.rule("create.empty")) func itIsNotStoredBeforeAProgramGoesOnWithIt() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("old".utf8))
        let file = try await tree.open("f", Self.writeAnew)
        try await tree.run(tree.system.flush(file.0, handle: file.1) { true })
        #expect(tree.store.content("f") == Array("old".utf8))
        try await tree.write(file, Array("new".utf8), at: 0)
        try await tree.close(file)
        #expect(tree.store.content("f") == Array("new".utf8))
        #expect(tree.store.count(.put) == 1)
    }

    /// `: > log` while `tail -f log` has it open.
    @Test(.rule("create.empty"), arguments: [MountPolicy.Durability.remote, .local])
    func itIsStoredThoughAReaderHasItOpen(durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(durability: durability)
        tree.store.setObject("log", Array("old".utf8))
        let reader = try await tree.open("log", OpenFlags(reads: true, writes: false))
        try await tree.store("log", [])
        if durability == .remote { #expect(tree.store.content("log") == []) }
        _ = reader
        tree.crash()
        try await tree.mountAgain()
        #expect(try await tree.load("log").isEmpty)
    }

    @Test(.rule("create.empty")) func fsyncStoresIt() async throws {
        let tree = try MountedTree()
        let file = try await tree.open("f", Self.writeAnew, create: true)
        try await tree.run(tree.system.flush(file.0, handle: file.1) { true })
        #expect(tree.store.content("f") == nil)
        try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
        #expect(tree.store.content("f") == [])
        try await tree.close(file)
        #expect(tree.store.count(.put) == 1)
    }
}
