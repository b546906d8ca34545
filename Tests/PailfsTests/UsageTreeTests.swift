import Basics
import ObjectStorage
import Testing

@testable import pailfs

struct UsageTreeTests {
    private static func object(_ key: String, _ size: Int64) -> ListedObject {
        ListedObject(
            key: ObjectKey(ByteString(key)),
            version: ObjectVersion(etag: ETag("e"), size: size, modified: Timestamp(seconds: 0)))
    }

    private static func lines(_ top: ByteString, _ keys: [(String, Int64)]) -> [String] {
        var tree = UsageTree(top: top)
        var all = keys.flatMap { tree.add(object($0.0, $0.1)) }
        all += tree.finish()
        return all.map { "\($0.bytes) \($0.objects) \($0.depth) \($0.key)" }
    }

    @Test func aDirectoryCountsWhatIsBelowItAndComesBeforeTheOneItIsIn() {
        let keys: [(String, Int64)] = [("a-b", 1), ("a/", 0), ("a/x", 2), ("a/y/z/1", 4), ("a/y/z/2", 8), ("b/c", 16)]
        #expect(
            Self.lines("", keys) == ["12 2 3 a/y/z/", "12 2 2 a/y/", "14 4 1 a/", "16 1 1 b/", "31 6 0 "])
    }

    @Test func depthsCountFromTheTop() {
        #expect(Self.lines("a/", [("a/x", 2), ("a/y/z", 4)]) == ["4 1 1 a/y/", "6 2 0 a/"])
        #expect(Self.lines("", []) == ["0 0 0 "])
    }
}
