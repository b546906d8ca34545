import Basics
import FuseBridge
import Glibc
import ObjectStorage
import Settings

/// A mount as the command line asks for it, checked as far as that needs neither disk nor network. Its paths are absolute.
struct MountRequest: Sendable {
    let url: String
    let scheme: BucketURL.Scheme
    /// nil mounts every bucket of the account.
    let bucket: String?
    var prefix: ByteString
    /// The given mountpoint, made absolute, or the name of a mount that was handed in.
    let mountpoint: String
    /// The connection to serve, in the process that has its descriptor; nil where this program makes the mount.
    var handed: HandedConnection?
    let optionLists: [String]
    private(set) var settings: MountSettings
    /// The sources of `settings`.
    let sources: OptionSources
    /// Options that were changed after the mount; `settings` has them already.
    private(set) var changes: [String] = []
    /// Most transfers at a time, as of the mount.
    let mostTransfers: Int
    private(set) var environment: [String: String]
    /// The directory to which relative paths in the options refer.
    let directory: String

    /// The arguments with which another process of this program makes the same request.
    var words: [String] { [url, mountpoint] + optionLists.flatMap { ["-o", $0] } }

    /// Relative paths start at `directory`; nil is the working directory.
    init(
        _ arguments: MountArguments, directory: String? = nil, environment: [String: String]
    ) throws(CommandError) {
        try self.init(
            url: arguments.url, mountpoint: arguments.mountpoint, options: arguments.options, directory: directory,
            environment: environment)
    }

    init(
        url: String, mountpoint: String, options: [String], directory: String? = nil, environment: [String: String]
    ) throws(CommandError) {
        self.url = url
        let parsed: BucketURL
        do { parsed = try BucketURL(parsing: url) } catch { throw CommandError(error.description) }
        (scheme, bucket, prefix) = (parsed.scheme, parsed.bucket, parsed.prefix)
        let sources: OptionSources
        var settings: MountSettings
        do throws(SettingsError) {
            sources = try OptionSources(
                for: parsed, optionLists: options, environment: environment, directory: directory)
            settings = try MountSettings(sources.options)
        } catch { throw CommandError(error) }
        let directory = directory ?? Self.workingDirectory
        settings.cacheDirectory = settings.cacheDirectory.map { Self.absolute($0, in: directory) }
        settings.stateDirectory = settings.stateDirectory.map { Self.absolute($0, in: directory) }
        settings.caFile = settings.caFile.map { Self.absolute($0, in: directory) }
        settings.clientCertificate = settings.clientCertificate.map { Self.absolute($0, in: directory) }
        settings.clientKey = settings.clientKey.map { Self.absolute($0, in: directory) }
        settings.credentialsFile = settings.credentialsFile.map { Self.absolute($0, in: directory) }
        settings.customerKeyFile = settings.customerKeyFile.map { Self.absolute($0, in: directory) }
        settings.logFile = settings.logFile.map { Self.absolute($0, in: directory) }
        if case .socket(let path)? = settings.keeper {
            settings.keeper = .socket(path: Self.absolute(path, in: directory))
        }
        if case .socket(let path)? = settings.metrics {
            settings.metrics = .socket(path: Self.absolute(path, in: directory))
        }
        (self.settings, self.sources) = (settings, sources)
        self.directory = directory
        mostTransfers = settings.uploads + settings.downloads
        self.mountpoint =
            HandedConnection.isName(mountpoint) ? mountpoint : Self.absolute(mountpoint, in: directory)
        optionLists = options
        self.environment = environment
    }

    /// The environment of a process that takes a mount over: a mount of an earlier version continues in its directory, whose name
    /// has the endpoint of the option alone.
    static func takingOver(_ environment: [String: String]) -> [String: String] {
        environment.merging([FoundStore.keptVariable: ""]) { kept, _ in kept }
    }

    /// The request of an existing mount, with the options that were changed since.
    func changed(by lists: [String]) throws(CommandError) -> MountRequest {
        var request = self
        do throws(SettingsError) { for list in lists { try request.settings.change(list) } } catch {
            throw CommandError(error)
        }
        request.changes = lists
        return request
    }

    /// The request of an interactive command: unless timeout is set, a store that does not answer is given up after ten seconds.
    func hastened() -> MountRequest {
        guard !sources.options.contains(where: { $0.name == "timeout" }) else { return self }
        var request = self
        request.settings.timeout = min(settings.timeout, .seconds(10))
        return request
    }

    /// The request with the present contents of its files and those of the provider's tools in its environment, for the processes
    /// that serve the mount: those that take it over use the same, even if the files have changed.
    func keepingFound() -> MountRequest {
        var request = self
        request.environment[OptionSources.keptVariable] = sources.kept
        // An error is reported when the store is made.
        request.environment[FoundStore.keptVariable] = (try? foundStore())?.kept
        return request
    }

    /// What `keepingFound` adds to the environment.
    static let keptVariables = [OptionSources.keptVariable, FoundStore.keptVariable]

    private static var workingDirectory: String { Directory.working ?? "/" }

    /// A path given to a command, made absolute.
    static func absolute(_ path: String) -> String { absolute(path, in: workingDirectory) }

    static func absolute(_ path: String, in directory: String) -> String {
        path.isEmpty || path.hasPrefix("/") ? path : directory + "/" + path
    }
}
