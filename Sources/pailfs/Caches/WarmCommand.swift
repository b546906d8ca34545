import ArgumentParser
import Basics
import FileSystem
import FuseBridge
import Glibc

/// Brings content to this machine before programs ask for it.
struct WarmCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "warm", abstract: "Reads files into the cache before programs need them.",
        discussion: """
            With a URL that is not mounted, it fills the cache for the next mount with the same options. The exit status is \
            not 0 if a file could not be read or does not fit into the cache, or if a file that an earlier mount left could \
            not be stored.
            """)

    @Argument(help: "Files or directories in mounts, or URLs as they are mounted.") var places: [String]
    @OptionGroup var location: StoreOptions
    @Option(help: ArgumentHelp("With URLs: read only keys that start with this.", valueName: "prefix")) var below = ""
    @Option(name: .shortAndLong, help: ArgumentHelp("Files read at the same time.", valueName: "number")) var jobs = 8

    func validate() throws {
        guard (1...256).contains(jobs) else { throw ValidationError("--jobs must be a number from 1 to 256") }
    }

    mutating func run() throws {
        let tally = WarmTally(places: places.count)
        let (places, jobs) = (places, jobs)
        var unstored: CommandError?
        try tally.watch { () throws(CommandError) in
            for place in places {
                if place.contains("://") {
                    if let error = try warm(url: place, tally) { unstored = error }
                } else {
                    Self.read(try Self.path(in: MountPlace(place)), jobs: jobs, tally)
                }
            }
            tally.settle()
        }
        Output.say(tally.text)
        if tally.failures > 0 {
            throw CommandError(
                "\(StatusText.count(tally.failures, "read")) failed; see the log of the mount and try again")
        }
        let unkept = tally.unkept
        if unkept > 0 {
            throw CommandError(
                "\(StatusText.count(unkept, "file")) did not stay in the cache; raise cache-size, or make room on its disk"
            )
        }
        if let unstored { throw unstored }
    }

    /// While a terminal shows the progress, another thread counts the files: that only lists names, which reading has to do
    /// anyway.
    private static func read(_ path: String, jobs: Int, _ tally: WarmTally) {
        if tally.isShown {
            startThread(name: "count") {
                TreeWalk.files(below: ByteString(path), failed: { _, _ in }) { tally.expect(TreeWalk.size(of: $0)) }
                tally.counted()
            }
        }
        TreeReader(tally).read(path, jobs: jobs)
    }

    private static func noPath(_ mountpoint: Mountpoint) -> CommandError {
        CommandError("\(mountpoint.path) has no path to read through; name a path where the mount is seen")
    }

    private static func path(in place: MountPlace) throws(CommandError) -> String {
        guard !place.mountpoint.isHanded else { throw noPath(place.mountpoint) }
        return place.path.isEmpty ? place.mountpoint.path : "\(place.mountpoint.path)/\(place.path)"
    }

    /// Reads through the mount that has the URL's cache, or without one into the cache itself. Returns an error for files of an
    /// earlier mount that could not be stored now.
    private func warm(url: String, _ tally: WarmTally) throws(CommandError) -> CommandError? {
        let request = try MountRequest(
            url: url, mountpoint: "", options: location.options, environment: Entry.environment)
        guard request.bucket != nil else {
            throw CommandError("\(url) names no bucket; mount it and warm a path, or write scheme://bucket")
        }
        let directory = try DirectoryPair(of: request).state
        if let cache = try? CachePlace(url, options: location.options),
            case .mount(let mount, _) = try cache.holder()
        {
            guard !mount.mountpoint.isHanded else { throw Self.noPath(mount.mountpoint) }
            let top = mount.mountpoint.path
            Self.read(below.isEmpty ? top : "\(top)/\(below)", jobs: jobs, tally)
            return nil
        }
        try LocalDirectories.requireHome(request)
        do { try Directory.create(directory) } catch { throw CommandError("\(error)") }
        let mountpoint: Mountpoint
        do { mountpoint = try Mountpoint(directory) } catch { throw CommandError(error) }
        let logger = try LogTarget(request.settings, foreground: true).logger(request.settings)
        let composition = try Composition(request, mountpoint: mountpoint, process: getpid(), logger: logger)
        defer { composition.close() }
        do throws(CommandError) { try composition.warm(ByteString(below), jobs: jobs, tally) } catch {
            try? composition.finishOrFail()
            throw error
        }
        tally.settle()
        do throws(CommandError) { try composition.finishOrFail() } catch { return error }
        return nil
    }
}
