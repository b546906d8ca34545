import Basics
import FileSystem
import Foundation
import FuseBridge
import Logging
import Synchronization
import Testing

/// A real kernel mount of a `MemoryFileSystem` on a temporary directory; ends with `unmount`, or with the last reference.
final class MountedTree: Sendable {
    let fileSystem = MemoryFileSystem()
    let invalidator = KernelInvalidator()
    let path: String
    let log = LogRecord()
    let buffers: BufferPool
    private let session: FuseSession
    private let outcome = Outcome()
    private let ready = Semaphore()
    private let ended = Semaphore()

    private final class Outcome: Sendable {
        let unstored = Mutex<[UnstoredFile]?>(nil)
        let error = Mutex<FuseError?>(nil)
    }

    init(memory: Int = 64 << 20, readOnly: Bool = false) throws {
        path = NSTemporaryDirectory() + "bridge-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        var options = MountOptions(source: "mem://a,b c/päth")
        options.readOnly = readOnly
        options.kernelFlags = ["nosuid", "nodev", "noatime"]
        buffers = BufferPool(budget: MemoryBudget(limit: memory))
        let log = log
        session = FuseSession(
            fileSystem, on: try Mountpoint(path), options: options, pool: WorkerPool(threads: 4, name: "pool"),
            buffers: buffers, invalidator: invalidator, time: SystemTime(),
            logger: Logger(label: "test") { _ in RecordingHandler(record: log) })
        let (session, ready, ended, outcome) = (session, ready, ended, outcome)
        startThread(name: "session") {
            do throws(FuseError) {
                if case .unmounted(let unstored) = try session.run(whenReady: { ready.signal() }) {
                    outcome.unstored.withLock { $0 = unstored }
                }
            } catch {
                outcome.error.withLock { $0 = error }
                ready.signal()
            }
            ended.signal()
        }
        guard ready.wait(for: .seconds(300)) else { throw FuseError("the mount did not answer") }
        if let error = outcome.error.withLock({ $0 }) { throw error }
    }

    deinit {
        if outcome.unstored.withLock({ $0 }) == nil { _ = shell("fusermount3", "-u", "-z", "-q", path) }
        try? FileManager.default.removeItem(atPath: path)
    }

    func end() { session.end() }

    /// Unmounts as a user would and waits for the session; what it could not store.
    func unmount() throws -> [UnstoredFile] {
        let run = shell("fusermount3", "-u", path)
        try #require(run.status == 0, "\(run.output)")
        return try waitForEnd()
    }

    func waitForEnd() throws -> [UnstoredFile] {
        guard ended.wait(for: .seconds(300)) else { throw FuseError("the session did not end") }
        return try #require(outcome.unstored.withLock { $0 })
    }
}

/// What was logged at debug and above.
final class LogRecord: Sendable {
    struct Line: Sendable {
        let level: Logger.Level
        let text: String
    }
    let lines = Mutex<[Line]>([])
}

struct RecordingHandler: LogHandler {
    let record: LogRecord
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .debug

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let fields = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        let text = "\(event.message) \(fields.joined(separator: " "))"
        record.lines.withLock { $0.append(LogRecord.Line(level: event.level, text: text)) }
    }
}

/// Runs a program to its end: its status, and what it wrote.
func shell(_ arguments: String...) -> (status: Int32, output: String) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    do { try process.run() } catch { return (-1, "\(error)") }
    let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return (process.terminationStatus, output)
}
