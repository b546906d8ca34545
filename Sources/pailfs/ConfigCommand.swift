import ArgumentParser
import ObjectStorage
import Settings

/// Shows the options that are set for a mount, and where.
struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Shows the options that are set and where, or describes them.",
        subcommands: [Show.self, Describe.self])

    struct Describe: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Describes the options of a mount, as pailfs-mount(8) does.")

        @Argument(help: "Names of options; without one, all are described.") var names: [String] = []

        mutating func run() throws {
            do { print(try OptionTable.descriptions(of: names)) } catch { throw CommandError(error.description) }
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows each option that is not at its default, with its origin.")

        @Argument(help: "The URL of a mount. Default: options for every mount.")
        var url: String?
        @OptionGroup var location: StoreOptions
        @Flag(help: "Include options at their defaults.") var all = false

        mutating func run() throws {
            let bucket: BucketURL?
            do { bucket = try url.map(BucketURL.init(parsing:)) } catch { throw CommandError(error.description) }
            let sources = try OptionSources(
                for: bucket, optionLists: location.options, environment: Entry.environment)
            _ = try MountSettings(sources.options)
            let given = try sources.effective()
            var lines = given.map { ($0.name, "\($0.name)=\(Self.shown($0))", "\($0.origin)") }
            if all {
                let names = Set(given.map(\.name))
                let others = OptionTable.options.filter { option in option.isListed && !names.contains(option.name) }
                lines += others.map { option in
                    (option.name, option.defaultValue.map { "\(option.name)=\($0)" } ?? option.name, "default")
                }
            }
            for (_, text, origin) in lines {
                print(Output.padded(text, to: 40, gap: 1) + origin)
            }
        }

        /// A header's value may be a secret.
        private static func shown(_ option: OptionSources.Effective) -> String {
            guard option.name == "header", let colon = option.value.firstIndex(of: ":") else { return option.value }
            return option.value[...colon] + " •••"
        }
    }
}
