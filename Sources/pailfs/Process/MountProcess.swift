import Basics
import CLinux
import FileSystem
import FuseBridge
import Glibc
import Logging
import Settings
import Synchronization

/// The life of the process that serves a mount: checks, composition, service, last commits.
///
/// With a holder it is one of several workers, and all but the first take over the existing mount; one that is started after the
/// unmount has no session and only stores the remaining files. Locks: the mutex is a leaf. After a crash: everything is left to
/// the next worker or, without a holder, to the next mount.
final class MountProcess: Sendable {
    private struct State {
        var session: FuseSession?
        /// The signal that came before there was a session.
        var signal: Int32?
        /// A signal that leaves the mount to its keeper came before there was a session.
        var leaves = false
        /// The time since boot at which the first signal came that ends the mount.
        var endingSince: Duration?
    }

    private let request: MountRequest
    private let report: StatusReport
    private let held: HeldConnection?
    private let predecessor: String?
    private let onlyStores: Bool
    private let isTakenBack: Bool
    private let state = Mutex(State())

    /// `predecessor` says how the worker before this one died; `onlyStores` that the mount is gone; `isTakenBack` that the holder
    /// has the mount from a keeper, and a command waits for this process.
    init(
        _ request: MountRequest, report: StatusReport, held: HeldConnection? = nil, predecessor: String? = nil,
        onlyStores: Bool = false, isTakenBack: Bool = false
    ) {
        (self.request, self.report, self.held) = (request, report, held)
        (self.predecessor, self.onlyStores, self.isTakenBack) = (predecessor, onlyStores, isTakenBack)
        // The holder's number, read while the holder lives: afterwards it could be another process's.
        process = held == nil ? getpid() : getppid()
    }

    /// The process that exists as long as the mount: the holder, or this one.
    private let process: pid_t
    private var takesOver: Bool { held?.isTakenOver ?? false }
    /// Whether a command waits for the report.
    private var reports: Bool { !takesOver || isTakenBack }

    /// Returns the exit status. Call it on the main thread before any other thread exists.
    func run() -> Int32 {
        let signals = TerminationSignals()
        // Without this, ps(1) would show "exe" for a process started as /proc/self/exe.
        linux_name_thread("pailfs")
        // A write beyond what ulimit -f allows fails instead.
        linux_ignore_signal(SIGXFSZ)
        DescriptorLimit.raise()
        do {
            return try serve(signals)
        } catch {
            // The pipe of a worker that takes over has no reader; its log has the reason.
            if reports { report.failed(error.message) }
            return EXIT_FAILURE
        }
    }

    private func serve(_ signals: TerminationSignals) throws(CommandError) -> Int32 {
        let isForeground = if case .terminal = report { true } else { false }
        let mountpoint = try findMountpoint()
        let log = try LogTarget(request.settings, foreground: isForeground)
        let threshold = LogThreshold(request.settings.logLevel)
        let logger = log.logger(threshold)
        if !reports { report.letGo(log: log) }
        if let predecessor {
            logger.warning("the worker before this one died", metadata: ["reason": "\(predecessor)"])
        }
        // Nothing below uses relative paths, and the working directory must not keep a file system busy.
        _ = chdir("/")
        startThread(name: "signals") { [self] in
            while true { handle(signals.wait(), logger) }
        }
        let record: MountRecord
        let composition: Composition
        do throws(CommandError) {
            let made = try makeRecord(for: mountpoint)
            record = made
            composition = try Composition(
                request, mountpoint: mountpoint, held: held, record: made.descriptor, process: process,
                logger: logger)
        } catch {
            // The report of a worker that takes over has no reader.
            if takesOver {
                logger.error("the new worker cannot take over the mount", metadata: ["reason": "\(error.message)"])
            }
            throw error
        }
        do throws(CommandError) {
            try composition.listen(
                request, mountpoint: mountpoint, process: process, threshold: threshold, logger: logger)
        } catch {
            composition.close()
            if !takesOver { record.finish([]) }
            throw error
        }
        if onlyStores { return finish(composition, record, composition.finish(), logger) }
        let (early, leaves) = state.withLock { state in
            state.session = composition.session
            return (state.signal, state.leaves)
        }
        if leaves { composition.session.handOver() } else if early != nil { composition.session.end() }
        let ending: FuseSession.Ending
        do {
            ending = try composition.session.run(whileStoring: {
                record.tellProgress(composition.unsent)
            }) { [self, session = composition.session] in
                // When the command returns, the keeper has the mount.
                if request.settings.keeper != nil, !takesOver { held?.awaitKeeper() }
                // The command was interrupted and does not wait any more, so the mount ends.
                if reports, !report.ready(log: log), !takesOver { session.end() }
            }
        } catch {
            logger.error("the mount cannot be served", metadata: ["reason": "\(error.message)"])
            composition.close()
            if !takesOver { record.finish([]) }
            throw CommandError(error)
        }
        switch ending {
        case .handedOver:
            logger.info("handing over")
            composition.close(within: .seconds(5))
            // The tasks that still run belong to requests that the next worker carries out.
            _exit(Holder.handOverStatus)
        case .unmounted(let unstored):
            return finish(composition, record, unstored, logger)
        }
    }

