import ArgumentParser
import Basics
import FuseBridge
import ObjectStorage
import Settings

/// The words that a shell offers as completions, one a line; the shell picks those with the typed prefix. For
/// scripts/pailfs.bash; hidden from the help.
struct CompleteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "complete", shouldDisplay: false)

    enum Kind: String, ExpressibleByArgument, CaseIterable {
        case commands, flags, options, values, mountpoints, schemes
    }

    @Argument var kind: Kind
    @Argument(parsing: .captureForPassthrough) var words: [String] = []

    mutating func run() throws {
        for word in found { Output.line(ByteString(word)) }
    }

    private var found: [String] {
        switch kind {
        case .commands:
            let shown = command.configuration.subcommands.filter { $0.configuration.shouldDisplay }
            return shown.map { $0._commandName } + (words.isEmpty ? ["help", "version"] : [])
        case .flags:
            let help = PailfsCommand.helpMessage(for: command, columns: 200)
            let starts = help.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("  -") }
            return starts.flatMap { line in
                line.split(separator: " ").prefix(3).filter { $0.hasPrefix("--") }.map { word in
                    word.last == "," ? String(word.dropLast()) : String(word)
                }
            }
        case .options:
            return OptionTable.options.filter(\.isListed).map { $0.placeholder == nil ? $0.name : $0.name + "=" }
        case .values:
            let option = OptionTable.options.first { $0.name == words.first }
            guard let placeholder = option?.placeholder, placeholder.contains("|") else {
                return option?.defaultValue.map { [$0] } ?? []
            }
            return placeholder.split(separator: "|").map(String.init)
        case .mountpoints:
            return MountTable.current().entries.filter { $0.type == "fuse.pailfs" }.map(\.mountpoint.description)
        case .schemes: return BucketURL.Scheme.allCases.map { $0.rawValue + "://" }
        }
    }

    /// The command that the words lead to; the words after it are left out.
    private var command: any ParsableCommand.Type {
        var command: any ParsableCommand.Type = PailfsCommand.self
        for word in words {
            let next = command.configuration.subcommands.first {
                $0._commandName == word || $0.configuration.aliases.contains(word)
            }
            guard let next else { break }
            command = next
        }
        return command
    }
}
