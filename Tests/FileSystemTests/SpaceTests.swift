import Basics
import Commits
import FileSystem
import Foundation
import Metadata
import ObjectStorage
import Staging
import Synchronization
import TestSupport
import Testing

/// What a writer meets when the local disk has no room: others are stored to make some, and if nothing can be, ENOSPC.
@Suite struct SpaceTests {
    private let tree: MountedTree
    private let readWrite = OpenFlags(reads: true, writes: true)

    init() throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        tree = try MountedTree(capabilities: capabilities, capacity: 1 << 20, partSize: 64 << 10)
    }

    /// Lets time pass until `act` has come to its end, `pace` for each millisecond of ours.
    private func whileTimePasses<Value: Sendable>(
        pace: Duration = .milliseconds(2), on time: ManualTime? = nil, _ act: () async throws -> Value
    ) async throws -> Value {
        let clock = (time ?? tree.time).advancing(by: pace)
        defer { clock.cancel() }
        return try await act()
    }

    private func refuseWrites() {
        tree.store.fault = { operation, key in
            guard [.put, .createUpload, .uploadPart, .completeUpload].contains(operation) else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
    }

    private func bytes(_ count: Int, _ seed: UInt64) -> [UInt8] {
        var generator = SeededGenerator(seed: seed)
        return generator.bytes(count)
    }

    @Test(.rule("space.wait", "visible.other")) func openFilesAreStoredWhileAWriterWaits() async throws {
        var files: [(InodeNumber, HandleID)] = []
        try await whileTimePasses {
            for index in 0..<30 {
                let file = try await tree.open("f\(index)", readWrite, create: true)
                files.append(file)
                try await tree.write(file, bytes(60_000, UInt64(index)), at: 0)
            }
        }
        #expect(tree.store.keys.count >= 10, "what does not fit is in the bucket")
        #expect(tree.rooms.staging.ledger.used <= 1 << 20)
        for (index, file) in files.enumerated() {
            #expect(try await tree.read(file, at: 0, count: 60_000) == bytes(60_000, UInt64(index)))
            try await tree.close(file)
        }
        #expect(tree.store.keys.count == 30)
    }

    @Test(.rule("space.large")) func aFileLargerThanTheQuotaIsWrittenAndReadBack() async throws {
        let content = bytes(3 << 20, 1)
        let file = try await tree.open("big", readWrite, create: true)
        try await whileTimePasses {
            for start in stride(from: 0, to: content.count, by: 100_000) {
                let piece = Array(content[start..<min(content.count, start + 100_000)])
                try await tree.write(file, piece, at: Int64(start))
            }
            #expect(tree.rooms.staging.ledger.used <= 1 << 20)
            #expect(try await tree.read(file, at: 100_000, count: 200_000) == Array(content[100_000..<300_000]))
            try await tree.close(file)
        }
        #expect(tree.store.content("big") == content)
        #expect(tree.store.uploadsInProgress.isEmpty)
    }

    @Test(.rule("space.large")) func bytesAnywhereInALargeObjectAreChangedWithinTheQuota() async throws {
        var content = bytes(3 << 20, 1)
        tree.store.setObject("big", content)
        let file = try await tree.open("big", readWrite)
        try await whileTimePasses {
            for index in 0..<48 {
                let offset = index * 65_536 + 1000
                try await tree.write(file, [UInt8](repeating: 7, count: 30_000), at: Int64(offset))
                content.replaceSubrange(offset..<offset + 30_000, with: [UInt8](repeating: 7, count: 30_000))
                #expect(tree.rooms.staging.ledger.used <= 1 << 20)
            }
            try await tree.close(file)
        }
        #expect(tree.store.content("big") == content)
    }

    @Test(.rule("space.wait")) func nothingIsLostWhenNothingCanBeStored() async throws {
        refuseWrites()
        let first = try await tree.open("first", readWrite, create: true)
        let content = bytes(700_000, 1)
        try await tree.write(first, content, at: 0)
        let second = try await tree.open("second", readWrite, create: true)
        await #expect(throws: MountedTree.Failure(kind: .noSpace, reason: "")) {
            try await whileTimePasses(pace: .milliseconds(200)) {
                try await tree.write(second, bytes(300_000, 2), at: 0)
            }
        }
        #expect(try await tree.read(first, at: 0, count: 700_000) == content)
        tree.store.fault = nil
        try await whileTimePasses {
            try await tree.write(second, bytes(300_000, 2), at: 0)
            try await tree.close(first)
            try await tree.close(second)
        }
        #expect(tree.store.content("first") == content)
        #expect(tree.store.content("second") == bytes(300_000, 2))
    }

    /// Nobody was promised anything, and yet every byte is still somewhere.
    @Test(.rule("crash.unacknowledged"), arguments: ["commit", "discard"])
    func whatACrashLeavesInAnUploadAloneCanBeRecovered(_ choice: String) async throws {
        let content = bytes(5 << 19, 1)
        let file = try await tree.open("big", readWrite, create: true)
        try await whileTimePasses {
            for start in stride(from: 0, to: content.count, by: 100_000) {
                let piece = Array(content[start..<min(content.count, start + 100_000)])
                try await tree.write(file, piece, at: Int64(start))
            }
        }
        // A process that is killed removes nothing.
        let dead = tree.system
        defer { withExtendedLifetime(dead) {} }
        tree.crash()
        try await tree.mountAgain()
        let left = try #require(tree.system.listRecoverableFiles().first)
        #expect(left.map?.size == Int64(content.count) && !left.uploaded.isEmpty)
        #expect(tree.rooms.staging.ledger.used <= 1 << 20)
        let path = NSTemporaryDirectory() + "/pailfs-recovered-\(UInt64.random(in: 0...(.max)))"
        await #expect(throws: FileSystemError.self) {
            try await tree.system.saveRecoverable(left.id, to: path, evenIfDoubtful: false)
        }
        #expect(!FileManager.default.fileExists(atPath: path))
        if choice == "commit" {
            try await tree.system.commitRecoverable(left.id, evenIfDoubtful: false)
            #expect(tree.store.content("big") == content)
        } else {
            try await tree.system.discardRecoverable(left.id)
        }
        #expect(tree.store.uploadsInProgress.isEmpty)
        #expect(tree.rooms.staging.ledger.staged == 0)
        #expect(tree.system.listRecoverableFiles().isEmpty)
    }

    @Test func anInterruptedWaitHasChangedNothing() async throws {
        refuseWrites()
        let first = try await tree.open("first", readWrite, create: true)
        try await tree.write(first, bytes(780_000, 1), at: 0)
        let outcome = tree.system.write(
            first.0, handle: first.1, at: 780_000, bytes: bytes(100_000, 2).span.bytes)
        guard case .pending(let work) = outcome else {
            Issue.record("a write for which there is no room has to wait")
            return
        }
        let task = tree.pool.start(work)
        await tree.time.waitForSleepers()
        task.cancel()
        let result = await task.value
        #expect(throws: FileSystemError.self) { try result.get() }
        if case .failure(let error) = result { #expect(error.kind == .interrupted) }
        #expect(try await tree.find("first").size == 780_000)
    }

    enum Act: String, CaseIterable {
        case truncate, allocate, copyRange, rename, sync, syncDirectory, flush, unmount
    }

    /// Stores the file "a", whose whole object that takes, or changes "a" or "b" in a way that has to be written down.
    private static func outcome(
        of act: Act, _ a: (InodeNumber, HandleID), _ b: (InodeNumber, HandleID), in system: BucketFileSystem
    ) async -> [String] {
        func reason<Value>(_ outcome: Outcome<Value>) async -> [String] {
            if case .failure(let error) = await outcome.value() { [error.reason] } else { [] }
        }
        var change = AttributeChange()
        change.size = 100_000
        return switch act {
        case .truncate: await reason(system.setAttributes(a.0, to: change, handle: nil))
        case .allocate: await reason(system.allocate(a.0, handle: a.1, range: 600_000..<700_000, mode: 0))
        case .copyRange:
            await reason(
                system.copyRange(
                    from: FileRange(ino: a.0, handle: a.1, offset: 0), to: FileRange(ino: b.0, handle: b.1, offset: 0),
                    count: 600_000))
        case .rename: await reason(system.rename("a", in: .root, to: "c", in: .root, noReplace: false))
        case .sync: await reason(system.sync(a.0, handle: a.1, dataOnly: false))
        case .syncDirectory: await reason(system.syncDirectory(.root))
        case .flush: await system.store(below: .root).map(\.reason)
        case .unmount: await system.shutDown().map(\.reason)
        }
    }

    /// What is stored may take more room than its bytes here: the rest of the object.
    @Test(arguments: Act.allCases)
    func whoeverNeedsRoomWaitsForItAsWritesDo(_ act: Act) async throws {
        var capabilities = Capabilities()
        (capabilities.smallestPart, capabilities.partCopy) = (16 << 10, false)
        let tree = try MountedTree(capabilities: capabilities, capacity: 1 << 20, partSize: 64 << 10)
        var content = bytes(600_000, 1)
        tree.store.setObject("a", content)
        let a = try await tree.open("a", readWrite)
        let b = try await tree.open("b", readWrite, create: true)
        let isStored = ![.truncate, .allocate, .copyRange].contains(act)
        if isStored {
            try await tree.write(a, [1, 2, 3], at: 300_000)
            content.replaceSubrange(300_000..<300_003, with: [1, 2, 3])
        }
        let ledger = tree.rooms.staging.ledger
        // Somebody else's bytes, all that there is room for.
        let others = (1 << 20) - ledger.used
        ledger.adopt(others, as: .written)
        let isOver = Atomic(false)
        let waiter = Task { [system = tree.system] in
            let failures = await Self.outcome(of: act, a, b, in: system)
            isOver.store(true, ordering: .releasing)
            return failures
        }
        for _ in 0..<20 {
            tree.time.advance(by: .milliseconds(20))
            try await Task.sleep(for: .milliseconds(1))
        }
        let hasWaited = !isOver.load(ordering: .acquiring)
        #expect(hasWaited)
        ledger.release(others, of: .written)
        #expect(try await whileTimePasses(on: tree.time) { await waiter.value } == [])
        if act != .unmount {
            try await tree.close(a)
            try await tree.close(b)
        }
        switch act {
        case .truncate: content = Array(content[..<100_000])
        case .allocate: content += [UInt8](repeating: 0, count: 100_000)
        case .copyRange, .rename, .sync, .syncDirectory, .flush, .unmount: break
        }
        #expect(tree.store.content(act == .rename ? "c" : "a") == content)
        #expect(tree.store.content("b") == (act == .copyRange ? content : []))
        #expect(tree.store.keys.count == 2)
    }

    /// With `durable=local`: what only the upload has no next process could promise.
    @Test(.rule("space.large")) func theCloseOfAFileLargerThanTheQuotaWaitsForTheStore() async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(
            capabilities: capabilities, capacity: 1 << 20, durability: .local, partSize: 64 << 10)
        let content = bytes(3 << 20, 1)
        let file = try await tree.open("big", readWrite, create: true)
        try await whileTimePasses(on: tree.time) {
            for start in stride(from: 0, to: content.count, by: 100_000) {
                let piece = Array(content[start..<min(content.count, start + 100_000)])
                try await tree.write(file, piece, at: Int64(start))
            }
            try await tree.close(file)
        }
        let isStored = tree.store.content("big") == content
        #expect(isStored)
    }
}
