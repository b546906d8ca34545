import Basics
import FuseBridge
import Glibc
import Synchronization

/// A path as the command line has it, and the mount of pailfs that holds it.
struct MountPlace: Sendable {
    /// As the user wrote it, for messages.
    let given: String
    let mount: MountEntry
    let mountpoint: Mountpoint
    /// The path below the mountpoint, without a slash in front; empty for the mountpoint itself.
    let path: ByteString

    /// Finds the nearest mount at or above `path`; also one whose process is gone. Of a `new` path only the directory must exist.
    /// A symbolic link at the end of the path stands for itself, unless it is followed; with a slash behind it, it always is.
    init(_ path: String, new: Bool = false, following: Bool = true) throws(CommandError) {
        given = path
        if HandedConnection.isName(path) {
            (mountpoint, self.path) = (Mountpoint(handed: path), "")
            mount = try Self.handed(mountpoint)
            return
        }
        let resolved = try Self.resolve(path, new: new, following: following || path.hasSuffix("/"))
        let bytes = ByteString(resolved)
        guard let mount = MountTable.current().entry(holding: bytes), mount.type == "fuse.pailfs" else {
            throw CommandError("\(path) is not in a mount of pailfs; \"pailfs status\" lists the mounts")
        }
        self.mount = mount
        do { mountpoint = try Mountpoint(mount.mountpoint.description) } catch { throw CommandError(error) }
        self.path = bytes == mount.mountpoint ? "" : bytes.dropFirst(mount.mountpoint.count + 1)
    }

    /// A mount of this user that was handed in and has a process. It has no line in the mount table under its name.
    private static func handed(_ mountpoint: Mountpoint) throws(CommandError) -> MountEntry {
        let user = LocalFileStatus.ourUser
        let processes = MountRecord.all(of: mountpoint).filter(\.isAlive).compactMap(\.process)
        guard !processes.isEmpty else {
            throw CommandError(
                "no process of this user serves a mount named \(mountpoint.path); \"pailfs status\" lists the mounts")
        }
        guard processes.count == 1 else {
            let list = processes.sorted().map { "\($0)" }.joined(separator: " and ")
            throw CommandError(
                "processes \(list) all serve a mount named \(mountpoint.path); hand in descriptors with different numbers"
            )
        }
        return MountEntry(handed: mountpoint, owner: user)
    }

    /// The path, absolute and without symbolic links. A path that cannot be resolved for another reason than a missing name is
    /// resolved as far as possible: the mount may know the reason.
    private static func resolve(_ path: String, new: Bool, following: Bool) throws(CommandError) -> String {
        guard !path.isEmpty else { throw CommandError("the path is an empty string; write a path in a mount") }
        let isLink = !following && (try? LocalFileStatus(of: path))?.kind == .symbolicLink
        if !isLink, let whole = File.resolved(path) { return whole }
        let reason = errno
        guard new || isLink || reason != ENOENT && reason != ENOTDIR else {
            throw CommandError("\(path) does not exist; check its name")
        }
        let trimmed = String(path.reversed().drop { $0 == "/" }.reversed())
        if new { try requireNew(trimmed, as: path, reason) }
        let name = String(trimmed.reversed().prefix { $0 != "/" }.reversed())
        let parent = String(trimmed.dropLast(name.count))
        guard !name.isEmpty, name != ".", name != "..", let above = File.resolved(parent.isEmpty ? "." : parent) else {
            throw CommandError("\(path) cannot be reached: \(String(cString: strerror(reason)))")
        }
        return above == "/" ? "/\(name)" : "\(above)/\(name)"
    }

    /// Rejects a path that cannot be resolved and exists all the same: as a new path, storing there would replace it.
    private static func requireNew(_ trimmed: String, as path: String, _ reason: Int32) throws(CommandError) {
        guard File.resolved(trimmed) == nil else {
            throw CommandError("\(path) is not a directory; leave out the slash at its end if that file is meant")
        }
        guard (try? LocalFileStatus(of: trimmed))?.kind != .symbolicLink else {
            throw CommandError(
                "\(path) is a symbolic link whose target cannot be reached: \(String(cString: strerror(reason))); "
                    + "write the target's own path")
        }
    }

    // MARK: asking

    /// How long the next worker of a mount may take to start.
    private static let patience = Duration.seconds(10)

    /// Where a path of the mount is in the bucket, and how the mount reaches the bucket. For the mount's own user alone: a store
    /// made from the answer uses that user's options and environment, which root must not do.
    func locate(_ path: ByteString) throws(CommandError) -> ObjectPlace {
        try Self.requireOwner(mount.owner, user: LocalFileStatus.ourUser, of: mountpoint.path)
        guard case .located(let place) = try ask(.locate(path: path), within: .seconds(30)) else {
            throw CommandError("the process that serves \(given) does not return its key in the bucket; see its log")
        }
        return place
    }

    static func requireOwner(_ owner: UInt32?, user: UInt32, of path: String) throws(CommandError) {
        guard let owner, owner != user else { return }
        throw CommandError(
            "\(path) was mounted by user \(owner), whose options and credentials are needed; run this as that user "
                + "(sudo -u '#\(owner)' pailfs ...), or write scheme://bucket")
    }

    /// Sends a request to the process that serves the mount. Without a deadline it waits as long as that process lives.
    func ask(_ request: ControlRequest, within deadline: Duration?) throws(CommandError) -> ControlAnswer {
        let owner = mount.owner ?? LocalFileStatus.ourUser
        guard owner == LocalFileStatus.ourUser || LocalFileStatus.ourUser == 0 else {
            throw CommandError(
                "\(mountpoint.path) was mounted by user \(owner), and obeys that user and root; run this as one of them"
            )
        }
        let time = SystemTime()
        let end = time.uptime() + Self.patience
        repeat {
            let places = ControlPlace.all(of: owner, on: mountpoint)
            for place in places {
                guard let connection = ControlConnection(place, owner: owner) else { continue }
                return try connection.ask(request, within: deadline, of: mountpoint.path)
            }
            // Between two workers no process listens; their holder lives on.
            let isKept = places.contains { !$0.isDead } || mountpoint.isHanded && hasProcess
            guard isKept else { break }
            usleep(20_000)
        } while time.uptime() < end
        throw unreachable()
    }

    private var hasProcess: Bool { MountRecord.all(of: mountpoint).contains(where: \.isAlive) }

    /// Why no process answered: a mount is only dead if the kernel says so.
    private func unreachable() -> CommandError {
        let asked = Semaphore()
        final class Look: Sendable { let isDead = Mutex(false) }
        let look = Look()
        startThread(name: "look") { [mountpoint] in
            let isDead = mountpoint.isDead
            look.isDead.withLock { $0 = isDead }
            asked.signal()
        }
        _ = asked.wait(for: .seconds(3))
        guard look.isDead.withLock({ $0 }) else {
            return CommandError(
                "the process that serves \(mountpoint.path) cannot be found from here; run this with the XDG_RUNTIME_DIR of "
                    + "the session that mounted it, and with the path where it was mounted first")
        }
        return CommandError(
            "the process that serves \(mountpoint.path) is gone; unmount it (fusermount3 -u) or mount the bucket there again"
        )
    }
}
