import Foundation
import Settings
import Testing

/// What pailfs-coverage(7) names, taken from its source.
private struct CoveragePage {
    struct Command: Hashable {
        /// `["uploads", "list"]`
        var words: [String] = []
        /// `"--parts"`, `"-l"`
        var flags: Set<String> = []
    }

    var commands: [Command] = []
    /// Options in the second column: `ttl`, or with a value `cache-size=64MiB`.
    var options: [String] = []
    /// Options of other programs, in the first column.
    var others: [String] = []
    /// Extended attributes.
    var attributes: Set<String> = []
    /// Names of rules in pailfs-semantics(7).
    var rules: Set<String> = []
    /// First columns.
    var rows: [String] = []

    /// `page` is the source in mdoc(7). A row begins with `.It`, and `Ta` begins its second column.
    init(_ page: String) {
        for line in page.split(separator: "\n") where line.hasPrefix(".") {
            var reader = Line(isSecondColumn: !line.hasPrefix(".It "))
            if !reader.isSecondColumn { rows.append(String(line.dropFirst(4))) }
            for token in line.dropFirst(1).split(separator: " ") { reader.read(String(token), into: &self) }
        }
    }

    /// The macros that the page uses within lines; a word behind one of them belongs to it.
    private static let macros: Set<String> = [
        "It", "Ta", "No", "Nm", "Cm", "Fl", "Li", "Ns", "Pq", "Dq", "Ql", "Xr", "Ev", "Er", "Pa", "Sy",
    ]

    /// One line that is being read.
    private struct Line {
        var isSecondColumn: Bool
        private var macro = ""
        /// Behind `Nm pailfs`: the next `Cm` is a command.
        private var expectsCommand = false
        /// Behind that `Cm`.
        private var isCommand = false
        private var isInParentheses = false
        /// Behind `Ns =`: `Cm` is the value of an option.
        private var isValue = false

        init(isSecondColumn: Bool) { self.isSecondColumn = isSecondColumn }

        mutating func read(_ token: String, into page: inout CoveragePage) {
            if CoveragePage.macros.contains(token) {
                if token == "Ta" { isSecondColumn = true }
                if token == "Pq" { isInParentheses = true }
                if token == "Cm" {
                    if expectsCommand { page.commands.append(Command()) }
                    (isCommand, expectsCommand) = (expectsCommand, false)
                }
                macro = token
                return
            }
            guard token.contains(where: { $0.isLetter || $0.isNumber || $0 == "=" }) else { return }
            switch macro {
            case "Nm": expectsCommand = token == "pailfs"
            case "Cm" where isCommand: page.commands[page.commands.count - 1].words.append(token)
            case "Cm" where isValue:
                page.add("=" + token, isSecondColumn)
                isValue = false
            case "Cm" where isSecondColumn: page.options.append(token)
            case "Cm": page.others.append(token)
            case "Ns" where token == "=": isValue = true
            case "Ns" where token.hasPrefix("="): page.add(token, isSecondColumn)
            case "Fl" where !page.commands.isEmpty:
                page.commands[page.commands.count - 1].flags.insert("-" + token)
            case "Li" where token.hasPrefix("user.pailfs."): page.attributes.insert(token)
            case "Li" where isInParentheses: page.rules.insert(token)
            default: break
            }
        }
    }

    /// Adds `=value` to the option before it.
    private mutating func add(_ value: String, _ isSecondColumn: Bool) {
        if isSecondColumn, !options.isEmpty {
            options[options.count - 1] += value
        } else if !others.isEmpty {
            others[others.count - 1] += value
        }
    }
}

/// pailfs-coverage(7) names commands, options and attributes that are there.
@Suite struct CoverageTests {
    private static func page() throws -> CoveragePage {
        CoveragePage(try Pages.text("man/pailfs-coverage.7"))
    }

