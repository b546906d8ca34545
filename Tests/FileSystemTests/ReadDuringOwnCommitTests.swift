import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// SEMANTICS section 3: programs read what they wrote, also between the moment in which an upload became the object and the
/// end of the commit, with a cache too small to have the bytes.
@Suite(.timeLimit(.minutes(2))) struct ReadDuringOwnCommitTests {
    /// What was at the store before.
    enum Start: String, CaseIterable, CustomTestStringConvertible {
        case nothing, olderVersion, copyOfAnother
        var testDescription: String { rawValue }
    }

    private static let piece = 100_000
    private let readWrite = OpenFlags(reads: true, writes: true)

    /// A large file that is not stored, most of it in its upload alone, with other headers than the upload was begun with.
    private func write(
        _ content: [UInt8], over start: Start, in tree: MountedTree
    ) async throws -> (InodeNumber, HandleID) {
        var generator = SeededGenerator(seed: 2)
        let older = generator.bytes(content.count)
        var from = 0
        let file: (InodeNumber, HandleID)
        switch start {
        case .nothing: file = try await tree.open("big", readWrite, create: true)
        case .olderVersion:
            tree.store.setObject("big", older)
            file = try await tree.open("big", readWrite)
        case .copyOfAnother:
            from = 5 << 16
            tree.store.setObject("other", Array(content[..<from]))
            let other = try await tree.open("other", OpenFlags(reads: true, writes: false))
            file = try await tree.open("big", readWrite, create: true)
            let copied = try await tree.run(
                tree.system.copyRange(
                    from: FileRange(ino: other.0, handle: other.1, offset: 0),
                    to: FileRange(ino: file.0, handle: file.1, offset: 0), count: Int64(from)))
            try #require(copied == from)
            try await tree.close(other)
        }
        while from < content.count {
            let end = min(content.count, from + Self.piece)
            try await tree.write(file, Array(content[from..<end]), at: Int64(from))
            from = end
        }
        var change = AttributeChange()
        change.mode = 0o600
        _ = try await tree.run(tree.system.setAttributes(file.0, to: change, handle: file.1))
        return file
    }

    private func tree() throws -> MountedTree {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        return try MountedTree(capabilities: capabilities, capacity: 1 << 20, partSize: 64 << 10)
    }

    private func expect(_ content: [UInt8], in file: (InodeNumber, HandleID), of tree: MountedTree) async throws {
        for start in stride(from: 0, to: content.count, by: Self.piece) {
            let end = min(content.count, start + Self.piece)
            let read = await Result { () async throws(MountedTree.Failure) in
                try await tree.read(file, at: Int64(start), count: end - start)
            }
            #expect((try? read.get()) == Array(content[start..<end]), "at \(start): \(read.map(\.count))")
        }
    }

    @Test(arguments: Start.allCases)
    func whatTheUploadHadIsReadFromItsObject(start: Start) async throws {
        let tree = try tree()
        let clock = tree.advancingTime()
        defer { clock.cancel() }
        var generator = SeededGenerator(seed: 1)
        let content = generator.bytes(5 << 19)
        let file = try await write(content, over: start, in: tree)
        let updating = tree.store.hold(.updateMetadata)
        let (system, pool) = (tree.system, tree.pool)
        let sync = pool.start { () async -> FileSystemError? in
            let outcome = system.sync(file.0, handle: file.1, dataOnly: false)
            return if case .failure(let error) = await outcome.value() { error } else { nil }
        }
        await updating.waitForArrivals()
        try await expect(content, in: file, of: tree)
        updating.open()
        #expect(await sync.value == nil)
        try await expect(content, in: file, of: tree)
        try await tree.close(file)
        #expect(tree.store.content("big") == content)
    }

    @Test(arguments: Start.allCases)
    func theSameAfterACommitThatFailed(start: Start) async throws {
        let tree = try tree()
        let clock = tree.advancingTime()
        defer { clock.cancel() }
        var generator = SeededGenerator(seed: 1)
        var content = generator.bytes(5 << 19)
        let file = try await write(content, over: start, in: tree)
        tree.store.fault = { operation, key in
            operation == .updateMetadata
                ? ObjectStoreError(.accessDenied, operation, key: key, message: "no copies for you") : nil
        }
        await #expect(throws: MountedTree.Failure.self) {
            try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
        }
        try await expect(content, in: file, of: tree)
        try await tree.write(file, [1, 2, 3], at: 1000)
        content.replaceSubrange(1000..<1003, with: [1, 2, 3])
        try await expect(content, in: file, of: tree)
        tree.store.fault = nil
        try await tree.close(file)
        #expect(tree.store.content("big") == content)
    }
}
