import Basics
import CLinux
import Glibc
import Logging
import Settings
import Synchronization

/// Where log lines go, and what they look like. Each is one write, so lines of several threads and processes never mix.
struct LogTarget: Sendable {
    enum Place: Sendable {
        case file(LogFile)
        case standardError
        case syslog
    }

    let place: Place
    let format: MountSettings.LogFormat

    /// Text for a terminal.
    static let errors = LogTarget(place: .standardError, format: .text)

    private init(place: Place, format: MountSettings.LogFormat) { (self.place, self.format) = (place, format) }

    /// Opens the log of a mount.
    init(_ settings: MountSettings, foreground: Bool) throws(CommandError) {
        format = settings.logFormat
        if let path = settings.logFile {
            guard let file = LogFile(path) else {
                throw CommandError(
                    "the log \(path) cannot be written (\(String(cString: strerror(errno)))); set log to another file")
            }
            place = .file(file)
        } else {
            place = foreground ? .standardError : .syslog
        }
    }

    func logger(_ settings: MountSettings) -> Logger { logger(LogThreshold(settings.logLevel)) }

    /// A logger whose level can change.
    func logger(_ threshold: LogThreshold) -> Logger {
        Logger(label: "pailfs") { _ in LineHandler(target: self, threshold: threshold) }
    }
}

/// The lowest level that a mount logs; it may change.
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

/// One line for each event: time, level, message, and the metadata as `key=value`, or the same as a JSON object.
struct LineHandler: LogHandler {
    let target: LogTarget
    let threshold: LogThreshold
    private var own: Logger.Level?
    var metadata: Logger.Metadata = [:]

    init(target: LogTarget, threshold: LogThreshold) { (self.target, self.threshold) = (target, threshold) }

    /// The level of the mount, unless this logger was given one of its own.
    var logLevel: Logger.Level {
        get { own ?? threshold.value }
        set { own = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let fields = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        let isJSON = target.format == .json
        let time = SystemTime().now().iso8601(fraction: 3)
        let text = isJSON ? Self.object(time, event, fields) : "\(event.level) \(Self.text(event, fields))"
        // syslog adds the time.
        if case .syslog = target.place { return linux_syslog(Self.priority(of: event.level), text) }
        let bytes = Array((isJSON ? text + "\n" : "\(time) \(text)\n").utf8)
        if case .file(let file) = target.place {
            file.follow()
            _ = write(file.descriptor, bytes, bytes.count)
        } else {
            _ = write(STDERR_FILENO, bytes, bytes.count)
        }
    }

    private typealias Fields = [(key: String, value: Logger.MetadataValue)]

    private static func text(_ event: LogEvent, _ fields: Fields) -> String {
        fields.reduce("\(event.message)") { $0 + " \($1.key)=\(quoted("\($1.value)"))" }
    }

    private static func object(_ time: String, _ event: LogEvent, _ fields: Fields) -> String {
        var members: [String: String] = [:]
        for (name, value) in fields {
            let text = "\(value)"
            members[name] = text.unicodeScalars.count > longestValue ? text.prefix(longestValue) + "…" : text
        }
        (members["time"], members["level"], members["message"]) = (time, "\(event.level)", "\(event.message)")
        return (try? Output.json(members, isOneLine: true)) ?? "{}"
    }

    /// Most characters of a value; a path is no longer.
    private static let longestValue = 4096

    /// Quotes values with blanks, and escapes characters that would end the line.
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
