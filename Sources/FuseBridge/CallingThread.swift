import Basics
import CFuse3
import FileSystem
import Glibc
import Metadata

/// What proc(5) tells of a thread that has made a request.
struct CallingThread {
    /// As this process sees it; 0 when it is in a namespace that this process does not.
    private let id: pid_t

    /// Descriptors that are looked at before it is too much to ask.
    private static let mostDescriptors = 256
    private static let mostAncestors = 8

    init(of request: fuse_req_t) { id = fuse_req_ctx(request)?.pointee.pid ?? 0 }

    /// Whether it has SIGKILL pending, which the kernel also gives to each thread of a process that another signal ends
    /// (proc_pid_status(5): SigPnd).
    var isDying: Bool {
        guard let status = readFile("/proc/\(id)/status"), let text = Self.value(of: "SigPnd:", in: status),
            let pending = UInt64(text, radix: 16)
        else { return false }
        return pending & (1 << UInt64(SIGKILL - 1)) != 0
    }

    /// Whether a signal has ended it, and the kernel is closing what it has open (proc_pid_stat(5): flags, exit_code). False when
    /// this process may not know.
    var wasKilled: Bool {
        guard let status = readFile("/proc/\(id)/stat") else { return false }
        // Behind the name, which may have blanks and parentheses of its own, from the third field on.
        let text = String(decoding: status.bytes, as: UTF8.self)
        let fields = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ").dropFirst()
        let (flags, exitCode) = (fields.dropFirst(6).first, fields.dropFirst(49).first)
        // PF_EXITING of the kernel's sched.h.
        guard let flags = flags.flatMap({ UInt64($0) }), flags & 4 != 0 else { return false }
        return exitCode.flatMap { Int(String($0.prefix { $0.isNumber })) }.map { $0 & 0x7f != 0 } ?? false
    }

    /// Whether its process, or one that it may have the file from, has a descriptor of a file with this number
    /// (proc_pid_fdinfo(5): ino, since Linux 5.14), or that cannot be known. Another file system's file of that number counts
    /// as well.
    func mayHaveOpen(_ ino: InodeNumber) -> Bool {
        guard id > 0, Self.hasOpen(ino, id) == false else { return true }
        var process = id
        for _ in 0..<Self.mostAncestors {
            guard let parent = Self.parent(of: process), parent > 1 else { return false }
            if Self.hasOpen(ino, parent) == true { return true }
            process = parent
        }
        return false
    }

    /// nil when that cannot be told.
    private static func hasOpen(_ ino: InodeNumber, _ process: pid_t) -> Bool? {
        guard let descriptors = try? Directory.names(in: "/proc/\(process)/fdinfo"),
            // One that ends has none any more, and whoever has left it the file may go on.
            1...mostDescriptors ~= descriptors.count
        else { return nil }
        for name in descriptors {
            // Closed since it was listed.
            guard let info = readFile("/proc/\(process)/fdinfo/\(name)") else { continue }
            guard let text = value(of: "ino:", in: info) else { return nil }
            if UInt64(text) == ino.rawValue { return true }
        }
        return false
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
