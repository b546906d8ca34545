import Basics
import FuseBridge
import Glibc
import Synchronization

/// A path as a command was given it, and the mount of pailfs that holds it.
struct MountPlace: Sendable {
    /// As the user wrote it, for messages.
    let given: String
    let mount: MountEntry
    let mountpoint: Mountpoint
    /// Below the mountpoint, without a slash in front; empty for the mountpoint itself.
    let path: ByteString

    /// The nearest mount at or above `path`; one whose process is gone is found too. Of a `new` path only the directory has
    /// to be there. A symbolic link at its end is meant itself unless it is followed, as it is in front of a slash.
    init(_ path: String, new: Bool = false, following: Bool = true) throws(CommandError) {
        given = path
        let resolved = try Self.resolve(path, new: new, following: following || path.hasSuffix("/"))
        let bytes = ByteString(resolved)
        guard let mount = MountTable.current().entry(holding: bytes), mount.type == "fuse.pailfs" else {
            throw CommandError("\(path) is not in a mount of pailfs; \"pailfs status\" lists the mounts")
        }
        self.mount = mount
        do { mountpoint = try Mountpoint(mount.mountpoint.description) } catch { throw CommandError(error) }
        self.path = bytes == mount.mountpoint ? "" : bytes.dropFirst(mount.mountpoint.count + 1)
    }

    /// Absolute and without symbolic links. What cannot be looked at for another reason than that it is missing is resolved
    /// as far as it goes: the mount may know why.
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

    /// What cannot be resolved and is there all the same must not pass for new: what is stored there would go instead.
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

    /// How long the next worker of a mount may take to come up.
    private static let patience = Duration.seconds(10)

    /// Where a path of the mount is in the bucket, and how the mount gets there. For the mount's own user alone: whoever
    /// makes a store from the answer obeys its options and environment, which root must not on a user's word.
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

    /// Asks the process that serves the mount. Without a deadline it waits as long as that lives.
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
            // Between two workers nobody listens; the holder they have in common lives on.
            let isKept = places.contains { !$0.isDead }
            guard isKept else { break }
            usleep(20_000)
        } while time.uptime() < end
        throw unreachable()
    }

    /// Why no process answered: only a mount of which the kernel says so is dead.
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
