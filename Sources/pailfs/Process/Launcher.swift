import Basics
import CLinux
import FuseBridge
import Glibc
import Settings

/// Starts the process that serves a mount and waits until it reports.
///
/// The daemon is this program started anew, in a session of its own: after a fork no task or dispatch queue that has run before
/// ever runs again.
enum Launcher {
    /// Returns when the kernel answers on the mountpoint. When it throws, no process is left running.
    static func launch(_ request: MountRequest) throws(CommandError) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw CommandError("the process of the mount cannot be started: \(text(errno))") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var process = pid_t()
        let device = request.handed.map { fcntl($0.descriptor, F_DUPFD_CLOEXEC, lowestDescriptor) } ?? -1
        defer { if device >= 0 { close(device) } }
        // The mountpoint is among the arguments, where ps(1) shows it.
        let arguments = ["pailfs", request.settings.restarts ? "hold" : "serve"] + request.words
        let status = withCStrings(arguments) { linux_spawn_self(&process, $0, ends[1], ends[0], device) }
        close(ends[1])
        guard status == 0 else {
            throw CommandError("the process of the mount cannot be started: \(text(-status))")
        }
        switch StatusReport.receive(from: ends[0]) {
        case .ready: return
        case .failed(let sentence):
            _ = wait(for: process)
            throw CommandError(sentence)
        case nil:
            let end = "the process of the mount ended unexpectedly (\(wait(for: process)))"
            throw CommandError(memoryLimit.map { "\(end): \($0)" } ?? "\(end); see its log")
        }
    }

    /// Above the numbers that descriptors get in the new process.
    private static let lowestDescriptor: Int32 = 32

    /// The likely reason for the end of a process with a memory limit; nil without a limit.
    private static var memoryLimit: String? {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, limit.rlim_cur < rlim_t(Int64.max) else {
            return nil
        }
        return "it may use \(ByteSize.format(Int64(limit.rlim_cur))) of memory; raise that limit (ulimit -v)"
    }

    /// How the process ended, in words.
    private static func wait(for process: pid_t) -> String {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 {
            guard errno == EINTR else { return "unknown status" }
        }
        let signal = status & 0x7f
        return signal == 0 ? "exit status \((status >> 8) & 0xff)" : "signal \(signal)"
    }

    private static func text(_ number: Int32) -> String { String(cString: strerror(number)) }
}
