import Basics
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import pailfs

@Suite struct CopyStoreTests {
    private static let piece = CarriedCopy.pieceLength

    @Test func theStoreCopiesATree() async throws {
        let rig = try CopyRig()
        let metadata = ObjectMetadata(contentType: "text/x-test", user: ["mode": "\(0o100640)"])
        rig.store.setObject("p/a", [1], metadata: metadata, storageClass: "STANDARD_IA")
        rig.store.setObject("p/d/b", [2])
        try await rig.copy("p/", to: "q")
        #expect(rig.failed.isEmpty && rig.store.count(.get) == 0)
        let copy = try #require(rig.store.info("q/a"))
        #expect(copy.metadata == metadata && copy.storageClass == "STANDARD_IA")
        #expect(rig.store.content("q/d/b") == [2])
    }

    @Test func aPrefixWithOnlyItsMarkerIsCopied() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/", [])
        try await rig.copy("p/", to: "q")
        #expect(rig.store.keys == ["p/", "q/"] && rig.failed.isEmpty)
    }

    /// `p/p/x` becomes `p/x`, whose own copy is still to be made.
    @Test func aCopyDoesNotReplaceWhatIsStillToBeCopied() async throws {
        let rig = try CopyRig()
        rig.store.setObject("a/p/p/x", [1])
        rig.store.setObject("a/p/x", [2])
        try await rig.copy("a/p/", to: "a")
        #expect(rig.failed == ["a/p/p/x"])
        #expect(rig.store.content("a/p/x") == [2] && rig.store.content("a/x") == [2])
    }

    @Test func classAndHeadersCanChangeInPlace() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/a", [1])
        try await rig.copy("p/", to: "p", CopyRules(storageClass: "STANDARD_IA"))
        #expect(rig.failed.isEmpty && rig.store.info("p/a")?.storageClass == "STANDARD_IA")
    }

    @Test func aLinkOfTheStoreIsFollowed() async throws {
        var capabilities = Capabilities()
        capabilities.symlinks = true
        let rig = try CopyRig()
        let reader = MemoryStore(capabilities: capabilities)
        reader.setObject("other", [1, 2, 3])
        _ = try await reader.putSymlink(PutRequest("p/link"), target: "other")
        try await rig.copy("p/", to: "q", from: reader)
        #expect(rig.failed == ["p/link"])
        try await rig.copy("p/", to: "q", CopyRules(followsLinks: true), from: reader)
        #expect(rig.failed.isEmpty && rig.store.content("q/link") == [1, 2, 3])
    }

    @Test func aDryRunNamesWhatMustNotBeReplaced() async throws {
        let rig = try CopyRig()
        for key: ObjectKey in ["p/a", "p/b", "q/a"] { rig.store.setObject(key, [1]) }
        try await rig.copy("p/", to: "q", CopyRules(isExclusive: true, isDry: true))
        #expect(rig.failed == ["p/a"] && rig.shown.lines.withLock { $0 } == ["p/b -> q/b"])
        #expect(rig.store.keys == ["p/a", "p/b", "q/a"])
    }

    // MARK: Bytes that pass through here

    @Test func aLargeObjectPassesInParts() async throws {
        let rig = try CopyRig()
        let reader = MemoryStore()
        let content = CopyRig.bytes(3 * Self.piece + 1)
        reader.setObject("p/big", content)
        try await rig.copy("p/", to: "q", from: reader)
        #expect(rig.store.content("q/big") == content && rig.store.count(.uploadPart) == 4)
    }

    @Test func aCopyThatWasCutOffIsResumed() async throws {
        let rig = try CopyRig()
        let reader = MemoryStore()
        let content = CopyRig.bytes(5 * Self.piece)
        reader.setObject("p/big", content)
        rig.store.fault = CopyRig.cut(.uploadPart, after: 2)
        try await rig.copy("p/", to: "q", from: reader, journal: try rig.journal())
        #expect(rig.failed.count == 1 && rig.store.uploadsInProgress.count == 1)
        rig.store.fault = nil
        rig.store.forgetRequests()
        reader.forgetRequests()
        try await rig.copy("p/", to: "q", from: reader, journal: try rig.journal())
        #expect(rig.store.count(.uploadPart) == 3 && reader.count(.get) == 3)
        #expect(rig.store.content("q/big") == content && rig.store.uploadsInProgress.isEmpty)
    }

    /// All jobs of the command have one bound.
    @Test func partsInMemoryAreBounded() async throws {
        let rig = try CopyRig()
        rig.memory = MemoryBudget(limit: Int(Self.piece))
        let reader = MemoryStore()
        for key: ObjectKey in ["p/a", "p/b", "p/c"] { reader.setObject(key, CopyRig.bytes(2 * Self.piece)) }
        let gate = rig.store.hold(.uploadPart)
        async let opened: Void = {
            for part in 1...6 {
                await gate.waitForArrivals(part)
                // Another part would arrive now.
                for _ in 0..<2000 { await Task.yield() }
                gate.letOnePass()
            }
        }()
        try await rig.copy("p/", to: "q", from: reader)
        await opened
        #expect(rig.failed.isEmpty && rig.store.keys.count == 3)
        #expect(rig.store.mostInFlight(.uploadPart) == 1 && rig.memory.used == 0)
    }

    /// Otherwise the store would refuse the completion, and every byte would be sent again.
    @Test func withoutClobberALargeObjectIsSentOnce() async throws {
        var capabilities = Capabilities()
        capabilities.completionCondition = false
        let rig = try CopyRig(capabilities)
        let reader = MemoryStore()
        reader.setObject("p/big", CopyRig.bytes(2 * Self.piece))
        try await rig.copy("p/", to: "q", CopyRules(isExclusive: true), from: reader)
        #expect(rig.failed.isEmpty && rig.store.count(.uploadPart) == 2 && rig.store.count(.createUpload) == 1)
        rig.store.setObject("q/big", [7])
        try await rig.copy("p/", to: "q", CopyRules(isExclusive: true), from: reader)
        #expect(rig.failed == ["p/big"] && rig.store.content("q/big") == [7])
    }

    // MARK: Resuming

    private func done(_ rig: CopyRig, _ keys: [ByteString]) throws -> [ByteString: String] {
        try keys.reduce(into: [:]) { present, key in
            present[key] = try #require(rig.store.info(ObjectKey(key))).version.etag.text
        }
    }

    @Test func whatIsDoneIsNotCopiedAgain() async throws {
        let rig = try CopyRig()
        for key: ObjectKey in ["p/a", "p/b"] { rig.store.setObject(key, [1]) }
        rig.store.fault = { operation, key in
            guard operation == .copy, key == "q/b" else { return nil }
            return ObjectStoreError(.interrupted, operation, key: key, message: "cut")
        }
        try await rig.copy("p/", to: "q", journal: try rig.journal())
        #expect(rig.failed == ["p/b"])
        rig.store.fault = nil
        rig.store.forgetRequests()
        try await rig.copy("p/", to: "q", journal: try rig.journal(), present: try done(rig, ["q/a"]))
        #expect(rig.store.requests(.copy).map(\.key) == ["q/b"] && rig.failed.isEmpty)
    }

    /// An object that the command line names is in no listing.
    @Test func aNamedObjectThatIsDoneIsNotCopiedAgain() async throws {
        let rig = try CopyRig()
        rig.store.setObject("a", [1])
        func copy(present: [ByteString: String]) async throws -> CopyOutcome {
            let context = rig.engine(CopyRules(), try rig.journal(), present: present).context
            let operation = StoreCopyOperation(
                reader: rig.store, store: rig.store, bucket: nil, isOfOneProvider: true, root: "q/", context: context)
            return try await operation.copy(CopyItem(source: .object("a", nil), name: "a"))
        }
        #expect(try await copy(present: [:]) == .copied)
        #expect(try await copy(present: try done(rig, ["q/a"])) == .same)
        rig.store.setObject("a", [2])
        #expect(try await copy(present: try done(rig, ["q/a"])) == .copied)
    }
}
