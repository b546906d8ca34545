import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Where listings do not know of what was just written (COS, CSSP, Swift), programs see it all the same, and lose nothing by
/// what a listing says.
@Suite(.timeLimit(.minutes(2))) struct LaggingListingTests {
    private func tree(ttl: Duration = .seconds(1)) throws -> MountedTree {
        var capabilities = Capabilities()
        (capabilities.putIfMatch, capabilities.listingLag) = (false, .seconds(60))
        return try MountedTree(capabilities: capabilities, ttl: ttl)
    }

    /// What was known is listed anew, and the listing is older than the write.
    private func letGrowOld(_ tree: MountedTree) { tree.time.advance(by: .seconds(2)) }

    @Test(.rule("visible.remote", "visible.own")) func aNewFileStays() async throws {
        let tree = try tree()
        try await tree.store("a", [1])
        for _ in 0..<3 {
            letGrowOld(tree)
            #expect(try await tree.names("") == ["a"])
            #expect(try await tree.load("a") == [1])
            try await tree.change("a") { $0.mode = 0o600 }
        }
    }

    @Test func whatWasOverwrittenIsNotInConflictWithItself() async throws {
        let tree = try tree()
        tree.store.setObject("a", [0])
        tree.time.advance(by: .seconds(61))
        _ = try await tree.names("")
        for round in 1...3 as ClosedRange<UInt8> {
            try await tree.store("a", [round])
            letGrowOld(tree)
            #expect(try await tree.names("") == ["a"])
            #expect(try await tree.load("a") == [round])
        }
        #expect(tree.store.keys == ["a"])
    }

    @Test func aDirectoryWithANewFileIsNotEmpty() async throws {
        let tree = try tree()
        try await tree.makeDirectory("d")
        tree.time.advance(by: .seconds(61))
        try await tree.store("d/f", [1])
        letGrowOld(tree)
        await #expect(throws: MountedTree.Failure(kind: .notEmpty, reason: "")) {
            try await tree.removeDirectory("d")
        }
        #expect(try await tree.load("d/f") == [1])
    }

    @Test(.rule("visible.remote")) func whatWasRemovedStaysRemoved() async throws {
        let tree = try tree()
        try await tree.makeDirectory("d")
        for name in 0..<9 { try await tree.store("d/\(name)", [1]) }
        tree.time.advance(by: .seconds(61))
        for name in try await tree.names("d") { try await tree.unlink("d/\(name)") }
        letGrowOld(tree)
        #expect(try await tree.names("d").isEmpty)
        try await tree.removeDirectory("d")
        letGrowOld(tree)
        #expect(try await tree.names("").isEmpty)
        #expect(tree.store.keys.isEmpty)
    }

    @Test(arguments: [true, false])
    func aRenamedDirectoryTakesNewFilesAlong(isListedBetween: Bool) async throws {
        let tree = try tree()
        try await tree.makeDirectory("d")
        tree.time.advance(by: .seconds(61))
        try await tree.store("d/f", [1])
        if isListedBetween {
            letGrowOld(tree)
            _ = try await tree.names("d")
        }
        try await tree.rename("d", to: "e")
        letGrowOld(tree)
        #expect(try await tree.names("") == ["e"])
        #expect(try await tree.load("e/f") == [1])
        #expect(tree.store.keys == ["e/", "e/f"])
    }

    /// The process that wrote is not the one that lists.
    @Test(arguments: [true, false], [true, false])
    func theNextProcessKnowsOfTheWrites(isKilled: Bool, isListedBetween: Bool) async throws {
        let tree = try tree()
        try await tree.store("old", [1])
        try await tree.makeDirectory("d")
        tree.time.advance(by: .seconds(61))
        try await tree.store("d/new", [2])
        try await tree.unlink("old")
        if isListedBetween {
            letGrowOld(tree)
            _ = try await tree.names("")
            _ = try await tree.names("d")
            _ = try await tree.load("d/new")
        }
        if isKilled { try await tree.restart() } else { try await tree.remount() }
        letGrowOld(tree)
        #expect(try await tree.names("") == ["d"])
        #expect(try await tree.load("d/new") == [2])
        await #expect(throws: MountedTree.Failure(kind: .notEmpty, reason: "")) {
            try await tree.removeDirectory("d")
        }
    }

    /// SEMANTICS 5: others are seen, though no sooner than the store's listings tell.
    @Test(.rule("visible.remote")) func othersAreSeenOnceListingsKnowOfThem() async throws {
        let tree = try tree()
        try await tree.store("a", [1])
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.names("") == ["a"])
        tree.store.removeObject("a")
        tree.store.setObject("b", [2])
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.names("") == ["b"])
        #expect(try await tree.load("b") == [2])
    }

    /// `pailfs rm` and `pailfs cp` beside the mount, of what programs have just written and removed in it.
    @Test func whatACommandTellsOfIsSeenAtOnce() async throws {
        let tree = try tree(ttl: .seconds(60))
        for name in ["a", "b"] { try await tree.store(name, [1]) }
        try await tree.makeDirectory("d")
        for name in ["d/x", "d/y"] { try await tree.store(name, [1]) }
        try await tree.unlink("b")
        #expect(try await tree.names("") == ["a", "d"])
        #expect(try await tree.names("d") == ["x", "y"])
        tree.time.advance(by: .seconds(1))
        tree.store.removeObject("a")
        tree.store.setObject("b", [2])
        tree.store.setObject("new/c", [3])
        for key in ["d/", "d/x", "d/y"] as [ObjectKey] { tree.store.removeObject(key) }
        try await tree.system.noteChange(at: "a")
        try await tree.system.noteChange(at: "b")
        try await tree.system.noteChange(at: "new", key: "new/c")
        try await tree.system.noteChange(at: "d", key: "d/")
        #expect(try await tree.load("new/c") == [3])
        #expect(try await tree.load("b") == [2])
        #expect(try await tree.names("") == ["b", "new"])
    }

    /// Of which the mount has never seen one.
    @Test func aCommandTellsOfAKeyInNewDirectories() async throws {
        let tree = try tree(ttl: .seconds(60))
        #expect(try await tree.names("").isEmpty)
        tree.store.setObject("x/y/z", [1])
        try await tree.system.noteChange(at: "x/y/z", key: "x/y/z")
        #expect(try await tree.load("x/y/z") == [1])
        #expect(try await tree.names("") == ["x"])
    }

    @Test(.rule("visible.remote"), arguments: ["", "d", "d/x"])
    func aRefreshAsksForWhatIsThere(path: String) async throws {
        let tree = try tree(ttl: .seconds(60))
        try await tree.makeDirectory("d")
        for name in ["d/x", "d/y"] { try await tree.store(name, [1]) }
        #expect(try await tree.names("d") == ["x", "y"])
        tree.time.advance(by: .seconds(1))
        tree.store.setObject("d/x", [2])
        tree.store.removeObject("d/y")
        try await tree.system.refreshEverywhere(try await tree.find(path).ino)
        #expect(try await tree.load("d/x") == [2])
        if path != "d/x" { #expect(try await tree.names("d") == ["x"]) }
    }

    /// SEMANTICS 2.
    @Test func aRemovalCostsNoMoreThanElsewhere() async throws {
        let tree = try tree(ttl: .seconds(10))
        for name in ["d/a", "d/b", "d/c", "e/"] as [ObjectKey] { tree.store.setObject(name, []) }
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.names("") == ["d", "e"])
        #expect(try await tree.names("d") == ["a", "b", "c"])
        tree.store.forgetRequests()
        try await tree.unlink("d/a")
        try await tree.removeDirectory("e")
        #expect(tree.store.requests.map(\.operation) == [.delete, .list, .delete])
        tree.time.advance(by: .seconds(11))
        tree.store.forgetRequests()
        #expect(try await tree.names("") == ["d"])
        #expect(tree.store.count(.head) == 0)
        // Whether something is below e, which listings show still, is looked for.
        #expect(tree.store.count(.list) <= 2)
    }

    /// One listing more costs nothing where the tree was known.
    @Test(arguments: [true, false])
    func aTreeThatWasRemovedStaysRemovedAfterARestart(isKilled: Bool) async throws {
        let tree = try tree()
        for key in ["d/", "d/a", "d/e/", "d/e/f", "d/g/h", "keep"] as [ObjectKey] { tree.store.setObject(key, [1]) }
        for key in ["d/", "d/e/"] as [ObjectKey] { tree.store.setObject(key, []) }
        tree.time.advance(by: .seconds(61))
        for name in ["d/a", "d/e/f", "d/g/h"] { try await tree.unlink(name) }
        for name in ["d/e", "d/g", "d"] { try await tree.removeDirectory(name) }
        if isKilled { try await tree.restart() } else { try await tree.remount() }
        for _ in 0..<3 {
            letGrowOld(tree)
            #expect(try await tree.names("") == ["keep"])
            await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { _ = try await tree.find("d/e") }
        }
        #expect(tree.store.keys == ["keep"])
    }

    /// What was in it before is told apart from what is in it now.
    @Test(arguments: [true, false])
    func aTreeThatWasRemovedAndMadeAgainHasWhatIsNewAfterARestart(isKilled: Bool) async throws {
        let tree = try tree()
        for key in ["d/", "d/e/"] as [ObjectKey] { tree.store.setObject(key, []) }
        for key in ["d/a", "d/b", "d/e/f"] as [ObjectKey] { tree.store.setObject(key, [1]) }
        tree.time.advance(by: .seconds(61))
        for name in ["d/a", "d/b", "d/e/f"] { try await tree.unlink(name) }
        for name in ["d/e", "d"] { try await tree.removeDirectory(name) }
        letGrowOld(tree)
        try await tree.makeDirectory("d")
        try await tree.store("d/b", [2])
        if isKilled { try await tree.restart() } else { try await tree.remount() }
        for _ in 0..<3 {
            letGrowOld(tree)
            #expect(try await tree.names("") == ["d"])
            #expect(try await tree.names("d") == ["b"])
            #expect(try await tree.load("d/b") == [2])
        }
        #expect(tree.store.keys == ["d/", "d/b"])
    }

    @Test(arguments: [true, false])
    func aRenamedTreeStaysAwayAfterARestart(isKilled: Bool) async throws {
        let tree = try tree()
        for key in ["d/", "d/e/"] as [ObjectKey] { tree.store.setObject(key, []) }
        tree.store.setObject("d/e/f", [1])
        tree.time.advance(by: .seconds(61))
        try await tree.rename("d", to: "new")
        if isKilled { try await tree.restart() } else { try await tree.remount() }
        letGrowOld(tree)
        #expect(try await !tree.names("").contains("d"))
    }
}
