import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A program that is killed in a call does not end the call, and the next program may come beside it.
@Suite(.timeLimit(.minutes(5))) struct RepeatedRenameTests {
    private static let (first, second) = (Array("the first".utf8), Array("the second".utf8))

    private static func rename(
        _ system: BucketFileSystem, _ name: ByteString, to newName: ByteString
    ) async -> Bool {
        await succeeded(system.rename(name, in: .root, to: newName, in: .root, noReplace: false))
    }

    /// What is called while `mv a c` copies, with `b` there as well.
    enum Call: String, CaseIterable, CustomTestStringConvertible {
        case again, back, over, away, unlink, makeOver, linkOver, makeDirectoryOver, createOver
        var testDescription: String { rawValue }
    }

    private static func run(_ call: Call, _ system: BucketFileSystem, _ caller: Caller) async -> Bool {
        let flags = OpenFlags(reads: false, writes: true, truncate: true, exclusive: call == .makeOver)
        return switch call {
        case .again: await rename(system, "a", to: "c")
        case .back: await rename(system, "c", to: "a")
        case .over: await rename(system, "b", to: "a")
        case .away: await rename(system, "a", to: "d")
        case .unlink: await succeeded(system.unlink("a", in: .root))
        case .makeOver, .createOver:
            await succeeded(system.create("c", in: .root, mode: 0o644, flags: flags, caller: caller))
        case .linkOver: await succeeded(system.symlink("c", in: .root, target: "b", caller: caller))
        case .makeDirectoryOver: await succeeded(system.makeDirectory("c", in: .root, mode: 0o755, caller: caller))
        }
    }

    /// As if the second call had come when the first had ended.
    @Test(arguments: Call.allCases, [false, true])
    func callsForTheSameNameComeOneAfterAnother(call: Call, isOpen: Bool) async throws {
        let tree = try MountedTree()
        try await tree.store("a", Self.first)
        try await tree.store("b", Self.second)
        let readers = isOpen ? ["a", "b"] : []
        var open: [(InodeNumber, HandleID)] = []
        for name in readers { open.append(try await tree.open(name, OpenFlags(reads: true, writes: true))) }
        let gate = tree.store.hold(.copy)
        let (system, caller) = (tree.system, tree.caller)
        let first = tree.pool.start { await Self.rename(system, "a", to: "c") }
        await gate.waitForArrivals()
        let second = tree.pool.start { await Self.run(call, system, caller) }
        try await Task.sleep(for: .milliseconds(50))
        gate.open()
        #expect(await first.value)
        let expected: [ObjectKey: [UInt8]]
        switch call {
        case .back:
            #expect(await second.value)
            expected = ["a": Self.first, "b": Self.second]
        case .over:
            #expect(await second.value)
            expected = ["a": Self.second, "c": Self.first]
        case .createOver:
            #expect(await second.value)
            expected = ["b": Self.second, "c": []]
        case .again, .away, .unlink, .makeOver, .linkOver, .makeDirectoryOver:
            #expect(await !second.value)
            expected = ["b": Self.second, "c": Self.first]
        }
        for (file, bytes) in zip(open, [Self.first, Self.second]) {
            let isEmptied = call == .createOver && bytes == Self.first
            #expect(try await tree.read(file, at: 0, count: 100) == (isEmptied ? [] : bytes))
            try await tree.close(file)
        }
        try await tree.remount()
        #expect(Set(tree.store.keys) == Set(expected.keys))
        for (name, bytes) in expected { #expect(tree.store.content(name) == bytes) }
    }

    /// `mv a c` of a directory, and `rmdir a` beside it.
    @Test func theDirectoryThatWasRenamedMeanwhileIsNotRemoved() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("a")
        let gate = tree.store.hold(.copy)
        let system = tree.system
        let first = tree.pool.start { await Self.rename(system, "a", to: "c") }
        await gate.waitForArrivals()
        let second = tree.pool.start { await succeeded(system.removeDirectory("a", in: .root)) }
        let third = tree.pool.start { await Self.rename(system, "a", to: "d") }
        try await Task.sleep(for: .milliseconds(50))
        gate.open()
        #expect(await first.value)
        #expect(await !second.value)
        #expect(await !third.value)
        #expect(tree.store.keys == ["c/"])
    }

    private struct Killed: WaitingCaller {
        var isGone: Bool { true }
    }

    /// `mv a c`, `rm c` beside it, and both are killed: the removal meant what `c` was.
    @Test func aKilledCallThatWaitedForItsTurnDoesNothing() async throws {
        let tree = try MountedTree()
        try await tree.store("a", Self.first)
        try await tree.store("c", Self.second)
        let gate = tree.store.hold(.copy)
        let system = tree.system
        let first = tree.pool.start { await Self.rename(system, "a", to: "c") }
        await gate.waitForArrivals()
        let second = tree.pool.start {
            await CurrentCall.$caller.withValue(Killed()) { await succeeded(system.unlink("c", in: .root)) }
        }
        try await Task.sleep(for: .milliseconds(50))
        gate.open()
        #expect(await first.value)
        #expect(await !second.value)
        #expect(tree.store.content("c") == Self.first)
    }

    /// The last descriptor of what is renamed is closed meanwhile, a directory above is renamed as well, and the store takes
    /// nothing at first.
    @Test func noRenameWaitsForAnotherForWhatTheLastDescriptorLeaves() async throws {
        let tree = try MountedTree()
        for path in ["a", "a/b"] { try await tree.makeDirectory(path) }
        try await tree.store("a/b/f", Self.first)
        let file = try await tree.open("a/b/f", OpenFlags(reads: true, writes: true))
        try await tree.write(file, Self.second, at: 0)
        let directory = try await tree.find("a/b").ino
        tree.store.fault = { operation, key in
            operation == .put && key == "a/b/f"
                ? ObjectStoreError(.accessDenied, operation, key: key, message: "not now") : nil
        }
        let (system, gate) = (tree.system, tree.store.hold(.put))
        let first = tree.pool.start {
            await succeeded(system.rename("f", in: directory, to: "g", in: directory, noReplace: false))
        }
        await gate.waitForArrivals()
        let second = tree.pool.start { await Self.rename(system, "a", to: "x") }
        try await Task.sleep(for: .milliseconds(50))
        try await tree.run(system.release(file.0, handle: file.1))
        gate.open()
        #expect(await !first.value)
        #expect(await !second.value, "what is below could not be stored")
        tree.store.fault = nil
        #expect(await Self.rename(system, "a", to: "x"))
        try await tree.remount()
        #expect(tree.store.content("x/b/f") == Self.second)
    }
}
