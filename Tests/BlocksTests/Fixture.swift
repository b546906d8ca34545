import Basics
import Blocks
import Foundation
import Logging
import ObjectStorage
import SQLite
import Synchronization
import TestSupport

/// A block cache over a store in memory, in a directory of its own; `reopen` is a restart.
final class Fixture: Sendable {
    let directory: TemporaryDirectory
    let store: any ObjectStore
    let time: any TimeSource
    let pool = WorkerPool(threads: 4, name: "blocks-test")
    let limit: Int64
    let options: BlockOptions
    let buffers: BufferPool
    /// Where readers want their bytes.
    private let replies = BufferPool(budget: MemoryBudget(limit: 1 << 40))
    /// What `onInfo` heard.
    let infos = InfoLog()
    let log = LogCounter()
    private let open: Mutex<(cache: BlockCache, ledger: SpaceLedger, database: Database)>

    init(
        _ store: any ObjectStore, limit: Int64 = 1 << 30, memory: Int = 256 << 20, time: any TimeSource = SystemTime(),
        options: BlockOptions = BlockOptions()
    ) throws {
        directory = try TemporaryDirectory()
        (self.store, self.limit, self.options, self.time) = (store, limit, options, time)
        buffers = BufferPool(budget: MemoryBudget(limit: memory))
        open = Mutex(try Self.start(directory, store, limit, buffers, pool, time, options, infos, log))
    }

    var blocks: String { directory.path("blocks") }
    var cache: BlockCache { open.withLock { $0 }.cache }
    var ledger: SpaceLedger { open.withLock { $0 }.ledger }
    var database: Database { open.withLock { $0 }.database }

    private static func start(
        _ directory: TemporaryDirectory, _ store: any ObjectStore, _ limit: Int64, _ buffers: BufferPool,
        _ pool: WorkerPool, _ time: any TimeSource, _ options: BlockOptions, _ infos: InfoLog, _ log: LogCounter,
        lent: [Int64] = []
    ) throws -> (cache: BlockCache, ledger: SpaceLedger, database: Database) {
        let database = try Database(.file(directory.path("blocks.db")), migrations: BlockCache.migrations)
        let ledger = SpaceLedger(limit: limit, floor: 0) { .max / 2 }
        let cache = try BlockCache(
            directory: directory.path("blocks"), database: database, ledger: ledger, buffers: buffers, store: store,
            pool: pool, time: time, options: options, logger: log.logger, lent: lent
        ) { _, info in infos.add(info) }
        return (cache, ledger, database)
    }

    /// Ends the cache and opens it again. A crash loses the rows that were not written yet.
    func reopen(crashing: Bool = false, lent: [Int64] = []) throws {
        if crashing { database.close() }
        cache.close()
        database.close()
        let reopened = try Self.start(
            directory, store, limit, buffers, pool, time, options, infos, log, lent: lent)
        open.withLock { $0 = reopened }
    }

    /// Every file of the cache with its space on disk.
    var files: [String: Int64] {
        var files: [String: Int64] = [:]
        for name in (try? Directory.names(in: blocks)) ?? [] {
            files[name.description] = (try? File("\(blocks)/\(name)"))?.allocatedOrZero ?? 0
        }
        return files
    }

    var diskUse: Int64 { files.values.reduce(0, +) }

    /// Returns once every fetch has landed: all buffers are back but those that found no room on disk.
    func settle() async {
        while buffers.budget.used != cache.statistics().shelvedBytes {
            buffers.freeIdle()
            await Task.yield()
        }
    }

    func read(_ object: CachedObject, _ range: ByteRange) async throws -> [UInt8] {
        let buffer = try await replies.borrow(Int(range.length))
        try await object.read(range, into: buffer, at: 0)
        return Array(buffer.bytes[..<Int(range.length)])
    }

    func read(_ reader: ObjectReader, _ range: ByteRange) async throws -> [UInt8] {
        let buffer = try await replies.borrow(Int(range.length))
        let slice = UnsafeMutableRawBufferPointer(rebasing: buffer.bytes[..<Int(range.length)])
        if !reader.readCached(range, into: slice) { try await reader.read(range, into: buffer, at: 0) }
        return Array(slice)
    }

    func readCached(_ object: CachedObject, _ range: ByteRange) -> [UInt8]? {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(range.length), alignment: 16)
        defer { bytes.deallocate() }
        return object.readCached(range, into: bytes) ? Array(bytes) : nil
    }
}

extension File {
    fileprivate var allocatedOrZero: Int64 { (try? allocated) ?? 0 }
}

/// Keeps what `onInfo` hears.
final class InfoLog: Sendable {
    private let infos = Mutex<[ObjectInfo]>([])
    var all: [ObjectInfo] { infos.withLock { $0 } }
    func add(_ info: ObjectInfo) { infos.withLock { $0.append(info) } }
}

/// Counts from several tasks.
final class Counter: Sendable {
    private let count = Mutex(0)
    var value: Int { count.withLock { $0 } }

    @discardableResult
    func increment() -> Int {
        count.withLock { count in
            count += 1
            return count
        }
    }
}

/// Counts warnings.
final class LogCounter: LogHandler, Sendable {
    private let count = Mutex(0)

    var warnings: Int { count.withLock { $0 } }

    var logger: Logger { Logger(label: "test") { _ in self } }

    func log(event: LogEvent) {
        if event.level >= .warning { count.withLock { $0 += 1 } }
    }

    subscript(metadataKey _: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
}

/// Bytes that repeat nowhere, quickly made: random ones, with the number of each KiB written into it.
func content(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var generator = SeededGenerator(seed: seed)
    let pattern = generator.bytes(64 << 10)
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + pattern.count)
    while bytes.count < count { bytes += pattern }
    bytes.removeLast(bytes.count - count)
    for (number, offset) in stride(from: 0, to: count - 4, by: 1024).enumerated() {
        withUnsafeBytes(of: UInt32(number)) { stamp in
            for index in 0..<4 { bytes[offset + index] = stamp[index] }
        }
    }
    return bytes
}

extension [UInt8] {
    subscript(bytes range: ByteRange) -> [UInt8] { Array(self[Int(range.lowerBound)..<Int(range.upperBound)]) }
}
