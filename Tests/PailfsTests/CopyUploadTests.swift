import Basics
import Digests
import Foundation
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import pailfs

@Suite struct CopyUploadTests {
    @Test func aTreeBecomesObjects() async throws {
        let rig = try CopyRig()
        try rig.write("t/a.txt", Array("one".utf8))
        try rig.write("t/d/e/b", [])
        try rig.write("t/big", CopyRig.bytes(2 * CopyRig.partSize + 3))
        try FileManager.default.createDirectory(atPath: rig.path("t/none"), withIntermediateDirectories: false)
        try await rig.upload("t", to: "p")
        #expect(rig.failed.isEmpty)
        #expect(rig.store.keys.map(\.description) == ["p/a.txt", "p/big", "p/d/e/b", "p/none/"])
        #expect(rig.store.content("p/a.txt") == Array("one".utf8))
        #expect(rig.store.content("p/big") == rig.content("t/big"))
        #expect(rig.store.requests(.uploadPart).count == 3 && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func anObjectHasTheTimeAndTheModeOfItsFile() async throws {
        let rig = try CopyRig()
        try rig.write("t/a.txt", [1])
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: rig.path("t/a.txt"))
        let file = try File(rig.path("t/a.txt"), .readWrite)
        try file.setTimes(modified: Timestamp(seconds: 1_000_000_000, nanoseconds: 5))
        try await rig.upload("t", to: "")
        let metadata = try #require(rig.store.info("a.txt")?.metadata)
        #expect(metadata.user["mtime"] == "1000000000.000000005")
        #expect(metadata.user["mode"] == "\(0o100640)")
        #expect(metadata.user["uid"] == nil)
    }

    @Test func linksAreRefusedOrFollowed() async throws {
        let rig = try CopyRig()
        try rig.write("t/a", [1])
        try rig.write("other/b", [2])
        let manager = FileManager.default
        try manager.createSymbolicLink(atPath: rig.path("t/link"), withDestinationPath: "a")
        try manager.createSymbolicLink(atPath: rig.path("t/dir"), withDestinationPath: "../other")
        try manager.createSymbolicLink(atPath: rig.path("t/loop"), withDestinationPath: ".")
        try manager.createSymbolicLink(atPath: rig.path("t/nowhere"), withDestinationPath: "missing")
        try await rig.upload("t", to: "p")
        #expect(rig.store.keys.map(\.description) == ["p/a"])
        #expect(rig.failed.count == 4)
        try await rig.upload("t", to: "q", CopyRules(followsLinks: true))
        #expect(rig.store.keys.filter { $0.bytes.hasPrefix("q/") }.map(\.description) == ["q/a", "q/dir/b", "q/link"])
        #expect(rig.failed.count == 2, "the loop and the link to a missing file")
    }

    @Test func aFIFOIsRefused() async throws {
        let rig = try CopyRig()
        try rig.write("t/a", [1])
        #expect(mkfifo(rig.path("t/fifo"), 0o600) == 0)
        try await rig.upload("t", to: "p")
        #expect(rig.store.keys == ["p/a"] && rig.failed.count == 1)
    }

    /// The part that is under way when the file changes is not sent to its end.
    @Test func aFileThatChangesIsNoObject() async throws {
        let rig = try CopyRig()
        try rig.write("t/big", CopyRig.bytes(6 * CopyRig.partSize))
        let path = rig.path("t/big")
        let changed = Mutex(false)
        rig.store.fault = { operation, _ in
            guard operation == .uploadPart,
                !changed.withLock({
                    let was = $0; $0 = true; return was
                })
            else { return nil }
            let file = try? File(path, .readWrite)
            try? file?.write([0, 1, 2], at: 0)
            return nil
        }
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.failed == [path] && rig.tally.failures[0].reason.contains("changed while it was copied"))
        #expect(rig.store.keys.isEmpty && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func anUploadThatWasCutOffIsResumed() async throws {
        let rig = try CopyRig()
        try rig.write("t/big", CopyRig.bytes(6 * CopyRig.partSize))
        rig.store.fault = CopyRig.cut(.uploadPart, after: 3)
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.failed.count == 1 && rig.store.uploadsInProgress.count == 1)
        rig.store.fault = nil
        rig.store.forgetRequests()
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.count(.createUpload) == 0 && rig.store.count(.uploadPart) == 3)
        #expect(rig.store.content("p/big") == rig.content("t/big") && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func aChangedSourceStartsAgainAndAbortsTheEarlierUpload() async throws {
        let rig = try CopyRig()
        try rig.write("t/big", CopyRig.bytes(3 * CopyRig.partSize))
        rig.store.fault = CopyRig.cut(.completeUpload, after: 0)
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.uploadsInProgress.count == 1)
        rig.store.fault = nil
        rig.store.forgetRequests()
        try rig.write("t/big", CopyRig.bytes(3 * CopyRig.partSize, seed: 2))
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.count(.abortUpload) == 1 && rig.store.count(.uploadPart) == 3)
        #expect(rig.store.content("p/big") == rig.content("t/big") && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func whatIsDoneIsNotCopiedAgain() async throws {
        let rig = try CopyRig()
        for name in ["a", "b", "c"] { try rig.write("t/\(name)", [1]) }
        rig.store.fault = { operation, key in
            guard operation == .put, key == "p/b" else { return nil }
            return ObjectStoreError(.interrupted, operation, key: key, message: "cut")
        }
        try await rig.upload("t", to: "p", journal: try rig.journal())
        rig.store.fault = nil
        rig.store.forgetRequests()
        try rig.write("t/c", [2, 2])
        let present = try ["p/a", "p/c"].reduce(into: [ByteString: String]()) { present, key in
            present[ByteString(key)] = try #require(rig.store.info(ObjectKey(key))).version.etag.text
        }
        try await rig.upload("t", to: "p", journal: try rig.journal(), present: present)
        #expect(Set(rig.store.requests(.put).compactMap(\.key)) == ["p/b", "p/c"])
        // An object that another client has removed is made again.
        rig.store.forgetRequests()
        try await rig.upload("t", to: "p", journal: try rig.journal(), present: [:])
        #expect(rig.store.count(.put) == 3)
    }

    @Test func updateLeavesOutWhatIsTheSame() async throws {
        let rig = try CopyRig()
        for name in ["a", "b", "c", "d"] { try rig.write("t/\(name)", Array(name.utf8)) }
        try await rig.upload("t", to: "p")
        rig.store.forgetRequests()
        try await rig.upload("t", to: "p", CopyRules(updates: true))
        #expect(rig.store.count(.put) == 0)
        try rig.write("t/a", [9])
        try rig.write("t/b", [9, 9])
        rig.store.removeObject("p/c")
        try await rig.upload("t", to: "p", CopyRules(updates: true))
        #expect(Set(rig.store.requests(.put).compactMap(\.key)) == ["p/a", "p/b", "p/c"])
    }

    /// Another program stored it, without the file's time.
    @Test func updateComparesChecksumsWhereTimesDiffer() async throws {
        let rig = try CopyRig()
        rig.store.checksum = { .md5(MD5.of($0)) }
        try rig.write("t/a", [1, 2])
        try rig.write("t/b", [1, 2])
        rig.store.setObject("p/a", [1, 2], modified: Timestamp(seconds: 1))
        rig.store.setObject("p/b", [1, 3], modified: Timestamp(seconds: 1))
        try await rig.upload("t", to: "p", CopyRules(updates: true))
        #expect(rig.store.requests(.put).map(\.key) == ["p/b"])
    }

    @Test func aDryRunChangesNothing() async throws {
        let rig = try CopyRig()
        try rig.write("t/a", [1])
        try rig.write("t/d/b", [1])
        try await rig.upload("t", to: "p", CopyRules(isDry: true))
        #expect(rig.store.requests.isEmpty)
        #expect(
            rig.shown.lines.withLock { $0.sorted() } == [
                "\(rig.path("t/a")) -> p/a", "\(rig.path("t/d/b")) -> p/d/b",
            ])
    }

    @Test func withoutClobberAnExistingObjectStays() async throws {
        let rig = try CopyRig()
        try rig.write("t/a", [1])
        try rig.write("t/b", [1])
        rig.store.setObject("p/a", [7])
        try await rig.upload("t", to: "p", CopyRules(isExclusive: true))
        #expect(rig.store.content("p/a") == [7] && rig.store.content("p/b") == [1])
        #expect(rig.failed.count == 1 && rig.tally.failures[0].reason.contains("already exists"))
    }

    /// Nothing else would succeed.
    @Test func aRefusalOfTheWholeStoreEndsTheRun() async throws {
        let rig = try CopyRig()
        for number in 0..<40 { try rig.write("t/\(number)", [1]) }
        rig.store.fault = { operation, key in
            ObjectStoreError(.credentialsExpired, operation, key: key, message: "expired")
        }
        await #expect(throws: ObjectStoreError.self) { try await rig.upload("t", to: "p") }
        #expect(rig.store.requests.count < 10)
    }

    @Test func anEmptyDirectoryIsItsMarker() async throws {
        let rig = try CopyRig()
        try rig.makeDirectory("t")
        try await rig.upload("t", to: "p")
        #expect(rig.store.keys == ["p/"] && rig.tally.items == 1)
        try await rig.upload("t", to: "")
        #expect(rig.store.keys == ["p/"] && rig.failed.isEmpty, "the top of a bucket has no marker")
    }

    @Test func headersAndClassOfTheCommandAreTheObjects() async throws {
        let rig = try CopyRig()
        try rig.write("t/a.txt", [1])
        try rig.write("t/big", CopyRig.bytes(2 * CopyRig.partSize))
        let rules = CopyRules(
            headers: [try HeaderChange("Content-Type: text/x-test"), try HeaderChange("Cache-Control: no-store")],
            storageClass: "STANDARD_IA")
        try await rig.upload("t", to: "p", rules)
        for key: ObjectKey in ["p/a.txt", "p/big"] {
            let info = try #require(rig.store.info(key))
            #expect(info.metadata.contentType == "text/x-test" && info.metadata.cacheControl == "no-store")
            #expect(info.storageClass == "STANDARD_IA")
        }
    }

    /// The kernel reports no length for files in /proc.
    @Test func aFileWithoutALengthIsRefused() async throws {
        let rig = try CopyRig()
        let operation = rig.uploading(rig.engine().context, to: "p")
        let item = CopyItem(source: .file("/proc/self/status"), name: "x")
        await #expect {
            try await operation.copy(item)
        } throws: {
            ($0 as? ObjectStoreError)?.message.contains("copy from -") == true
        }
        #expect(rig.store.keys.isEmpty)
    }

    @Test func onlyALinkOnTheCommandLineIsFollowedWithoutTheOption() async throws {
        let rig = try CopyRig()
        try rig.write("t/a", [1])
        try rig.write("other", [2])
        try rig.link("link", to: "other")
        try await rig.upload("link", to: "named")
        #expect(rig.store.content("named") == [2])
        var walk = try LocalWalk(rig.path("t"), beginning: "", followsLinks: false)
        guard case .item(let item)? = walk.next() else { throw CancellationError() }
        // The file was replaced after the walk saw it.
        try FileManager.default.removeItem(atPath: rig.path("t/a"))
        try rig.link("t/a", to: "../other")
        let operation = rig.uploading(rig.engine().context, to: "p")
        await #expect(throws: ObjectStoreError.self) { try await operation.copy(item) }
        #expect(rig.store.keys == ["named"])
    }

    /// The bucket of the mount may be the one that gets the copies.
    @Test func aMountBelowTheSourceIsRefused() throws {
        let rig = try CopyRig()
        try rig.makeDirectory("t")
        try rig.link("t/mount", to: "/proc/self")
        let top = rig.path("t")
        var walk = try LocalWalk(top, beginning: "", followsLinks: true, isMount: { $0 == "\(top)/mount" })
        guard case .refused(let name, let reason)? = walk.next() else { throw CancellationError() }
        #expect(name == ByteString("\(top)/mount") && reason.contains("mount of pailfs"))
        #expect(walk.next() == nil)
    }

    @Test func updateComparesTheBytesOfALinkedFile() async throws {
        let rig = try CopyRig()
        rig.store.checksum = { .md5(MD5.of($0)) }
        try rig.write("other", [1, 2])
        try rig.makeDirectory("t")
        try rig.link("t/a", to: "../other")
        rig.store.setObject("p/a", [1, 2], modified: Timestamp(seconds: 1))
        try await rig.upload("t", to: "p", CopyRules(updates: true, followsLinks: true))
        #expect(rig.store.count(.put) == 0 && rig.failed.isEmpty)
    }

    @Test func aDryRunNamesWhatMustNotBeReplaced() async throws {
        let rig = try CopyRig()
        try rig.write("t/a", [1])
        try rig.write("t/b", [1])
        rig.store.setObject("p/a", [7])
        try await rig.upload("t", to: "p", CopyRules(isExclusive: true, isDry: true))
        #expect(rig.failed == [rig.path("t/a")] && rig.store.count(.put) == 0)
        #expect(rig.shown.lines.withLock { $0 } == ["\(rig.path("t/b")) -> p/b"])
    }

    /// The object from before is the same but for its headers.
    @Test func anObjectWithOtherHeadersIsNotTheOneOfALostAnswer() async throws {
        let rig = try CopyRig()
        try rig.write("t/a", [1])
        try await rig.upload("t", to: "p")
        rig.store.fault = { operation, key in
            operation == .put ? ObjectStoreError(.serverFault, .put, key: key, status: 503, message: "busy") : nil
        }
        try await rig.upload("t", to: "p", CopyRules(headers: [try HeaderChange("Cache-Control: no-store")]))
        #expect(rig.failed.count == 1)
        try await rig.upload("t", to: "p", CopyRules(storageClass: "STANDARD_IA"))
        #expect(rig.failed.count == 1)
        try await rig.upload("t", to: "p")
        #expect(rig.failed.isEmpty, "the answer to the first request may have been this one's")
    }
}
