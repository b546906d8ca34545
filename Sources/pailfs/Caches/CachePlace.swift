import Basics
import FuseBridge
import Glibc
import Journaling
import ObjectStorage
import Settings

/// The directories of one mount, mounted or not, as a command names them.
struct CachePlace: Sendable {
    let place: DirectoryPair

    /// The process that uses the directories.
    enum Holder {
        /// A process that serves the mount, and answers.
        case mount(MountPlace, MountStatus)
        /// A process that still stores the files of a mount that is unmounted, and answers.
        case leaving(MountStatus)
        /// This command, as long as the value lives.
        case us(LocalDirectories)
    }

    /// `text` is a path in a mount, a URL as it was mounted, or one of the directories.
    init(_ text: String, options: [String]) throws(CommandError) {
        if text.contains("://") {
            let request = try MountRequest(url: text, mountpoint: "", options: options, environment: Entry.environment)
            place = try DirectoryPair.found(for: request)
            guard place.directories.contains(where: DirectoryPair.isOne) else {
                throw CommandError(
                    "nothing of \(text) is cached in \(place.cache); write the URL and the options of the mount")
            }
            return
        }
        let path = MountRequest.absolute(text)
        if DirectoryPair.isOne(path) {
            place = DirectoryPair(existing: path)
        } else {
            let mount = try MountPlace(text)
            guard case .status(let status) = try mount.ask(.status, within: .seconds(10)), let cache = status.cache
            else {
                throw CommandError("the process that serves \(text) does not return its cache directory; see its log")
            }
            place = cache.place
        }
    }

    private init(_ place: DirectoryPair) { self.place = place }

    /// All directories of mounts at the places that the options or the environment name, and those of this user's mounts.
    static func all(options: [String]) throws(CommandError) -> [CachePlace] {
        let environment = Entry.environment
        let settings: MountSettings
        do throws(SettingsError) {
            settings = try MountSettings(
                OptionSources(for: nil, optionLists: options, environment: environment).options)
        } catch { throw CommandError(error) }
        let usual = try DirectoryPair.parents(settings, environment)
        var parents: Set = [MountRequest.absolute(usual.state), MountRequest.absolute(usual.cache)]
        if settings.cacheDirectory == nil {
            parents.formUnion([CacheLocation.former(environment: environment) ?? usual.cache])
        }
        let directories = parents.flatMap { parent in
            ((try? Directory.names(in: parent)) ?? []).map { "\(parent)/\($0)" }.filter(DirectoryPair.isOne)
        }
        var places = Set(directories.map(DirectoryPair.init(existing:)))
        if options.isEmpty { places.formUnion(MountStatus.all().compactMap(\.cache?.place)) }
        return places.sorted { $0.state < $1.state }.map(CachePlace.init)
    }

    /// Five seconds, with the pauses between them.
    private static let mostTries = 100

    /// Locks the directory for this command, or returns the process that has it.
    func holder() throws(CommandError) -> Holder {
        for _ in 1..<Self.mostTries {
            if let holder = try holder(isLastTry: false) { return holder }
            usleep(50_000)
        }
        guard let holder = try holder(isLastTry: true) else { preconditionFailure("the last try throws instead") }
        return holder
    }

    /// nil, unless this is the last try, where another process has the directory and does not answer: a killed process keeps its
    /// lock until the kernel has ended it, when its mount may be gone already.
    private func holder(isLastTry: Bool) throws(CommandError) -> Holder? {
        do throws(JournalingError) { return .us(try LocalDirectories(existing: place)) } catch {
            let owner: UInt32
            switch error {
            case .held(_, _, let mountpoint?) where !place.directories.contains(mountpoint):
                owner = LocalFileStatus.ourUser
            // Root may only reach it through the mount: files that root made in there would not be the user's.
            case .foreign(_, let user) where LocalFileStatus.ourUser == 0: owner = user
            default: throw CommandError(error.description)
            }
            let own = File.resolved(place.state) ?? place.state
            let found = MountStatus.all(of: owner).first { status in
                status.cache.map { (File.resolved($0.place.state) ?? $0.place.state) == own } ?? false
            }
            guard let found else {
                if let leaving = LeavingMount.error(error) { throw leaving }
                guard isLastTry else { return nil }
                throw CommandError(error.description)
            }
            let isMounted =
                HandedConnection.isName(found.mountpoint)
                ? !(found.pid.map { LeavingMount.isLeaving($0, mountpoint: found.mountpoint) } ?? false)
                : MountTable.current().entry(at: ByteString(found.mountpoint))?.type == "fuse.pailfs"
            return isMounted ? .mount(try MountPlace(found.mountpoint), found) : .leaving(found)
        }
    }
}

extension MountStatus.Cache {
    var place: DirectoryPair { DirectoryPair(state: state ?? directory, cache: directory) }
}
