import Basics
import Metadata
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
}
