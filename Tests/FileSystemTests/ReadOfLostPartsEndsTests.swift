import Basics
import FileSystem
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// Bytes that only an upload had went with it: whoever asks for them is told, and does not wait for ever.
@Suite(.timeLimit(.minutes(2))) struct ReadOfLostPartsEndsTests {
    private static func error<Value>(of outcome: Outcome<Value>) async -> FileSystemError? {
        if case .failure(let error) = await outcome.value() { error } else { nil }
    }

    @Test(.rule("deadline"), arguments: ["read", "write"])
    func aCallOnARemovedFileComesToItsEnd(call: String) async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, capacity: 1 << 20, partSize: 64 << 10)
        var generator = SeededGenerator(seed: 1)
        let content = generator.bytes(5 << 19)
        let clock = tree.advancingTime()
        let file = try await tree.open("big", OpenFlags(reads: true, writes: true), create: true)
        for start in stride(from: 0, to: content.count, by: 100_000) {
            let piece = Array(content[start..<min(content.count, start + 100_000)])
            try await tree.write(file, piece, at: Int64(start))
        }
        #expect(!tree.store.uploadsInProgress.isEmpty)
        // Somebody else has made an object there, so the file cannot become one before its name goes.
        tree.store.setObject("big", Array("theirs".utf8))
        try await tree.unlink("big")
        let (system, rooms) = (tree.system, tree.rooms)
        let isOver = Mutex(false)
        let task = tree.pool.start { () async -> FileSystemError? in
            defer { isOver.withLock { $0 = true } }
            if call == "read" {
                guard let buffer = rooms.buffers.tryBorrow(1000) else { return nil }
                return await Self.error(
                    of: system.read(file.0, handle: file.1, at: 0, count: 1000, into: buffer))
            }
            let bytes: [UInt8] = [1, 2, 3]
            return await Self.error(of: system.write(file.0, handle: file.1, at: 0, bytes: bytes.span.bytes))
        }
        for _ in 0..<300 where !isOver.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(10)) }
        let ended = isOver.withLock { $0 }
        task.cancel()
        let error = await task.value
        clock.cancel()
        #expect(ended, "it went on for three seconds and until it was cancelled")
        #expect(error != nil && error?.kind != .interrupted)
        try await tree.close(file)
    }
}
