import Basics
import CLinux
import FuseBridge
import Glibc

/// The process that keeps a mount alive while the worker, the process that serves it, may die or be replaced.
///
/// One thread, no task, no cache, so that little can go wrong. Owns the worker, a second descriptor of the kernel's connection,
/// one of the mount's record, and the memory in which workers record the requests they have read (`linux_held`). A worker that
/// dies is replaced, with pauses, up to a limit; the holder ends with the exit status of a worker that ends in order. A worker
/// that dies after the unmount is replaced by one that only stores the remaining files. If the holder dies, the worker serves on
/// without it.
///
/// With a keeper (`MountKeeper`) the mount outlives the holder, too: the holder hands it over as soon as it has it, and the next
/// holder takes it back, with the memory and the connection as they were.
struct Holder {
    /// The exit status with which a worker asks for another one to serve the mount.
    static let handOverStatus: Int32 = 75

    /// Successive deaths after which the mount is given up, and how long a worker must serve for the count to restart.
    private static let mostDeaths = 20
    private static let steadySeconds = 2
    /// How long a killed worker may hang in the kernel before the requests it has read fail: one of its threads may wait in the
    /// kernel for a program that waits for the worker.
    private static let patienceSeconds = 10
    private static let interestingSignals = [SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR2]
    /// The holder's descriptors lie above the fixed numbers of a worker's.
    private static let lowestDescriptor: Int32 = 32

    private let arguments: [String]
    private let isForeground: Bool
    private let directory: String
    private let path: String
    private let memory: UnsafeMutablePointer<linux_held>
    private let memoryFile: Int32
    private let signals: Int32
    private let socket: (ours: Int32, workers: Int32)
    private var program = "/proc/self/exe"
    private var worker: pid_t = 0
    private var device: Int32 = -1
    private var record: Int32 = -1
    private var hasEnded = false
    private var endSignal: Int32?
    /// Whether the present worker has got `endSignal`.
    private var hasPassedEndSignal = false
    private var deaths = 0
    /// How the last worker died, for the log of the next one.
    private var predecessor: String?
    private var startedAt = 0
    private var dyingSince: Int?
    private var keeper: MountKeeper?
    /// The mount is from a keeper, and no worker has served it since.
    private var isTakingBack = false
    /// The keeper is to get the mount.
    private var isToKeep = false
    /// Since when a signal ends the processes of the mount, which the keeper has.
    private var leavingSince: Int?

    /// Serves `arguments` (URL, mountpoint, options, as `pailfs mount` takes them) and returns the exit status. `handed` is the
    /// connection of a mount that another process has made; the holder then owns its descriptor. `keeper` may have the mount.
    /// Requires: called on the main thread before any other thread exists.
    static func run(
        _ arguments: [String], foreground: Bool, handed: HandedConnection? = nil, keeper: MountKeeper? = nil
    ) -> Int32 {
        let report: StatusReport = foreground ? .terminal : .pipe
        // Without this, ps(1) would show "exe" for a process started as /proc/self/exe.
        linux_name_thread("pailfs")
        do {
            var keeper = keeper
            let kept = try keeper?.claim()
            var holder = try Holder(arguments, foreground: foreground, memory: kept?.memory)
            holder.keeper = keeper
            if let kept { try holder.takeBack(kept) }
            if let handed { holder.device = raised(handed.descriptor) }
            return try holder.serve()
        } catch {
            report.failed(error.message)
            return EXIT_FAILURE
        }
    }

    /// `memory` is that of an earlier holder; nil makes a new one.
    private init(_ arguments: [String], foreground: Bool, memory earlier: Int32?) throws(CommandError) {
        (self.arguments, isForeground) = (arguments, foreground)
        directory = Directory.working ?? "/"
        path = File.resolved("/proc/self/exe") ?? program
        linux_ignore_signal(SIGPIPE)
        memoryFile = Self.raised(earlier ?? linux_held_create())
        guard memoryFile >= 0, let memory = linux_held_map(memoryFile) else {
            throw CommandError("there is no memory for the holder of the mount")
        }
        self.memory = memory
        var ends: [Int32] = [-1, -1]
        let status = linux_socket_pair(&ends)
        signals = Self.raised(linux_signal_descriptor(Self.interestingSignals, Int32(Self.interestingSignals.count)))
        guard status == 0, signals >= 0 else {
            throw CommandError("the holder of the mount cannot be set up: \(Self.text(errno))")
        }
        socket = (Self.raised(ends[0]), Self.raised(ends[1]))
    }

