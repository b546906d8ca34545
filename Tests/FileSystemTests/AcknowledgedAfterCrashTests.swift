import Basics
import Commits
import FileSystem
import Foundation
import Journaling
import Metadata
import ObjectStorage
import Staging
import TestSupport
import Testing

/// `durable=local`: what is there of a promise when the process, or the machine, went down at a bad moment.
@Suite struct AcknowledgedAfterCrashTests {
    private let tree: MountedTree
    private let body = Array("promised".utf8)
    private static let big = [UInt8](repeating: 0x62, count: 40_000)

    init() throws { tree = try MountedTree(durability: .local) }

    /// A program that writes a new file and renames it over the old one before it closes it: one of them is there after a crash.
    @Test(.rule("rename.pending")) func whatReplacesAPromiseIsOne() async throws {
        tree.refuseWrites()
        try await tree.store("f", body)
        let file = try await tree.open("new", OpenFlags(reads: true, writes: true), create: true)
        try await tree.write(file, Array("replaces".utf8), at: 0)
        try await tree.rename("new", to: "f")
        tree.crash()
        let dead = tree.system
        tree.store.fault = nil
        try await tree.mountAgain()
        try await tree.expectStored("f", Array("replaces".utf8))
        #expect(tree.store.keys == ["f"])
        withExtendedLifetime(dead) {}
    }

    /// Crashes, with the staged bytes of the one file that was promised out of reach at the next start; answers where they are.
    private func crashWithoutStagedBytes() async throws -> (from: String, to: String) {
        let intents = try tree.rooms.journal.contents().files.values.filter(\.isAcknowledged)
        try #require(intents.count == 1)
        let path = tree.rooms.staging.directory + "/" + intents[0].staging
        let aside = tree.rooms.staging.directory + "-" + intents[0].staging
        tree.crash()
        try FileManager.default.moveItem(atPath: path, toPath: aside)
        return (aside, path)
    }

    /// What cannot be taken up at a start is named, and never takes the place of what was made at its name since.
    @Test(arguments: [MountPolicy.ConflictPolicy.keep, .overwrite])
    func aPromiseThatCannotBeTakenUp(rule: MountPolicy.ConflictPolicy) async throws {
        tree.policy.conflict = rule
        try await tree.remount()
        tree.refuseWrites()
        try await tree.store("f", Self.big)
        let dead = tree.system
        let staged = try await crashWithoutStagedBytes()
        try await tree.mountAgain()
        let first = tree.system
        #expect(first.listRecoverableFiles().map(\.intent.key) == ["f"])
        try await tree.store("f", body)
        tree.crash()
        try FileManager.default.moveItem(atPath: staged.from, toPath: staged.to)
        tree.store.fault = nil
        try await tree.mountAgain()
        try await tree.expectStored("f", body)
        #expect(tree.store.keys == ["f"])
        let kept = tree.system.listRecoverableFiles()
        #expect(kept.count == 1 && kept.first?.missing.isEmpty == true)
        #expect(await tree.system.shutDown().map(\.path) == ["f"])
        withExtendedLifetime((dead, first)) {}
    }

    /// After a power cut the row of a file that was stored may be back, and its staged bytes are not.
    @Test func aPromiseThatWasKeptBeforeAPowerCutIsNotMissed() async throws {
        tree.refuseWrites()
        try await tree.store("f", Self.big)
        let dead = tree.system
        let identity = try #require(try tree.rooms.journal.contents().files.values.first?.identity)
        _ = try await crashWithoutStagedBytes()
        tree.store.fault = nil
        tree.store.setObject(
            "f", Self.big, metadata: ObjectMetadata(user: [CommitOptions.commitHeader: identity + "-1"]))
        try await tree.mountAgain()
        #expect(tree.system.listRecoverableFiles().isEmpty)
        #expect(try await tree.load("f") == Self.big)
        try await tree.remount()
        #expect(try tree.rooms.journal.contents().isEmpty)
        withExtendedLifetime(dead) {}
    }
}
