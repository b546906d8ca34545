import ArgumentParser
import Basics
import FuseBridge
import Glibc

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Shows what mounts do: files not stored yet, caches, requests.")

    @Argument(help: "A path in a mount; without one all of yours are shown.") var mountpoint: String?
    @Flag(help: "Print JSON.") var json = false
    @Flag(help: "Go on until interrupted, every two seconds.") var watch = false

    /// Within which a process must have answered.
    private static let deadline = Duration.seconds(10)

    private struct Document: Codable {
        var version = 1
        var mounts: [MountStatus]
    }

    mutating func run() throws {
        repeat {
            let mounts = try Self.mounts(at: mountpoint)
            if json {
                print(try Output.json(Document(mounts: mounts), isOneLine: watch))
            } else {
                // To the upper left corner, and nothing below.
                if watch, isatty(STDOUT_FILENO) == 1 { print("\u{1B}[H\u{1B}[2J", terminator: "") }
                print(mounts.isEmpty ? "no mounts" : mounts.map(StatusText.lines).joined(separator: "\n\n"))
            }
            fflush(nil)
            if watch { sleep(2) }
        } while watch
        let silent = try Self.mounts(at: mountpoint).filter { $0.state == .silent }
        guard silent.isEmpty else {
            throw CommandError(
                "the process that serves \(silent[0].mountpoint) is gone or does not answer; see the log of the mount")
        }
    }

    /// Of one mount or all of this user, in the order of their mountpoints. A mount that is going, with files still to be
    /// stored, is shown as long as its process lives.
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
    /// Of every mount of this user whose process answers.
    static func all() -> [MountStatus] {
        var found: [MountStatus] = []
        for place in ControlPlace.all(of: LocalFileStatus.ourUser, on: nil) {
            guard let connection = ControlConnection(place, owner: LocalFileStatus.ourUser),
                case .status(let status)? = try? connection.ask(.status, within: .seconds(10), of: "a mount")
            else { continue }
            found.append(status)
        }
        return found
    }
}
