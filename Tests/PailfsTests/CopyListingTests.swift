import Basics
import Foundation
import Metadata
import ObjectStorage
import TestSupport
import Testing

@testable import pailfs

@Suite struct CopyListingTests {
    @Test func patternsMatchComponentByComponent() async throws {
        let store = MemoryStore()
        for key: ObjectKey in ["l/a.gz", "l/b.gz", "l/c.txt", "l/d/e.gz", "l/f/e.gz", "m/e.gz", "l/.x.gz"] {
            store.setObject(key, [1])
        }
        #expect(try await store.keys(matching: "l/*.gz") == ["l/a.gz", "l/b.gz"])
        #expect(try await store.keys(matching: "*/e.gz") == ["m/e.gz"])
        #expect(try await store.keys(matching: "l/*/e.gz") == ["l/d/e.gz", "l/f/e.gz"])
        #expect(try await store.keys(matching: "l/[df]*") == ["l/d/", "l/f/"])
        #expect(try await store.keys(matching: "l/*/") == ["l/d/", "l/f/"])
        #expect(try await store.keys(matching: "none*").isEmpty)
    }

    @Test func progressShowsBytesRateAndTimeLeft() {
        let tally = CopyTally { 3 << 20 }
        tally.expect(10 << 20)
        let style = StatusStyle(columns: 100, isUTF8: false)
        #expect(tally.progress(after: .seconds(3), style) == "0 files, 3MiB, 1MiB/s; counting")
        tally.counted()
        tally.skip(2 << 20)
        #expect(
            tally.progress(after: .seconds(3), style)
                == "[##########----------]  50%  5MiB of 10MiB, 1MiB/s, 5s left")
    }

    /// In a URL the same object is a file.
    @Test func aLinkOfTheMountIsRefused() async throws {
        let store = MemoryStore()
        for key: ObjectKey in ["p/a", "p/b.rclonelink", "p/d/c.rclonelink", "p/.rclonelink"] {
            store.setObject(key, [1])
        }
        func names(_ codec: NameCodec?) async throws -> (items: [ByteString], refused: [ByteString]) {
            var walk = ListedWalk(store, prefix: "p/", beginning: "", followsLinks: true, linkNames: codec)
            var (items, refused): ([ByteString], [ByteString]) = ([], [])
            while let entry = try await walk.next() {
                switch entry {
                case .item(let item): items.append(item.name)
                case .refused(let name, _), .failed(let name, _): refused.append(name)
                }
            }
            return (items, refused)
        }
        let inMount = try await names(NameCodec())
        #expect(inMount.items == [".rclonelink", "a"] && inMount.refused == ["p/b.rclonelink", "p/d/c.rclonelink"])
        #expect(try await names(nil).items.count == 4)
    }

    @Test func aPrefixHasKeysBelowIt() async throws {
        let store = MemoryStore()
        store.setObject("dir[1]/a", [1])
        #expect(try await store.hasKeys(below: "dir[1]"))
        #expect(try await store.hasKeys(below: "dir[1]/"))
        #expect(try await !store.hasKeys(below: "dir"))
        #expect(try await store.hasKeys(below: ""))
    }
}
