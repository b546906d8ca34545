import Basics
import CLinux
import Glibc
import Logging

/// The mount's end of the control connection: a local socket beside the mount's record.
///
/// Serves the user that mounts, and root; one request a connection. Requests are bounded in length and time. Owns the socket and
/// its name from `init` to `stop`; a killed process leaves the name behind, which the next mount on the same place removes.
final class ControlServer: Sendable {
    /// How long a request may take to arrive.
    private static let patience = Duration.seconds(5)

    private let place: ControlPlace
    private let server: ConnectionServer

    /// Listens at `place`, whose directory exists and belongs to this user. Throws when it cannot.
    init(at place: ControlPlace, _ service: ControlService, logger: Logger) throws(FileError) {
        self.place = place
        try? File.remove(place.path)
        let socket = linux_local_listen(place.directory, place.name, 16)
        guard socket >= 0 else { throw FileError(errno: -socket, operation: "listen on", path: place.path) }
        server = ConnectionServer(socket, name: "control") { peer, isWanted in
            Self.serve(peer, service, logger, isWanted)
        }
    }

    /// Ends all connections. Waits for the requests that are being served, for a limited time.
    func stop() {
        try? File.remove(place.path)
        server.stop()
    }

    private static func serve(
        _ peer: Int32, _ service: ControlService, _ logger: Logger, _ isWanted: @escaping @Sendable () -> Bool
    ) {
        var (user, process) = (UInt32.max, pid_t(0))
        guard linux_local_peer(peer, &user, &process) == 0, user == geteuid() || user == 0 else {
            logger.warning("control refused", metadata: ["user": "\(user)"])
            return
        }
        let answer: ControlAnswer
        do throws(ControlLine.Failure) {
            // A peer that has shut down its writing side and waits looks like one that is gone: the request is carried out all
            // the same.
            let line = try ControlLine.read(peer, atMost: ControlLine.longestRequest, within: patience)
            if let request: ControlRequest = ControlLine.decode(line) {
                answer = service.answer(request, isWanted: isWanted)
            } else {
                answer = .failed(
                    "the mount is served by pailfs \(Entry.version), which lacks this command; run \"pailfs restart\" on its mountpoint"
                )
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
