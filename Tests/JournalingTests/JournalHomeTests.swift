import Basics
import Foundation
import Journaling
import TestSupport
import Testing

/// Journals in directories that were copied.
@Suite struct JournalHomeTests {
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        for name in ["original", "another"] { try Directory.create(directory.path(name)) }
    }

    private func path(_ name: String) -> String { directory.path("\(name)/journal.db") }

    private func isCopy(_ name: String) throws -> Bool {
        let journal = try Journal(path: path(name))
        defer { journal.close() }
        return journal.isCopy
    }

    private func copy() throws {
        for file in ["journal.db", "journal.db-made"] {
            try FileManager.default.copyItem(
                atPath: directory.path("original/\(file)"), toPath: directory.path("another/\(file)"))
        }
    }

    @Test(.rule("crash.copy")) func aCopyIsOneUntilItIsClaimed() throws {
        #expect(try !isCopy("original"))
        try copy()
        #expect(try !isCopy("original"))
        #expect(try isCopy("another"))
        #expect(try isCopy("another"), "a mount that fails leaves it to the next one")
        let journal = try Journal(path: path("another"))
        try journal.claim()
        journal.close()
        #expect(try !isCopy("another"))
        #expect(try !isCopy("original"))
    }

    @Test(.rule("crash.copy")) func aRenamedDirectoryIsNoCopy() throws {
        #expect(try !isCopy("original"))
        try File.rename(directory.path("original"), to: directory.path("renamed"))
        #expect(try !isCopy("renamed"))
    }

    /// As an earlier pailfs has left it.
    @Test func aJournalThatSaysNothingIsNoCopy() throws {
        #expect(try !isCopy("original"))
        try File(path("original") + "-made", .readWrite).truncate(to: 0)
        try copy()
        #expect(try !isCopy("another"))
        #expect(try !isCopy("original"))
        let text = try String(contentsOfFile: path("original") + "-made", encoding: .utf8)
        #expect(text.split(separator: " ").count == 2, "it says so now")
    }

    @Test(.rule("crash.copy")) func anotherMachineIsNoticed() throws {
        #expect(try !isCopy("original"))
        let made = path("original") + "-made"
        let words = try String(contentsOfFile: made, encoding: .utf8).split(separator: " ")
        try #require(words.count == 2)
        try (String(repeating: "0", count: 64) + " \(words[1])").write(toFile: made, atomically: true, encoding: .utf8)
        #expect(try isCopy("original") == (words[0] != "-"), "a machine without an identity tells nothing")
        try "- \(words[1])".write(toFile: made, atomically: true, encoding: .utf8)
        #expect(try !isCopy("original"))
    }
}