    /// Returns the exit status if everything is stored. Otherwise requests may still run that the store does not answer; they end
    /// with the process.
    private func finish(
        _ composition: Composition, _ record: MountRecord, _ unstored: [UnstoredFile], _ logger: Logger
    ) -> Int32 {
        if unstored.isEmpty { composition.close() } else { composition.close(within: .milliseconds(500)) }
        for file in unstored {
            logger.error("not stored", metadata: ["key": "\(file.path)", "reason": "\(file.reason)"])
        }
        record.finish(unstored.map { "\($0.path) (\($0.reason))" })
        if !unstored.isEmpty { _exit(EXIT_FAILURE) }
        return EXIT_SUCCESS
    }

    private func findMountpoint() throws(CommandError) -> Mountpoint {
        if let held, takesOver { return held.mountpoint }
        if request.handed != nil { return Mountpoint(handed: request.mountpoint) }
        do throws(FuseError) {
            let mountpoint = try Mountpoint(request.mountpoint)
            try mountpoint.prepare(allowOther: request.settings.admitsOthers)
            if (try? Directory.isEmpty(mountpoint.path)) == false {
                Entry.warn("\(mountpoint.path) is not empty; the mount hides its files until it is unmounted")
            }
            return mountpoint
        } catch { throw CommandError(error) }
    }

    private func makeRecord(for mountpoint: Mountpoint) throws(CommandError) -> MountRecord {
        do {
            if takesOver, !isTakenBack { return try MountRecord(inherited: HeldConnection.Descriptor.record) }
            let record = try MountRecord(for: mountpoint, process: process)
            if isTakenBack { try held?.handOver(record: record.descriptor) }
            return record
        } catch {
            throw CommandError(
                "the record of the mount cannot be written: \(error); make its directory yours and writable")
        }
    }

    /// Ends or hands over the mount. Before there is one, ends the process, which owns nothing then.
    private func handle(_ signal: Int32, _ logger: Logger) {
        let session = state.withLock { state -> FuseSession? in
            guard state.session == nil, signal != SIGUSR2 else { return state.session }
            if takesOver, isForKeeper(signal) { state.leaves = true } else { state.signal = signal }
            return nil
        }
        // Before the first session there is no mount to leave to a keeper.
        if signal == SIGUSR2 || isForKeeper(signal) && (session != nil || takesOver) {
            if held != nil { session?.handOver() }
            return
        }
        guard let session else {
            logger.info("a signal ends the mount", metadata: ["signal": "\(signal)"])
            if !takesOver { exit(128 + signal) }
            return
        }
        let now = SystemTime().uptime()
        let since = state.withLock { state in
            defer { state.endingSince = state.endingSince ?? now }
            return state.endingSince
        }
        if let since {
            // The holder and a service manager may both pass on one signal.
            guard now - since >= .seconds(1) else { return }
            logger.info("a second signal ends the mount at once", metadata: ["signal": "\(signal)"])
            return session.end()
        }
        logger.info("a signal ends the mount", metadata: ["signal": "\(signal)"])
        if signal == SIGINT, isatty(STDIN_FILENO) == 1 { return session.end() }
        startThread(name: "end") { [self] in endWhenUnused(session, logger) }
    }

    /// Whether the signal ends this process and not its mount, which a keeper has. A service manager sends it to all processes.
    private func isForKeeper(_ signal: Int32) -> Bool {
        request.settings.keeper != nil && held != nil && (signal == SIGTERM || signal == SIGHUP)
    }

    /// Ends the mount when no program uses it, or when term-wait is over: if a mount is detached while it is in use, programs
    /// that use its path write into the directory below.
    private func endWhenUnused(_ session: FuseSession, _ logger: Logger) {
        let time = SystemTime()
        let began = time.uptime()
        let end = servesUntil(from: began, session)
        var (hasSaid, pause) = (false, UInt32(100_000))
        while time.uptime() < end {
            if session.endIfUnused() { return }
            // A mount that was handed in shows only after a while that no program uses it.
            if !hasSaid, request.handed == nil || time.uptime() - began > FuseSession.idleness {
                hasSaid = true
                logger.warning(
                    "the mount is in use; it ends when no program uses it, or when term-wait is over",
                    metadata: ["term-wait": "\(DurationText.format(request.settings.termWait))"])
            }
            usleep(pause)
            pause = min(pause * 2, 1_000_000)
        }
        session.end()
    }

    /// The time at which a mount in use ends after a signal. A mount that was handed in belongs to a pod, whose grace period
    /// term-wait is: the last quarter is for storing, and what is not stored then stays in the journal.
    private func servesUntil(from now: Duration, _ session: FuseSession) -> Duration {
        let wait = request.settings.termWait
        guard request.handed != nil else { return now + wait }
        session.mustEnd(by: now + wait)
        return now + wait * 3 / 4
    }
}
