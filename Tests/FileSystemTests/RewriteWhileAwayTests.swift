import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// `durable=local`: what was promised is on its way to a store that does not answer, and programs write it anew.
@Suite(.timeLimit(.minutes(2))) struct RewriteWhileAwayTests {
    enum Then: String, CaseIterable, CustomTestStringConvertible {
        case stored, removed, renamed, fsynced
        var testDescription: String { rawValue }
    }

    @Test(arguments: Then.allCases)
    func theCloseDoesNotWaitForThePutOnItsWay(then: Then) async throws {
        let tree = try MountedTree(durability: .local)
        let clock = tree.advancingTime()
        defer { clock.cancel() }
        let gate = tree.store.hold(.put)
        try await tree.store("f", Array("first".utf8))
        await gate.waitForArrivals()
        // Each of these would wait for the first one's answer.
        for round in 0..<3 { try await tree.store("f", Array("round \(round)".utf8)) }
        #expect(try await tree.load("f") == Array("round 2".utf8))
        #expect(tree.store.count(.put) == 1, "nothing newer is sent while that may still be carried out")
        let system = tree.system
        let rest = tree.pool.start { () async -> Bool in
            switch then {
            case .stored: true
            case .removed: await succeeded(system.unlink("f", in: .root))
            case .renamed: await succeeded(system.rename("f", in: .root, to: "g", in: .root, noReplace: false))
            case .fsynced: await succeeded(system.syncDirectory(.root))
            }
        }
        if then != .stored { try await Task.sleep(for: .milliseconds(50)) }
        gate.open()
        #expect(await rest.value)
        try await tree.remount()
        switch then {
        case .removed: #expect(tree.store.keys == [])
        case .renamed:
            #expect(tree.store.keys == ["g"])
            #expect(tree.store.content("g") == Array("round 2".utf8))
        case .stored, .fsynced:
            #expect(tree.store.keys == ["f"])
            #expect(tree.store.content("f") == Array("round 2".utf8))
        }
    }
}
