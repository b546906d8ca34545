import Basics
import CFuse3
import FileSystem
import Glibc
package import Metadata

/// A thread that has made a request, as proc(5) shows it.
package struct CallingThread {
    /// The thread id that this process sees; 0 when the thread is in a PID namespace that this process does not see.
    private let id: pid_t

    /// Most descriptors of a process that are looked at: more would take too long.
    private static let mostDescriptors = 256
    private static let mostAncestors = 8

    init(of request: fuse_req_t) { self.init(fuse_req_ctx(request)?.pointee.pid ?? 0) }

    package init(_ id: Int32) { self.id = id }

    /// Whether the thread has SIGKILL pending, which the kernel also gives to each thread of a process that another signal ends
    /// (proc_pid_status(5): SigPnd).
    var isDying: Bool {
        guard let status = readFile("/proc/\(id)/status"), let text = Self.value(of: "SigPnd:", in: status),
            let pending = UInt64(text, radix: 16)
        else { return false }
        return pending & (1 << UInt64(SIGKILL - 1)) != 0
    }

    /// Whether a signal has ended the thread, and the kernel is closing its descriptors (proc_pid_status(5)): its memory is gone,
    /// and the signal is still pending. Processes that leave a core are not recognised. False when this process may not read the
    /// status.
    ///
    /// Does not use proc_pid_stat(5), which waits until a caller in execve(2) returns; and execve(2) waits for this process when
    /// it closes descriptors that are close-on-exec.
    var wasKilled: Bool {
        guard let status = readFile("/proc/\(id)/status"), Self.value(of: "VmSize:", in: status) == nil else {
            return false
        }
        func signals(_ label: ByteString) -> UInt64 {
            Self.value(of: label, in: status).flatMap { UInt64($0, radix: 16) } ?? 0
        }
        let kept = signals("SigBlk:") | signals("SigIgn:") | signals("SigCgt:") | Self.harmless
        return (signals("SigPnd:") | signals("ShdPnd:")) & ~kept != 0
    }

    /// Signals that do not end a process which does not handle them (signal(7)), as a set of proc_pid_status(5).
    private static let harmless: UInt64 = [SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH]
        .reduce(0) {
            $0 | 1 << UInt64($1 - 1)
        }

    /// Whether the thread's process, or an ancestor from which it may have inherited the file, has a descriptor of a file with
    /// this number (proc_pid_fdinfo(5): ino, since Linux 5.14). True also when that cannot be determined. Another file system's
    /// file with that number counts as well.
    package func mayHaveOpen(_ ino: InodeNumber) -> Bool {
        guard id > 0, Self.hasOpen(ino, id) == false else { return true }
        var process = id
        for _ in 0..<Self.mostAncestors {
            guard let parent = Self.parent(of: process), parent > 1 else { return false }
            if Self.hasOpen(ino, parent) == true { return true }
            process = parent
        }
        return false
    }

    /// nil when that cannot be determined.
    private static func hasOpen(_ ino: InodeNumber, _ process: pid_t) -> Bool? {
        // To list very many takes the kernel milliseconds.
        guard descriptorCount(of: process) <= mostDescriptors,
            let descriptors = try? Directory.names(in: "/proc/\(process)/fdinfo"),
            // A process that ends has no descriptors any more, and the process that has inherited the file may go on.
            !descriptors.isEmpty
        else { return nil }
        for name in descriptors {
            // The descriptor was closed since it was listed.
            guard let info = readFile("/proc/\(process)/fdinfo/\(name)") else { continue }
            guard let text = value(of: "ino:", in: info) else { return nil }
            if UInt64(text) == ino.rawValue { return true }
        }
        return false
    }

    /// The size of the directory (proc_pid_fd(5), since Linux 6.2), before that the slots for descriptors
    /// (proc_pid_status(5): FDSize), of which some may be free.
    private static func descriptorCount(of process: pid_t) -> Int {
        var status = stat()
        if stat("/proc/\(process)/fd", &status) == 0, status.st_size > 0 { return Int(status.st_size) }
        let slots = readFile("/proc/\(process)/status").flatMap { value(of: "FDSize:", in: $0) }.flatMap { Int($0) }
        return slots ?? 0
    }

    private static func parent(of process: pid_t) -> pid_t? {
        readFile("/proc/\(process)/status").flatMap { value(of: "PPid:", in: $0) }.flatMap { pid_t($0) }
    }

    private static func value(of label: ByteString, in text: ByteString) -> String? {
        let line = text.bytes.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: label.bytes) }
        return line.map { line in
            let value = line.dropFirst(label.count).drop { $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: " ") }
            return String(decoding: value, as: UTF8.self)
        }
    }
}
