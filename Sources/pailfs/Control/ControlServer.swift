import Basics
import CLinux
import Glibc
import Logging
import Synchronization

/// The mount's end of the control connection: a local socket beside the mount's record.
///
/// Serves the user that mounts, and root; one request a connection, each on a thread of its own, a few at a time. Nothing
/// of the mount waits for any of them, and what comes in is bounded in length and time. Owns the socket and its name from
/// `init` to `stop`; a killed process leaves the name behind, which the next mount on the same place removes. The mutex is
/// a leaf.
final class ControlServer: Sendable {
    private struct State {
        var isStopped = false
        var connections: Set<Int32> = []
    }

    private static let mostConnections = 16
    /// For a request to arrive.
    private static let patience = Duration.seconds(5)

    private let place: ControlPlace
    private let socket: Int32
    private let service: ControlService
    private let logger: Logger
    private let state = Mutex(State())
    private let left = Semaphore()

    /// Listens at `place`, whose directory exists and belongs to this user. Throws when it cannot.
    init(at place: ControlPlace, _ service: ControlService, logger: Logger) throws(FileError) {
        (self.place, self.service, self.logger) = (place, service, logger)
        try? File.remove(place.path)
        socket = linux_local_listen(place.directory, place.name, 16)
        guard socket >= 0 else { throw FileError(errno: -socket, operation: "listen on", path: place.path) }
        startThread(name: "control") { [self] in accept() }
    }

    /// Nothing is answered any more. Waits for those that are being served, but not for ever.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            for connection in state.connections { linux_socket_shut_down(connection) }
        }
        linux_socket_shut_down(socket)
        try? File.remove(place.path)
        while !state.withLock({ $0.connections.isEmpty }), left.wait(for: .seconds(10)) {}
    }

    private var isStopped: Bool { state.withLock { $0.isStopped } }

    private func accept() {
        defer { close(socket) }
        while true {
            let peer = linux_local_accept(socket)
            if isStopped {
                if peer >= 0 { close(peer) }
                return
            }
            guard peer >= 0 else {
                if -peer == EINVAL || -peer == EBADF { return }
                // Out of descriptors or memory: others give some back.
                usleep(100_000)
                continue
            }
            let isTaken = state.withLock { state in
                guard !state.isStopped, state.connections.count < Self.mostConnections else { return false }
                state.connections.insert(peer)
                return true
            }
            guard isTaken else {
                close(peer)
                continue
            }
            startThread(name: "control") { [self] in
                serve(peer)
                state.withLock { _ = $0.connections.remove(peer) }
                close(peer)
                left.signal()
            }
        }
    }

    private func serve(_ peer: Int32) {
        var user = UInt32.max
        guard linux_local_peer(peer, &user) == 0, user == geteuid() || user == 0 else {
            logger.warning("control refused", metadata: ["user": "\(user)"])
            return
        }
        let answer: ControlAnswer
        do throws(ControlLine.Failure) {
            let line = try ControlLine.read(
                peer, atMost: ControlLine.longestRequest, within: Self.patience, isWanted: { !isStopped })
            if let request: ControlRequest = ControlLine.decode(line) {
                answer = service.answer(request) { [self] in
                    !isStopped && linux_socket_is_hung_up(peer) == 0
                }
            } else {
                answer = .failed("the mount is served by pailfs \(Entry.version), which does not know this request")
            }
        } catch {
            guard case .tooLong = error else { return }
            answer = .failed("the request is too long")
        }
        guard let line = ControlLine.encode(answer), line.count <= ControlLine.longestAnswer else {
            ControlLine.write(
                ControlLine.encode(ControlAnswer.failed("the answer is too long")) ?? [], to: peer)
            return
        }
        ControlLine.write(line, to: peer)
    }
}
