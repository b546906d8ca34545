import Basics
import CFuse3
import CLinux
import FileSystem
import Logging

/// A kernel request, named as FUSE names it.
enum FuseOperation: String, Sendable {
    case lookup, getattr, setattr, readlink, mknod, mkdir, unlink, rmdir, symlink, rename, link
    case open, read, write, flush, release, fsync, create, fallocate, lseek
    case copyFileRange = "copy_file_range"
    case opendir, readdir, readdirplus, releasedir, fsyncdir
    case statfs, setxattr, getxattr, listxattr, removexattr, ioctl, forget

    /// Whether nothing is lost when the request is cancelled half way.
    var onlyReads: Bool {
        switch self {
        case .lookup, .getattr, .readlink, .open, .read, .lseek, .opendir, .readdir, .readdirplus, .statfs, .getxattr,
            .listxattr:
            true
        case .setattr, .mknod, .mkdir, .unlink, .rmdir, .symlink, .rename, .link, .write, .flush, .release, .fsync,
            .create, .fallocate, .copyFileRange, .releasedir, .fsyncdir, .setxattr, .removexattr, .ioctl, .forget:
            false
        }
    }

    /// Whether the work is cancelled when its caller dies: a write that waits for its turn has changed nothing yet.
    var endsWithItsCaller: Bool { onlyReads || self == .write }
}

/// One kernel request that waits for its answer. Each reply consumes it, so it is answered exactly once; a request that is
/// dropped without a reply answers EIO and logs that.
///
/// Owned by the code that answers it, on any thread. It must be gone before its session is destroyed, which `PendingRequests`
/// ensures. The replies return false when the kernel no longer takes them (the connection was aborted, or the request was given
/// up before): then the references and handles in the reply stay with the bridge.
struct FuseRequest: ~Copyable, @unchecked Sendable {
    // Sendable: libfuse takes a reply from any thread, once, and ownership makes it once. The bridge outlives the session.
    let handle: fuse_req_t
    let operation: FuseOperation
    let ino: fuse_ino_t
    private let bridge: Unmanaged<FuseBridge>
    /// The request's number from the kernel, recorded for the next worker until the answer (`HeldConnection`); 0: not recorded.
    private let unique: UInt64
    /// Whether the kernel has an answer already, and libfuse has reused or freed the request.
    private let isGivenUp: Bool
    /// When it was read, on the bridge's clock; nil unless each answer is logged.
    private let began: Duration?

    /// Requires: runs on the thread that has read the request, before it reads the next.
    init(_ handle: fuse_req_t?, _ operation: FuseOperation, _ ino: fuse_ino_t) {
        guard let handle, let context = fuse_req_userdata(handle) else { fatalError("libfuse passed no request") }
        (self.handle, self.operation, self.ino) = (handle, operation, ino)
        bridge = .fromOpaque(context)
        unique = linux_held_take()
        isGivenUp = false
        began = bridge._withUnsafeGuaranteedRef { $0.logger.logLevel > .trace ? nil : $0.time.uptime() }
    }

    private init(
        givenUp handle: fuse_req_t, _ operation: FuseOperation, _ ino: fuse_ino_t, _ bridge: Unmanaged<FuseBridge>
    ) {
        (self.handle, self.operation, self.ino, self.bridge) = (handle, operation, ino, bridge)
        (unique, isGivenUp, began) = (0, true, nil)
    }

    deinit {
        if isGivenUp { return }
        bridge._withUnsafeGuaranteedRef {
            $0.logger.error(
                "a request was never answered", metadata: ["op": "\(operation.rawValue)", "ino": "\(ino)"])
        }
        _ = Self.send(handle, unique) { fuse_reply_err($0, EIO) }
    }

    private consuming func reply(_ errno: Int32 = 0, _ send: (fuse_req_t) -> Int32) -> Bool {
        let (handle, unique, isGivenUp) = (handle, unique, isGivenUp)
        if let began { trace(errno, since: began) }
        discard self
        return !isGivenUp && Self.send(handle, unique, send)
    }

    private borrowing func trace(_ errno: Int32, since began: Duration) {
        let (operation, ino) = (operation, ino)
        bridge._withUnsafeGuaranteedRef {
            let took = $0.time.uptime() - began
            $0.logger.trace(
                "request answered",
                metadata: [
                    "op": "\(operation.rawValue)", "ino": "\(ino)", "errno": "\(errno)",
                    "microseconds": "\(took / .microseconds(1))",
                ])
        }
    }

