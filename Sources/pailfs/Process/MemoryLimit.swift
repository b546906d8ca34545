import Basics

/// The memory that the control groups of this process allow it (cgroups(7)).
enum MemoryLimit {
    /// With less, the kernel kills the process that serves the mount again and again.
    static let least: Int64 = 64 << 20

    /// In bytes; nil without a limit.
    static var bytes: Int64? {
        bytes { path in (try? File(path).read(atMost: 4096)).map { ByteString($0).description } }
    }

    /// The least limit of the group and those above it, of either version of control groups; `read` returns a file's text. In a
    /// container with a name space of control groups, its own group is at the top.
    static func bytes(_ read: (String) -> String?) -> Int64? {
        var files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        for line in (read("/proc/self/cgroup") ?? "").split(separator: "\n") {
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let controllers = fields[1].split(separator: ",")
            guard controllers.isEmpty || controllers.contains("memory") else { continue }
            let (top, name) =
                controllers.isEmpty
                ? ("/sys/fs/cgroup", "memory.max") : ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            var path = top
            for component in fields[2].split(separator: "/") {
                path += "/\(component)"
                files.append("\(path)/\(name)")
            }
        }
        let limits = files.compactMap { read($0) }.compactMap { text in
            text.split(whereSeparator: \.isWhitespace).first.flatMap { Int64($0) }
        }
        // Version 1 writes no limit as the largest number of pages.
        return limits.filter { $0 < 1 << 60 }.min()
    }

    /// Throws where a new mount would not have enough.
    static func requireEnough() throws(CommandError) {
        guard let bytes, bytes < least else { return }
        throw CommandError(
            "this container or service may use \(ByteSize.format(bytes)) of memory; allow it \(ByteSize.format(least)) or more"
        )
    }
}
