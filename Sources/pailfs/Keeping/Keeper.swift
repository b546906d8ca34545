import Basics
import CLinux
import Glibc

/// Keeps mounts while the processes that serve them end and others take them back: `pailfs keep`.
///
/// Of each mount it owns the connection to the kernel (a descriptor of /dev/fuse) and the memory of its holder, so that programs
/// that use the mount wait for the next process instead of getting an error. A mount that no process takes back within its patience
/// is given up: the connection ends, and programs get ENOTCONN. If the keeper dies, the mounts that are served continue, and their
/// holders hand them to the next keeper at the same path. One thread; nothing is written to disk.
struct Keeper {
    /// What outlives the processes of a mount.
    private struct Kept {
        let device: Int32
        let memory: Int32
        let patience: Duration
        /// Since when no process serves it; nil while one does.
        var unservedSince: Duration?

        func close() {
            Glibc.close(device)
            Glibc.close(memory)
        }
    }

    private struct Peer {
        var connection: KeeperConnection
        let process: Int32
        var mount: String?
        var patience = Keeper.defaultPatience
    }

    private static let backlog: Int32 = 64
    private static let defaultPatience = Duration.seconds(600)
    private static let endSignals = [SIGTERM, SIGINT, SIGHUP]
    /// In microseconds.
    private static let pause: UInt32 = 50_000

    private let path: String
    private let socket: Int32
    private let signals: Int32
    private let time = SystemTime()
    private var mounts: [String: Kept] = [:]
    /// By socket.
    private var peers: [Int32: Peer] = [:]

    /// Listens at an absolute path.
    init(at path: String) throws(CommandError) {
        self.path = path
        linux_ignore_signal(SIGPIPE)
        DescriptorLimit.raise()
        socket = try LocalListener.listen(at: path, backlog: Self.backlog)
        signals = linux_signal_descriptor(Self.endSignals, Int32(Self.endSignals.count))
        guard signals >= 0 else {
            throw CommandError("the keeper cannot wait for signals: \(String(cString: strerror(errno)))")
        }
    }

    /// Returns after a signal that ends the process.
    mutating func run() {
        if let manager = getenv("NOTIFY_SOCKET") { _ = linux_notify(manager, "READY=1", -1) }
        while true {
            let ready = wait()
            if ready.contains(signals) { break }
            for (name, kept) in mounts where ready.contains(kept.device) { forget(name) }
            for number in Array(peers.keys) where ready.contains(number) { receive(from: number) }
            if ready.contains(socket) { accept() }
            giveUp()
        }
        try? File.remove(path)
        for name in mounts.filter({ $0.value.unservedSince != nil }).keys.sorted() {
            Self.say("\(name) ends: no process serves it, and the keeper ends")
        }
    }

    /// The descriptors that something has happened on: a message, an end, or the unmount of a kept mount.
    private func wait() -> Set<Int32> {
        var waits = ([socket, signals] + peers.keys).map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        waits += mounts.values.map { pollfd(fd: $0.device, events: 0, revents: 0) }
        let next = unclaimed.values.compactMap { kept in kept.unservedSince.map { $0 + kept.patience } }.min()
        let milliseconds = next.map { Int32(clamping: max(1, Int64(($0 - time.uptime()) / .milliseconds(1)) + 1)) }
        guard poll(&waits, nfds_t(waits.count), milliseconds ?? -1) > 0 else { return [] }
        return Set(waits.filter { $0.revents != 0 }.map(\.fd))
    }

    // MARK: holders

    private mutating func accept() {
        let accepted = linux_local_accept(socket)
        guard accepted >= 0 else {
            // Without a descriptor for it the connection stays in the queue.
            usleep(Self.pause)
            return
        }
        guard let process = LocalListener.peer(of: accepted) else {
            close(accepted)
            return
        }
        // A peer that takes no answer must not stop the others.
        _ = linux_socket_timeouts(accepted, 5000, 5000)
        peers[accepted] = Peer(connection: KeeperConnection(accepted), process: process)
    }

    private mutating func receive(from number: Int32) {
        guard var peer = peers.removeValue(forKey: number) else { return }
        switch peer.connection.receive() {
        case .nothing: break
        case .end: return end(&peer)
        case .line(let line):
            let request: KeeperRequest? = ControlLine.decode(line)
            let descriptors = peer.connection.takeDescriptors()
            guard let request, answer(request, descriptors, &peer) else {
                for descriptor in descriptors { close(descriptor) }
                peer.connection.send(KeeperAnswer(state: .refused))
                return end(&peer)
            }
        }
        peers[number] = peer
    }

    /// False for a request that makes no sense; the descriptors then still belong to the caller.
    private mutating func answer(_ request: KeeperRequest, _ descriptors: [Int32], _ peer: inout Peer) -> Bool {
        switch request.act {
        case .claim:
            guard let name = request.mount, !name.isEmpty, peer.mount == nil, descriptors.isEmpty else { return false }
            if let other = peers.values.first(where: { $0.mount == name }) {
                peer.connection.send(KeeperAnswer(state: .served, process: other.process))
                return true
            }
            peer.mount = name
            if let seconds = request.patience, seconds >= 0, seconds < 1e9 { peer.patience = .seconds(seconds) }
            guard let kept = mounts[name] else {
                peer.connection.send(KeeperAnswer(state: .free))
                return true
            }
            // Its patience ends only when a process serves the mount, and hands it back.
            peer.connection.send(KeeperAnswer(state: .kept), [kept.device, kept.memory])
        case .keep:
            guard let name = peer.mount, descriptors.count == 2 else { return false }
            mounts[name]?.close()
            mounts[name] = Kept(device: descriptors[0], memory: descriptors[1], patience: peer.patience)
            peer.connection.send(KeeperAnswer(state: .kept))
        case .forget:
            guard let name = peer.mount, descriptors.isEmpty else { return false }
            forget(name)
            peer.connection.send(KeeperAnswer(state: .free))
        }
        return true
    }

    /// No process has the peer's end of the connection any more.
    private mutating func end(_ peer: inout Peer) {
        peer.connection.end()
        guard let name = peer.mount, let kept = mounts[name] else { return }
        mounts[name]?.unservedSince = kept.unservedSince ?? time.uptime()
    }

    // MARK: ends of mounts

    /// The mounts that no connection has claimed.
    private var unclaimed: [String: Kept] {
        let claimed = Set(peers.values.compactMap(\.mount))
        return mounts.filter { !claimed.contains($0.key) }
    }

    private mutating func forget(_ name: String) { mounts.removeValue(forKey: name)?.close() }

    private mutating func giveUp() {
        let now = time.uptime()
        for (name, kept) in unclaimed {
            guard let since = kept.unservedSince, now >= since + kept.patience else { continue }
            forget(name)
            Self.say("\(name) ends: no process took it back within \(DurationText.format(kept.patience))")
        }
    }

    private static func say(_ text: String) { Entry.say("pailfs: \(text)") }
}
