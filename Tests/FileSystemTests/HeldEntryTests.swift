import Basics
import Blocks
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Other programs stat, list and open names while the store is in the middle of what an operation of this host does to them: what
/// the store shows then changes nothing.
@Suite(.timeLimit(.minutes(2))) struct HeldEntryTests {
    enum Act: String, CaseIterable, CustomTestStringConvertible {
        case rename, replace, renameOverLink, unlink, removeDirectory, makeDirectory, symlink, renameDirectory
        var testDescription: String { rawValue }

        /// After which the store shows a middle, or the end before the caller has the answer.
        var operations: [ObjectStoreError.Operation] {
            switch self {
            case .rename, .replace, .renameOverLink: [.copy, .delete]
            case .unlink, .removeDirectory: [.delete]
            case .makeDirectory, .symlink: [.put]
            case .renameDirectory: [.copy, .deleteMany]
            }
        }
    }

    private static let keys = ["f", "g", "h", "l.rclonelink", "d/", "full/", "full/x"]

    private static func run(_ act: Act, _ system: BucketFileSystem, _ caller: Caller) async -> FileSystemError? {
        func rename(_ name: ByteString, _ newName: ByteString) -> Outcome<Void> {
            system.rename(name, in: .root, to: newName, in: .root, noReplace: false)
        }
        return switch act {
        case .rename: await error(rename("f", "new"))
        case .replace: await error(rename("f", "g"))
        case .renameOverLink: await error(rename("f", "l"))
        case .unlink: await error(system.unlink("f", in: .root))
        case .removeDirectory: await error(system.removeDirectory("d", in: .root))
        case .makeDirectory: await error(system.makeDirectory("new", in: .root, mode: 0o755, caller: caller))
        case .symlink: await error(system.symlink("new", in: .root, target: "h", caller: caller))
        case .renameDirectory: await error(rename("full", "new"))
        }
    }

    private static func error<Value: Sendable>(_ outcome: Outcome<Value>) async -> FileSystemError? {
        if case .failure(let error) = await outcome.value() { error } else { nil }
    }

    private static func names(after act: Act) -> [String] {
        switch act {
        case .rename: ["d", "full", "g", "h", "l", "new"]
        case .replace: ["d", "full", "g", "h", "l"]
        case .renameOverLink: ["d", "full", "g", "h", "l"]
        case .unlink: ["d", "full", "g", "h", "l"]
        case .removeDirectory: ["f", "full", "g", "h", "l"]
        case .makeDirectory, .symlink: ["d", "f", "full", "g", "h", "l", "new"]
        case .renameDirectory: ["d", "f", "g", "h", "l", "new"]
        }
    }

    @Test(.rule("rename.replace", "visible.own"), arguments: Act.allCases, [false, true])
    func whatTheStoreShowsMeanwhileChangesNothing(act: Act, isOpen: Bool) async throws {
        for operation in act.operations {
            let tree = try MountedTree(ttl: .zero)
            for key in Self.keys { tree.store.setObject(ObjectKey(key), key.hasSuffix("/") ? [] : Array(key.utf8)) }
            _ = try await tree.names("")
            let flags = OpenFlags(reads: true, writes: true)
            let readers = isOpen ? ["f", "g", "h", "full/x"] : []
            var open: [(path: String, file: (InodeNumber, HandleID))] = []
            for path in readers {
                let file = try await tree.open(path, flags)
                #expect(try await tree.read(file, at: 0, count: 10) == Array(path.utf8))
                open.append((path, file))
            }
            let inodes = try await (tree.find("f").ino, tree.find("full").ino)
            let (system, caller) = (tree.system, tree.caller)
            let gate = tree.store.hold(operation, beforeReply: true)
            let call = tree.pool.start { await Self.run(act, system, caller) }
            await gate.waitForArrivals()
            for name in ["f", "g", "h", "l", "d", "full", "new", "none"] { _ = try? await tree.find(name) }
            _ = try? await tree.run(tree.system.attributes(inodes.0, handle: nil))
            _ = try? await tree.names("")
            _ = try? await tree.names("full")
            for name in ["g", "f", "new"] { _ = try? await tree.find(name) }
            gate.open()
            #expect(await call.value == nil, "\(operation)")
            #expect(try await tree.names("") == Self.names(after: act), "\(operation)")
            switch act {
            case .rename: #expect(try await tree.find("new").ino == inodes.0)
            case .replace: #expect(try await tree.find("g").ino == inodes.0)
            case .renameOverLink: #expect(try await tree.find("l").ino == inodes.0)
            case .renameDirectory: #expect(try await tree.find("new").ino == inodes.1)
            default: break
            }
            for (path, file) in open {
                #expect(try await tree.read(file, at: 0, count: 10) == Array(path.utf8), "\(operation) \(path)")
                try await tree.write(file, Array("W".utf8), at: 0)
                try await tree.close(file)
            }
            if isOpen, act == .rename { #expect(tree.store.content("new") == Array("W".utf8)) }
            if isOpen, act == .replace { #expect(tree.store.content("g") == Array("W".utf8)) }
            if isOpen, act == .renameDirectory {
                #expect(tree.store.content("new/x") == Array("Wull/x".utf8))
            }
        }
    }

    /// S3 gives an object made of parts another ETag with other headers.
    @Test(.rule("attr.set", "visible.own"), arguments: [false, true])
    func headersThatAreChangedDoNotPassForAnotherHosts(isLost: Bool) async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, ttl: .zero, partSize: 64 << 10)
        let bytes = [UInt8](repeating: 1, count: 300_000)
        try await tree.store("f", bytes)
        try await tree.remount()
        tree.rooms.blocks.forget("f")
        let file = try await tree.open("f", OpenFlags(reads: true, writes: true))
        let system = tree.system
        if isLost {
            tree.store.faultAfter = { operation, key in
                guard operation == .updateMetadata else { return nil }
                return ObjectStoreError(.unreachable, operation, key: key, message: "the answer was lost")
            }
        }
        let gate = tree.store.hold(.updateMetadata, beforeReply: true)
        let change = tree.pool.start { () async -> FileSystemError? in
            var change = AttributeChange()
            change.mode = 0o600
            return await Self.error(system.setAttributes(file.0, to: change, handle: nil))
        }
        await gate.waitForArrivals()
        for _ in 0..<2 {
            #expect(try await tree.find("f").ino == file.0)
            #expect(try await tree.names("") == ["f"])
        }
        gate.open()
        _ = await change.value
        #expect(try await tree.find("f").ino == file.0)
        tree.store.faultAfter = nil
        try await tree.waitUntil("no job is left", each: .seconds(1)) { tree.system.unfinishedJobs().isEmpty }
        #expect(try await tree.find("f").ino == file.0)
        #expect(try await tree.read(file, at: 200_000, count: 2) == [1, 1])
        try await tree.write(file, Array("more".utf8), at: 0)
        try await tree.close(file)
        #expect(tree.store.content("f") == Array("more".utf8) + bytes[4...])
    }

    /// What another host has done meanwhile is seen once the operation has failed.
    @Test func whatWasLeftOutIsAskedForAgain() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", [1])
        tree.store.setObject("g", [2])
        _ = try await tree.names("")
        tree.time.advance(by: .seconds(1))
        tree.store.fault = { operation, key in
            guard operation == .copy else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, message: "never")
        }
        let system = tree.system
        let gate = tree.store.hold(.copy)
        let call = tree.pool.start { () async -> FileSystemError? in
            await Self.error(system.rename("f", in: .root, to: "new", in: .root, noReplace: false))
        }
        await gate.waitForArrivals()
        tree.store.removeObject("f")
        tree.store.setObject("new", [3])
        try tree.rooms.metadata.invalidate(.root, subtree: true)
        #expect(try await tree.names("") == ["f", "g"])
        gate.open()
        #expect(await call.value != nil)
        #expect(try await tree.names("") == ["g", "new"])
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { try await tree.find("f") }
    }
}
