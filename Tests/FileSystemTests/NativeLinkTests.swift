import Basics
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Links that others have made with the store's own call are links here too.
@Suite struct NativeLinkTests {
    private func tree() async throws -> MountedTree {
        var capabilities = Capabilities()
        capabilities.symlinks = true
        let tree = try MountedTree(capabilities: capabilities)
        tree.store.setObject("d/file", Array("content".utf8))
        tree.store.setObject("top", Array("top".utf8))
        for (key, target) in [("d/near", "d/file"), ("d/up", "top"), ("down", "d/file"), ("d/e/far", "d/file")] {
            _ = try await tree.store.putSymlink(PutRequest(ObjectKey(key)), target: ByteString(target))
        }
        return tree
    }

    @Test func theirTargetsAreRelativePaths() async throws {
        let tree = try await tree()
        #expect(try await tree.find("d/near").kind == .symlink)
        #expect(try await tree.readLink("d/near") == "file")
        #expect(try await tree.readLink("d/up") == "../top")
        #expect(try await tree.readLink("down") == "d/file")
        #expect(try await tree.readLink("d/e/far") == "../file")
    }

    /// No listing tells it.
    @Test(.rule("symlink.native")) func theirLengthIsThatOfThePath() async throws {
        let tree = try await tree()
        #expect(try await tree.names("") == ["d", "down", "top"])
        #expect(try await tree.find("down").size == 6)
        #expect(try await tree.find("d/up").size == 6)
        let asked = tree.store.count(.symlinkTarget)
        #expect(asked == 2)
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.find("down").size == 6)
        try await tree.restart()
        #expect(try await tree.find("down").size == 6)
        #expect(tree.store.count(.symlinkTarget) == asked, "what was learnt stays")
        _ = try await tree.store.putSymlink(PutRequest("down"), target: "t")
        try await tree.system.refreshEverywhere(.root)
        #expect(try await tree.find("down").size == 1)
    }

    /// Listings tell whole seconds.
    @Test(.rule("symlink.native", "attr.mtime")) func onesOfOursKeepTheirTimes() async throws {
        let tree = try await tree()
        tree.policy.nativeLinks = true
        try await tree.remount()
        tree.time.advance(by: .milliseconds(1234))
        try await tree.symlink("d/ours", "file")
        let made = try await tree.find("d/ours")
        #expect(made.modified.nanoseconds != 0)
        for _ in 0..<2 {
            tree.time.advance(by: .seconds(61))
            try await tree.system.refreshEverywhere(.root)
            _ = try await tree.names("d")
            let found = try await tree.find("d/ours")
            #expect(found.modified == made.modified && found.changed == made.changed && found.size == 4)
        }
    }

    /// The request that tells the length tells them as well.
    @Test(.rule("symlink.native", "attr.stored")) func anotherHostSeesTheirOwnerAndTimes() async throws {
        let tree = try await tree()
        tree.policy.nativeLinks = true
        try await tree.remount()
        tree.time.advance(by: .milliseconds(1234))
        try await tree.symlink("d/ours", "file")
        try await tree.change("d/ours") {
            $0.uid = 5
            $0.modified = Timestamp(seconds: 1_000_000_000, nanoseconds: 5)
        }
        let made = try await tree.find("d/ours")
        let other = try MountedTree(capabilities: tree.store.capabilities, over: tree.store, time: tree.time)
        func isAsMade(_ path: String) async throws -> Bool {
            let found = try await other.find(path)
            return found.uid == 5 && found.modified == made.modified && found.size == 4
        }
        _ = try await other.names("d")
        #expect(try await isAsMade("d/ours"))
        try await other.rename("d/ours", to: "d/moved")
        #expect(try await isAsMade("d/moved"))
        try await other.rename("d", to: "e")
        #expect(try await isAsMade("e/moved"))
        #expect(tree.store.info("e/moved")?.metadata.user["uid"] == "5")
        tree.time.advance(by: .seconds(61))
        try await other.system.refreshEverywhere(.root)
        #expect(try await isAsMade("e/moved"))
        try await other.restart()
        #expect(try await isAsMade("e/moved"))
    }

    /// The link that replaces it has the same target, and so the same ETag.
    @Test(.rule("symlink.native", "attr.stored")) func anOwnerThatAnotherHostChangesIsSeen() async throws {
        let tree = try await tree()
        for uid in ["5", "6"] {
            var headers = ObjectMetadata()
            headers.user["uid"] = uid
            _ = try await tree.store.putSymlink(PutRequest("d/owned", metadata: headers), target: "top")
            try await tree.system.refreshEverywhere(.root)
            _ = try await tree.names("d")
            #expect(try await tree.find("d/owned").uid == UInt32(uid))
            tree.time.advance(by: .seconds(61))
        }
    }

    /// A directory is renamed by listings, which tell no headers.
    @Test(.rule("attr.stored")) func theirHeadersMoveWithTheirDirectoryUnread() async throws {
        let tree = try await tree()
        var headers = ObjectMetadata()
        headers.user["uid"] = "5"
        _ = try await tree.store.putSymlink(PutRequest("d/owned", metadata: headers), target: "top")
        try await tree.rename("d", to: "e")
        #expect(tree.store.info("e/owned")?.metadata.user["uid"] == "5")
    }

    /// With attrs=exact a link may also be an object whose headers say so.
    @Test(.rule("symlink.native")) func onesOfOursStayNativeWhereLinksAreLookedForInHeaders() async throws {
        let tree = try await tree()
        (tree.policy.nativeLinks, tree.policy.linksInHeaders, tree.policy.attributes) = (true, true, .exact)
        try await tree.remount()
        try await tree.symlink("d/ours", "file")
        try await tree.change("d/ours") { $0.uid = 5 }
        try await tree.remount()
        #expect(try await tree.readLink("d/ours") == "file")
        try await tree.rename("d/ours", to: "d/moved")
        #expect(try await tree.store.symlinkTarget(of: "d/moved") == "d/file")
        try await tree.rename("d", to: "e")
        #expect(try await tree.store.symlinkTarget(of: "e/moved") == "e/file")
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.readLink("e/moved") == "file")
        #expect(try await tree.find("e/moved").size == 4)
    }

    @Test func whoMayNotReadThemSeesThemWithoutALength() async throws {
        let tree = try await tree()
        tree.store.fault = { operation, key in
            operation == .symlinkTarget ? ObjectStoreError(.accessDenied, operation, key: key, message: "no") : nil
        }
        #expect(try await tree.find("down").kind == .symlink)
        #expect(try await tree.find("down").size == 0)
    }

    @Test func whereTheyLeadIsAskedAgain() async throws {
        let tree = try await tree()
        #expect(try await tree.readLink("down") == "d/file")
        _ = try await tree.store.putSymlink(PutRequest("down"), target: "top")
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.readLink("down") == "top")
    }

    @Test func theySurviveBeingRenamedByThemselvesAndWithTheirDirectory() async throws {
        let tree = try await tree()
        try await tree.rename("d/near", to: "d/other")
        #expect(try await tree.readLink("d/other") == "file")
        #expect(tree.store.content("d/near") == nil)
        try await tree.rename("d", to: "moved")
        #expect(try await tree.readLink("moved/other") == "file")
        #expect(try await tree.readLink("moved/e/far") == "../file")
        #expect(try await tree.readLink("moved/up") == "../top")
        #expect(try await tree.store.symlinkTarget(of: "moved/other") == "moved/file")
        try await tree.unlink("moved/other")
        #expect(tree.store.content("moved/other") == nil)
    }

    /// A link of the store's own kind holds a key: only what such a key tells byte for byte becomes one.
    @Test(.rule("symlink.native")) func onesOfOursTellTheirExactText() async throws {
        let tree = try await tree()
        tree.policy.nativeLinks = true
        try await tree.remount()
        let native = ["file": "d/file", "e/far": "d/e/far", "../top": "top", "../x/y": "x/y", "no such": "d/no such"]
        let others = [
            "/etc/passwd", "../../out", "./file", "e//far", "e/", "..", ".", "../d/file", "e/../file", "../top/",
        ]
        for (number, text) in (native.keys.sorted() + others).enumerated() {
            try await tree.symlink("d/ours\(number)", text)
        }
        for isNew in [true, false] {
            for (number, text) in (native.keys.sorted() + others).enumerated() {
                #expect(try await tree.readLink("d/ours\(number)") == text)
                #expect(try await tree.find("d/ours\(number)").size == text.utf8.count)
                if isNew, let target = native[text] {
                    #expect(try await tree.store.symlinkTarget(of: ObjectKey("d/ours\(number)")) == ByteString(target))
                } else if isNew {
                    #expect(tree.store.content(ObjectKey("d/ours\(number).rclonelink")) == Array(text.utf8))
                }
            }
            tree.time.advance(by: .seconds(61))
            _ = try await tree.names("d")
            try await tree.system.refresh(.root)
        }
    }

    @Test func oneInThePlaceOfARemovedFileThatIsOpenStays() async throws {
        let tree = try await tree()
        tree.policy.nativeLinks = true
        try await tree.remount()
        let file = try await tree.open("d/file", OpenFlags(reads: true, writes: false))
        try await tree.unlink("d/file")
        try await tree.symlink("d/file", "other")
        try await tree.close(file)
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.readLink("d/file") == "other")
        #expect(try tree.rooms.journal.contents().isEmpty)
    }

    @Test(.rule("symlink.native")) func onesThatWouldTellAnotherTextElsewhereAreLeftToMv() async throws {
        let tree = try await tree()
        try await tree.rename("d/near", to: "near")
        #expect(try await tree.readLink("near") == "file")
        await #expect(throws: MountedTree.Failure(kind: .crossDevice, reason: "")) {
            try await tree.rename("d/up", to: "up")
        }
        #expect(try await tree.readLink("d/up") == "../top")
    }

    /// The kernel asks again, and comes to the file.
    @Test(arguments: [false, true])
    func oneThatAnotherHostHasReplacedByAFileIsStale(isRenamed: Bool) async throws {
        let tree = try await tree()
        let ino = try await tree.find("d/near").ino
        tree.store.setObject("d/near", Array("theirs".utf8))
        // For ttl what was read of the link counts.
        if !isRenamed { tree.time.advance(by: .seconds(61)) }
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) {
            if isRenamed {
                try await tree.rename("d/near", to: "d/other")
            } else {
                _ = try await tree.run(tree.system.readLink(ino))
            }
        }
        #expect(try await tree.find("d/near").kind == .file)
        #expect(try await tree.load("d/near") == Array("theirs".utf8))
        try await tree.rename("d/near", to: "d/other")
        #expect(tree.store.content("d/other") == Array("theirs".utf8))
    }

    @Test func newAttributesLeaveTheTarget() async throws {
        let tree = try await tree()
        let status = try await tree.find("d/near")
        var change = AttributeChange()
        change.modified = Timestamp(seconds: 1_000_000_000)
        _ = try await tree.run(tree.system.setAttributes(status.ino, to: change, handle: nil))
        #expect(try await tree.find("d/near").modified == Timestamp(seconds: 1_000_000_000))
        #expect(try await tree.store.symlinkTarget(of: "d/near") == "d/file")
    }

    @Test func belowAPrefixTheyLeadToWhatIsSeenThere() async throws {
        let store = MemoryStore()
        let below = PrefixedStore(store, prefix: "a/b/")
        for (key, target) in [("a/b/inside", "a/b/file"), ("a/b/outside", "x")] {
            _ = try await store.putSymlink(PutRequest(ObjectKey(key)), target: ByteString(target))
        }
        #expect(try await below.symlinkTarget(of: "inside") == "file")
        #expect(try await below.symlinkTarget(of: "outside") == "../../x")
        _ = try await below.putSymlink(PutRequest("new"), target: "file")
        #expect(try await store.symlinkTarget(of: "a/b/new") == "a/b/file")
    }
}
