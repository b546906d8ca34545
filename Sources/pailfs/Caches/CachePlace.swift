import Basics
import FuseBridge
import Glibc
import Journaling
import ObjectStorage
import Settings

/// The cache directory of one mount, mounted or not, as a command names it.
struct CachePlace: Sendable {
    let directory: String

    /// Who has it.
    enum Holder {
        /// Serves it, and answers.
        case mount(MountPlace, MountStatus)
        /// Still stores what was written to a mount that is unmounted, and answers.
        case leaving(MountStatus)
        /// This command, as long as the value lives.
        case us(CacheDirectory)
    }

    /// `text` is a path in a mount, a URL as it was mounted, or the directory itself.
    init(_ text: String, options: [String]) throws(CommandError) {
        if text.contains("://") {
            let request = try MountRequest(url: text, mountpoint: "", options: options, environment: Entry.environment)
            directory = try CacheDirectory.path(of: request)
            guard Self.isCache(directory) else {
                throw CommandError(
                    "nothing of \(text) is cached in \(directory); write the URL and the options of the mount")
            }
            return
        }
        let path = MountRequest.absolute(text)
        if Self.isCache(path) {
            directory = path
        } else {
            let place = try MountPlace(text)
            guard case .status(let status) = try place.ask(.status, within: .seconds(10)), let cache = status.cache
            else {
                throw CommandError("the process that serves \(text) does not return its cache directory; see its log")
            }
            directory = cache.directory
        }
    }

    private init(directory: String) { self.directory = directory }

    /// Every one that options or the environment lead to, and those of this user's mounts.
    static func all(options: [String]) throws(CommandError) -> [CachePlace] {
        let environment = Entry.environment
        let settings: MountSettings
        do throws(SettingsError) {
            settings = try MountSettings(
                OptionSources(for: nil, optionLists: options, environment: environment).options)
        } catch { throw CommandError(error) }
        let parent = settings.cacheDirectory.map(MountRequest.absolute)
        guard let parent = parent ?? CacheLocation.userDirectory(environment: environment) else {
            throw CacheDirectory.noParent
        }
        var directories = Set(((try? Directory.names(in: parent)) ?? []).map { "\(parent)/\($0)" }.filter(isCache))
        if options.isEmpty { directories.formUnion(MountStatus.all().compactMap(\.cache?.directory)) }
        return directories.sorted().map(CachePlace.init(directory:))
    }

    static func isCache(_ path: String) -> Bool {
        (try? LocalFileStatus(of: path + "/lock")) ?? nil != nil && Journal.exists(at: path + "/journal.db")
    }

    /// The directory for this command alone, or whoever has it.
    func holder() throws(CommandError) -> Holder {
        do throws(JournalingError) { return .us(try CacheDirectory(existing: directory)) } catch {
            let owner: UInt32
            switch error {
            case .held(_, _, let mountpoint?) where mountpoint != directory: owner = LocalFileStatus.ourUser
            // Root may look at it through the mount alone: what it makes in there would not be the user's.
            case .foreign(_, let user) where LocalFileStatus.ourUser == 0: owner = user
            default: throw CommandError(error.description)
            }
            let own = File.resolved(directory) ?? directory
            let found = MountStatus.all(of: owner).first { status in
                status.cache.map { (File.resolved($0.directory) ?? $0.directory) == own } ?? false
            }
            guard let found else { throw LeavingMount.error(error) ?? CommandError(error.description) }
            let isMounted = MountTable.current().entry(at: ByteString(found.mountpoint))?.type == "fuse.pailfs"
            return isMounted ? .mount(try MountPlace(found.mountpoint), found) : .leaving(found)
        }
    }
}