    private mutating func serve() throws(CommandError) -> Int32 {
        let pipe = isForeground ? -1 : Self.raised(dup(HeldConnection.Descriptor.status))
        let status = start(statusPipe: pipe)
        guard status == 0 else {
            throw CommandError("the worker of the mount cannot be started: \(Self.text(-status))")
        }
        letGoOfCaller(pipe)
        while true {
            // No signal or message shows that a worker has begun to serve: this is polled.
            let isToEnd = endSignal != nil && !hasPassedEndSignal
            let ready = linux_wait_readable(signals, socket.ours, isToEnd ? 20 : Int32(Self.patienceSeconds) * 500)
            if ready & 1 != 0 { takeSignals() }
            takeMessages()
            passEndSignal()
            if let status = reaped(), let end = decide(status) { return end }
            watchDying()
            watchKeeper()
        }
    }

    // MARK: the worker

    private mutating func start(statusPipe: Int32 = -1) -> Int32 {
        var flags = isForeground ? ["--foreground"] : []
        if hasEnded { flags.append("--storing") }
        if let predecessor { flags += ["--predecessor", predecessor] }
        if isTakingBack { flags.append("--taken-back") }
        let words = ["pailfs", "work", "--directory", directory] + flags + arguments
        // In the order of `HeldConnection.Descriptor`.
        let descriptors = [statusPipe, socket.workers, memoryFile, record, device, keeper?.descriptor ?? -1]
        startedAt = Self.now
        hasPassedEndSignal = false
        return withCStrings(words) {
            linux_spawn_worker(&worker, program, $0, descriptors, Int32(descriptors.count))
        }
    }

    /// The worker's wait status (waitpid(2)), if it has ended.
    private mutating func reaped() -> Int32? {
        var status: Int32 = 0
        guard worker > 0, waitpid(worker, &status, WNOHANG) == worker else { return nil }
        takeMessages()
        worker = 0
        dyingSince = nil
        return status
    }

    /// Starts another worker and returns nil, or returns the exit status of the holder.
    private mutating func decide(_ status: Int32) -> Int32? {
        let signal = status & 0x7f
        let code = exitCode(of: status)
        let end = signal == 0 ? "exit status \(code)" : "signal \(signal)"
        if hasEnded { return decideAfterUnmount(code, end) }
        // Without a mount there is nothing to hold.
        guard device >= 0 else { return code }
        // The keeper has the mount, for the next process.
        if leavingSince != nil { return EXIT_SUCCESS }
        if isTakingBack, memory.pointee.is_serving == 0 { return code }
        if memory.pointee.generation == 0, memory.pointee.is_serving == 0 {
            letGoOfMount()
            return code
        }
        if signal == 0, code == Self.handOverStatus {
            // The installed program may be a newer one by now.
            (program, deaths, predecessor) = (path, 0, nil)
            tell("the worker has handed the mount to a new one")
        } else if signal == 0, memory.pointee.is_serving != 0 {
            return code
        } else {
            noteDeath(end)
            guard deaths < Self.mostDeaths else { return giveUp() }
        }
        return startNext() ? nil : giveUp()
    }

    /// After the unmount, a worker that has written its result to the record ends the holder with its exit status. Otherwise
    /// another worker stores the remaining files; after too many deaths the record names them.
    private mutating func decideAfterUnmount(_ code: Int32, _ end: String) -> Int32? {
        if MountRecord.isFinished(record) { return code }
        noteDeath(end)
        if deaths < Self.mostDeaths, startNext() { return nil }
        tell("the rest is not stored after \(deaths) deaths of the worker; see its log, and mount again")
        if let record = try? MountRecord(inherited: record) {
            record.finish(LeftFiles.lines(of: arguments, in: directory))
        }
        return EXIT_FAILURE
    }

