import Basics
import Foundation
import Metadata
import SQLite
import TestSupport
import Testing

/// Keys are any bytes, and so are names: each has a meaning or none, and nothing traps.
@Suite struct FuzzTests {
    @Test(arguments: [NameCodec.Style.escaped, .raw])
    func namesAndKeys(style: NameCodec.Style) {
        let codec = NameCodec(style: style)
        let seeds = [
            "a", "a%%2Fb", "%%2E%%2E", "name.rclonelink", "dir/", String(repeating: "x", count: 300), "%%", "a%%7E1",
        ]
        let words = ["%%", "%%2F", ".rclonelink", "/", ".", "..", "%%00", String(repeating: "y", count: 250)]
        Fuzzer("names and keys, \(style)", seeds: seeds, words: words).run { bytes in
            let text = ByteString(bytes)
            _ = codec.meaning(of: text)
            for kind in [EntryKind.file, .directory, .symlink] { _ = codec.componentToCreate(text, kind) }
            let slash = bytes.firstIndex(of: UInt8(ascii: "/"))
            let component = slash.map { ByteString(bytes[...$0]) } ?? text
            guard !component.isEmpty, let shown = codec.shownName(of: component) else { return }
            // What is shown is a file name, and leads back to its key.
            #expect(shown.count <= NameCodec.longestName && !shown.isEmpty && shown != "." && shown != "..")
            #expect(!shown.bytes.contains(0) && !shown.bytes.contains(UInt8(ascii: "/")), "\(component)")
            #expect(codec.meaning(of: shown) != nil, "\(component) is shown as \(shown)")
        }
    }

    /// What is known of names and attributes, damaged: refused, to be made anew, or walked to an end.
    @Test(.timeLimit(.minutes(5))) func damagedCaches() throws {
        let fixture = try CacheFixture()
        let path = fixture.directory.path("meta.db")
        try fixture.list((0..<300).map { ByteString("file \($0)") } + (0..<20).map { ByteString("dir \($0)/") })
        for number in 0..<20 {
            guard case .present(let entry, _) = try fixture.cache.lookup(ByteString("dir \(number)"), in: .root) else {
                continue
            }
            try fixture.list((0..<10).map { ByteString("inner \($0)") } + ["deep/"], in: entry.ino)
        }
        fixture.database.close()
        let whole = Array(try Data(contentsOf: URL(filePath: path)))
        Fuzzer("caches of names", seeds: [whole], pageSize: 4096).run(60) { bytes in
            for suffix in ["-wal", "-shm"] { try File.remove(path + suffix) }
            try Data(bytes).write(to: URL(filePath: path))
            let database = try Database(.file(path), migrations: MetadataCache.migrations)
            defer { database.close() }
            let cache = try MetadataCache(
                database: database, time: fixture.time, ttl: fixture.ttl, codec: fixture.codec)
            var directories = [InodeNumber.root]
            var seen: Set<InodeNumber> = [.root]
            while let directory = directories.popLast(), seen.count < 10_000 {
                _ = try? cache.key(of: directory)
                var last: ByteString?
                while let page = try? cache.children(of: directory, after: last, limit: 100), let end = page.last {
                    // Names come in their order, or a listing would never end.
                    if let last, !(last < end.component) {
                        Issue.record("\(end.component) comes after \(last)")
                        break
                    }
                    for child in page {
                        _ = try? cache.lookup(child.name, in: directory)
                        if child.attributes.kind == .directory, seen.insert(child.ino).inserted {
                            directories.append(child.ino)
                        }
                    }
                    last = end.component
                }
            }
            for number in 0..<20 { _ = try? cache.lookup(ByteString("file \(number)"), in: .root) }
            try? cache.invalidate(.root, subtree: true)
        }
    }
}
