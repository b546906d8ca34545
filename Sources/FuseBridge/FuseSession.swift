package import Basics
import CFuse3
import CLinux
package import FileSystem
import Glibc
package import Logging
import Synchronization

/// How a mount appears to the kernel.
package struct MountOptions: Sendable, Hashable {
    /// What the mount table shows as mounted: the bucket URL, without secrets.
    package var source: String
    package var allowOther = false
    package var readOnly = false
    /// Flags of mount(8) that the kernel enforces: nosuid, nodev, noexec, noatime and their opposites.
    package var kernelFlags: [String] = []
    /// A file that this user's mounts lock while they look at a mountpoint and mount on it; nil does without.
    package var lockPath: String?
    /// Threads that take requests; they only ever answer from memory or local disk.
    package var threads: UInt32 = 4
    /// The kernel's read-ahead, in KiB; set as root only.
    package var readAheadKiB = 2048

    package init(source: String) { self.source = source }
}

/// A mounted file system from mount to the end of its last commit.
///
/// Owns libfuse's session and the bridge. `run` occupies one thread; `end` may come from any. Locked by its own mutex,
/// which guards only what stops the loop, and under which nothing but the loop's own lock is taken. After a crash the next worker of the same holder goes on with the mount
/// (`HeldConnection`); without a holder it is dead, and `Mountpoint.prepare` replaces it.
package final class FuseSession: Sendable {
    private struct State {
        /// Of a mount that is served; nil before and after.
        var loop: RequestLoop?
        var isStopped = false
        var isEnding = false
        /// The mount stays, for another process to go on with.
        var isHandingOver = false
        /// Of our mount; nil while there is none.
        var device: String?
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

    /// How long programs may go on with files they have open after the mount was told to end.
    private static let grace = Duration.seconds(2)
    /// How long requests under way may take before the next process does them again.
    private static let settlement = Duration.seconds(5)
    /// How the service of a mount came to its end.
    package enum Ending: Sendable {
        /// The mount is gone, and everything is stored but these.
        case unmounted([UnstoredFile])
        /// The mount is there, and somebody else is to go on.
        case handedOver
    }

    /// `invalidator` is the notifier that `fileSystem` was given. With `held`, the mount is made for its holder, or the one
    /// it has is taken over; `record` is a descriptor that lives as long as any process of the mount.
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

    /// What programs were told that failed.
    package var failures: FailureCounts { bridge.failures }

    /// Mounts, or takes the mount over, serves until it is gone, commits everything, and answers what could not be stored.
    ///
    /// Blocks the calling thread, which must not be one of the pool. `whenReady` is called once, from another thread, when
    /// the kernel answers on the mountpoint. `whileStoring` is called every second, by this thread, while what is left is
    /// committed. Throws if nothing could be mounted; the file system was shut down then too.
    package func run(
        whileStoring: () -> Void = {}, whenReady: @escaping @Sendable () -> Void
    ) throws(FuseError) -> Ending {
        LibraryLog.install(logger)
        let session: OpaquePointer
        if let held, held.isTakenOver {
            // Whatever is wrong, the next worker may do better: nothing is shut down.
            session = try takeOver(held)
        } else {
            do { session = try mount() } catch {
                _ = shutDown()
                throw error
            }
        }
        let hasFailed = serve(session, whenReady: whenReady)
        if state.withLock({ $0.isHandingOver }) {
            // Programs wait for what is not answered now until the next worker has it from the kernel.
            bridge.pending.settle(for: Self.settlement)
            // What is cut off from now on is no answer.
            held?.endReplies()
            return .handedOver
        }
        // Not after the drain, which may take long: what is mounted there by then may be somebody else's, and even have our
        // device number, which the kernel gives away again.
        detachAfterLoop(hasFailed: hasFailed)
        bridge.pending.drain()
        held?.release()
        invalidator.detach()
        fuse_session_destroy(session)
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

    /// Ends the mount if no program uses it, as a plain umount(8) does. False when one does; true also when it is not mounted
    /// here any more.
    package func endIfUnused() -> Bool {
        let device = state.withLock { $0.device }
        guard let device, mountpoint.mounted?.device == device else {
            end()
            return true
        }
        do { try mountpoint.unmount(lazily: false, quietly: true) } catch { return false }
        // A copy of it in another mount name space would keep the connection.
        end()
        return true
    }

    /// Ends the mount: no new files can be opened, and after a short grace no request is served any more. Returns at once.
    package func end() {
        let isFirst = state.withLock { state in
            defer { state.isEnding = true }
            return !state.isEnding
        }
        if isFirst { startThread(name: "unmount") { [self] in detachAndStop() } }
    }

    private func mount() throws(FuseError) -> OpaquePointer {
        let session = try makeSession()
        let lock = mountingLock()
        defer { withExtendedLifetime(lock) {} }
        // Another one may have mounted since this was prepared: one mount would hide the other.
        if let there = mountpoint.mounted {
            fuse_session_destroy(session)
            throw Mountpoint.taken(mountpoint.path, by: there)
        }
        guard fuse_session_mount(session, mountpoint.path) == 0 else {
            let reason = LibraryLog.lastMessage
            fuse_session_destroy(session)
            throw FuseError(
                "mounting on \(mountpoint.path) failed: \(reason.isEmpty ? "fusermount3's message is above" : reason)")
        }
        guard let held else { return session }
        do throws(FuseError) {
            let descriptor = fuse_session_fd(session)
            // The kernel takes files from those alone who may mount.
            if options.readOnly, geteuid() == 0 { linux_held_want_backing() }
            held.attach(descriptor)
            try held.handOver(descriptor, of: mountpoint, record: record)
            try held.greet(session)
        } catch {
            try? mountpoint.unmount(lazily: true)
            fuse_session_destroy(session)
            throw error
        }
        return session
    }

    /// Held by one process at a time, which has it no longer than mount(2) takes; nil where it cannot be made.
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

    /// libfuse splits at commas and takes backslashes away; a URL may hold both, percent-encoded.
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
            // A look at the mount would not tell more, and could wait for what programs wait for.
            held.repeatUnanswered(fuse_session_fd(session), logger: logger)
            held.serves()
            logger.info("the new worker serves the mount", metadata: ["mountpoint": "\(mountpoint.path)"])
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

    /// Takes the mount away from under the programs; it may be gone, and somebody else's be in its place.
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

    /// Where nobody here has ended the mount somebody has unmounted it, or its connection was aborted and it is there, dead:
    /// a mount that answers is another's. One whose loop has failed is not asked, as nobody would answer.
    private func detachAfterLoop(hasFailed: Bool) {
        let (isEnding, device) = state.withLock { ($0.isEnding, $0.device) }
        guard hasFailed || isEnding || mountpoint.mounted?.device == device && mountpoint.isDead else {
            return state.withLock { $0.device = nil }
        }
        detach()
    }

    private func detachAndStop() {
        detach()
        // Someone may keep a file or a directory open.
        if !loopEnded.wait(for: Self.grace) { stopLoop() }
    }

    /// Under the lock: `serve` forgets the loop before the session goes, which `stop` uses.
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
        pool.start { [fileSystem] in
            let files = await fileSystem.shutDown()
            result.files.withLock { $0 = files }
            done.signal()
        }
        while !done.wait(for: .seconds(1)) { whileStoring() }
        return result.files.withLock { $0 }
    }
}
