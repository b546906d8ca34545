import ArgumentParser
import Basics
import Blocks
import Journaling
import SQLite
import Settings

/// Shows what cache directories hold, and frees their disk space.
struct CacheCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache", abstract: "Shows what caches hold, or frees their disk space.",
        subcommands: [Info.self, Prune.self])

    /// The caches that the command is given.
    struct Choice: ParsableArguments {
        @Argument(help: "Paths in mounts, URLs as they were mounted, or cache or state directories of mounts.")
        var places: [String] = []
        @OptionGroup var location: StoreOptions

        func places(all: Bool) throws(CommandError) -> [CachePlace] {
            if all { return try CachePlace.all(options: location.options) }
            var found: [CachePlace] = []
            for text in places { found.append(try CachePlace(text, options: location.options)) }
            return found
        }
    }

    struct Info: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows the size of caches, and the bytes in them that are not stored yet.",
            discussion: "Without a place, it shows every cache of this user.")

        @OptionGroup var choice: Choice
        @Flag(help: "Print JSON.") var json = false

        private struct Document: Codable {
            var version = 1
            var caches: [CacheReport]
        }

        mutating func run() throws {
            let reports = try choice.places(all: choice.places.isEmpty).map(CacheReport.init(of:))
            guard json else {
                return print(reports.isEmpty ? "no caches" : reports.map(\.text).joined(separator: "\n\n"))
            }
            print(try Output.json(Document(caches: reports)))
        }
    }

    struct Prune: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Frees the disk space of cached blocks.",
            discussion: "Files not stored yet stay, and so do cached names and attributes.")

        @OptionGroup var choice: Choice
        @Flag(help: "Free every cache of this user.") var all = false
        @Option(help: ArgumentHelp("Size of the blocks that each cache keeps.", valueName: "size")) var to = "0"

        func validate() throws {
            guard choice.places.isEmpty == all else {
                throw ValidationError("name paths in mounts, URLs or cache directories, or use --all")
            }
        }

        mutating func run() throws {
            guard let limit = ByteSize.parse(to) else {
                throw CommandError("--to cannot be \"\(to)\"; write a size such as 512MiB or 2G")
            }
            var failures: [String] = []
            for place in try choice.places(all: all) {
                let blocks = place.place.blocks
                let before = DiskUsage.bytes(in: blocks)
                do throws(CommandError) { try Self.prune(place, to: limit) } catch {
                    failures.append(error.message)
                    continue
                }
                let after = DiskUsage.bytes(in: blocks)
                print(
                    "\(place.place.cache): \(ByteSize.format(max(0, before - after))) freed, \(ByteSize.format(after)) kept"
                )
            }
            if failures.count > 1 { for failure in failures { Entry.say("pailfs: \(failure)") } }
            if let first = failures.first {
                throw CommandError(failures.count == 1 ? first : "\(failures.count) caches were not pruned")
            }
        }

        private static func prune(_ place: CachePlace, to limit: Int64) throws(CommandError) {
            switch try place.holder() {
            case .mount(let mount, _): _ = try mount.ask(.prune(toBytes: limit), within: nil)
            case .leaving(let status):
                throw CommandError(
                    "\(status.mountpoint) is unmounted, and its process still stores what was written to it; "
                        + "try again when it has ended")
            case .us(let directories):
                let logger = LogTarget.errors.logger(LogThreshold(.error))
                let (database, _) = try directories.cache(
                    "blocks.db", migrations: BlockCache.migrations, logger: logger
                ) {
                    (database) throws(SQLiteError) in
                    try BlockCache.prune(directory: directories.place.blocks, database: database, to: limit)
                }
                database.close()
            }
        }
    }
}
