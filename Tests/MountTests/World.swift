import Foundation
import Glibc
import Testing

/// Where a mount finds its bucket.
struct Bucket: Sendable {
    var scheme = "s3"
    var endpoint: String
    /// Where boto3 finds the same objects.
    var outside: String
    var name: String
    var accessKey: String
    var secretKey: String

    init(of store: Store) {
        (endpoint, outside, name) = (store.endpoint, store.endpoint, store.bucket)
        (accessKey, secretKey) = (Store.accessKey, Store.secretKey)
    }

    init(endpoint: String, name: String, accessKey: String, secretKey: String) {
        (self.endpoint, outside, self.name) = (endpoint, endpoint, name)
        (self.accessKey, self.secretKey) = (accessKey, secretKey)
    }

    /// Mounted are all of its account.
    var wholeAccount = false
    /// With a slash in front.
    var prefix = ""
    var url: String { "\(scheme)://\(wholeAccount ? "" : name)\(prefix)" }

    /// What a mount has to be told to find it.
    var options = ["region=us-east-1", "path-style"]

    /// What else programs have to be told.
    var variables: [String: String] = [:]

    /// For pailfs, and under the names the helpers read.
    var environment: [String: String] {
        [
            "PAILFS_ACCESS_KEY_ID": accessKey, "PAILFS_SECRET_ACCESS_KEY": secretKey,
            "AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "ENDPOINT": outside, "BUCKET": name,
        ].merging(variables) { $1 }
    }
}

/// What a test works in: a scratch folder, a bucket, and at most one mount of it at a time.
final class World {
    let scratch: Scratch
    let bucket: Bucket
    let mountpoint: String
    /// Set by tests that provoke errors on purpose.
    var expectsErrorsInLog = false
    /// The process that a mount begins and ends with; with a holder, that one.
    private(set) var daemon: pid_t?

    init(scratch: Scratch, bucket: Bucket) throws {
        (self.scratch, self.bucket) = (scratch, bucket)
        mountpoint = try scratch.makeDirectory("mnt")
    }

    // MARK: mounting

    /// The `-o` value of an ordinary mount of this bucket.
    func options(_ more: [String], cache: String = "cache") -> String {
        (["endpoint=\(bucket.endpoint)"] + bucket.options
            + ["cache-dir=\(scratch.path(cache))", "log=\(logPath)"] + more).joined(separator: ",")
    }

    /// Mounts as a user would and checks that the kernel answers as soon as the command has returned. `cache` names the
    /// cache directory: the same one finds what the last mount knew, another one is another machine. `warning` is expected.
    func mount(_ more: [String] = [], cache: String = "cache", warning: String? = nil) async throws {
        let outcome = try await pailfs(["mount", bucket.url, mountpoint, "-o", options(more, cache: cache)])
        guard outcome.succeeded else { throw ChildFailed(command: "pailfs mount", outcome: outcome) }
        #expect(isMounted, "pailfs mount returned 0 and nothing is mounted")
        if more.contains(where: { $0.hasPrefix("free-space=") && !$0.hasSuffix("=0") }) {
            #expect(outcome.errors.contains("writes can fail with ENOSPC"), "no disk has so much")
        } else if let warning {
            #expect(outcome.errors.contains(warning), "\(outcome)")
        } else {
            #expect(outcome.errors == "", "a mount that succeeds says nothing")
        }
        let running = scratch.processes(running: Programs.pailfs)
        #expect(running.count == 2, "one process keeps a mount, and one serves it")
        daemon = running.first { pid in running.contains { Self.parent(of: $0) == pid } }
    }

    /// The process that serves the mount now; nil between two of them.
    var worker: pid_t? {
        guard let daemon else { return nil }
        return Self.worker(of: daemon, scratch)
    }

    private static func worker(of daemon: pid_t, _ scratch: Scratch) -> pid_t? {
        scratch.processes(running: Programs.pailfs).first { parent(of: $0) == daemon }
    }

