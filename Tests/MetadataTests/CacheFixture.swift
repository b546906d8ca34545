import Basics
import Metadata
import ObjectStorage
import SQLite
import TestSupport

/// A cache in a file of its own, over a clock turned by hand.
struct CacheFixture {
    let directory: TemporaryDirectory
    let time = ManualTime()
    let ttl: Duration
    let codec: NameCodec
    var database: Database
    var cache: MetadataCache

    init(ttl: Duration = .seconds(60), codec: NameCodec = NameCodec()) throws {
        directory = try TemporaryDirectory()
        (self.ttl, self.codec) = (ttl, codec)
        var options = Database.Options()
        options.shrinks = true
        database = try Database(
            .file(directory.path("meta.db")), options: options, migrations: MetadataCache.migrations)
        cache = try MetadataCache(database: database, time: time, ttl: ttl, codec: codec)
    }

    /// As after the end of the process, or with another codec.
    mutating func reopen(codec: NameCodec? = nil, boot: String? = nil) throws {
        database.close()
        database = try Database(.file(directory.path("meta.db")), migrations: MetadataCache.migrations)
        cache = try MetadataCache(database: database, time: time, ttl: ttl, codec: codec ?? self.codec, boot: boot)
    }

    /// Lists a directory in one page; a name with a slash at its end is a common prefix.
    @discardableResult
    func list(_ names: [ByteString], in directory: InodeNumber = .root, etag: String = "v1") throws -> ListingIngest {
        let ingest = try cache.beginListing(of: directory)
        try ingest.add(page(names, in: directory, etag: etag))
        try ingest.finish()
        return ingest
    }

    func page(
        _ names: [ByteString], in directory: InodeNumber = .root, etag: String = "v1", isLast: Bool = true
    ) throws -> ListingPage {
        let key = try cache.key(of: directory) ?? ""
        let keys = names.map { ObjectKey(key + $0) }
        return ListingPage(
            objects: keys.filter { $0.bytes.last != UInt8(ascii: "/") || $0.bytes == key }
                .map { ListedObject(key: $0, version: version(etag, size: $0.bytes == key ? 0 : 5)) },
            commonPrefixes: keys.filter { $0.bytes.last == UInt8(ascii: "/") && $0.bytes != key },
            next: isLast ? nil : ListingCursor("next"))
    }

    func version(_ etag: String, size: Int64 = 5) -> ObjectVersion {
        ObjectVersion(etag: ETag(etag), size: size, modified: Timestamp(seconds: 1_600_000_000))
    }

    func file(_ etag: String? = nil, size: Int64 = 5) -> Attributes {
        Attributes(
            kind: .file, size: size, mode: 0o640, mtime: Timestamp(seconds: 1_650_000_000, nanoseconds: 7),
            version: etag.map { version($0, size: size) }, headersKnown: true)
    }

    var folder: Attributes { Attributes(kind: .directory, mtime: time.now()) }

    func names(_ directory: InodeNumber = .root) throws -> [ByteString] {
        try cache.children(of: directory, after: nil, limit: 100_000).map(\.name)
    }

    func present(_ name: ByteString, in directory: InodeNumber = .root) throws -> Entry? {
        guard case .present(let entry, _) = try cache.lookup(name, in: directory) else { return nil }
        return entry
    }

    func isFresh(_ name: ByteString, in directory: InodeNumber = .root) throws -> Bool? {
        guard case .present(_, let isFresh) = try cache.lookup(name, in: directory) else { return nil }
        return isFresh
    }

    func isAbsent(_ name: ByteString, in directory: InodeNumber = .root) throws -> Bool {
        guard case .absent = try cache.lookup(name, in: directory) else { return false }
        return true
    }
}
