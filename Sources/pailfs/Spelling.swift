import ArgumentParser
import Settings

/// Converts the spellings of mount(8) and fstab(5) to those of the command.
enum Spelling {
    /// The arguments for the parser, without the program's name; nil when there is nothing to do.
    static func normalized(_ arguments: [String]) throws(SettingsError) -> [String]? {
        var rest = Array(arguments.dropFirst())
        if let first = rest.first, ["-V", "version"].contains(first) { return ["--version"] }
        // -h is an option of ls, for sizes; alone it means help, as elsewhere.
        if rest == ["ls", "-h"] { return ["ls", "--help"] }
        let name = arguments.first.map { $0.split(separator: "/").last.map(String.init) ?? "" } ?? ""
        if name.hasPrefix("mount.") {
            guard let helper = withoutMountFlags(rest) else { return nil }
            rest = ["mount"] + helper
        } else if let first = rest.first, first.contains("://") {
            rest = ["mount"] + rest
        }
        guard let command = rest.first, ["mount", "serve"].contains(command) else { return rest }
        return [command] + (try MountSettings.replacingLongOptions(in: Array(rest.dropFirst())))
    }

    /// The arguments that mount(8) passes to a helper: `spec dir [-sfnv] [-N namespace] [-o options] [-t type]`; nil when -f asks
    /// for no mount.
    private static func withoutMountFlags(_ arguments: [String]) -> [String]? {
        var result: [String] = []
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if ["-N", "-t"].contains(argument) {
                rest = rest.dropFirst()
            } else if argument.hasPrefix("-"), !argument.hasPrefix("-o"),
                argument.dropFirst().allSatisfy("sfnv".contains)
            {
                if argument.contains("f") { return nil }
            } else {
                result.append(argument)
                if argument == "-o", let list = rest.popFirst() { result.append(list) }
            }
        }
        return result
    }

    /// Refuses a word in the place of a command that is no command.
    static func requireCommand(_ arguments: [String]) throws(UsageError) {
        var rest = arguments[...]
        if rest.first == "help" { rest = rest.dropFirst() }
        var (command, path): (any ParsableCommand.Type, String) = (PailfsCommand.self, "pailfs")
        while let word = rest.popFirst(), !word.hasPrefix("-") {
            let commands = command.configuration.subcommands
            guard !commands.isEmpty, word != "help" else { return }
            guard let next = commands.first(where: { names(of: $0).contains(word) }) else {
                let shown = commands.filter { $0.configuration.shouldDisplay }.flatMap(names)
                let remedy =
                    NearestName.to(word, among: shown).map { "did you mean \($0)?" }
                    ?? "\"\(path == "pailfs" ? "pailfs help" : "\(path) --help")\" lists the commands"
                let place = path == "pailfs" ? "" : " of \(path)"
                throw UsageError(message: "there is no command \(word)\(place); \(remedy)")
            }
            (command, path) = (next, "\(path) \(next._commandName)")
        }
    }

    private static func names(of command: any ParsableCommand.Type) -> [String] {
        [command._commandName] + command.configuration.aliases
    }
}

/// Why a command line cannot be parsed: one sentence.
struct UsageError: Error {
    let message: String
}