    private mutating func noteDeath(_ end: String) {
        if memory.pointee.is_serving != 0, Self.now - startedAt >= Self.steadySeconds { deaths = 0 }
        deaths += 1
        predecessor = end
        tell("the worker has ended (\(end)) and is started again")
        // A new version that does not start must not end the mount.
        if memory.pointee.is_serving == 0 { program = "/proc/self/exe" }
        // The stop point applies to one worker only.
        unsetenv("PAILFS_STOP_POINT")
        if deaths > 1 { usleep(min(1_000_000, 50_000 << UInt32(deaths))) }
    }

    /// False when no other worker can be started.
    private mutating func startNext() -> Bool {
        memory.pointee.generation += 1
        memory.pointee.is_serving = 0
        isTakingBack = false
        let status = start()
        if status == 0 { return true }
        tell("the worker cannot be started: \(Self.text(-status))")
        program = "/proc/self/exe"
        return start() == 0
    }

    /// Ends the mount: programs get errors instead of waiting for ever, and the mountpoint is free again.
    private mutating func giveUp() -> Int32 {
        tell("the mount ends after \(deaths) deaths of its worker; see its log, and mount again")
        letGoOfMount()
        return EX_SOFTWARE
    }

    private mutating func letGoOfMount() {
        keeper?.forget()
        close(device)
        do { try mountedPlace?.unmount(lazily: true) } catch { tell(error.message) }
    }

    /// Where the mount is; nil where it is not mounted any more, or another one is in its place.
    private var mountedPlace: Mountpoint? {
        let mountpoint = Mountpoint(resolved: String(cString: linux_held_mountpoint(memory)))
        return mountpoint.mounted?.device == String(cString: linux_held_device(memory)) ? mountpoint : nil
    }

    private mutating func takeSignals() {
        while true {
            let signal = linux_next_signal(signals)
            switch signal {
            case 0: return
            case SIGTERM, SIGHUP:
                if keeper == nil { end(signal) } else { leaveOrEnd() }
            case SIGINT: end(signal)
            case SIGUSR2: if worker > 0, device >= 0 { kill(worker, SIGUSR2) }
            default: break
            }
        }
    }

    /// Ends the worker and this process, and leaves the mount to the keeper; the second time, a second later or more, at once. A
    /// mount that the keeper does not have, or that is unmounted here, ends in order: "pailfs unmount" sends the signal as well.
    /// A worker hands over at SIGTERM, so it gets another signal then.
    private mutating func leaveOrEnd() {
        watchKeeper()
        guard keeper?.hasMount == true, mountedPlace != nil else { return end(SIGINT) }
        if let leavingSince {
            if Self.now > leavingSince, worker > 0 { kill(worker, SIGKILL) }
        } else {
            leavingSince = Self.now
            end(SIGUSR2)
        }
    }

    private mutating func end(_ signal: Int32) {
        endSignal = signal
        hasPassedEndSignal = false
        passEndSignal()
    }

    /// Sends the signal to a worker that takes a mount over only once it serves: one that is killed during its start leaves its
    /// unstored files to the next, which would be killed as well.
    private mutating func passEndSignal() {
        guard let signal = endSignal, worker > 0, !hasPassedEndSignal else { return }
        guard memory.pointee.is_serving != 0 || memory.pointee.generation == 0 && leavingSince == nil
        else { return }
        hasPassedEndSignal = true
        kill(worker, signal)
    }

    private mutating func takeMessages() {
        while true {
            var descriptors: [Int32] = [-1, -1]
            let tag = linux_receive_descriptors(socket.ours, &descriptors)
            guard tag > 0 else { return }
            switch CChar(truncatingIfNeeded: tag) {
            case HeldConnection.mountedTag:
                // The first worker of a connection that was handed in sends the same one.
                if device >= 0 { close(device) }
                (device, record) = (Self.raised(descriptors[0]), Self.raised(descriptors[1]))
                isToKeep = true
                watchKeeper()
            case HeldConnection.endedTag:
                hasEnded = true
                keeper?.forget()
                if device >= 0 { close(device) }
                device = -1
            default: break
            }
        }
    }

