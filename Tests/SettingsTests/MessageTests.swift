import Foundation
import Testing

/// Every text that a user can see: errors, lines of the log and of `doctor`, `status` and `recover`.
///
/// A message names what failed, where, why, and what to do: "THING FAILED: CAUSE; REMEDY". It is no full sentence: it
/// begins in lower case and ends without a full stop. `PAILFS_PRINT_MESSAGES=1` prints all of them, with file and line.
struct MessageTests {
    /// In files with a protocol's own texts.
    private static let protocolTexts = [
        "0 0 4294967295", "Request has expired", "Metadata value longer than", "AWS4-HMAC-SHA256 Credential=",
        "Invalid signing", "must be addressed using the specified endpoint", "no such file or directory",
        "out of date", "time too skewed", "reset by peer", "text/plain; version", "405 Method Not Allowed",
        "# HELP pailfs_", "<Grant><Grantee", "Content-Disposition: form-data",
    ]
    private static let statements: Set<Substring> = [
        "SELECT", "INSERT", "CREATE", "UPDATE", "DELETE", "PRAGMA", "DROP", "WITH", "ALTER", "BEGIN",
    ]
    /// Descriptions of commands and options, which OptionTextTests looks at.
    private static let helpFiles: Set<String> = ["OptionTable.swift", "OptionText.swift"]
    private static let traps: Set<String> = [
        "precondition", "preconditionFailure", "fatalError", "assert", "assertionFailure",
    ]

    private static func isMessage(_ text: SourceText) -> Bool {
        let name = text.file.split(separator: "/").last.map(String.init) ?? ""
        let label = text.before.trimmingCharacters(in: .whitespacesAndNewlines)
        let isHelp =
            ["abstract:", "discussion:", "help:", "usage:"].contains { label.hasPrefix($0) }
            || text.calls.contains("ArgumentHelp") || helpFiles.contains(name)
        let words = text.constant.split(separator: " ")
        return words.count >= 3 && !isHelp && !statements.contains(words[0])
            && !protocolTexts.contains { text.constant.contains($0) } && !text.constant.contains("Host: ")
            && text.constant.contains(/[a-z]{2}/)
    }