    /// The one place through which the bridge's answers go to the kernel.
    private static func send(_ handle: fuse_req_t, _ unique: UInt64, _ send: (fuse_req_t) -> Int32) -> Bool {
        // The next worker answers the request. libfuse keeps its memory here, but this process ends.
        guard linux_held_may_answer(unique) != 0 else { return false }
        let status = send(handle)
        linux_held_answered(unique)
        return status == 0
    }

    /// Answers EINTR to a caller that is dying. The work on the request goes on with the returned value, whose replies go
    /// nowhere.
    consuming func givenUp() -> FuseRequest {
        let rest = FuseRequest(givenUp: handle, operation, ino, bridge)
        _ = reply(EINTR) { fuse_reply_err($0, EINTR) }
        return rest
    }

    /// fuse_reply_err(3) with the table's errno, and the log line of the failure.
    consuming func fail(_ error: FileSystemError) {
        let errno = error.kind.errno
        let level: Logger.Level = error.kind.isOrdinary ? .debug : .warning
        let (operation, ino) = (operation, ino)
        bridge._withUnsafeGuaranteedRef {
            $0.failures.count(operation, error.kind)
            $0.logger.log(
                level: level, "request failed",
                metadata: [
                    "op": "\(operation.rawValue)", "ino": "\(ino)", "errno": "\(errno)", "reason": "\(error.reason)",
                ])
        }
        _ = reply(errno) { fuse_reply_err($0, errno) }
    }

    /// Answers an errno that follows from the request alone, which is no failure of this process and is not logged.
    consuming func refuse(_ errno: Int32) { _ = reply(errno) { fuse_reply_err($0, errno) } }

    consuming func succeed() { _ = reply { fuse_reply_err($0, 0) } }

    /// For forget, which has no answer (fuse_reply_none(3)).
    consuming func end() {
        _ = reply {
            fuse_reply_none($0)
            return 0
        }
    }

    consuming func entry(_ answer: EntryReply) -> Bool {
        var parameter = fuse_entry_param(answer)
        // Inode 0 is an entry that is not there.
        return reply(parameter.ino == 0 ? ENOENT : 0) { fuse_reply_entry($0, &parameter) }
    }

    consuming func created(_ answer: CreateReply) -> Bool {
        var parameter = fuse_entry_param(answer.entry)
        var info = fuse_file_info(answer.open)
        return reply { fuse_reply_create($0, &parameter, &info) }
    }

    consuming func attributes(_ answer: AttributeReply) {
        var status = stat(answer.status)
        _ = reply { fuse_reply_attr($0, &status, answer.timeout.inSeconds) }
    }

    consuming func opened(_ answer: OpenReply) -> Bool {
        if let backing = answer.backing {
            // libfuse 3.14 has no field for the backing id: struct fuse_open_out of linux/fuse.h, FOPEN_PASSTHROUGH and
            // FOPEN_DIRECT_IO. With both, reads still come to this process: the disk's own O_DIRECT asks for alignment.
            var reply = linux_backed_open(
                fh: answer.handle.rawValue, open_flags: 1 << 7 | (answer.direct ? 1 : 0), backing_id: backing)
            return self.reply { handle in
                withUnsafeBytes(of: &reply) {
                    fuse_reply_buf(handle, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
                }
            }
        }
        var info = fuse_file_info(answer)
        return reply { fuse_reply_open($0, &info) }
    }

    consuming func bytes(_ bytes: UnsafeRawBufferPointer) -> Bool {
        reply { fuse_reply_buf($0, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count) }
    }

    /// Sends a symlink's target as plain bytes (fuse_reply_readlink(3) would only measure them first).
    consuming func bytes(of answer: ByteString) {
        _ = reply { handle in
            answer.bytes.withUnsafeBytes {
                fuse_reply_buf(handle, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
            }
        }
    }

    consuming func written(_ count: Int) { _ = reply { fuse_reply_write($0, count) } }

    consuming func size(_ count: Int) { _ = reply { fuse_reply_xattr($0, count) } }

    consuming func offset(_ offset: Int64) { _ = reply { fuse_reply_lseek($0, off_t(offset)) } }

    consuming func statistics(_ figures: FileSystemStatistics) {
        var answer = statvfs(figures)
        _ = reply { fuse_reply_statfs($0, &answer) }
    }
}
