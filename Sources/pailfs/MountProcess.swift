import Basics
import CLinux
import FileSystem
import FuseBridge
import Glibc
import Logging
import Settings
import Synchronization

/// The life of the process that serves a mount: checks, composition, service, last commits.
final class MountProcess: Sendable {
    private let request: MountRequest
    private let report: StatusReport
    private let session = Mutex<FuseSession?>(nil)

    init(_ request: MountRequest, report: StatusReport) { (self.request, self.report) = (request, report) }

    /// Returns the exit status. Call it on the main thread before any other thread exists.
    func run() -> Int32 {
        let signals = TerminationSignals()
        // Started as /proc/self/exe it would be "exe" to ps(1).
        linux_name_thread("pailfs")
        raiseDescriptorLimit()
        do {
            return try serve(signals)
        } catch {
            report.failed(error.message)
            return EXIT_FAILURE
        }
    }

    /// Every file in use and every connection takes a descriptor: as many as the system lets us have.
    private func raiseDescriptorLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    private func serve(_ signals: TerminationSignals) throws(CommandError) -> Int32 {
        let isForeground = if case .terminal = report { true } else { false }
        let mountpoint: Mountpoint
        do throws(FuseError) {
            mountpoint = try Mountpoint(request.mountpoint)
            try mountpoint.prepare(allowOther: request.settings.allowOther)
        } catch { throw CommandError(error) }
        let log = try LogTarget(request.settings, foreground: isForeground)
        let logger = log.logger(request.settings)
        // Nothing below uses relative paths, and the working directory must not keep a file system busy.
        _ = chdir("/")
        startThread(name: "signals") { [self] in
            while true { handle(signals.wait(), logger) }
        }
        let composition = try Composition(request, mountpoint: mountpoint, logger: logger)
        session.withLock { $0 = composition.session }
        let record: MountRecord
        do { record = try MountRecord(for: mountpoint) } catch {
            throw CommandError("the record of the mount cannot be written: \(error); make its directory writable")
        }
        composition.listen(request, mountpoint: mountpoint, logger: logger)
        let unstored: [UnstoredFile]
        do {
            unstored = try composition.session.run { [self, session = composition.session] in
                // Nobody waits any more: the command was interrupted, so nothing shall be mounted.
                if !report.ready(log: log) { session.end() }
            }
        } catch {
            composition.close()
            record.finish([])
            throw CommandError(error)
        }
        composition.close()
        for file in unstored {
            logger.error("not stored", metadata: ["key": "\(file.path)", "reason": "\(file.reason)"])
        }
        record.finish(unstored.map { "\($0.path) (\($0.reason))" })
        return unstored.isEmpty ? EXIT_SUCCESS : EXIT_FAILURE
    }

    /// Ends the mount; before there is one, the process, which owns nothing then.
    private func handle(_ signal: Int32, _ logger: Logger) {
        logger.info("ending on a signal", metadata: ["signal": "\(signal)"])
        guard let session = session.withLock({ $0 }) else { exit(128 + signal) }
        session.end()
    }
}