    private static let texts: [SourceText] = {
        let root = Repository.root
        let sources = root.appendingPathComponent("Sources")
        let files = FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil)
        let paths = (files?.compactMap { ($0 as? URL)?.path } ?? []).filter { $0.hasSuffix(".swift") }.sorted()
        return paths.flatMap { path -> [SourceText] in
            let name = String(path.dropFirst(root.path.count + 1))
            guard !name.hasPrefix("Sources/Emulator/") else { return [] }
            let source = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
            return SourceTextScanner.texts(in: source, file: name).filter(isMessage)
        }
    }()

    /// Without those of broken invariants, which only a developer can use.
    private static let messages = texts.filter { traps.isDisjoint(with: $0.calls) }

    private func expectNone(_ pattern: String, in texts: [SourceText] = Self.texts, _ rule: Comment) throws {
        let expression = try NSRegularExpression(pattern: pattern)
        for text in texts {
            let whole = NSRange(text.constant.startIndex..., in: text.constant)
            guard expression.firstMatch(in: text.constant, range: whole) != nil else { continue }
            Issue.record("\(rule): \(text.shown) (\(text.file):\(text.line))")
        }
    }

    @Test func areFoundAndPrinted() {
        #expect(Self.texts.count > 700)
        guard ProcessInfo.processInfo.environment["PAILFS_PRINT_MESSAGES"] != nil else { return }
        for text in Self.texts { print("\(text.file):\(text.line): \(text.shown)") }
    }

    @Test func nameTheActor() throws {
        try expectNone(
            #"\b(whoever|whatever|whom|some(body|one)|nobody|any(body|one)|every(body|one))\b"#, "names no actor")
        try expectNone(#"(^|[;:,] )(what|who|that which) "#, "begins a clause without a subject")
    }

    @Test func useTheVerbsOfTheField() throws {
        try expectNone(
            #"\b(tells?|told|hears?|heard|settled?|stands? still|speaks?|spoken|gives? way|(took|taken?|takes|gone?|goes|carried) (up|on|back)|takes? (no|only)|asks? (for|again)|asked)\b"#,
            "has a verb of no field")
        try expectNone(#"\b(give (it|the|another|a|one|either|region|endpoint)\b|give --)"#, "write, set or use")
    }

    @Test func useNoRiddles() throws {
        try expectNone(#"(?<!there )\b(is|are) no (?!longer)|\b(is|are) none\b"#, "is not a")
        try expectNone(
            #"\b(be)?side (it|the|them)\b|\banew\b|\bat last\b|\bfor good\b|\ball the same\b|\bcannot be had\b|\bwritten down\b|\bcomes? to (its|the) end\b|\bis there (already|than)\b|\bthere already\b|\bstarts so\b|\bas it is\b"#,
            "is a riddle")
        try expectNone(#"\bexists already\b"#, "already exists")
    }

    /// The manual explains none of these. `journal row`, `delete marker` and `worker` it does.
    @Test func nameNothingInternal() throws {
        try expectNone(
            #"\b((?<!make )(?<!more )rooms?|tombstones?|epochs?|chunks?|gates?|promised?|shelf|shelves|(?<!in )flights?|(?<!delete )markers?|word of|overlays?|tickets?|(?<!journal )rows?|kept files?)\b"#,
            in: Self.messages, "names what a user cannot know")
    }

    @Test func areShort() {
        for text in Self.messages { #expect(text.constant.count <= 200, "\(text.file):\(text.line): \(text.shown)") }
    }

    /// Descriptions of metrics are sentences; messages are not.
    @Test func beginAndEndAlike() throws {
        let names = #"(Amazon|Kodo|Swift|OSS|Content-[A-Z][a-z]+)\b"#
        let messages = Self.texts.filter { !$0.constant.hasSuffix(".") }
        try expectNone(
            "^(?!\(names))[A-Z][a-z]+[ ,:;]", in: messages, "begins with a capital but does not end with a full stop")
        try expectNone(#"!$"#, in: messages, "shouts")
        try expectNone(#"[a-z)]\. [A-Z]"#, in: messages, "has two sentences")
        let sentences = Self.texts.filter { $0.constant.hasSuffix(".") }
        try expectNone("^[a-z]", in: sentences, "ends with a full stop but does not begin with a capital")
    }

    @Test func remediesFollowASemicolon() throws {
        try expectNone(
            #": (set|write|use|run|check|correct|mount|unmount|leave out|make room|add|name|raise)\b(?! failed)"#,
            "writes ': ' before a remedy")
    }

    @Test func commandsThatTheyNameAreInTheManual() throws {
        let page = try Repository.text("man/pailfs.1")
        var found = 0
        for text in Self.messages {
            for match in text.shown.matches(of: /"pailfs ([a-z]+)/) where match.output.1 != "help" {
                found += 1
                #expect(page.contains("\n.It Cm \(match.output.1)"), "\(text.file):\(text.line): \(text.shown)")
            }
        }
        #expect(found > 20)
    }
}

struct SourceTextScannerTests {
    private func shown(_ source: String) -> [String] { SourceTextScanner.texts(in: source).map(\.shown) }

    @Test func commentsAreSkipped() {
        #expect(shown("/// \"a\"\nlet a = \"b\" // \"c\"\n/* \"d\" */") == ["b"])
    }

    @Test func sumsAreOneText() {
        let texts = SourceTextScanner.texts(in: "say(\n  \"one \"\n    + \"two\", \"three\")")
        #expect(texts.map(\.shown) == ["one two", "three"] && texts.map(\.line) == [2, 3])
        #expect(texts.allSatisfy { $0.calls.contains("say") })
    }

    @Test func interpolationsAreHolesAndTheirLiteralsTexts() {
        let texts = SourceTextScanner.texts(in: #"fail("a \(b ? "c" : f("d")) e \"x\"")"#)
        #expect(Set(texts.map(\.shown)) == ["c", "d", #"a \(b ? "c" : f("d")) e "x""#])
        #expect(texts.contains { $0.constant == "a \(SourceText.hole) e \"x\"" })
    }

    @Test func rawAndLongLiteralsAreRead() {
        #expect(shown("a(#\"b \"c\" \\(d)\"#)") == ["b \"c\" \\(d)"])
        #expect(shown("a(\"\"\"\n  b \\\n  c\n  d\n  \"\"\")") == ["b c d"])
    }

    @Test func labelsAreKnown() {
        let texts = SourceTextScanner.texts(in: #"@Flag(name: .long, help: "one") var a = fatalError("two")"#)
        #expect(texts[0].before.contains("help:") && texts[1].calls.contains("fatalError"))
    }
}
