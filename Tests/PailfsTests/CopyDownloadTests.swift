import Basics
import Digests
import Foundation
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import pailfs

@Suite struct CopyDownloadTests {
    @Test func objectsBecomeATree() async throws {
        let rig = try CopyRig()
        let big = CopyRig.bytes(2 * CopyPlan.rangeLength + 5)
        rig.store.setObject(
            "p/a", [1], metadata: ObjectMetadata(user: ["mtime": "1000000000.5", "mode": "\(0o100751)"]))
        rig.store.setObject("p/d/b", [])
        rig.store.setObject("p/d/big", big, modified: Timestamp(seconds: 5))
        rig.store.setObject("p/none/", [])
        rig.store.setObject("p/", [])
        try await rig.download("p/", to: "t")
        #expect(rig.failed.isEmpty)
        #expect(rig.names("t") == ["a", "d", "d/b", "d/big", "none"])
        #expect(rig.content("t/a") == [1] && rig.content("t/d/big") == big)
        let status = try #require(try LocalFileStatus(of: rig.path("t/a")))
        #expect(status.modified == Timestamp(seconds: 1_000_000_000, nanoseconds: 500_000_000))
        // Without what the umask takes away.
        #expect(status.permissions == 0o751 & ~0o022)
        #expect(try LocalFileStatus(of: rig.path("t/d/big"))?.modified == Timestamp(seconds: 5))
    }

    @Test func namesThatLeadElsewhereAreRefused() async throws {
        let rig = try CopyRig()
        for key: ObjectKey in ["p/../out", "p/a/../../out", "p//x", "p/./y", "p/dir/", "p/z\u{0}", "p/good"] {
            rig.store.setObject(key, [1])
        }
        try rig.write("t/keep", [7])
        try await rig.download("p/", to: "t")
        #expect(rig.names("t") == ["good", "keep"])
        #expect(rig.names("").filter { !$0.hasPrefix("t") } == [], "nothing is written outside of the destination")
        #expect(rig.failed.count == 6)
    }

