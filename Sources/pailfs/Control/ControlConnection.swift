import Basics
import CLinux
import Glibc

/// A command's end of the control connection.
final class ControlConnection {
    private let socket: Int32
    private let place: ControlPlace

    /// nil when no process listens there, or one of another user than the mount's owner.
    init?(_ place: ControlPlace, owner: UInt32) {
        let socket = linux_local_connect(place.directory, place.name)
        guard socket >= 0 else { return nil }
        var (user, process) = (UInt32.max, pid_t(0))
        guard linux_local_peer(socket, &user, &process) == 0, user == owner else {
            close(socket)
            return nil
        }
        (self.socket, self.place) = (socket, place)
    }

    deinit { close(socket) }

    /// Sends a request and waits for its answer. `mountpoint` is for messages.
    func ask(
        _ request: ControlRequest, within deadline: Duration?, of mountpoint: String
    ) throws(CommandError) -> ControlAnswer {
        let process = "the process that serves \(mountpoint) (\(place.pid.map { "\($0)" } ?? "of unknown number"))"
        guard let line = ControlLine.encode(request) else {
            throw CommandError("the request cannot be written as JSON")
        }
        _ = linux_socket_timeouts(socket, 200, 10_000)
        guard ControlLine.write(line, to: socket) else {
            throw CommandError("\(process) does not accept requests; see its log")
        }
        let bytes: [UInt8]
        do throws(ControlLine.Failure) {
            bytes = try ControlLine.read(socket, atMost: ControlLine.longestAnswer, within: deadline)
        } catch {
            switch error {
            case .tooLate: throw CommandError("\(process) does not answer; see its log")
            case .ended, .broken, .tooLong, .unwanted:
                throw CommandError("\(process) ended or has too much to do; see its log")
            }
        }
        guard let answer: ControlAnswer = ControlLine.decode(bytes) else {
            throw CommandError("\(process) is of another version of pailfs; run \"pailfs restart\" on its mountpoint")
        }
        if case .failed(let sentence) = answer { throw CommandError(sentence) }
        return answer
    }
}
