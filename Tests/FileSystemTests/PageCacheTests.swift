import Basics
import FileSystem
import Metadata
import Synchronization
import TestSupport
import Testing

/// What the kernel has in its page cache is not older than what a write around it has answered for.
@Suite struct PageCacheTests {
    private final class Notifier: KernelNotifier {
        let forgotten = Mutex<[InodeNumber]>([])
        let gate = Gate()

        func invalidate(_ ino: InodeNumber) { forgotten.withLock { $0.append(ino) } }
        func invalidateAttributes(of ino: InodeNumber) {}
        func invalidate(_ name: ByteString, in parent: InodeNumber) {}
        func awaitInvalidation(of ino: InodeNumber) async throws(CancellationError) {
            await gate.pass()
            if Task.isCancelled { throw CancellationError() }
        }
        func awaitInvalidation(of ino: InodeNumber, namesIn parent: InodeNumber) async throws(CancellationError) {
            try await awaitInvalidation(of: ino)
        }
    }

    private let tree: MountedTree
    private let notifier = Notifier()
    private let direct = OpenFlags(reads: true, writes: true, direct: true)

    init() throws {
        tree = try MountedTree()
        tree.system.attach(notifier)
    }

    private var forgotten: Int { notifier.forgotten.withLock { $0.count } }

    @Test(.rule("open.direct")) func aDirectWriteWaitsUntilTheKernelHasForgottenWhatOthersRead() async throws {
        try await tree.store("f", Array("before".utf8))
        let reader = try await tree.open("f", OpenFlags(reads: true, writes: false))
        let writer = try await tree.open("f", direct)
        #expect(try await tree.read(reader, at: 0, count: 9) == Array("before".utf8))
        let isOver = Atomic(false)
        let write = Task { [system = tree.system] in
            let bytes = Array("after".utf8)
            let written = await system.write(writer.0, handle: writer.1, at: 0, bytes: bytes.span.bytes).value()
            isOver.store(true, ordering: .releasing)
            return written
        }
        await notifier.gate.waitForArrivals()
        let hasWaited = !isOver.load(ordering: .acquiring)
        #expect(hasWaited && forgotten == 1)
        notifier.gate.open()
        #expect(try await write.value.get() == 5)
        // Nobody has read since.
        try await tree.write(writer, [1], at: 0)
        #expect(forgotten == 1)
        _ = try await tree.read(reader, at: 0, count: 9)
        try await tree.write(writer, [2], at: 0)
        #expect(forgotten == 2)
        for file in [reader, writer] { try await tree.close(file) }
    }

    /// The kernel may have to wait for a read that the store does not answer.
    @Test func aDirectWriteWhoseCallerDiesWaitsForNothingMore() async throws {
        try await tree.store("f", Array("before".utf8))
        let reader = try await tree.open("f", OpenFlags(reads: true, writes: false))
        let writer = try await tree.open("f", direct)
        _ = try await tree.read(reader, at: 0, count: 9)
        let write = Task { [system = tree.system] in
            let bytes = Array("after".utf8)
            return await system.write(writer.0, handle: writer.1, at: 0, bytes: bytes.span.bytes).value()
        }
        await notifier.gate.waitForArrivals()
        write.cancel()
        #expect(try await write.value.get() == 5)
        notifier.gate.open()
        // Whether the kernel has heard of the first nobody knows.
        try await tree.write(writer, [1], at: 0)
        #expect(forgotten == 2)
        for file in [reader, writer] { try await tree.close(file) }
    }

    @Test func whatGoesThroughThePageCacheIsNotForgotten() async throws {
        try await tree.store("f", Array("before".utf8))
        let file = try await tree.open("f", OpenFlags(reads: true, writes: true))
        _ = try await tree.read(file, at: 0, count: 9)
        try await tree.write(file, [1], at: 0)
        #expect(forgotten == 0)
        try await tree.close(file)
    }
}