    /// The error that an option of a mount gives, written without its value or with it.
    private static func error(_ option: String) -> SettingsError? {
        do throws(SettingsError) { _ = try MountSettings(optionLists: [option], environment: [:]) } catch {
            return error
        }
        return nil
    }

    @Test func itsOptionsAreThoseOfAMount() throws {
        let page = try Self.page()
        #expect(page.options.count > 40)
        let names = Set(OptionTable.options.filter(\.isListed).map(\.name))
        for option in page.options {
            let parts = option.split(separator: "=", maxSplits: 1).map(String.init)
            #expect(names.contains(parts[0]), "\(option)")
            if parts.count == 2 { #expect(Self.error(option) == nil, "\(option)") }
        }
    }

    /// Each is taken for an option of pailfs, or refused with what to write instead.
    @Test func optionsOfOtherProgramsAreKnown() throws {
        let page = try Self.page()
        #expect(page.others.count > 10)
        for option in page.others {
            switch Self.error(option) {
            case nil, .otherProgram, .missingValue: break
            case let error: Issue.record("\(option): \(String(describing: error))")
            }
        }
        #expect(Self.error("no_such_option") != nil)
    }

    @Test func itsRulesAreThere() throws {
        let page = try Self.page()
        let rules = Set(
            try Pages.text("man/pailfs-semantics.7").split(separator: "\n").filter { $0.hasPrefix(".It Li ") }
                .map { String($0.dropFirst(7)) })
        #expect(page.rules.count > 5)
        for rule in page.rules { #expect(rules.contains(rule), "\(rule)") }
    }

    /// A row without `Ta` has no second column.
    @Test func everyRowHasTwoColumns() throws {
        let page = try Self.page()
        #expect(page.rows.count > 100)
        for row in page.rows { #expect(row.contains(" Ta "), "\(row)") }
    }
}

extension RealMounts {
    @Suite struct CoveragePages {
        @Test(.timeLimit(.minutes(5)))
        func itsCommandsHaveTheirFlags() async throws {
            let page = CoveragePage(try Pages.text("man/pailfs-coverage.7"))
            try await withStore { world, _ in
                #expect(page.commands.count > 40)
                #expect(page.commands.reduce(0) { $0 + $1.flags.count } > 20)
                for command in Set(page.commands) {
                    let help = try await world.pailfs(["help"] + command.words).output
                    let words = command.words.joined(separator: " ")
                    #expect(help.contains("USAGE: pailfs \(words) "), "pailfs \(words)")
                    let flags = Set(help.matches(of: /(?:^|[\s\[,])(--?[a-zA-Z][a-z-]*)/).map { String($0.output.1) })
                    for flag in command.flags { #expect(flags.contains(flag), "pailfs \(words) \(flag)") }
                }
            }
        }

        /// Of a stored file, of one that is being written, or of the top; or it can be set.
        @Test(.timeLimit(.minutes(5)))
        func theMountAnswersItsAttributes() async throws {
            let attributes = CoveragePage(try Pages.text("man/pailfs-coverage.7")).attributes
            #expect(attributes.count > 2)
            try await withMount { world, _ in
                let names = (attributes + ["user.pailfs.no-such"]).map { "\"\($0)\"" }.joined(separator: ", ")
                let answered = try await world.python(
                    """
                    import os
                    open("stored", "w").write("x")
                    written = open("written", "w")
                    written.write("y")
                    written.flush()
                    def answers(name):
                        for path in ("stored", "written", "."):
                            try:
                                os.getxattr(path, name)
                                return True
                            except OSError: pass
                        # Those that a program only sets, and headers that the object lacks.
                        value = b"no-cache" if name.endswith("cache-control") else b"1"
                        try:
                            os.setxattr("stored", name, value)
                            return True
                        except OSError: return False
                    for name in (\(names),):
                        if answers(name): print(name)
                    written.close()
                    """)
                #expect(Set(answered.split(separator: "\n").map(String.init)) == attributes)
            }
        }
    }
}
