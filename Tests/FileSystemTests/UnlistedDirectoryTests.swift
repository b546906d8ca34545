import Basics
import FileSystem
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// Credentials that may not list: a mount finds names by HEAD and refuses to read directories.
@Suite(.timeLimit(.minutes(2))) struct UnlistedDirectoryTests {
    private static func refusal(_ operation: ObjectStoreError.Operation, _ key: ObjectKey?) -> ObjectStoreError {
        ObjectStoreError(
            .accessDenied, operation, key: key, status: 403, code: "AccessDenied", message: "Access Denied")
    }

    /// Refuses listings of everything that does not begin with `prefix`; with `hiding`, a missing object is 403 as at Amazon S3.
    private func refuseListings(_ store: MemoryStore, hiding: Bool = true, except prefix: String? = nil) {
        store.fault = { [unowned store] operation, key in
            switch operation {
            case .list:
                let asked = store.requests(.list).last?.list?.prefix ?? ""
                return prefix.map { asked.hasPrefix(ByteString($0)) } ?? false ? nil : Self.refusal(operation, key)
            case .head:
                guard hiding, let key, store.info(key) == nil else { return nil }
                return Self.refusal(operation, key)
            default: return nil
            }
        }
    }

    @Test(.rule("readdir.refused"), arguments: [true, false])
    func namesAreFoundOneByOne(hiding: Bool) async throws {
        let tree = try MountedTree()
        tree.store.setObject("file", Array("content".utf8))
        tree.store.setObject("directory/", [])
        tree.store.setObject("directory/inner", [1])
        tree.store.setObject("link.rclonelink", Array("file".utf8))
        refuseListings(tree.store, hiding: hiding)
        #expect(try await tree.load("file") == Array("content".utf8))
        #expect(try await tree.load("directory/inner") == [1])
        #expect(try await tree.find("directory").kind == .directory)
        #expect(try await tree.find("link").kind == .symlink)
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { try await tree.find("missing") }
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) {
            try await tree.names("directory")
        }
    }

    @Test(.rule("readdir.refused"), arguments: [true, false])
    func filesAreMadeChangedRenamedAndRemoved(hiding: Bool) async throws {
        let tree = try MountedTree()
        tree.store.setObject("other/kept", [7])
        refuseListings(tree.store, hiding: hiding)
        try await tree.store("new", [1, 2])
        try await tree.makeDirectory("directory")
        try await tree.store("directory/file", [3])
        try await tree.rename("new", to: "directory/moved")
        #expect(try await tree.load("directory/moved") == [1, 2])
        try await tree.unlink("directory/moved")
        try await tree.unlink("directory/file")
        #expect(tree.store.keys == ["directory/", "other/kept"])
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) {
            try await tree.rename("directory", to: "renamed")
        }
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) {
            try await tree.removeDirectory("directory")
        }
        #expect(tree.store.keys == ["directory/", "other/kept"])
    }

    /// The store may refuse before the call has looked at its listing.
    @Test(.rule("readdir.refused")) func aRefusalThatComesBeforeTheCallLooksIsKept() async throws {
        let tree = try MountedTree()
        tree.store.setObject("directory/", [])
        refuseListings(tree.store)
        let ino = try await tree.find("directory").ino
        let handle = try await tree.run(tree.system.openDirectory(ino))
        let reply = SmallReply(capacity: 7)
        // It begins the listing. Nobody waits for its answer, so that the call below is the one that keeps the reason.
        var answer = tree.system.readDirectory(ino, handle: handle, from: 0, attributes: false, into: reply)
        while answer.isPending {
            await Task.yield()
            answer = tree.system.readDirectory(ino, handle: handle, from: 2, attributes: false, into: reply)
        }
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) { try await tree.run(answer) }
        let reason = try await tree.run(tree.system.extendedAttribute("user.pailfs.lasterror", of: ino)).description
        #expect(reason.hasPrefix("readdir: "))
    }

    /// The last file leaves, and nothing shows whether others are there: the directory gets its object.
    @Test func aDirectoryWithoutAnObjectDoesNotVanish() async throws {
        let tree = try MountedTree()
        tree.store.setObject("directory/file", [1])
        refuseListings(tree.store, except: "directory/")
        #expect(try await tree.load("directory/file") == [1])
        refuseListings(tree.store)
        try await tree.unlink("directory/file")
        #expect(tree.store.keys == ["directory/"])
    }

    /// A policy with a condition on data/*, and a mount of the bucket.
    @Test func aPrefixThatMayBeListedIsAsUsual() async throws {
        let tree = try MountedTree()
        tree.store.setObject("data/file", [1])
        refuseListings(tree.store, except: "data/")
        #expect(try await tree.names("data") == ["file"])
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) { try await tree.names("") }
    }

    /// A HEAD that is refused although the store does not hide missing objects is no missing object.
    @Test func aRefusedObjectIsNotMissing() async throws {
        let tree = try MountedTree()
        refuseListings(tree.store, hiding: false)
        let others = tree.store.fault
        tree.store.fault = { operation, key in
            operation == .head && key == "secret" ? Self.refusal(operation, key) : others?(operation, key)
        }
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) { try await tree.find("secret") }
    }
}

extension Outcome {
    fileprivate var isPending: Bool {
        if case .pending = self { true } else { false }
    }
}
