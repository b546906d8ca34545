import ArgumentParser
import Glibc
import Settings

struct PailfsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pailfs", abstract: "Mounts a bucket of an object store as a directory.",
        version: "pailfs \(Entry.version)",
        subcommands: [
            MountCommand.self, UnmountCommand.self, StatusCommand.self, FlushCommand.self, ExplainCommand.self,
            RefreshCommand.self, RecoverCommand.self, HiddenCommand.self, ConfigCommand.self, ServeCommand.self,
        ],
        groupedSubcommands: [
            CommandGroup(
                name: "Objects",
                subcommands: [
                    ListCommand.self, StatCommand.self, CopyCommand.self, RemoveCommand.self, AccessCommand.self,
                    TagCommand.self, ClassCommand.self, RestoreCommand.self, PresignCommand.self,
                    PreflightCommand.self, UploadsCommand.self, DoctorCommand.self,
                ])
        ])

    mutating func run() throws { throw ValidationError("name a subcommand, as mount or unmount") }
}

/// What is mounted where, and how: the same for the command and for the process it starts.
struct MountArguments: ParsableArguments {
    @Argument(help: "s3://bucket, s3://bucket/prefix, or s3:// for all buckets; also oss, cos, kodo, cssp, swift.")
    var url: String
    @Argument(help: "An existing directory.") var mountpoint: String
    @Option(
        name: [.customShort("o", allowingJoined: true)],
        help: ArgumentHelp(
            "Options, separated by commas; each may also be given as --name value.", valueName: "name=value,..."))
    var options: [String] = []
}

struct MountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount", abstract: "Mounts a bucket and returns when the mount answers.",
        discussion: """
            The credentials are PAILFS_ACCESS_KEY_ID and PAILFS_SECRET_ACCESS_KEY in the environment, or the provider's own.

            OPTIONS, for -o, as --name value, or in the environment as PAILFS_NAME:
            \(OptionTable.helpText)
            """)

    @OptionGroup var arguments: MountArguments
    @Flag(name: [.short, .long], help: "Serve the mount in this process and log to standard error.")
    var foreground = false

    mutating func run() throws {
        let request = try MountRequest(arguments, environment: Entry.environment)
        if foreground { Glibc.exit(MountProcess(request, report: .terminal).run()) }
        try Launcher.launch(request)
    }
}

/// The process that serves a mount; started by `mount`, with the status pipe as descriptor 3.
struct ServeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "serve", shouldDisplay: false)

    @OptionGroup var arguments: MountArguments

    mutating func run() throws {
        let report = StatusReport.pipe
        report.keepFromChildren()
        do {
            let request = try MountRequest(arguments, environment: Entry.environment)
            Glibc.exit(MountProcess(request, report: report).run())
        } catch {
            report.failed(error.description)
            Glibc.exit(EXIT_FAILURE)
        }
    }
}

struct UnmountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmount", abstract: "Unmounts and waits until everything is in the bucket.",
        aliases: ["umount"])

    @Argument(help: "Where the bucket is mounted.") var mountpoint: String

    mutating func run() throws { try Unmounting.run(mountpoint) }
}
