import CLinux
import Glibc

/// How the process that serves a mount reports that it is ready, or why it cannot be.
enum StatusReport: Sendable {
    /// Descriptor 3, the pipe to the command that started this process.
    case pipe
    /// Standard error: the process runs in the foreground.
    case terminal

    /// The report that came through the pipe.
    enum Message: Sendable {
        case ready
        case failed(String)
    }

    private static let descriptor: Int32 = 3

    /// Programs that this process starts must not hold the pipe open.
    func keepFromChildren() { _ = fcntl(Self.descriptor, F_SETFD, FD_CLOEXEC) }

    /// Reports to the command that it may return, and leaves its terminal: messages of a crash go to `log`. False when the
    /// command is gone.
    func ready(log: LogTarget) -> Bool {
        guard case .pipe = self else {
            // The socket of a service manager that waits for this message (sd_notify(3)).
            if let socket = getenv("NOTIFY_SOCKET") { _ = linux_notify(socket, "READY=1", -1) }
            return true
        }
        letGo(log: log)
        return send("R")
    }

    /// Redirects the standard descriptors away from the terminal, in the background.
    func letGo(log: LogTarget) {
        guard case .pipe = self else { return }
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        guard null >= 0 else { return }
        dup2(null, STDOUT_FILENO)
        if case .file(let file) = log.place { file.takeErrors() } else { dup2(null, STDERR_FILENO) }
        close(null)
    }

    func failed(_ sentence: String) {
        switch self {
        case .pipe: _ = send("E" + sentence)
        case .terminal: Entry.say("pailfs: \(sentence)")
        }
    }

    private func send(_ text: String) -> Bool {
        defer { close(Self.descriptor) }
        let bytes = Array(text.utf8)
        return write(Self.descriptor, bytes, bytes.count) == bytes.count
    }

    /// Reads the pipe to its end; nil when the process ended without a report.
    static func receive(from descriptor: Int32) -> Message? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            bytes += chunk[..<count]
        }
        switch bytes.first {
        case UInt8(ascii: "R"): return .ready
        case UInt8(ascii: "E"): return .failed(String(decoding: bytes.dropFirst(), as: UTF8.self))
        default: return nil
        }
    }
}
