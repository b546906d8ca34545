import Basics
import Metadata
import ObjectStorage
import TestSupport
import Testing

@testable import FileSystem

/// Headers that another program wrote mean something or nothing, and nothing traps.
@Suite struct FuzzTests {
    @Test func headersOfAttributes() {
        let seeds = [
            "33188", "0100644", "16877", "1000", "1700000000.123456789", "-1.5", "..%2Ftarget%20of%20a%20link",
            "%7B%22user.a%22%3A%22AAEC%22%2C%22user.b%22%3A%22%22%7D",
        ]
        Fuzzer("headers of attributes", seeds: seeds, words: ["%22", "%7B", "+", "."]).run { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            let names = ["mode", "uid", "gid", "mtime", "xattr", "--symlink-target"]
            var metadata = ObjectMetadata(user: Dictionary(uniqueKeysWithValues: names.map { ($0, text) }))
            _ = (AttributeCodec.isLink(metadata), AttributeCodec.linkTarget(metadata), AttributeCodec.cost(metadata))

            // What was read and is written is read the same again.
            var read = Attributes(kind: .file, mtime: Timestamp(seconds: 0))
            AttributeCodec.decode(metadata, into: &read)
            let extended = ExtendedAttributeCodec.decode(metadata)
            metadata = AttributeCodec.encode(read, over: ObjectMetadata())
            ExtendedAttributeCodec.encode(extended, into: &metadata)
            var again = Attributes(kind: .file, mtime: Timestamp(seconds: 0))
            AttributeCodec.decode(metadata, into: &again)
            #expect(again.mtime == read.mtime && again.mode == read.mode && again.uid == read.uid, "\(text)")
            #expect(ExtendedAttributeCodec.decode(metadata) == extended, "\(text)")
        }
    }
}
