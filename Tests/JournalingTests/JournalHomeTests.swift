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
        #expect(text.split(separator: " ").count == 3, "it says so now")
    }

    /// By /etc/machine-id, or by the firmware's name where copies of a virtual machine share that.
    @Test(.rule("crash.copy"), arguments: [0, 2]) func anotherMachineIsNoticed(word: Int) throws {
        #expect(try !isCopy("original"))
        let made = path("original") + "-made"
        let words = try String(contentsOfFile: made, encoding: .utf8).split(whereSeparator: \.isWhitespace)
        try #require(words.count == 3)
        func write(_ other: String) throws {
            var words = words.map(String.init)
            words[word] = other
            try words.joined(separator: " ").write(toFile: made, atomically: true, encoding: .utf8)
        }
        try write(String(repeating: "0", count: 64))
        #expect(try isCopy("original") == (words[word] != "-"), "a machine without an identity tells nothing")
        try write("-")
        #expect(try !isCopy("original"))
    }

    /// As an earlier pailfs wrote it, before it knew the firmware's name.
    @Test func aPlaceOfTwoWordsIsKnown() throws {
        #expect(try !isCopy("original"))
        let made = path("original") + "-made"
        let words = try String(contentsOfFile: made, encoding: .utf8).split(whereSeparator: \.isWhitespace)
        try "\(words[0]) 1".write(toFile: made, atomically: true, encoding: .utf8)
        #expect(try isCopy("original") == (words[1] != "-"))
        try "\(words[0]) \(words[1])".write(toFile: made, atomically: true, encoding: .utf8)
        #expect(try !isCopy("original"))
    }
}