    private static func parent(of pid: pid_t) -> pid_t? {
        let status = (try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)) ?? ""
        return status.split(separator: "\n").first { $0.hasPrefix("PPid:") }
            .flatMap { pid_t($0.dropFirst(5).trimmingCharacters(in: .whitespaces)) }
    }

    /// Kills the process that serves the mount, and returns when another one does.
    func killWorker() async throws {
        let daemon = try #require(daemon)
        let killed = try #require(worker)
        kill(killed, SIGKILL)
        let next = await poll(for: .seconds(60)) { [scratch] in
            Self.worker(of: daemon, scratch).flatMap { $0 == killed ? nil : $0 }
        }
        try #require(next != nil, "no other process serves the mount: \(logTail)")
    }

    /// Kills all that a mount is made of; the one that would start another worker first.
    func killMount() {
        guard let daemon else { return }
        let others = scratch.processes(running: Programs.pailfs).filter { $0 != daemon }
        for pid in [daemon] + others { kill(pid, SIGKILL) }
    }

    /// Runs `script`, which has to succeed, and kills one worker after the other meanwhile. A machine on which that was too
    /// quick for `count` kills runs it again.
    func killingWorkers(while script: String, atLeast count: Int, deadline: Duration = .seconds(120)) async throws {
        var kills = 0
        for round in 1... {
            if round > 1 { try await sh("rm -rf -- *") }
            let program = try start(script)
            let pause = max(0.1, 1.0 / Double(round))
            while World.isRunning(program.pid) {
                // Long enough for something to be under way again; what is under way is the machine's to say.
                // Who dies again and again within moments is given up.
                try await Task.sleep(for: .seconds(kills < count ? pause : 2.5))
                guard World.isRunning(program.pid) else { break }
                try await killWorker()
                kills += 1
            }
            let outcome = await program.wait(deadline: deadline)
            guard outcome.succeeded else { throw ChildFailed(command: script, outcome: outcome) }
            if kills >= count { return }
            try #require(round < 20, "the machine is too quick to be hit")
        }
    }

    /// Unmounts with fusermount3 and waits until the mount's process has ended: only then has everything been committed.
    func unmount() async throws {
        let outcome = try await run(["fusermount3", "-u", mountpoint])
        guard outcome.succeeded else { throw ChildFailed(command: "fusermount3 -u", outcome: outcome) }
        try await daemonEnds(within: .seconds(60))
    }

    /// Waits for the end of a mount's process that something else has started.
    func daemonEnds(within deadline: Duration, mounted: Bool = false) async throws {
        guard let pid = daemon else { return }
        let ended = await poll(for: deadline) { Self.isRunning(pid) ? nil : true }
        try #require(ended == true, "the mount's process is still there \(deadline) after the unmount")
        daemon = nil
        #expect(isMounted == mounted)
    }

    var isMounted: Bool { Self.isMounted(mountpoint) }

    static func isMounted(_ mountpoint: String) -> Bool {
        let mounts = (try? String(contentsOfFile: "/proc/self/mounts", encoding: .utf8)) ?? ""
        return mounts.split(separator: "\n").contains { $0.split(separator: " ").dropFirst().first == mountpoint[...] }
    }

    /// A zombie has ended: who should reap it may take their time.
    static func isRunning(_ pid: pid_t) -> Bool {
        guard let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8) else { return false }
        return !status.contains("State:\tZ")
    }

    /// The largest resident set the process that serves the mount ever had, in MiB.
    var peakMemory: Int {
        guard let pid = worker, let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmHWM:") }),
            let kibibytes = Int(line.filter(\.isNumber))
        else { return .max }
        return kibibytes / 1024
    }

    // MARK: programs

    /// Runs pailfs with this bucket's credentials; `changing` replaces variables.
    func pailfs(_ arguments: [String], changing: [String: String] = [:]) async throws -> Outcome {
        try await run([Programs.pailfs] + arguments, environment: changing, in: scratch.directory)
    }

    /// Runs a bash script in the mountpoint and answers what it printed; throws when a command in it fails.
    /// `$T` is the scratch folder, `$M` the mountpoint; the functions of programs/compare.sh are there.
    @discardableResult
    func sh(_ script: String, deadline: Duration = .seconds(60)) async throws -> String {
        let outcome = try await attempt(script, deadline: deadline)
        guard outcome.succeeded else { throw ChildFailed(command: script, outcome: outcome) }
        return outcome.output
    }

    /// The same for a script that may fail.
    func attempt(_ script: String, deadline: Duration = .seconds(60)) async throws -> Outcome {
        try await run(Self.bash(script), in: mountpoint, deadline: deadline)
    }

    /// Runs Python source in the mountpoint; throws when it fails.
    @discardableResult
    func python(_ source: String, deadline: Duration = .seconds(60)) async throws -> String {
        // Without -P Python would list the mount: it looks for modules there.
        let outcome = try await run([Programs.python, "-P", "-c", source], in: mountpoint, deadline: deadline)
        guard outcome.succeeded else { throw ChildFailed(command: source, outcome: outcome) }
        return outcome.output
    }

    /// Asks the bucket from outside: programs/bucket.py, boto3.
    @discardableResult
    func outside(_ arguments: String..., deadline: Duration = .seconds(60)) async throws -> String {
        let command = [Programs.python, Programs.helper("bucket.py")] + arguments
        let outcome = try await run(command, in: scratch.directory, deadline: deadline)
        guard outcome.succeeded else { throw ChildFailed(command: "bucket.py \(arguments)", outcome: outcome) }
        return outcome.output
    }

    /// Starts a bash script that goes on while the test does other things.
    func start(_ script: String) throws -> Child {
        try Child(
            Self.bash(script), environment: scratch.environment(childEnvironment), directory: mountpoint,
            scratch: scratch)
    }

    private static func bash(_ script: String) -> [String] {
        ["bash", "-euo", "pipefail", "-c", ". '\(Programs.helper("compare.sh"))'\n\(script)"]
    }

    private var childEnvironment: [String: String] {
        bucket.environment.merging(["M": mountpoint]) { $1 }
    }

    private func run(
        _ arguments: [String], environment: [String: String] = [:], in directory: String = "/",
        deadline: Duration = .seconds(60)
    ) async throws -> Outcome {
        let child = try Child(
            arguments, environment: scratch.environment(childEnvironment.merging(environment) { $1 }),
            directory: directory, scratch: scratch)
        return await child.wait(deadline: deadline)
    }

    // MARK: the end

    var logPath: String { scratch.path("pailfs.log") }

    /// Unmounts what is still mounted, and records what must not be: a dead or deaf process, errors in the log.
    func finish() async {
        if let pid = daemon {
            if !Self.isRunning(pid) { Issue.record("the mount's process died: \(logTail)") }
            do { try await unmount() } catch { Issue.record("\(error)\n\(logTail)") }
        }
        if isMounted { _ = try? await run(["fusermount3", "-uz", mountpoint]) }
        for pid in scratch.processes(running: Programs.pailfs) {
            Issue.record("process \(pid) was left behind")
            kill(pid, SIGKILL)
        }
        let unexpected = logLines.filter { line in
            let crashed = ["Fatal error", "Precondition failed", "leaked", "forgotten"].contains { line.contains($0) }
            return crashed || !expectsErrorsInLog && [" error ", " critical "].contains { line.contains($0) }
        }
        #expect(unexpected.isEmpty, "unexpected words in the log")
    }

    private var logLines: [Substring] {
        ((try? String(contentsOfFile: logPath, encoding: .utf8)) ?? "").split(separator: "\n")
    }

    private var logTail: String { logLines.suffix(20).joined(separator: "\n") }
}

/// Runs a test in a world of its own with a pailstore, and leaves nothing of it.
/// `arguments` are more of pailstore's.
func withStore(
    bucket: String = "pail", arguments: [String] = [], _ body: (World, Store) async throws -> Void
) async throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    let store = try await Store.start(in: scratch, bucket: bucket, arguments: arguments)
    let world = try World(scratch: scratch, bucket: Bucket(of: store))
    do {
        try await body(world, store)
    } catch {
        await world.finish()
        await store.stop()
        throw error
    }
    await world.finish()
    await store.stop()
}

/// The same with the bucket mounted.
func withMount(_ options: String..., body: (World, Store) async throws -> Void) async throws {
    try await withStore { world, store in
        try await world.mount(options)
        try await body(world, store)
    }
}
