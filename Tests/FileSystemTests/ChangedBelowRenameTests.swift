import Basics
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// Another host replaces or deletes an object below a directory that is being renamed.
@Suite(.timeLimit(.minutes(2))) struct ChangedBelowRenameTests {
    private static let theirs = Array("theirs, longer".utf8)

    enum Change: CaseIterable { case replaced, deleted, replacedTwice, replacedAndDeleted, replacedBefore }

    private func change(_ change: Change, in tree: MountedTree) {
        if change == .replacedBefore { return _ = tree.store.setObject("d/f", Self.theirs) }
        let count = Mutex(0)
        tree.store.fault = { [store = tree.store] operation, key in
            guard operation == .copy, key == "e/f" else { return nil }
            let number = count.withLock { count in
                defer { count += 1 }
                return count
            }
            switch (change, number) {
            case (.replaced, 0), (.replacedTwice, 1), (.replacedAndDeleted, 0): store.setObject("d/f", Self.theirs)
            case (.replacedTwice, 0): store.setObject("d/f", Array("first".utf8))
            case (.deleted, 0), (.replacedAndDeleted, 1): store.removeObject("d/f")
            default: break
            }
            return nil
        }
    }

    @Test(.rule("rename.directory"), arguments: Change.allCases, [false, true])
    func theDirectoryIsRenamedAsItIs(change: Change, isOpen: Bool) async throws {
        let tree = try MountedTree()
        for name in ["d/", "d/f", "d/g"] { tree.store.setObject(ObjectKey(name), Array(name.utf8.dropFirst(2))) }
        #expect(try await tree.names("d") == ["f", "g"])
        let file = isOpen ? try await tree.open("d/f", OpenFlags(reads: true, writes: false)) : nil
        if let file { #expect(try await tree.read(file, at: 0, count: 100) == Array("f".utf8)) }
        self.change(change, in: tree)
        try await tree.rename("d", to: "e")
        tree.store.fault = nil
        let isGone = change == .deleted || change == .replacedAndDeleted
        #expect(tree.store.keys == (isGone ? ["e/", "e/g"] : ["e/", "e/f", "e/g"]))
        #expect(try await tree.names("") == ["e"])
        #expect(try await tree.names("e") == (isGone ? ["g"] : ["f", "g"]))
        if !isGone {
            #expect(try await tree.find("e/f").size == Int64(Self.theirs.count))
            #expect(try await tree.load("e/f") == Self.theirs)
        }
        // An open file has the bytes of one version.
        if let file {
            #expect(try await tree.read(file, at: 0, count: 100) == Array("f".utf8))
            try await tree.close(file)
        }
        #expect(try tree.rooms.journal.contents().isEmpty)
        try await tree.remount()
        #expect(tree.store.keys == (isGone ? ["e/", "e/g"] : ["e/", "e/f", "e/g"]))
    }

    @Test func aDirectoryOfWhichNothingIsLeftIsRenamed() async throws {
        let tree = try MountedTree()
        tree.store.setObject("d/f", [1])
        #expect(try await tree.names("d") == ["f"])
        change(.deleted, in: tree)
        try await tree.rename("d", to: "e")
        #expect(tree.store.keys == ["e/"])
        #expect(try await tree.names("e") == [])
    }

    /// The worker dies when `d/f` is copied and `d/g` is not, and another host changes `d/f`.
    @Test(.rule("crash.jobs", "rename.directory"), arguments: [Change.replaced, .deleted], [false, true])
    func whatChangedSinceTheProcessDiedMovesAsItIs(change: Change, isRestart: Bool) async throws {
        let tree = try MountedTree()
        tree.policy.copies = 1
        try await tree.remount()
        for name in ["d/f", "d/g"] { tree.store.setObject(ObjectKey(name), Array(name.utf8)) }
        #expect(try await tree.names("d") == ["f", "g"])
        let system = tree.system
        let gate = tree.store.hold(.copy, beforeReply: true)
        let rename = tree.pool.start {
            await succeeded(system.rename("d", in: .root, to: "e", in: .root, noReplace: false))
        }
        await gate.waitForArrivals()
        #expect(tree.store.keys == ["d/f", "d/g", "e/f"])
        tree.crash()
        gate.open()
        _ = await rename.value
        if change == .replaced { tree.store.setObject("d/f", Self.theirs) } else { tree.store.removeObject("d/f") }
        if isRestart {
            try await tree.restart()
            // The kernel asks again.
            if change == .replaced { try await tree.rename("d", to: "e") }
        } else {
            try await tree.mountAgain()
        }
        #expect(tree.store.keys == ["e/f", "e/g"])
        #expect(tree.store.content("e/f") == (change == .replaced ? Self.theirs : Array("d/f".utf8)))
        #expect(try await tree.names("") == ["e"])
        #expect(try await tree.names("e") == ["f", "g"])
        #expect(try await tree.load("e/g") == Array("d/g".utf8))
    }
}
