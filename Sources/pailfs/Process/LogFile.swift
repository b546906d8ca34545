import CLinux
import Glibc
import Synchronization

/// The file that a mount's log goes to, opened for appending. Lives as long as the process, as does its descriptor.
///
/// Programs that rotate logs rename or delete the file: within a second the next line goes to a new file of the same name,
/// without a signal to the mount. Any thread may call it; one of them checks.
final class LogFile: Sendable {
    private static let pause: Int64 = 1

    let descriptor: Int32
    private let path: String
    /// In seconds of the monotonic clock.
    private let looked = Atomic<Int64>(LogFile.now)
    /// Whether standard error is this file, too: the runtime reports a crash there.
    private let takesErrors = Atomic(false)

    /// nil, with errno, when the file cannot be opened.
    init?(_ path: String) {
        descriptor = Self.open(path)
        self.path = path
        if descriptor < 0 { return nil }
    }

    /// Redirects standard error to this file.
    func takeErrors() {
        dup2(descriptor, STDERR_FILENO)
        takesErrors.store(true, ordering: .relaxed)
    }

    /// Call it before a line is written. The descriptor keeps its number: a line that another thread is writing gets into either
    /// file whole.
    func follow() {
        let (now, before) = (Self.now, looked.load(ordering: .relaxed))
        guard now - before >= Self.pause,
            looked.compareExchange(expected: before, desired: now, ordering: .relaxed).exchanged, !isInPlace
        else { return }
        let file = Self.open(path)
        // If no new file can be opened, the lines go to the former one.
        guard file >= 0 else { return }
        dup2(file, descriptor)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        if takesErrors.load(ordering: .relaxed) { dup2(file, STDERR_FILENO) }
        close(file)
    }

    private var isInPlace: Bool {
        var (named, opened) = (stat(), stat())
        return unsafe stat(path, &named) == 0 && fstat(descriptor, &opened) == 0 && named.st_ino == opened.st_ino
            && named.st_dev == opened.st_dev
    }

    private static func open(_ path: String) -> Int32 {
        Glibc.open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    }

    private static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec)
    }
}
