import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// SEMANTICS section 3: mode, owner, times and extended attributes.
@Suite struct AttributeTests {
    @Test(.rule("attr.suid"), arguments: ["write", "truncate", "chown"], [0o6755, 0o2745] as [UInt16])
    func whatIsNotPrivilegedTakesTheBitsAway(_ act: String, _ mode: UInt16) async throws {
        let tree = try MountedTree()
        try await tree.store("f", Array("content".utf8))
        try await tree.change("f") { $0.mode = mode }
        switch act {
        case "write":
            let file = try await tree.open("f", OpenFlags(reads: false, writes: true))
            tree.system.dropPrivileges(of: file.0)
            try await tree.write(file, Array("C".utf8), at: 0)
            try await tree.close(file)
        case "truncate":
            try await tree.change("f") { ($0.size, $0.dropsPrivileges) = (3, true) }
        default:
            try await tree.change("f") { ($0.uid, $0.dropsPrivileges) = (7, true) }
        }
        let left: UInt16 = mode == 0o6755 ? 0o755 : 0o2745
        #expect(try await tree.find("f").mode == left)
        try await tree.remount()
        #expect(try await tree.find("f").mode == left)
        #expect(tree.store.info("f")?.metadata.user["mode"] == String(0o100000 | left))
    }

    @Test(.rule("xattr.user", "attr.stored")) func extendedAttributesAreKeptWithTheObject() async throws {
        let tree = try MountedTree()
        try await tree.store("f", [1])
        let ino = try await tree.find("f").ino
        try await tree.run(
            tree.system.setExtendedAttribute("user.colour", of: ino, to: "blue", mode: .createOrReplace))
        #expect(try await tree.run(tree.system.extendedAttribute("user.colour", of: ino)) == "blue")
        try await tree.remount()
        #expect(try await tree.run(tree.system.extendedAttributes(of: ino)) == ["user.colour"])
        await #expect(throws: MountedTree.Failure(kind: .argumentTooLong, reason: "")) {
            try await tree.run(
                tree.system.setExtendedAttribute(
                    "user.big", of: ino, to: ByteString(Array(repeating: 7, count: 4000)), mode: .createOrReplace))
        }
    }

    @Test func whatIsSetIsNotTooMuchForTheNextCommit() async throws {
        let tree = try MountedTree()
        try await tree.store("f", [1])
        let ino = try await tree.find("f").ino
        var length = 1600
        while length > 0 {
            let value = ByteString(Array(repeating: 7, count: length))
            do throws(MountedTree.Failure) {
                try await tree.run(
                    tree.system.setExtendedAttribute("user.big", of: ino, to: value, mode: .createOrReplace))
                break
            } catch {
                try #require(error.kind == .argumentTooLong)
                length -= 1
            }
        }
        #expect(length > 500)
        tree.time.advance(by: .nanoseconds(123_456_789))
        try await tree.store("f", [2, 3])
        #expect(tree.store.content("f") == [2, 3])
    }

    @Test(.rule("attr.stored", "attr.listing")) func headersThatComeWithTheContentAreShownFromThenOn() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", [1], metadata: ObjectMetadata(user: ["mode": "33216", "uid": "7", "mtime": "99.5"]))
        _ = try await tree.names("")
        #expect(try await tree.find("f").mode == 0o644)
        _ = try await tree.load("f")
        // The block cache tells it from a thread of its own.
        var status = try await tree.find("f")
        try await waitUntil("the mode is that of the store") {
            status = try await tree.find("f")
            return status.mode == 0o700
        }
        #expect(status.uid == 7)
        #expect(status.modified == Timestamp(seconds: 99, nanoseconds: 500_000_000))
        #expect(tree.store.count(.head) == 0)
    }

    @Test func aDirectorysTimeMovesWhenAnEntryComesOrGoes() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        var last = try await tree.find("d").modified
        func moved() async throws -> Bool {
            let now = try await tree.find("d").modified
            defer { last = now }
            return now > last
        }
        for step in 0..<5 {
            tree.time.advance(by: .seconds(1))
            switch step {
            case 0: try await tree.store("d/f", [1])
            case 1: try await tree.makeDirectory("d/e")
            case 2: try await tree.rename("d/f", to: "d/g")
            case 3: try await tree.unlink("d/g")
            default: try await tree.removeDirectory("d/e")
            }
            #expect(try await moved(), "step \(step)")
        }
    }

    @Test func attributesOfARenamedTreeSurviveAClockThatDiffers() async throws {
        let tree = try MountedTree()
        tree.store.clockOffset = .seconds(-1)
        try await tree.makeDirectory("old")
        try await tree.makeDirectory("old/inner")
        try await tree.store("old/inner/file", [1])
        let then = Timestamp(seconds: 1_000_000_000)
        func inodes() async throws -> [FileStatus] {
            try await [tree.find("new"), tree.find("new/inner"), tree.find("new/inner/file")]
        }
        try await tree.rename("old", to: "new")
        for status in try await inodes() {
            var change = AttributeChange()
            change.modified = then
            _ = try await tree.run(tree.system.setAttributes(status.ino, to: change, handle: nil))
        }
        try await tree.rename("new", to: "newer")
        try await tree.rename("newer", to: "new")
        for _ in 0..<2 {
            tree.time.advance(by: .seconds(61))
            for path in ["", "new", "new/inner"] { _ = try await tree.names(path) }
            for status in try await inodes() { #expect(status.modified == then, "\(status.ino)") }
        }
    }

    @Test(.rule("attr.exact")) func exactAttributesOfADirectoryAreThoseOfItsMarker() async throws {
        let tree = try MountedTree()
        tree.policy.attributes = .exact
        let marker = ObjectMetadata(user: ["mode": "16832", "mtime": "1000000000"])
        tree.store.setObject("kept/", [], metadata: marker)
        tree.store.setObject("kept/file", [1])
        tree.store.setObject("bare/file", [1])
        try await tree.remount()
        for _ in 0..<2 {
            let status = try await tree.find("kept")
            #expect(status.mode == 0o700)
            #expect(status.modified == Timestamp(seconds: 1_000_000_000))
            #expect(try await tree.find("bare").mode == tree.policy.directoryMode)
        }
        #expect(tree.store.requests(.head).map(\.key) == ["kept/", "bare/"])
        tree.time.advance(by: .seconds(61))
        tree.store.setObject("bare/", [], metadata: marker)
        #expect(try await tree.find("bare").mode == 0o700)
    }

    @Test(.rule("attr.exact")) func exactAttributesAreAskedForOnceForEachObject() async throws {
        let tree = try MountedTree()
        tree.policy.attributes = .exact
        try await tree.remount()
        for name in ["a", "b"] {
            tree.store.setObject(ObjectKey(name), [1], metadata: ObjectMetadata(user: ["mode": String(0o100750)]))
        }
        #expect(try await tree.names("") == ["a", "b"])
        #expect(tree.store.count(.head) == 0)
        for _ in 0..<2 {
            #expect(try await tree.find("a").mode == 0o750)
            #expect(try await tree.find("b").mode == 0o750)
        }
        #expect(tree.store.count(.head) == 2)
    }

    /// No listing tells that another host has changed them.
    @Test func headersOfDirectoriesAreAskedForAgain() async throws {
        let tree = try MountedTree(ttl: .seconds(60))
        tree.policy.attributes = .exact
        try await tree.remount()
        try await tree.makeDirectory("d")
        try await tree.store("d/f", [1])
        let changed = try await tree.find("d").modified
        _ = try await tree.find("d")
        #expect(tree.store.count(.head) == 0, "what was given is known")
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.find("d").modified == changed, "the time of its last entry is known here alone")
        let asked = tree.store.count(.head)
        #expect(asked > 0)
        _ = try await tree.find("d")
        #expect(tree.store.count(.head) == asked)
        var theirs = try #require(tree.store.info("d/")).metadata
        (theirs.user["mode"], theirs.user["uid"]) = (String(0o40701), "7")
        tree.store.setObject("d/", [], metadata: theirs)
        tree.time.advance(by: .seconds(61))
        let status = try await tree.find("d")
        #expect((status.mode, status.uid) == (0o701, 7))
        // Nor does a change of something else put back what was.
        theirs.user["gid"] = "8"
        tree.store.setObject("d/", [], metadata: theirs)
        tree.time.advance(by: .seconds(61))
        try await tree.change("d") { $0.mode = 0o711 }
        let stored = try #require(tree.store.info("d/")).metadata.user
        #expect(stored["gid"] == "8" && stored["mode"] == String(0o40711))
        try await tree.remount()
        let before = tree.store.count(.head)
        #expect(try await tree.find("d").gid == 8)
        #expect(tree.store.count(.head) == before, "another process knows when it was asked")
    }

    /// The headers of a file that goes up in parts are those of the upload's beginning, but for a time that a program has set.
    @Test(.rule("attr.mtime", "write.stream"), arguments: [-5, 5])
    func aTimeThatIsSetWhileAFileGoesUpIsStored(seconds: Int) async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, partSize: 64 << 10)
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true), create: true)
        for piece in 0..<5 {
            try await tree.write(file, Array(repeating: UInt8(piece), count: 64 << 10), at: Int64(piece << 16))
        }
        while tree.store.count(.uploadPart) == 0 { await Task.yield() }
        let time = Timestamp(seconds: tree.time.now().seconds + Int64(seconds))
        try await tree.change("f") { $0.modified = time }
        try await tree.close(file)
        #expect(tree.store.info("f")?.metadata.user["mtime"].flatMap(Double.init) == Double(time.seconds))
        #expect(tree.store.content("f")?.count == 5 << 16)
        #expect(tree.store.uploadsInProgress.isEmpty)
    }
}
