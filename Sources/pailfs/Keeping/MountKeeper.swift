import Basics
import CLinux
import Digests
import FuseBridge
import Glibc
import Settings

/// The keeper of a mount, as the holder sees it: takes the mount back, hands it over, and ends the keeping.
///
/// Owns the connection to the keeper. The workers inherit it, so that for the keeper the mount is served as long as one of these
/// processes lives. Used by the holder's one thread.
struct MountKeeper {
    /// What an earlier holder has left with the keeper; the caller owns both descriptors.
    struct Kept {
        let device: Int32
        let memory: Int32
    }

    private let place: KeeperPlace
    /// The name of the mount at the keeper: its mountpoint.
    private let mount: String
    private let patience: Duration
    private let request: MountRequest
    /// Of bucket, mountpoint and the options that must be the same when the mount is taken back.
    private let digest: String
    private var connection: KeeperConnection?
    private var hasToldLoss = false
    private var isTakenBack = false
    /// Whether the keeper has taken the mount.
    private(set) var hasMount = false

    /// How long a keeper may take to appear: containers of a pod start together.
    private static let startPatience = Duration.seconds(10)
    private static let answerPatience = Duration.seconds(5)
    /// How long a process that was killed may keep its connection, until the kernel has ended it.
    private static let endPatience = Duration.seconds(2)
    /// The names of the descriptors at the service manager.
    private static let (deviceName, memoryName) = ("pailfs-device", "pailfs-memory")
    /// Options that can differ from those of the process before; directories count as they are found.
    private static let free = Set(
        OptionTable.liveNames
            + ["log", "log-format", "metrics", "term-wait", "patience", "keeper", "cache-dir", "state-dir"])
    private static let longestChain = 8

    /// nil for a mount without a keeper. Throws for options that a keeper cannot go with.
    init?(for request: MountRequest, foreground: Bool) throws(CommandError) {
        guard let place = request.settings.keeper else { return nil }
        guard request.settings.restarts else {
            throw CommandError("keeper needs a process that holds the mount; leave out restart=no")
        }
        guard request.handed == nil, !HandedConnection.isName(request.mountpoint) else {
            throw CommandError(
                "keeper is for mounts that pailfs makes itself, not for \(request.mountpoint); leave it out, and keep the "
                    + "descriptor where it came from")
        }
        if place == .serviceManager {
            // Since version 254 the manager says how many descriptors it keeps.
            let room = getenv("FDSTORE").flatMap { Int(String(cString: $0)) }
            guard foreground, getenv("NOTIFY_SOCKET") != nil, room ?? 2 >= 2 else {
                throw CommandError(
                    "keeper=systemd works in a service of systemd with Type=notify and FileDescriptorStoreMax=2; use "
                        + "keeper=PATH elsewhere")
            }
        }
        (self.place, patience, self.request) = (place, request.settings.patience, request)
        let mount = try Self.name(of: request.mountpoint, Self.longestChain)
        self.mount = mount
        let given: [OptionSources.Effective]
        do throws(SettingsError) { given = try request.sources.effective() } catch { throw CommandError(error) }
        let fixed = given.filter { !Self.free.contains($0.name) }.map { "\($0.name)=\($0.value)" }
        digest = Hex.encode(SHA256.of(([request.url, mount] + fixed).joined(separator: "\n")).prefix(16))
    }

    /// Identifies bucket, mountpoint, options and the state directory itself: the kernel's numbers of files mean nothing in another
    /// one.
    var mark: String {
        let state = (try? DirectoryPair.found(for: request))?.state
        let inode = state.flatMap { (try? LocalFileStatus(of: $0)) ?? nil }?.identity.inode
        return "\(digest):\(inode.map { "\($0)" } ?? "")"
    }

