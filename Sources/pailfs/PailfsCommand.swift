import ArgumentParser
import FuseBridge
import Glibc
import Settings

struct PailfsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pailfs", abstract: "Mounts a bucket of an object store as a directory.",
        version: "pailfs \(Entry.version)",
        subcommands: [
            MountCommand.self, UnmountCommand.self, RestartCommand.self, StatusCommand.self, FlushCommand.self,
            ExplainCommand.self, RefreshCommand.self, RecoverCommand.self, HiddenCommand.self, ConfigCommand.self,
            CacheCommand.self, WarmCommand.self, SetCommand.self, KeepCommand.self,
            HoldCommand.self, WorkCommand.self, ServeCommand.self, CompleteCommand.self,
        ],
        groupedSubcommands: [
            CommandGroup(
                name: "Objects",
                subcommands: [
                    ListCommand.self, StatCommand.self, UsageCommand.self, SumCommand.self, CopyCommand.self,
                    RemoveCommand.self, VersionsCommand.self, RestoreVersionCommand.self, UndeleteCommand.self,
                    AccessCommand.self,
                    TagCommand.self, ClassCommand.self, RestoreCommand.self, PresignCommand.self,
                    PreflightCommand.self, UploadsCommand.self, DoctorCommand.self,
                ])
        ])

    mutating func run() throws {
        throw ValidationError("name a command, such as mount or unmount; \"pailfs help\" lists them")
    }
}

/// URL, mountpoint and options of a mount, for the processes that `mount` starts.
struct MountArguments: ParsableArguments {
    @Argument(help: "s3://bucket, s3://bucket/prefix, or s3:// for all buckets; also oss, cos, kodo, cssp, swift.")
    var url: String
    @Argument(help: "An existing directory.") var mountpoint: String
    @Option(
        name: [.customShort("o", allowingJoined: true)],
        help: ArgumentHelp(
            "Options, separated by commas; each may also be given as --name value.", valueName: "name=value,..."))
    var options: [String] = []

    /// The connection of a mount that was handed in, which has this number in a process that `mount` started.
    func handed(as descriptor: Int32) -> HandedConnection? {
        HandedConnection.isName(mountpoint) ? HandedConnection(descriptor) : nil
    }
}

struct MountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount", abstract: "Mounts a bucket and returns when the mount answers.",
        discussion: """
            Credentials: PAILFS_ACCESS_KEY_ID, PAILFS_SECRET_ACCESS_KEY; pailfs-stores(7).
            Options, also as --name value or PAILFS_NAME; see "pailfs config describe":
            \(OptionTable.helpText)
            """)

    @Argument(help: "s3://bucket/prefix; also oss, cos, kodo, cssp, swift.")
    var url: String?
    @Argument(
        help: "A directory, or /dev/fd/N of another process's mount.")
    var mountpoint: String?
    @Option(
        name: [.customShort("o", allowingJoined: true)],
        help: ArgumentHelp(
            "Options, separated by commas.", valueName: "name=value,..."))
    var options: [String] = []
    @Flag(name: [.short, .long], help: "Serve in this process, and log to standard error.")
    var foreground = false
    @Option(help: ArgumentHelp("Wait there for the mount of another process.", valueName: "path"))
    var fuseSocket: String?
    @Option(
        help: ArgumentHelp("How long to wait at the socket. Default: 2m.", valueName: "time", visibility: .hidden))
    var fuseSocketWait: String?
    @Option(help: ArgumentHelp("Serve the mounts that Fluid describes in this file.", valueName: "file"))
    var fluid: String?

    func validate() throws {
        if fluid != nil {
            guard url == nil, fuseSocket == nil else {
                throw ValidationError("--fluid names the mounts; leave out URL, mountpoint and --fuse-socket")
            }
            return
        }
        if fuseSocket == nil {
            if url == nil { throw ValidationError("the argument <url> is missing") }
            if mountpoint == nil { throw ValidationError("the argument <mountpoint> is missing") }
        }
        if mountpoint != nil, fuseSocket != nil {
            throw ValidationError("a mountpoint and --fuse-socket exclude each other; leave one out")
        }
        if fuseSocketWait != nil, fuseSocket == nil {
            throw ValidationError("--fuse-socket-wait is for --fuse-socket, which is missing")
        }
    }

    mutating func run() throws {
        if let fluid {
            var mounts = try FluidMounts(fluid, options: options)
            Glibc.exit(mounts.run())
        }
        if let mountpoint, Remounting.isAsked(options) { return try Remounting.run(mountpoint, options) }
        let handed: HandedMount
        if let fuseSocket {
            handed = try FuseSocket(fuseSocket, within: fuseSocketWait).receive(url: url, options: options)
        } else {
            handed = try HandedMount(url: url ?? "", mountpoint: mountpoint ?? "", options: options)
        }
        // A new mount does not use the store that an earlier one has found.
        let environment = Entry.environment.filter { !MountRequest.keptVariables.contains($0.key) }
        var request = try MountRequest(
            url: handed.url, mountpoint: handed.mountpoint, options: handed.options, environment: environment
        ).keepingFound()
        request.handed = handed.connection
        MountRecord.makeRoom(below: request.settings.cacheDirectory)
        for name in MountRequest.keptVariables {
            if let text = request.environment[name] { setenv(name, text, 1) } else { unsetenv(name) }
        }
        try MemoryLimit.requireEnough()
        let keeper = try MountKeeper(for: request, foreground: foreground)
        if foreground, request.settings.restarts {
            Glibc.exit(Holder.run(request.words, foreground: true, handed: request.handed, keeper: keeper))
        }
        if foreground { Glibc.exit(MountProcess(request, report: .terminal).run()) }
        try Launcher.launch(request)
    }
}

