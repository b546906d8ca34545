import Basics
import CLinux
import Glibc
import Synchronization

/// Accepts the connections of a listening socket: each on a thread of its own, a few at a time; more are closed at once.
///
/// Owns the socket from `init` to `stop`. The mount does not wait for any connection. Locks: the mutex is a leaf.
final class ConnectionServer: Sendable {
    private struct State {
        var isStopped = false
        var connections: Set<Int32> = []
    }

    /// Talks to one peer; the connection is closed when it returns. The second argument returns whether the peer still waits for
    /// an answer.
    typealias Conversation = @Sendable (Int32, _ isWanted: @escaping @Sendable () -> Bool) -> Void

    private static let mostConnections = 16

    private let socket: Int32
    private let name: String
    private let talk: Conversation
    private let state = Mutex(State())
    private let left = Semaphore()

    /// `name` is the name of the threads.
    init(_ socket: Int32, name: String, _ talk: @escaping Conversation) {
        (self.socket, self.name, self.talk) = (socket, name, talk)
        startThread(name: name) { [self] in accept() }
    }

    /// Ends all connections. Waits for the requests that are being served, for a limited time.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            for connection in state.connections { linux_socket_shut_down(connection) }
        }
        linux_socket_shut_down(socket)
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
                // Out of descriptors or memory: other connections free some.
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
            startThread(name: name) { [self] in
                talk(peer) { [self] in !isStopped && linux_socket_is_hung_up(peer) == 0 }
                state.withLock { _ = $0.connections.remove(peer) }
                close(peer)
                left.signal()
            }
        }
    }
}