    /// The mountpoint without links above it. The mountpoint itself is not looked at: a mount that no process serves would not
    /// answer.
    private static func name(of mountpoint: String, _ links: Int) throws(CommandError) -> String {
        let components = mountpoint.split(separator: "/").filter { $0 != "." }
        guard let last = components.last else { return "/" }
        guard last != "..", links > 0 else {
            throw CommandError(
                "\(mountpoint) cannot be the name of a mount with a keeper; write the path of the directory itself")
        }
        let parent = "/" + components.dropLast().joined(separator: "/")
        let resolved = File.resolved(parent) ?? parent
        let path = resolved == "/" ? "/\(last)" : "\(resolved)/\(last)"
        // Of a mounted directory readlink(2) asks no process.
        var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &bytes, bytes.count - 1)
        guard count > 0 else { return path }
        let target = String(decoding: bytes[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
        return try name(of: MountRequest.absolute(target, in: resolved), links - 1)
    }

    /// The descriptor that workers inherit; -1 for none.
    var descriptor: Int32 { connection?.socket ?? -1 }

    // MARK: taking back

    /// Claims the mount. nil when the keeper does not have it, which is a new mount then.
    mutating func claim() throws(CommandError) -> Kept? {
        guard case .socket(let path) = place else {
            let kept = Self.inherited()
            (isTakenBack, hasMount) = (kept != nil, kept != nil)
            return kept
        }
        let end = SystemTime().uptime() + Self.startPatience
        while true {
            let socket = Self.connect(to: path)
            if socket >= 0 {
                connection = KeeperConnection(socket)
                break
            }
            guard [ENOENT, ECONNREFUSED].contains(-socket), SystemTime().uptime() < end else {
                throw CommandError(
                    "the keeper of \(mount) does not answer: \(path): \(String(cString: strerror(-socket))); start \"pailfs "
                        + "keep \(path)\" first")
            }
            usleep(50_000)
        }
        return try claimed(path)
    }

    private mutating func claimed(_ path: String) throws(CommandError) -> Kept? {
        let end = SystemTime().uptime() + Self.endPatience
        var answer = ask(claimRequest)
        while answer?.state == .served, SystemTime().uptime() < end {
            usleep(50_000)
            answer = ask(claimRequest)
        }
        guard let answer else {
            throw CommandError(
                "\(path) does not answer as a keeper of this version of pailfs; start \"pailfs keep\" of this version at another "
                    + "path")
        }
        switch answer.state {
        case .free: return nil
        case .kept:
            let descriptors = connection?.takeDescriptors() ?? []
            guard descriptors.count == 2 else {
                throw CommandError("the keeper at \(path) sent no descriptors of \(mount); unmount it, and mount again")
            }
            hasMount = true
            return Kept(device: descriptors[0], memory: descriptors[1])
        case .served:
            let process = answer.process.flatMap { $0 > 0 ? " (process \($0) mounted it)" : nil } ?? ""
            throw CommandError("\(mount) is still served\(process); unmount it, or end its processes")
        case .refused:
            throw CommandError("the keeper at \(path) refused the request; use one of the same version of pailfs")
        }
    }

    /// The descriptors that the service manager has kept (sd_listen_fds_with_names(3)). Programs that this process starts get
    /// neither them nor the variables.
    private static func inherited() -> Kept? {
        let names = (getenv("LISTEN_FDNAMES").map { String(cString: $0) } ?? "").split(
            separator: ":", omittingEmptySubsequences: false)
        let isForUs = getenv("LISTEN_PID").map { String(cString: $0) } == "\(getpid())"
        let count = isForUs ? getenv("LISTEN_FDS").flatMap { Int32(String(cString: $0)) } ?? 0 : 0
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(name) }
        var found: [String: Int32] = [:]
        for (index, name) in names.enumerated() where index < count {
            let descriptor = Holder.raised(3 + Int32(index))
            if found[String(name)] == nil { found[String(name)] = descriptor } else { close(descriptor) }
        }
        guard let device = found.removeValue(forKey: deviceName), let memory = found.removeValue(forKey: memoryName)
        else {
            for descriptor in found.values { close(descriptor) }
            return nil
        }
        return Kept(device: device, memory: memory)
    }

    // MARK: keeping

