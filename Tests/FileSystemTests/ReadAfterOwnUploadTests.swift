import Basics
import Blocks
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// durable=local: a program goes on with a file while the upload of what it had closed comes to its end.
@Suite(.timeLimit(.minutes(2))) struct ReadAfterOwnUploadTests {
    @Test func whatWasNotWrittenIsReadFromTheObjectThatTheUploadMade() async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, durability: .local, partSize: 1 << 20)
        var generator = SeededGenerator(seed: 1)
        var content = generator.bytes(12 << 20)
        tree.store.setObject("big", content)
        let completing = tree.store.hold(.completeUpload, beforeReply: true)
        let first = try await tree.open("big", OpenFlags(reads: true, writes: true))
        try await tree.write(first, [1, 2, 3], at: 10)
        try await tree.close(first)
        content.replaceSubrange(10..<13, with: [1, 2, 3])
        try await tree.waitUntil("the upload is completed") { completing.arrivals > 0 }
        let isThere = tree.store.content("big") == content
        #expect(isThere)
        // Should the write miss the upload that it is to interrupt, it waits for its end (finding 13): then nothing is shown.
        let patience = Task.detached {
            try? await Task.sleep(for: .seconds(5))
            completing.open()
        }
        defer { patience.cancel() }
        let second = try await tree.open("big", OpenFlags(reads: true, writes: true))
        try await tree.write(second, [4, 5, 6], at: 20)
        content.replaceSubrange(20..<23, with: [4, 5, 6])
        tree.rooms.blocks.prune(to: 0)
        let read = await Result { () async throws(MountedTree.Failure) in
            try await tree.read(second, at: 10_000_000, count: 1000)
        }
        #expect((try? read.get()) == Array(content[10_000_000..<10_001_000]), "\(read)")
        completing.open()
        try await tree.close(second)
        try await tree.remount()
        let isStored = tree.store.content("big") == content
        #expect(isStored)
    }
}
