import Basics
import CLinux
import Glibc
import Logging
import Settings
import Synchronization

/// Where log lines go. Each is one write, so lines of several threads and processes never mix.
enum LogTarget: Sendable {
    /// A file opened for appending, or standard error.
    case descriptor(Int32)
    case syslog

    /// Opens the log of a mount.
    init(_ settings: MountSettings, foreground: Bool) throws(CommandError) {
        if let path = settings.logFile {
            let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
            guard file >= 0 else {
                throw CommandError(
                    "the log \(path) cannot be written (\(String(cString: strerror(errno)))); set log to another file")
            }
            self = .descriptor(file)
        } else {
            self = foreground ? .descriptor(STDERR_FILENO) : .syslog
        }
    }

    func logger(_ settings: MountSettings) -> Logger { logger(LogThreshold(settings.logLevel)) }

    /// One whose level can change.
    func logger(_ threshold: LogThreshold) -> Logger {
        Logger(label: "pailfs") { _ in LineHandler(target: self, threshold: threshold) }
    }
}

/// From which level on a mount logs; may change while it does.
final class LogThreshold: Sendable {
    private let level: Atomic<Int>

    init(_ level: MountSettings.LogLevel) { self.level = Atomic(Self.index(of: level)) }

    func set(_ level: MountSettings.LogLevel) { self.level.store(Self.index(of: level), ordering: .relaxed) }

    var value: Logger.Level { Self.levels[level.load(ordering: .relaxed)] }

    private static let levels: [Logger.Level] = [.trace, .debug, .info, .warning, .error]

    private static func index(of level: MountSettings.LogLevel) -> Int {
        switch level {
        case .trace: 0
        case .debug: 1
        case .info: 2
        case .warning: 3
        case .error: 4
        }
    }
}

/// One line for each event: time, level, message, and the metadata as `key=value`.
struct LineHandler: LogHandler {
    let target: LogTarget
    let threshold: LogThreshold
    private var own: Logger.Level?
    var metadata: Logger.Metadata = [:]

    init(target: LogTarget, threshold: LogThreshold) { (self.target, self.threshold) = (target, threshold) }

    /// That of the mount, unless somebody wants another one of this logger alone.
    var logLevel: Logger.Level {
        get { own ?? threshold.value }
        set { own = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var line = "\(event.message)"
        let fields = metadata.merging(event.metadata ?? [:]) { $1 }
        for (key, value) in fields.sorted(by: { $0.key < $1.key }) { line += " \(key)=\(Self.quoted("\(value)"))" }
        switch target {
        case .descriptor(let file):
            let bytes = Array("\(SystemTime().now().iso8601(fraction: 3)) \(event.level) \(line)\n".utf8)
            _ = write(file, bytes, bytes.count)
        case .syslog: linux_syslog(Self.priority(of: event.level), "\(event.level) \(line)")
        }
    }

    /// Characters of a value; a path has at most this many.
    private static let longestValue = 4096

    /// Values with blanks are quoted, and nothing in a value ends the line.
    private static func quoted(_ value: String) -> String {
        var text = ""
        var needsQuotes = value.isEmpty
        for (count, scalar) in value.unicodeScalars.enumerated() {
            guard count < longestValue else { return "\"\(text)…\"" }
            switch scalar {
            case "\"", "\\":
                text += "\\\(scalar)"
                needsQuotes = true
            case " ":
                text += " "
                needsQuotes = true
            case _ where scalar.value < 0x20 || 0x7f..<0xa0 ~= scalar.value:
                text += "\\u{\(String(scalar.value, radix: 16))}"
                needsQuotes = true
            default: text.unicodeScalars.append(scalar)
            }
        }
        return needsQuotes ? "\"\(text)\"" : text
    }

    private static func priority(of level: Logger.Level) -> Int32 {
        switch level {
        case .critical: 2
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug, .trace: 7
        }
    }
}
