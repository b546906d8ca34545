import Foundation
import Glibc

/// What a child process left when it ended.
struct Outcome: Sendable, CustomStringConvertible {
    /// The exit status; 128 + the signal's number when a signal ended it, as a shell says it.
    let status: Int32
    let output: String
    let errors: String
    let missedDeadline: Bool

    var succeeded: Bool { status == 0 && !missedDeadline }

    var description: String {
        let ending = missedDeadline ? "missed its deadline and was killed" : "status \(status)"
        return "\(ending)\nstdout: \(output.suffix(4000))\nstderr: \(errors.suffix(4000))"
    }
}

/// A child that did not do what the test needs before it can go on.
struct ChildFailed: Error, CustomStringConvertible {
    let command: String
    let outcome: Outcome

    var description: String { "\(command)\n\(outcome)" }
}

/// One child process, leader of a process group of its own, its output in files: a daemon that inherits them holds
/// nobody up, as it would with pipes. Foundation's `Process` waits until every descendant has closed a socket, which a
/// mount never does. Waiting happens on a thread of its own, never on the pool the tests run on.
final class Child: Sendable {
    let pid: pid_t
    private let command: String
    private let outputPath: String
    private let errorsPath: String

    /// Starts a program found on the PATH of `environment`; `directory` is the one it works in.
    init(_ arguments: [String], environment: [String: String], directory: String, scratch: Scratch) throws {
        let number = scratch.nextNumber()
        outputPath = scratch.path("child-\(number).out")
        errorsPath = scratch.path("child-\(number).err")
        command = arguments.joined(separator: " ")

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, outputPath, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, errorsPath, O_WRONLY | O_CREAT | O_TRUNC, 0o600)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        let words = ["env", "-C", directory] + arguments
        let argv = words.map { strdup($0) } + [nil]
        let envp = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { (argv + envp).forEach { free($0) } }
        var child: pid_t = 0
        let error = posix_spawn(&child, "/usr/bin/env", &actions, &attributes, argv, envp)
        guard error == 0 else {
            throw ChildFailed(
                command: command,
                outcome: Outcome(
                    status: 127, output: "", errors: String(cString: strerror(error)), missedDeadline: false))
        }
        pid = child
    }

    /// What the child has written so far.
    var output: String { (try? String(contentsOfFile: outputPath, encoding: .utf8)) ?? "" }
    var errors: String { (try? String(contentsOfFile: errorsPath, encoding: .utf8)) ?? "" }

    /// Waits for the end; past the deadline the whole group is killed, by its id.
    func wait(deadline: Duration) async -> Outcome {
        await onThread {
            let end = ContinuousClock.now + deadline
            var missed = false
            var status: Int32 = 0
            while waitpid(self.pid, &status, WNOHANG) == 0 {
                if !missed && ContinuousClock.now > end {
                    missed = true
                    killpg(self.pid, SIGKILL)
                }
                usleep(2000)
            }
            let signal = status & 0x7f
            let code = signal == 0 ? (status >> 8) & 0xff : 128 + signal
            return Outcome(status: code, output: self.output, errors: self.errors, missedDeadline: missed)
        }
    }

    func send(_ signal: Int32) {
        kill(pid, signal)
    }
}

/// Runs blocking work on a new thread: the pool that runs the tests is as narrow as the machine.
func onThread<Result: Sendable>(_ work: @escaping @Sendable () -> Result) async -> Result {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: work()) }
    }
}

/// Asks again and again until the answer is not nil, or the deadline passes.
func poll<Answer: Sendable>(
    for deadline: Duration, _ question: @escaping @Sendable () -> Answer?
) async -> Answer? {
    await onThread {
        let end = ContinuousClock.now + deadline
        while true {
            if let answer = question() { return answer }
            if ContinuousClock.now > end { return nil }
            usleep(5000)
        }
    }
}