    /// Fails the requests of a worker that hangs in the kernel: its main thread has ended, and its process still exists.
    private mutating func watchDying() {
        guard worker > 0, device >= 0, Self.isZombie(worker) else { return dyingSince = nil }
        let since = dyingSince ?? Self.now
        dyingSince = since
        guard Self.now - since >= Self.patienceSeconds else { return }
        let refused = linux_held_refuse(memory, device)
        if refused > 0 { tell("\(refused) requests fail with EIO so that the dead worker can exit") }
    }

    /// Whether the process has ended and its parent has not waited for it yet.
    static func isZombie(_ process: pid_t) -> Bool {
        guard let bytes = try? File("/proc/\(process)/stat").read(atMost: 512),
            let end = bytes.lastIndex(of: UInt8(ascii: ")")), bytes.count > end + 2
        else { return false }
        return bytes[end + 2] == UInt8(ascii: "Z")
    }

    // MARK: the keeper

    /// Continues the mount of an earlier holder. When it throws, the keeper still has the mount.
    private mutating func takeBack(_ kept: MountKeeper.Kept) throws(CommandError) {
        device = Self.raised(kept.device)
        let mountpoint = String(cString: linux_held_mountpoint(memory))
        guard memory.pointee.init_size > 0 else {
            throw CommandError("\(mountpoint) was mounted and never served; unmount it, and mount again")
        }
        let options = String(cString: linux_held_options(memory))
        guard !options.isEmpty else {
            throw CommandError("\(mountpoint) is kept for an older pailfs; unmount it, and mount again")
        }
        guard options == keeper?.mark else {
            throw CommandError(
                "\(mountpoint) is kept for another bucket, other options or another state directory; use those of its mount, or "
                    + "unmount it")
        }
        memory.pointee.generation += 1
        memory.pointee.is_serving = 0
        isTakingBack = true
        predecessor = "its holder has ended"
    }

    /// Hands the mount to the keeper as soon as it is there; one that was taken back, once it is served. Hands it to the next keeper
    /// after the end of one.
    private mutating func watchKeeper() {
        guard device >= 0, let keeper, !isTakingBack || memory.pointee.is_serving != 0 else { return }
        if isToKeep {
            isToKeep = false
            _ = linux_held_set_options(memory, keeper.mark)
            let isKept = self.keeper?.keep(device: device, memory: memoryFile) ?? false
            linux_held_set_kept(memory, isKept ? 1 : 2)
            if !isKept { tell("the keeper does not take the mount, which ends with its processes") }
            return
        }
        switch self.keeper?.renew(device: device, memory: memoryFile) {
        case .renewed:
            tell("a new keeper has the mount")
            // For the keeper the mount is served as long as a process has the connection: the next worker gets it.
            if worker > 0, memory.pointee.is_serving != 0 { kill(worker, SIGUSR2) }
        case .lost(let path):
            tell("the keeper at \(path) has ended; the mount ends with its processes until there is another")
        default: break
        }
    }

    // MARK: the caller

    /// Closes the pipe, for whose end the command waits, and the standard descriptors, for whose end the command's own caller may
    /// wait.
    private func letGoOfCaller(_ pipe: Int32) {
        _ = chdir("/")
        guard !isForeground else { return }
        close(pipe)
        close(HeldConnection.Descriptor.status)
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        guard null >= 0 else { return }
        for number in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] { dup2(null, number) }
        close(null)
    }

    /// Reports about a worker. Its log belongs to the worker, so they go to syslog or, in the foreground, to standard error.
    private func tell(_ text: String) {
        if isForeground { Entry.say("pailfs: \(text)") } else { linux_syslog(LOG_WARNING, text) }
    }

    /// The descriptor under a number above those that workers have; the old number is closed.
    static func raised(_ descriptor: Int32) -> Int32 {
        guard descriptor >= 0 else { return descriptor }
        let raised = fcntl(descriptor, F_DUPFD_CLOEXEC, lowestDescriptor)
        close(descriptor)
        return raised
    }

    private static var now: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec
    }

    private static func text(_ number: Int32) -> String { String(cString: strerror(number)) }
}
