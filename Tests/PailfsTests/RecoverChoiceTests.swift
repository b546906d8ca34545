import Basics
import Foundation
import Testing

@testable import pailfs

/// Which files `pailfs recover` takes a name for: what it discards is gone.
@Suite struct RecoverChoiceTests {
    private func number(of name: String, _ keys: [Int: String]) throws -> Int64 {
        let files: [[String: Any]] = keys.map { number, key in
            [
                "number": number, "key": key, "changed": "2026-11-23T19:48:30Z", "isCertain": true, "hereBytes": 1,
                "storeBytes": 0, "uploadBytes": 0, "pieces": [Any](),
            ]
        }
        let data = try JSONSerialization.data(withJSONObject: files)
        let lines = try JSONDecoder().decode([RecoverableLine].self, from: data)
        return try RecoverCommand.Choice.file(name, of: lines).number
    }

    @Test func aKeyOrANumberIsOneFile() throws {
        #expect(try number(of: "a", [1: "a", 2: "b"]) == 1)
        #expect(try number(of: "2", [1: "a", 2: "b"]) == 2)
        #expect(try number(of: "@2", [1: "2", 2: "7"]) == 2)
        #expect(try number(of: "@1", [1: "2", 2: "7"]) == 1)
        #expect(try number(of: "2", [1: "a", 2: "2"]) == 2)
        #expect(try number(of: "@a", [1: "@a", 2: "b"]) == 1)
    }

    @Test(arguments: ["2", "same", "none", "@3", "@", "02"])
    func whatMeansNoneOrSeveralIsRefused(name: String) {
        #expect(throws: CommandError.self) { try number(of: name, [1: "2", 2: "7", 4: "same", 5: "same"]) }
    }

    @Test func keysAreComparedByTheirBytes() throws {
        let keys = [1: "caf\u{E9}", 2: "cafe\u{301}"]
        #expect(try number(of: "caf\u{E9}", keys) == 1)
        #expect(try number(of: "cafe\u{301}", keys) == 2)
        #expect(throws: CommandError.self) { try number(of: "\u{FFFD}", [1: "\u{FFFD}"]) }
        #expect(try number(of: "@1", [1: "\u{FFFD}"]) == 1)
    }

    /// A key may be the directory of another one.
    @Test func aFileBelowASavedFileIsSavedBesideIt() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        let files: [[String: Any]] = [(1, "a"), (2, "a/b"), (3, "a/b/c")].map { number, key in
            [
                "number": number, "key": key, "changed": "2026-11-23T19:48:30Z", "isCertain": true, "hereBytes": 1,
                "storeBytes": 0, "uploadBytes": 0, "pieces": [Any](),
            ]
        }
        let data = try JSONSerialization.data(withJSONObject: files)
        var targets: [String] = []
        for line in try JSONDecoder().decode([RecoverableLine].self, from: data) {
            let target = try line.target(below: folder.path)
            #expect(FileManager.default.createFile(atPath: target, contents: nil), "\(target)")
            targets.append(String(target.dropFirst(folder.path.count)))
        }
        #expect(targets == ["/a", "/a.2/b", "/a.3/b/c"])
    }

    @Test func aKeyMakesNoLineOfItsOwn() throws {
        let file: [String: Any] = [
            "number": 1, "key": "a\n2  forged", "changed": "2026-11-23T19:48:30Z", "isCertain": true, "hereBytes": 1,
            "storeBytes": 0, "uploadBytes": 0, "pieces": [Any](),
        ]
        let line = try JSONDecoder().decode(RecoverableLine.self, from: JSONSerialization.data(withJSONObject: file))
        #expect(line.lines.map { Output.text(ByteString($0)) }.first?.hasPrefix("1  a%0A2  forged") == true)
        #expect(line.lines.count == 2)
    }
}
