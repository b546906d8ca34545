import ArgumentParser
import Basics
import Settings

/// Changes an option without a new mount.
struct SetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Changes options of a mount while it is mounted.",
        discussion: """
            These can change: \(OptionTable.liveNames.joined(separator: ", ")). The new values last until the mount ends; \
            "pailfs status" shows them.
            """)

    @Argument(help: "A path in a mount.") var path: String
    @Argument(help: ArgumentHelp("Options, as for mount.", valueName: "name=value")) var options: [String]

    mutating func run() throws {
        _ = try MountPlace(path).ask(.set(options: options), within: .seconds(60))
    }
}
