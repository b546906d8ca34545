package import Basics
import CFuse3
import CLinux
package import FileSystem
import Glibc
package import Logging
import Synchronization

/// How a mount appears to the kernel.
package struct MountOptions: Sendable, Hashable {
    /// The source in the mount table: the bucket URL, without secrets.
    package var source: String
    package var allowOther = false
    package var readOnly = false
    /// Flags of mount(8) that the kernel enforces: nosuid, nodev, noexec, noatime and their opposites.
    package var kernelFlags: [String] = []
    /// A file that this user's mounts lock while they check a mountpoint and mount on it; nil: no lock.
    package var lockPath: String?
    /// The connection to serve instead of a new mount. Its maker decides about allow_other, ro and the flags of mount(8).
    package var handed: HandedConnection?
    /// Threads that read requests; they only ever answer from memory or local disk.
    package var threads: UInt32 = 4
    /// The kernel's read-ahead, in KiB; set as root only.
    package var readAheadKiB = 2048

    package init(source: String) { self.source = source }
}

/// A mounted file system from mount to the end of its last commit.
///
/// Owns libfuse's session and the bridge. `run` occupies one thread; `end` may be called from any thread.
/// Locks: its own mutex guards only the state that stops the loop; under it only the loop's own lock is taken.
/// After a crash: the next worker of the same holder serves the mount (`HeldConnection`); without a holder the mount is dead, and
/// `Mountpoint.prepare` replaces it.
package final class FuseSession: Sendable {
    private struct State {
        /// The loop that serves the mount; nil before and after.
        var loop: RequestLoop?
        var isStopped = false
        var isEnding = false
        /// The mount stays, for another process to serve.
        var isHandingOver = false
        /// The device of this session's mount; nil while there is none.
        var device: String?
        /// When everything must have ended, on the clock of the bridge.
        var end: Duration?
        /// The number of requests when the mount was last in use, and since when it has not changed.
        var idle: (requests: Int, since: Duration)?
    }

    private let fileSystem: any FileSystemOperations
    private let mountpoint: Mountpoint
    private let options: MountOptions
    private let pool: WorkerPool
    private let bridge: FuseBridge
    private let invalidator: KernelInvalidator
    private let logger: Logger
    private let held: HeldConnection?
    private let record: Int32
    private let state = Mutex(State())
    private let loopEnded = Semaphore()

    /// How long programs may still use the files they have open after `end` was called.
    private static let grace = Duration.seconds(2)
    /// How long a mount that cannot be unmounted here must have no open file and no request to count as unused.
    package static let idleness = Duration.seconds(2)
    /// How long requests under way may take before the next process repeats them.
    private static let settlement = Duration.seconds(5)
    /// How the service of a mount ended.
    package enum Ending: Sendable {
        /// The mount is gone, and everything is stored but these files.
        case unmounted([UnstoredFile])
        /// The mount is there, and another process is to serve it.
        case handedOver
    }

    /// `invalidator` is the notifier that `fileSystem` was given. With `held`, the mount is made for its holder, or the holder's
    /// existing mount is taken over; `record` is a descriptor that lives as long as any process of the mount.
    package init(
        _ fileSystem: any FileSystemOperations, on mountpoint: Mountpoint, options: MountOptions, pool: WorkerPool,
        buffers: BufferPool, invalidator: KernelInvalidator, held: HeldConnection? = nil, record: Int32 = -1,
        time: any TimeSource, logger: Logger
    ) {
        (self.fileSystem, self.mountpoint, self.options, self.pool) = (fileSystem, mountpoint, options, pool)
        (self.held, self.record) = (held, record)
        (self.invalidator, self.logger) = (invalidator, logger)
        bridge = FuseBridge(fileSystem, pool: pool, buffers: buffers, time: time, logger: logger)
    }

    /// Whether the mount was there before this session.
    package var takesOver: Bool { held?.isTakenOver ?? false }

    /// The errors that programs have got.
    package var failures: FailureCounts { bridge.failures }

    /// Mounts, or takes the mount over, serves until it is gone, commits everything, and returns the files that could not be
    /// stored.
    ///
    /// Blocks the calling thread, which must not be one of the pool. `whenReady` is called once, from another thread, when the
    /// kernel answers on the mountpoint. `whileStoring` is called at once and every second, by this thread, while the remaining
    /// files are committed. Throws if nothing could be mounted; the file system has been shut down then too.
    package func run(
        whileStoring: () -> Void = {}, whenReady: @escaping @Sendable () -> Void
    ) throws(FuseError) -> Ending {
        LibraryLog.install(logger)
        let session: OpaquePointer
        if let held, held.isTakenOver {
            // Nothing is shut down after an error: the next worker may succeed.
            session = try takeOver(held)
        } else {
            do { session = try mount() } catch {
                _ = shutDown()
                throw error
            }
        }
        let hasFailed = serve(session, whenReady: whenReady)
        if state.withLock({ $0.isHandingOver }) {
            // A program whose request is not answered now waits until the next worker has the request from the kernel.
            bridge.pending.settle(for: Self.settlement)
            // Work that is cancelled from now on must not reply.
            held?.endReplies()
            return .handedOver
        }
        // Detaches before the drain, which may take long: by then another process may have mounted there, even with the same
        // device number, which the kernel reuses.
        detachAfterLoop(hasFailed: hasFailed)
        let isDrained = bridge.pending.drain(orUntil: { [self] in mustEndNow })
        held?.release()
        invalidator.detach()
        // Requests that are not answered when the mount must end still use the session, and end with the process.
        if isDrained { fuse_session_destroy(session) }
        logger.info("unmounted", metadata: ["mountpoint": "\(mountpoint.path)"])
        return .unmounted(shutDown(whileStoring))
    }

    /// Stops serving and leaves the mount to the next process. Returns at once.
    package func handOver() {
        let isFirst = state.withLock { state in
            guard !state.isEnding else { return false }
            (state.isEnding, state.isHandingOver) = (true, true)
            return true
        }
        if isFirst { startThread(name: "hand over") { [self] in stopLoop() } }
    }

    /// A session on the connection that an earlier process had.
    private func takeOver(_ held: HeldConnection) throws(FuseError) -> OpaquePointer {
        let session = try makeSession()
        guard fuse_session_mount(session, "/dev/fd/\(HeldConnection.Descriptor.device)") == 0 else {
            throw FuseError("libfuse does not accept the connection to the kernel: \(LibraryLog.lastMessage)")
        }
        held.attach(HeldConnection.Descriptor.device)
        try held.replay(session)
        return session
    }

    /// Ends the mount if no program uses it, as a plain umount(8) does, and returns true; also when it is not mounted here any
    /// more. Returns false when a program uses it. A mount that was handed in is unused when no file is open in it and no request
    /// has come for a while: a directory that is only some program's working directory is not seen.
    package func endIfUnused() -> Bool {
        if mountpoint.isHanded {
            guard isIdle else { return false }
            end()
            return true
        }
        let device = state.withLock { $0.device }
        guard let device, mountpoint.mounted?.device == device else {
            end()
            return true
        }
        do { try mountpoint.unmount(lazily: false, quietly: true) } catch { return false }
        // A copy of the mount in another mount namespace would keep the connection.
        end()
        return true
    }

    private var isIdle: Bool {
        let isOpen = fileSystem.hasOpenHandles
        let now = bridge.time.uptime()
        return state.withLock { state in
            guard let loop = state.loop else { return true }
            let requests = loop.requests
            if let idle = state.idle, !isOpen, idle.requests == requests { return now - idle.since >= Self.idleness }
            state.idle = (requests, now)
            return false
        }
    }

    /// Sets the time, on the clock of `TimeSource.uptime`, at which files that are not stored are left to the next process.
    package func mustEnd(by end: Duration) { state.withLock { $0.end = end } }

    private var mustEndNow: Bool { state.withLock { $0.end }.map { bridge.time.uptime() >= $0 } ?? false }

    /// Ends the mount: no new files can be opened, and after a short grace no request is served any more. Returns at once.
    package func end() {
        let isFirst = state.withLock { state in
            defer { state.isEnding = true }
            return !state.isEnding
        }
        if isFirst { startThread(name: "unmount") { [self] in detachAndStop() } }
    }

    private func mount() throws(FuseError) -> OpaquePointer {
        if let handed = options.handed { return try adopt(handed) }
        let session = try makeSession()
        let lock = mountingLock()
        defer { withExtendedLifetime(lock) {} }
        // Another process may have mounted since this was prepared: one mount would hide the other.
        if let there = mountpoint.mounted {
            fuse_session_destroy(session)
            throw Mountpoint.taken(mountpoint.path, by: there)
        }
        guard fuse_session_mount(session, mountpoint.path) == 0 else {
            let reason = LibraryLog.lastMessage
            fuse_session_destroy(session)
            let cause = reason.isEmpty ? "fusermount3's message is above" : reason
            throw FuseError(
                "mounting on \(mountpoint.path) failed: \(cause)\(MountPrivileges.denial.map { "; \($0)" } ?? "")")
        }
        guard let held else { return session }
        do throws(FuseError) {
            let descriptor = fuse_session_fd(session)
            // The kernel takes backing files only from a process that may mount.
            if options.readOnly, geteuid() == 0 { linux_held_want_backing() }
            held.attach(descriptor)
            try held.handOver(descriptor, of: mountpoint, record: record)
            guard try held.greet(session) else {
                throw FuseError("another process answers the kernel on \(mountpoint.path); mount again")
            }
        } catch {
            try? mountpoint.unmount(lazily: true)
            fuse_session_destroy(session)
            throw error
        }
        return session
    }

    /// A session on the connection of a mount that another process has made.
    private func adopt(_ handed: HandedConnection) throws(FuseError) -> OpaquePointer {
        let session = try makeSession()
        do throws(FuseError) {
            try handed.begin(session, held: held, mountpoint: mountpoint, record: record)
        } catch {
            fuse_session_destroy(session)
            throw error
        }
        return session
    }

    /// A lock that one process holds at a time, for no longer than mount(2) takes; nil where the file cannot be made.
    private func mountingLock() -> File? {
        guard let path = options.lockPath, let file = try? File(path, .readWrite, create: .ifMissing) else {
            return nil
        }
        while (try? file.tryLock()) == false { usleep(5_000) }
        return file
    }

    private func makeSession() throws(FuseError) -> OpaquePointer {
        var arguments: [UnsafeMutablePointer<CChar>?] = ["pailfs", "-o", mountArguments].map { (text: String) in
            strdup(text)
        }
        defer { for argument in arguments { free(argument) } }
        let count = Int32(arguments.count)
        var callbacks = FuseCallbacks.table()
        // libfuse keeps the pointer; `self` keeps the bridge, and outlives the session by destroying it.
        let context = Unmanaged.passUnretained(bridge).toOpaque()
        let session = arguments.withUnsafeMutableBufferPointer { argv -> OpaquePointer? in
            var parsed = fuse_args(argc: count, argv: argv.baseAddress, allocated: 0)
            defer { fuse_opt_free_args(&parsed) }
            return cfuse_session_new(&parsed, &callbacks, MemoryLayout<fuse_lowlevel_ops>.size, context)
        }
        guard let session else { throw FuseError("libfuse refused the mount options: \(LibraryLog.lastMessage)") }
        return session
    }

    /// libfuse splits at commas and removes backslashes; a URL may hold both, percent-encoded.
    private var mountArguments: String {
        let source = options.source.utf8.map { byte -> String in
            let isPlain = byte > 0x20 && byte < 0x7f && byte != UInt8(ascii: ",") && byte != UInt8(ascii: "\\")
            return isPlain
                ? String(UnicodeScalar(byte)) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16).uppercased()
        }
        var list = ["fsname=\(source.joined())", "subtype=pailfs", "default_permissions"]
        if options.allowOther { list.append("allow_other") }
        if options.readOnly { list.append("ro") }
        return (list + options.kernelFlags).joined(separator: ",")
    }

    /// Whether the loop ended with an error, which leaves the mount in place.
    private func serve(_ session: OpaquePointer, whenReady: @escaping @Sendable () -> Void) -> Bool {
        let isTakenOver = held?.isTakenOver ?? false
        let device = isTakenOver ? held?.device : mountpoint.mounted?.device
        let loop = RequestLoop(session, device: fuse_session_fd(session), mostThreads: Int(options.threads))
        state.withLock { state in
            (state.loop, state.device) = (loop, device)
            if state.isStopped { loop.stop() }
        }
        invalidator.attach(session)
        if isTakenOver, let held {
            // A stat(2) of the mount would show nothing more, and could wait for the same answers as programs do.
            held.repeatUnanswered(fuse_session_fd(session), logger: logger)
            held.serves()
            logger.info("the new worker serves the mount", metadata: ["mountpoint": "\(mountpoint.path)"])
            whenReady()
        } else if mountpoint.isHanded {
            // INIT is answered, and there is no path to ask for the root.
            held?.serves()
            logger.info("serving", metadata: ["connection": "\(mountpoint.path)", "source": "\(options.source)"])
            whenReady()
        } else {
            startThread(name: "ready") { [self] in greet(whenReady) }
        }
        let failure = loop.run()
        // A mount that is still there is detached like any other.
        if failure != 0 {
            logger.error("the connection to the kernel failed", metadata: ["reason": "\(text(ofErrno: failure))"])
        }
        state.withLock { $0.loop = nil }
        loopEnded.signal()
        return failure != 0
    }

    /// Waits until the kernel has an answer about the root, which it only gets through INIT and one whole request.
    private func greet(_ whenReady: @Sendable () -> Void) {
        var status = stat()
        guard stat(mountpoint.path, &status) == 0 else {
            logger.error("the mount does not answer", metadata: ["reason": "\(text(ofErrno: errno))"])
            return end()
        }
        raiseReadAhead()
        held?.serves()
        logger.info("mounted", metadata: ["mountpoint": "\(mountpoint.path)", "source": "\(options.source)"])
        whenReady()
    }

    /// INIT cannot raise read-ahead above the kernel's 128 KiB; root can, afterwards, through sysfs.
    private func raiseReadAhead() {
        guard geteuid() == 0, let device = mountpoint.mounted?.device else { return }
        let path = "/sys/class/bdi/\(device)/read_ahead_kb"
        let file = open(path, O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return logger.debug("read-ahead stays", metadata: ["path": "\(path)"]) }
        defer { close(file) }
        let value = Array("\(options.readAheadKiB)\n".utf8)
        if write(file, value, value.count) < 0 { logger.debug("read-ahead stays", metadata: ["path": "\(path)"]) }
    }

    /// Detaches the mount while programs may use it. The mount may be gone already, and another one be in its place.
    private func detach() {
        let device = state.withLock { state in
            defer { state.device = nil }
            return state.device
        }
        guard let device, mountpoint.mounted?.device == device else { return }
        do { try mountpoint.unmount(lazily: true) } catch {
            logger.warning("detaching failed", metadata: ["reason": "\(error.message)"])
        }
    }

    /// Where this process has not ended the mount, another one has unmounted it, or its connection was aborted and the mount is
    /// there, dead: a mount that answers belongs to another process. A mount whose loop has failed is not asked, as no process
    /// would answer.
    private func detachAfterLoop(hasFailed: Bool) {
        let (isEnding, device) = state.withLock { ($0.isEnding, $0.device) }
        guard hasFailed || isEnding || mountpoint.mounted?.device == device && mountpoint.isDead else {
            return state.withLock { $0.device = nil }
        }
        detach()
    }

    private func detachAndStop() {
        detach()
        // A program may keep a file open. A mount that was handed in cannot be detached, and gets new requests while this waits.
        if mountpoint.isHanded || !loopEnded.wait(for: Self.grace) { stopLoop() }
    }

    /// Runs under the lock: `serve` clears the loop before the session is destroyed, which `stop` uses.
    private func stopLoop() {
        state.withLock { state in
            state.isStopped = true
            state.loop?.stop()
        }
    }

    private func shutDown(_ whileStoring: () -> Void = {}) -> [UnstoredFile] {
        let done = Semaphore()
        final class Answer: Sendable {
            let files = Mutex<[UnstoredFile]>([])
        }
        let result = Answer()
        pool.start { [self] in
            // A signal may set the end while files are being stored.
            let files = await fileSystem.shutDown { [self] in state.withLock { $0.end } }
            result.files.withLock { $0 = files }
            done.signal()
        }
        repeat { whileStoring() } while !done.wait(for: .seconds(1))
        return result.files.withLock { $0 }
    }
}