    /// Hands the mount to the keeper. False when the keeper does not take it.
    mutating func keep(device: Int32, memory: Int32) -> Bool {
        switch place {
        case .socket: hasMount = ask(KeeperRequest(act: .keep), [device, memory])?.state == .kept
        case .serviceManager:
            // The manager still has the descriptors that were taken back. Those of an earlier mount have the same names, and go first.
            if !isTakenBack { forget() }
            hasMount =
                isTakenBack || Self.store(device, Self.deviceName) && Self.store(memory, Self.memoryName)
        }
        return hasMount
    }

    private static func store(_ descriptor: Int32, _ name: String) -> Bool {
        guard let socket = getenv("NOTIFY_SOCKET") else { return false }
        return linux_notify(socket, "FDSTORE=1\nFDNAME=\(name)", descriptor) == 0
    }

    /// The mount has ended, or is given up.
    mutating func forget() {
        hasMount = false
        switch place {
        case .socket:
            guard connection != nil else { return }
            _ = ask(KeeperRequest(act: .forget))
        case .serviceManager:
            guard let socket = getenv("NOTIFY_SOCKET") else { return }
            for name in [Self.deviceName, Self.memoryName] {
                _ = linux_notify(socket, "FDSTOREREMOVE=1\nFDNAME=\(name)", -1)
            }
        }
    }

    /// What `renew` has found.
    enum Renewal {
        /// The keeper has the mount as before, or there is still none.
        case none
        /// A keeper has the mount on another connection, which the workers need.
        case renewed
        /// There is no keeper at this path any more.
        case lost(String)
    }

    /// Hands the mount to a keeper where the one before has ended, or has not taken it.
    mutating func renew(device: Int32, memory: Int32) -> Renewal {
        guard case .socket(let path) = place else { return .none }
        if let connection {
            guard !hasMount || linux_socket_is_hung_up(connection.socket) != 0 else { return .none }
            drop()
        }
        let socket = Self.connect(to: path)
        if socket >= 0 {
            connection = KeeperConnection(socket)
            // A keeper that has the mount, and whose answer did not come, gives it out again.
            let answer = ask(claimRequest)
            for descriptor in connection?.takeDescriptors() ?? [] { close(descriptor) }
            if let answer, [.free, .kept].contains(answer.state), keep(device: device, memory: memory) {
                hasToldLoss = false
                return .renewed
            }
            drop()
        }
        defer { hasToldLoss = true }
        return hasToldLoss ? .none : .lost(path)
    }

    private var claimRequest: KeeperRequest {
        KeeperRequest(act: .claim, mount: mount, patience: Double(patience / .milliseconds(1)) / 1000)
    }

    /// The descriptor of a connection, or -errno; -EACCES where another user than this one and root listens.
    private static func connect(to path: String) -> Int32 {
        let socket = LocalListener.connect(to: path)
        guard socket >= 0 else { return socket }
        guard LocalListener.peer(of: socket) != nil else {
            close(socket)
            return -EACCES
        }
        return Holder.raised(socket)
    }

    private mutating func drop() {
        hasMount = false
        connection?.end()
        connection = nil
    }

    /// The answer to a request; nil when none came, or one of another version. The connection is of no use then: an answer that
    /// comes late would be taken for that of the next request.
    private mutating func ask(_ request: KeeperRequest, _ descriptors: [Int32] = []) -> KeeperAnswer? {
        guard let answer = answer(to: request, descriptors) else {
            drop()
            return nil
        }
        return answer
    }

    private mutating func answer(to request: KeeperRequest, _ descriptors: [Int32]) -> KeeperAnswer? {
        guard var connection, connection.send(request, descriptors) else { return nil }
        defer { self.connection = connection }
        let end = SystemTime().uptime() + Self.answerPatience
        while true {
            let rest = Int32(clamping: max(0, Int64((end - SystemTime().uptime()) / .milliseconds(1))))
            guard linux_poll(connection.socket, rest) > 0 else { return nil }
            switch connection.receive() {
            case .nothing: continue
            case .end: return nil
            case .line(let line): return ControlLine.decode(line)
            }
        }
    }
}
