/// The arguments that this process was started with.
package enum ProcessArguments {
    /// With the program's name first; `given` are the arguments as Swift has them. Swift looks for them in memory in front of
    /// the environment, where they are not if a preloaded library has moved it; the kernel keeps them (proc_pid_cmdline(5)).
    package static func all(given: [String]) -> [String] {
        guard let bytes = try? File("/proc/self/cmdline").read(atMost: 4 << 20), bytes.last == 0 else { return given }
        return bytes.dropLast().split(separator: 0, omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
    }
}
