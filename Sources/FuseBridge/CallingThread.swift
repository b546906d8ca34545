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

    init(of request: fuse_req_t) { id = fuse_req_ctx(request)?.pointee.pid ?? 0 }

    /// Whether it has SIGKILL pending, which the kernel also gives to each thread of a process that another signal ends
    /// (proc_pid_status(5): SigPnd).
    var isDying: Bool {
        guard let status = readFile("/proc/\(id)/status"), let text = Self.value(of: "SigPnd:", in: status),
            let pending = UInt64(text, radix: 16)
        else { return false }
        return pending & (1 << UInt64(SIGKILL - 1)) != 0
    }

    /// Whether its process has a descriptor of a file with this number (proc_pid_fdinfo(5): ino, since Linux 5.14), or that
    /// cannot be known. Another file system's file of that number counts as well.
    func mayHaveOpen(_ ino: InodeNumber) -> Bool {
        guard id > 0, let descriptors = try? Directory.names(in: "/proc/\(id)/fdinfo"),
            descriptors.count <= Self.mostDescriptors
        else { return true }
        return descriptors.contains { name in
            // Closed since it was listed.
            guard let info = readFile("/proc/\(id)/fdinfo/\(name)") else { return false }
            guard let text = Self.value(of: "ino:", in: info) else { return true }
            return UInt64(text) == ino.rawValue
        }
    }

    private static func value(of label: ByteString, in text: ByteString) -> String? {
        let line = text.bytes.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: label.bytes) }
        return line.map { line in
            let value = line.dropFirst(label.count).drop { $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: " ") }
            return String(decoding: value, as: UTF8.self)
        }
    }
}
