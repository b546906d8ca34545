import Basics
import CLinux
import Glibc

/// Serves the mounts of a `FluidConfig`, each by a process of this program, and follows changes of the file.
///
/// Owns the processes: they get the signals that end this one, and it ends with the last of them. A mount that ends with an error
/// ends all, so that the container is started again. One thread.
struct FluidMounts {
    private struct Served {
        let mount: FluidConfig.Mount
        /// The process was told to end: its end is no reason to end the others.
        var isEnding = false

        /// Whether nothing can be mounted at `place` now.
        func blocks(_ place: String) -> Bool {
            mount.place == place || isEnding && FluidConfig.overlap(mount.place, place)
        }
    }

    private static let signals = [SIGCHLD, SIGTERM, SIGINT, SIGHUP]
    private static let pause: Int32 = 1000

    private let path: String
    private let options: [String]
    private let descriptor: Int32
    private var config: FluidConfig?
    /// The last warning about the file, which is not repeated.
    private var told: String?
    private var wanted: [FluidConfig.Mount] = []
    private var served: [pid_t: Served] = [:]
    private var status: Int32 = 0
    private var isEnding = false

    /// `options` are lists as for -o, which each mount has besides its own.
    init(_ path: String, options: [String]) throws(CommandError) {
        (self.path, self.options) = (MountRequest.absolute(path), options)
        descriptor = linux_signal_descriptor(Self.signals, Int32(Self.signals.count))
        guard descriptor >= 0 else {
            throw CommandError("pailfs cannot wait for signals: \(String(cString: strerror(errno)))")
        }
        do throws(CommandError) { try read() } catch { throw Self.unusable(self.path, error) }
    }

    /// Returns the exit status.
    mutating func run() -> Int32 {
        while true {
            start()
            if isEnding, served.isEmpty { return status }
            _ = linux_poll(descriptor, Self.pause)
            while true {
                let signal = linux_next_signal(descriptor)
                if signal == 0 { break }
                if signal != SIGCHLD { end(signal) }
            }
            reap()
            guard !isEnding else { continue }
            do throws(CommandError) {
                try read()
                told = nil
            } catch {
                if told != error.message {
                    Entry.warn("\(Self.unusable(path, error).message); the mounts stay as they are")
                }
                told = error.message
            }
        }
    }

    private static func unusable(_ path: String, _ error: CommandError) -> CommandError {
        CommandError("\(path) cannot be used: \(error.message)")
    }

    /// Reads the file. Keys that have changed are for mounts to come.
    private mutating func read() throws(CommandError) {
        let bytes: [UInt8]
        do { bytes = try File(path).read(atMost: 1 << 20) } catch { throw CommandError("\(error)") }
        let found = try FluidConfig(bytes) { path in
            (try? File(path).read(atMost: 1 << 16)).map { ByteString($0).description }
        }
        // A mount that a user has unmounted is not started again until the file changes.
        guard !(config.map { $0.isSame(as: found) } ?? false) else { return }
        config = found
        wanted = found.mounts
        for (process, one) in served where !one.isEnding && !wanted.contains(where: one.mount.isSame) {
            served[process]?.isEnding = true
            kill(process, SIGTERM)
        }
    }

    /// Starts what is wanted and has no process. A place waits for the end of a former mount there, above or below: that would hide
    /// it, or not end.
    private mutating func start() {
        guard !isEnding else { return }
        for mount in wanted where !served.values.contains(where: { $0.blocks(mount.place) }) {
            do { try Directory.create(mount.place, permissions: 0o755) } catch {
                return fail("\(mount.place) cannot be made: \(error)")
            }
            let words =
                ["pailfs", "mount", mount.url, mount.place, "--foreground"]
                + (options + mount.options).flatMap { ["-o", $0] }
            let before = mount.environment.keys.map { name in (name, getenv(name).map { String(cString: $0) }) }
            for (name, value) in mount.environment { setenv(name, value, 1) }
            defer { for (name, value) in before { if let value { setenv(name, value, 1) } else { unsetenv(name) } } }
            var process = pid_t()
            let failure = withCStrings(words) { linux_spawn_worker(&process, "/proc/self/exe", $0, [], 0) }
            guard failure == 0 else {
                return fail("the process of \(mount.place) cannot be started: \(String(cString: strerror(-failure)))")
            }
            served[process] = Served(mount: mount)
        }
    }

    private mutating func fail(_ reason: String) {
        Entry.say("pailfs: \(reason)")
        status = EXIT_FAILURE
        end(SIGTERM)
    }

    private mutating func end(_ signal: Int32) {
        isEnding = true
        for process in served.keys {
            served[process]?.isEnding = true
            kill(process, signal)
        }
    }

    private mutating func reap() {
        for (process, one) in served {
            var ended: Int32 = 0
            guard waitpid(process, &ended, WNOHANG) == process else { continue }
            served[process] = nil
            let code = exitCode(of: ended)
            if code != 0 { status = code }
            if one.isEnding { continue }
            // A user has unmounted it, or it has failed.
            wanted.removeAll(where: one.mount.isSame)
            if code != 0 || wanted.isEmpty { end(SIGTERM) }
        }
    }
}
