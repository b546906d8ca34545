import CFuse3
import Logging
import Synchronization

/// Passes libfuse's own messages to this process's log and keeps the last one, libfuse's only explanation of a failed mount.
///
/// libfuse has one log function for the process and gives it no context, so this state belongs to the process too.
enum LibraryLog {
    private struct State: Sendable {
        var logger: Logger?
        var last = ""
    }

    private static let state = Mutex(State())

    static func install(_ logger: Logger) {
        state.withLock { $0 = State(logger: logger) }
        cfuse_receive_messages { level, message in
            guard let message else { return }
            let text = String(cString: message).split(separator: "\n").first.map(String.init) ?? ""
            LibraryLog.take(text, isError: level <= 3)
        }
    }

    /// The last message since `install`, without libfuse's own name in front; empty if there was none.
    static var lastMessage: String {
        let text = state.withLock { $0.last }
        return text.hasPrefix("fuse: ") ? String(text.dropFirst(6)) : text
    }

    private static func take(_ text: String, isError: Bool) {
        let logger = state.withLock { state in
            state.last = text
            return state.logger
        }
        logger?.log(level: isError ? .warning : .debug, "libfuse", metadata: ["message": "\(text)"])
    }
}
