import ArgumentParser
import Basics
import FuseBridge
import Glibc

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Shows files not stored yet, caches, requests and their cost.")

    @Argument(help: "A path in a mount. Default: every mount of this user.") var mountpoint: String?
    @Flag(help: "Print JSON.") var json = false
    @Flag(help: "Repeat every two seconds until interrupted, and show rates.") var watch = false
    @Flag(help: "Print nothing, and exit with 0 if each mount answers: for a readiness probe.") var ready = false
    @Flag(help: "Print nothing, and exit with 0 if a mount has its process: for a liveness probe.") var live = false

    /// The time within which a process must answer.
    private static let deadline = Duration.seconds(10)
    /// The time between two reports.
    private static let interval = Duration.seconds(2)

    private struct Document: Codable {
        var version = 1
        var mounts: [MountStatus]
    }

    func validate() throws {
        guard [json || watch, ready, live].count(where: { $0 }) < 2 else {
            throw ValidationError("--ready and --live print nothing; use one of them, without --json and --watch")
        }
    }

    mutating func run() throws {
        if live { return try StatusProbe.requireLive(mountpoint) }
        if ready { return try StatusProbe.requireReady(Self.mounts(at: mountpoint), all: mountpoint == nil) }
        if watch { try goOn() }
        let mounts = try Self.mounts(at: mountpoint)
        if json {
            print(try Output.json(Document(mounts: mounts)))
        } else {
            // Whole lines: piped or scrolled output is not cut.
            let text = StatusText(StatusStyle(environment: Entry.environment))
            print(Self.views(of: mounts.map { text.lines($0) }).joined(separator: [""]).joined(separator: "\n"))
        }
        fflush(nil)
        guard let silent = mounts.first(where: { $0.state == .silent }) else { return }
        throw CommandError(
            "the process that serves \(silent.mountpoint) does not answer, or cannot be found from here; see the log of the mount"
        )
    }

    private static func views(of mounts: [[String]]) -> [[String]] { mounts.isEmpty ? [["no mounts"]] : mounts }

    /// Repeats until the process is ended.
    private func goOn() throws -> Never {
        let screen = StatusScreen(environment: Entry.environment)
        var before: (mounts: [MountStatus], at: Duration)?
        while true {
            let mounts = try Self.mounts(at: mountpoint)
            let now = SystemTime().uptime()
            if json {
                screen.write(try Output.json(Document(mounts: mounts), isOneLine: true))
            } else {
                let rates = mounts.map { mount in
                    before.flatMap { before in
                        before.mounts.first { $0.mountpoint == mount.mountpoint && $0.pid == mount.pid }
                            .flatMap { StatusRates(from: $0, to: mount, after: now - before.at) }
                    }
                }
                repeat {
                    let text = StatusText(screen.style)
                    screen.draw(Self.views(of: zip(mounts, rates).map { text.lines($0, rates: $1) }))
                } while screen.waits(for: now + Self.interval - SystemTime().uptime())
            }
            before = (mounts, now)
            if json { _ = screen.waits(for: Self.interval) }
        }
    }

    /// The status of one mount or of all of this user, in the order of their mountpoints. An unmounted mount with files still to
    /// be stored is shown as long as its process lives.
    private static func mounts(at path: String?) throws(CommandError) -> [MountStatus] {
        if let path {
            let place = try MountPlace(path)
            guard case .status(let status) = try place.ask(.status, within: deadline) else { return [] }
            return [status]
        }
        var found = MountStatus.all()
        for mount in MountTable.current().entries
        where mount.type == "fuse.pailfs" && mount.owner ?? 0 == LocalFileStatus.ourUser {
            let mountpoint = mount.mountpoint.description
            guard !found.contains(where: { $0.mountpoint == mountpoint }) else { continue }
            found.append(MountStatus(url: mount.source.description, mountpoint: mountpoint, state: .silent))
        }
        return found.sorted { ($0.mountpoint, $0.pid ?? 0) < ($1.mountpoint, $1.pid ?? 0) }
    }
}

extension MountStatus {
    /// The status of every mount of a user whose process answers: it answers only that user and root.
    static func all(of user: UInt32 = LocalFileStatus.ourUser) -> [MountStatus] {
        var found: [MountStatus] = []
        for place in ControlPlace.all(of: user, on: nil) {
            guard let connection = ControlConnection(place, owner: user),
                case .status(let status)? = try? connection.ask(.status, within: .seconds(10), of: "a mount")
            else { continue }
            found.append(status)
        }
        return found
    }
}
