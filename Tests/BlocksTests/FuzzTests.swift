import Basics
import Blocks
import Foundation
import ObjectStorage
import SQLite
import TestSupport
import Testing

/// A cache whose index or files a disk has damaged is made anew or asks the store again: nothing traps, nothing hangs, and
/// no byte is served that the store does not have.
@Suite struct FuzzTests {
    /// What a cache leaves when it is closed, and what may be read through it.
    private struct Remains {
        let directory: TemporaryDirectory
        let store = MemoryStore()
        let contents: [(key: ObjectKey, version: ObjectVersion, bytes: [UInt8])]
        /// The files below `blocks`, by name.
        let files: [String: [UInt8]]
        let index: [UInt8]
        private let pool = WorkerPool(threads: 2, name: "blocks-fuzz")

        init() async throws {
            directory = try TemporaryDirectory()
            let bytes = [("a", content(10_000)), ("b", content(1_500_000, seed: 2)), ("dir/c", content(1, seed: 3))]
            contents = bytes.map { [store] in
                (ObjectKey(ByteString($0.0)), store.setObject(ObjectKey(ByteString($0.0)), $0.1), $0.1)
            }
            let fixture = try Fixture(store)
            for (key, version, bytes) in contents {
                _ = try await fixture.read(fixture.cache.open(key, version), 0..<Int64(bytes.count))
            }
            await fixture.settle()
            fixture.cache.close()
            fixture.database.close()
            var files: [String: [UInt8]] = [:]
            for name in fixture.files.keys {
                files[name] = Array(try Data(contentsOf: URL(filePath: "\(fixture.blocks)/\(name)")))
            }
            self.files = files
            index = Array(try Data(contentsOf: URL(filePath: fixture.directory.path("blocks.db"))))
            try Directory.create(directory.path("blocks"))
        }

        /// Opens a cache of this index and these files as a mount does, reads everything, and compares.
        func readAll(index: [UInt8], changed: (name: String, bytes: [UInt8])? = nil) async throws {
            let path = directory.path("blocks.db")
            for suffix in ["-wal", "-shm"] { try File.remove(path + suffix) }
            try Data(index).write(to: URL(filePath: path))
            for name in try Directory.names(in: directory.path("blocks")) {
                try File.remove(directory.path("blocks/\(name)"))
            }
            for (name, bytes) in files {
                let now = name == changed?.name ? changed?.bytes ?? bytes : bytes
                try Data(now).write(to: URL(filePath: directory.path("blocks/\(name)")))
            }
            let database = try Database(.file(path), migrations: BlockCache.migrations)
            defer { database.close() }
            let buffers = BufferPool(budget: MemoryBudget(limit: 64 << 20))
            let cache = try BlockCache(
                directory: directory.path("blocks"), database: database,
                ledger: SpaceLedger(limit: 1 << 30, floor: 0) { .max / 2 }, buffers: buffers, store: store, pool: pool,
                time: SystemTime(), logger: LogCounter().logger
            ) { _, _ in }
            defer { cache.close() }
            for (key, version, bytes) in contents {
                let object = cache.open(key, version)
                let buffer = try await BufferPool(budget: MemoryBudget(limit: 1 << 30)).borrow(bytes.count)
                try await object.read(0..<Int64(bytes.count), into: buffer, at: 0)
                #expect(Array(buffer.bytes[..<bytes.count]) == bytes, "\(key)")
            }
        }
    }

    @Test(.timeLimit(.minutes(5))) func indexesOfBlocks() async throws {
        let remains = try await Remains()
        await Fuzzer("indexes of blocks", seeds: [remains.index], pageSize: 4096).run(60) { index in
            try await remains.readAll(index: index)
        }
    }

    @Test(.timeLimit(.minutes(5))) func filesOfBlocks() async throws {
        let remains = try await Remains()
        let names = remains.files.keys.sorted()
        #expect(names.count == 3)
        for name in names {
            await Fuzzer("files of blocks", seeds: [remains.files[name] ?? []], pageSize: 4096).run(20) { bytes in
                try await remains.readAll(index: remains.index, changed: (name, bytes))
            }
        }
    }
}
