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
}