    @Test func aLinkInTheDestinationIsNotFollowed() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/d/a", [1])
        rig.store.setObject("p/link", [1])
        try rig.write("t/x", [7])
        try rig.write("other/y", [7])
        try FileManager.default.createSymbolicLink(atPath: rig.path("t/d"), withDestinationPath: "../other")
        try FileManager.default.createSymbolicLink(atPath: rig.path("t/link"), withDestinationPath: "../other/y")
        try await rig.download("p/", to: "t")
        #expect(rig.failed == ["p/d/a", "p/link"])
        #expect(rig.names("other") == ["y"] && rig.content("other/y") == [7])
    }

    @Test func aKeyThatIsAlsoADirectoryIsNamed() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/a", [1])
        rig.store.setObject("p/a/b", [1])
        try await rig.download("p/", to: "t")
        #expect(rig.failed.count == 1)
        #expect(rig.names("t").filter { $0.hasSuffix(".part") }.isEmpty)
    }

    @Test func aDownloadThatWasCutOffIsResumed() async throws {
        let rig = try CopyRig()
        let content = CopyRig.bytes(6 * CopyPlan.rangeLength + 1)
        rig.store.setObject("p/big", content)
        rig.store.fault = CopyRig.cut(.get, after: 4)
        try rig.write("t/big", [7])
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.failed.count == 1 && rig.content("t/big") == [7], "the file from before stays until the end")
        rig.store.fault = nil
        rig.store.forgetRequests()
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.store.count(.get) == 3 && rig.content("t/big") == content)
        #expect(rig.names("t") == ["big"])
    }

    @Test func anotherVersionStartsAgain() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/big", CopyRig.bytes(3 * CopyPlan.rangeLength))
        rig.store.fault = CopyRig.cut(.get, after: 1)
        try await rig.download("p/", to: "t", journal: try rig.journal())
        rig.store.fault = nil
        let other = CopyRig.bytes(3 * CopyPlan.rangeLength, seed: 2)
        rig.store.setObject("p/big", other)
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.content("t/big") == other && rig.names("t") == ["big"])
    }

    @Test func anObjectThatIsReplacedMeanwhileIsNoFile() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/big", CopyRig.bytes(6 * CopyPlan.rangeLength))
        let store = rig.store
        let count = Mutex(0)
        rig.store.beforeDelivery = { _, _ in
            if count.withLock({
                $0 += 1; return $0
            }) == 1 {
                store.setObject("p/big", [1, 2, 3])
            }
        }
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.failed == ["p/big"] && rig.names("t").isEmpty)
    }

    @Test func bytesThatArriveDamagedAreNoFile() async throws {
        let rig = try CopyRig()
        rig.store.checksum = { .md5(MD5.of($0)) }
        rig.store.setObject("p/big", CopyRig.bytes(3 * CopyPlan.rangeLength))
        rig.store.alterBody = { _, body in [body[0] ^ 1] + body.dropFirst() }
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.failed == ["p/big"] && rig.tally.failures[0].reason.contains("MD5"))
        #expect(rig.names("t").isEmpty)
    }

    @Test func updateLeavesOutWhatIsTheSame() async throws {
        let rig = try CopyRig()
        for key: ObjectKey in ["p/a", "p/b", "p/c"] { rig.store.setObject(key, [1], modified: Timestamp(seconds: 9)) }
        try await rig.download("p/", to: "t")
        rig.store.forgetRequests()
        try await rig.download("p/", to: "t", CopyRules(updates: true))
        #expect(rig.store.count(.get) == 0)
        rig.store.setObject("p/a", [2], modified: Timestamp(seconds: 10))
        try rig.write("t/b", [3])
        try FileManager.default.removeItem(atPath: rig.path("t/c"))
        try await rig.download("p/", to: "t", CopyRules(updates: true))
        #expect(Set(rig.store.requests(.get).compactMap(\.key)) == ["p/a", "p/b", "p/c"])
        #expect(rig.content("t/a") == [2] && rig.content("t/b") == [1])
    }

    @Test func aDryRunChangesNothing() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/d/a", [1])
        try await rig.download("p/", to: "t", CopyRules(isDry: true))
        #expect(rig.names("t").isEmpty && !FileManager.default.fileExists(atPath: rig.path("t")))
        #expect(rig.shown.lines.withLock { $0 } == ["p/d/a -> \(rig.path("t"))/d/a"])
    }

    @Test func aPrefixWithOnlyItsMarkerIsAnEmptyDirectory() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/", [])
        try await rig.download("p/", to: "t")
        #expect(rig.tally.items == 1 && rig.failed.isEmpty)
        #expect(try LocalFileStatus(of: rig.path("t"))?.kind == .directory)
    }

    @Test func withoutClobberAnExistingFileStays() async throws {
        let rig = try CopyRig()
        for key: ObjectKey in ["p/a", "p/b"] { rig.store.setObject(key, [1]) }
        try rig.write("t/a", [7])
        try await rig.download("p/", to: "t", CopyRules(isExclusive: true))
        #expect(rig.content("t/a") == [7] && rig.content("t/b") == [1])
        #expect(rig.failed == ["p/a"] && rig.tally.failures[0].reason.contains("already exists"))
    }

    @Test func aFileThatAppearsDuringACopyWithoutClobberStays() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/a", [1])
        let path = rig.path("t/a")
        rig.store.beforeDelivery = { _, _ in try? Data([7]).write(to: URL(fileURLWithPath: path)) }
        try await rig.download("p/", to: "t", CopyRules(isExclusive: true))
        #expect(rig.content("t/a") == [7] && rig.names("t") == ["a"])
        #expect(rig.failed == ["p/a"] && rig.tally.failures[0].reason.contains("already exists"))
    }

    @Test func aNewNameNeedsNoHardLink() throws {
        let rig = try CopyRig()
        for name in ["part", "old"] { try rig.write(name, Array(name.utf8)) }
        #expect(throws: FileError.self) { try ObjectDownload.renameWithoutLink(rig.path("part"), rig.path("old")) }
        #expect(rig.content("old") == Array("old".utf8))
        try ObjectDownload.renameWithoutLink(rig.path("part"), rig.path("new"))
        #expect(rig.content("new") == Array("part".utf8) && rig.content("part") == nil)
    }

    @Test func whatAKilledCopyWithoutClobberHasMadeIsDone() async throws {
        let rig = try CopyRig()
        for key: ObjectKey in ["p/a", "p/b"] { rig.store.setObject(key, [1]) }
        let rules = CopyRules(isExclusive: true)
        rig.store.fault = { operation, key in
            guard operation == .get, key == "p/b" else { return nil }
            return ObjectStoreError(.interrupted, operation, key: key, message: "cut")
        }
        try await rig.download("p/", to: "t", rules, journal: try rig.journal())
        rig.store.fault = nil
        try await rig.download("p/", to: "t", rules, journal: try rig.journal())
        #expect(rig.failed.isEmpty && rig.names("t") == ["a", "b"])
    }

    @Test func aNewFileUnderAnExistingNameIsNotSetUserID() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/a", [1])
        try rig.write("t/a", [7])
        #expect(chmod(rig.path("t/a"), 0o4750) == 0)
        try await rig.download("p/", to: "t")
        #expect(try LocalFileStatus(of: rig.path("t/a"))?.permissions == 0o750)
    }

    /// On S3 the checksums of parts need a permission of their own.
    @Test func checksumsThatMayNotBeReadAreNotCompared() async throws {
        let rig = try CopyRig()
        rig.store.checksumsApart = { [CheckedPart(size: Int64($0.count), .md5(MD5.of($0)))] }
        let content = CopyRig.bytes(2 * CopyPlan.rangeLength)
        rig.store.setObject("p/big", content)
        // The first HEAD is for the headers.
        let heads = CountedRequests()
        rig.store.fault = { operation, key in
            guard operation == .head, heads.next() > 1 else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, status: 403, message: "denied")
        }
        try await rig.download("p/", to: "t")
        #expect(rig.failed.isEmpty && rig.content("t/big") == content)
    }

    // MARK: Links in buckets

    @Test func aLinkOfTheStoreIsRefusedOrFollowed() async throws {
        var capabilities = Capabilities()
        capabilities.symlinks = true
        let rig = try CopyRig(capabilities)
        rig.store.setObject("other", [1, 2, 3])
        _ = try await rig.store.putSymlink(PutRequest("p/link"), target: "other")
        try await rig.download("p/", to: "t")
        #expect(rig.failed == ["p/link"] && rig.names("t").isEmpty)
        try await rig.download("p/", to: "t", CopyRules(followsLinks: true))
        #expect(rig.failed.isEmpty && rig.content("t/link") == [1, 2, 3])
    }

    @Test func aLinkInHeadersIsNoFile() async throws {
        let rig = try CopyRig()
        rig.store.setObject(
            "p/link", Array("a".utf8), metadata: ObjectMetadata(user: ["mode": "\(0o120777)"]))
        rig.store.setObject("p/a", [1])
        try await rig.download("p/", to: "t")
        #expect(rig.failed == ["p/link"] && rig.names("t") == ["a"])
    }
}
