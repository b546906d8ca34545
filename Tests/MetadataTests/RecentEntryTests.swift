import Basics
import Metadata
import ObjectStorage
import SQLite
import Synchronization
import TestSupport
import Testing

/// Asking for an entry again and again gives what the database says, however it changes meanwhile.
@Suite(.timeLimit(.minutes(5))) struct RecentEntryTests {
    private func attributes(_ size: Int64) -> Attributes {
        Attributes(kind: .file, size: size, mtime: Timestamp(seconds: size), version: nil)
    }

    private func cache(_ time: ManualTime = ManualTime()) throws -> MetadataCache {
        let database = try Database(.memory, migrations: MetadataCache.migrations)
        return try MetadataCache(database: database, time: time, ttl: .seconds(60))
    }

    @Test func everyChangeIsSeenByTheNextQuestion() throws {
        let cache = try cache()
        let place = Attributes(kind: .directory, size: 0, mtime: .epoch, version: nil)
        let directory = try cache.create("d/", in: .root, place, pending: false).ino
        let ino = try cache.create("f", in: .root, attributes(0), pending: false).ino
        for size in 1...20 {
            try cache.update(ino, attributes(Int64(size)), pending: false)
            for _ in 0..<3 { #expect(try cache.entry(ino)?.attributes.size == Int64(size)) }
        }
        _ = try cache.rename(ino, to: directory, "g", pending: false)
        for _ in 0..<2 {
            #expect(try cache.entry(ino)?.parent == directory)
            #expect(try cache.entry(ino)?.name == "g")
        }
        try cache.remove(ino)
        for _ in 0..<2 { #expect(try cache.entry(ino) == nil) }
    }

    @Test func whatIsMadeChangesItsDirectoryAndTheNamesBesideIt() throws {
        let time = ManualTime()
        let cache = try cache(time)
        let place = Attributes(kind: .directory, size: 0, mtime: .epoch, version: nil)
        let directory = try cache.create("d/", in: .root, place, pending: false).ino
        let other = try cache.create("d", in: directory, attributes(1), pending: false).ino
        for _ in 0..<2 { #expect(try cache.entry(directory)?.attributes.mtime == .epoch) }
        for _ in 0..<2 { #expect(try cache.entry(other)?.name == "d") }
        time.advance(by: .seconds(3))
        let made = Attributes(kind: .file, size: 1, mtime: time.now(), version: nil)
        try cache.create("f", in: directory, made, pending: true, dating: true)
        #expect(try cache.entry(directory)?.attributes.mtime == time.now())
        try cache.create("d/", in: directory, place, pending: false)
        #expect(try cache.entry(other)?.name == "d%%file")
    }

    @Test func aLinkIsNamedAnewByTheObjectBesideIt() throws {
        let database = try Database(.memory, migrations: MetadataCache.migrations)
        let codec = NameCodec(linkSuffix: NameCodec.rcloneLinkSuffix)
        let cache = try MetadataCache(database: database, time: ManualTime(), ttl: .seconds(60), codec: codec)
        let link = Attributes(kind: .symlink, size: 1, mtime: .epoch, version: nil)
        let ino = try cache.create("a.rclonelink", in: .root, link, pending: false).ino
        for _ in 0..<2 { #expect(try cache.entry(ino)?.name == "a") }
        try cache.create("a", in: .root, attributes(1), pending: false)
        #expect(try cache.entry(ino)?.name != "a")
    }

    @Test func aMissingNameIsThereOnceItIsMade() throws {
        let time = ManualTime()
        let cache = try cache(time)
        let place = Attributes(kind: .directory, size: 0, mtime: .epoch, version: nil)
        let directory = try cache.create("d/", in: .root, place, pending: false).ino
        for name in ["a", "b"] as [ByteString] {
            for _ in 0..<2 {
                guard case .absent = try cache.lookup(name, in: directory) else {
                    Issue.record("\(name) is there")
                    continue
                }
            }
            try cache.create(name, in: directory, attributes(1), pending: true)
            guard case .present = try cache.lookup(name, in: directory) else {
                Issue.record("\(name) is missing")
                continue
            }
        }
        _ = try cache.lookup("c", in: directory)
        cache.ttl = .zero
        #expect(try cache.lookup("c", in: directory) == .unknown)
        cache.ttl = .seconds(60)
        _ = try cache.lookup("c", in: directory)
        time.advance(by: .seconds(61))
        #expect(try cache.lookup("c", in: directory) == .unknown)
    }

    @Test func theKeyOfAFileIsThatOfNow() throws {
        let cache = try cache()
        let place = Attributes(kind: .directory, size: 0, mtime: .epoch, version: nil)
        let directory = try cache.create("d/", in: .root, place, pending: false).ino
        let inner = try cache.create("e/", in: directory, place, pending: false).ino
        let file = try cache.create("f", in: inner, attributes(1), pending: false).ino
        for _ in 0..<2 {
            _ = try cache.entry(file)
            #expect(try cache.key(of: file) == "d/e/f")
        }
        _ = try cache.rename(directory, to: .root, "x/")
        for _ in 0..<2 {
            #expect(try cache.key(of: file) == "x/e/f")
            _ = try cache.entry(file)
        }
    }

    @Test func howLongItCountsIsOfNow() throws {
        let time = ManualTime()
        let cache = try cache(time)
        let ino = try cache.create("f", in: .root, attributes(0), pending: false).ino
        let first = try #require(try cache.entry(ino)).freshUntil
        cache.ttl = .seconds(10)
        #expect(try #require(try cache.entry(ino)).freshUntil < first)
    }

    @Test func nobodySeesLessThanWasCommitted() async throws {
        let directory = try TemporaryDirectory()
        let database = try Database(.file(directory.path("meta.db")), migrations: MetadataCache.migrations)
        let cache = try MetadataCache(database: database, time: SystemTime(), ttl: .seconds(60))
        let ino = try cache.create("f", in: .root, attributes(0), pending: false).ino
        let committed = Atomic<Int64>(0), isOver = Atomic(false)
        let pool = WorkerPool(threads: 4, name: "metadata-test")
        let readers = (0..<3).map { _ in
            pool.start { () -> Int in
                var stale = 0
                while !isOver.load(ordering: .acquiring) {
                    let least = committed.load(ordering: .acquiring)
                    let size = (try? cache.entry(ino))??.attributes.size ?? -1
                    if size < least { stale += 1 }
                }
                return stale
            }
        }
        for size in 1...2000 {
            try cache.update(ino, attributes(Int64(size)), pending: false)
            committed.store(Int64(size), ordering: .releasing)
        }
        isOver.store(true, ordering: .releasing)
        for reader in readers { #expect(await reader.value == 0) }
    }
}