/// The process that serves a mount without a holder; started by `mount`, with the status pipe as descriptor 3.
struct ServeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "serve", shouldDisplay: false)

    @OptionGroup var arguments: MountArguments

    mutating func run() throws {
        let report = StatusReport.pipe
        report.keepFromChildren()
        do {
            var request = try MountRequest(arguments, environment: Entry.environment)
            request.handed = arguments.handed(as: HandedConnection.Inherited.process)
            Glibc.exit(MountProcess(request, report: report).run())
        } catch {
            report.failed(error.description)
            Glibc.exit(EXIT_FAILURE)
        }
    }
}

/// The process that holds a mount and has a worker serve it; started like `serve`.
struct HoldCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "hold", shouldDisplay: false)

    @OptionGroup var arguments: MountArguments

    mutating func run() throws {
        let handed = arguments.handed(as: HandedConnection.Inherited.process)
        do throws(CommandError) {
            let request = try MountRequest(arguments, environment: Entry.environment)
            let keeper = try MountKeeper(for: request, foreground: false)
            Glibc.exit(Holder.run(request.words, foreground: false, handed: handed, keeper: keeper))
        } catch {
            StatusReport.pipe.failed(error.message)
            Glibc.exit(EXIT_FAILURE)
        }
    }
}

/// The process that serves a mount for the holder that started it.
struct WorkCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "work", shouldDisplay: false)

    @OptionGroup var arguments: MountArguments
    @Option(help: .hidden) var directory: String
    @Flag(help: .hidden) var foreground = false
    /// The mount is gone: the worker only stores the remaining files.
    @Flag(help: .hidden) var storing = false
    /// How the worker before this one died.
    @Option(help: .hidden) var predecessor: String?
    /// The first worker of a holder that has taken the mount back from a keeper.
    @Flag(help: .hidden) var takenBack = false

    mutating func run() throws {
        let report: StatusReport = foreground ? .terminal : .pipe
        if !foreground { report.keepFromChildren() }
        do {
            let held = try HeldConnection()
            let environment = held.isTakenOver ? MountRequest.takingOver(Entry.environment) : Entry.environment
            var request = try MountRequest(arguments, directory: directory, environment: environment)
            if held.isTakenOver {
                request = try request.changed(by: LiveSettings.kept(in: DirectoryPair.found(for: request).state))
            }
            request.handed = arguments.handed(as: HandedConnection.Inherited.worker)
            let process = MountProcess(
                request, report: report, held: held, predecessor: predecessor, onlyStores: storing,
                isTakenBack: takenBack)
            Glibc.exit(process.run())
        } catch {
            report.failed("\(error)")
            Glibc.exit(EXIT_FAILURE)
        }
    }
}

struct RestartCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restart",
        abstract: "Replaces the worker process of a mount by this version of pailfs; open files stay open.")

    @Argument(help: "Where the bucket is mounted.") var mountpoint: String

    mutating func run() throws { try Restarting.run(mountpoint) }
}

struct UnmountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmount", abstract: "Unmounts and waits until everything is in the bucket.",
        aliases: ["umount"])

    @Argument(help: "Where the bucket is mounted.") var mountpoint: String
    @Flag(help: "Also unmount what is in use. Programs can then only use files that they have open, for two seconds.")
    var lazy = false

    mutating func run() throws { try Unmounting.run(mountpoint, lazily: lazy) }
}
