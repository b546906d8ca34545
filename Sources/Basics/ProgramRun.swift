import CLinux
import Glibc

/// Runs another program and returns its output.
package enum ProgramRun {
    package struct Outcome: Sendable {
        /// The exit status, or 128 plus the number of the signal that ended the program.
        package var status: Int32
        package var output: [UInt8]
        package var errors: [UInt8]
    }

    /// Why there is no outcome.
    package enum Failure: Error, Sendable {
        case notStarted(errno: Int32)
        /// The program ran longer than allowed, and was killed with the processes of its group.
        case tooLong
    }

    /// The most bytes of output and of errors that are kept.
    private static let most = 1 << 20

    /// Runs a program, found in PATH, with `environment` as its whole environment and an empty standard input. Waits on a
    /// separate thread for it to end, at most for `limit`.
    package static func run(
        _ words: [String], environment: [String: String], limit: Duration
    ) async -> Result<Outcome, Failure> {
        await withCheckedContinuation { continuation in
            startThread(name: "program") {
                continuation.resume(returning: wait(for: words, environment, limit))
            }
        }
    }

    private static func wait(
        for words: [String], _ environment: [String: String], _ limit: Duration
    ) -> Result<Outcome, Failure> {
        var pipes: [Int32] = [-1, -1, -1, -1]
        defer { for end in pipes where end >= 0 { close(end) } }
        guard makePipe(&pipes, at: 0), makePipe(&pipes, at: 2) else { return .failure(.notStarted(errno: errno)) }
        var process = pid_t()
        let status = withCStrings(words) { arguments in
            withCStrings(environment.map { "\($0.key)=\($0.value)" }) { variables in
                linux_spawn_for_output(&process, arguments, variables, pipes[1], pipes[3])
            }
        }
        guard status == 0 else { return .failure(.notStarted(errno: -status)) }
        for index in [1, 3] {
            close(pipes[index])
            pipes[index] = -1
        }
        return collect(process, pipes[0], pipes[2], until: .now + limit)
    }

    /// Reads both pipes until the process has ended; its own child processes may keep them open longer.
    private static func collect(
        _ process: pid_t, _ output: Int32, _ errors: Int32, until deadline: ContinuousClock.Instant
    ) -> Result<Outcome, Failure> {
        var outcome = Outcome(status: 0, output: [], errors: [])
        while true {
            var ends = [output, errors].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            poll(&ends, 2, 50)
            var status: Int32 = 0
            let ended = waitpid(process, &status, WNOHANG)
            drain(output, into: &outcome.output)
            drain(errors, into: &outcome.errors)
            if ended == process || ended < 0 && errno != EINTR {
                outcome.status = exitCode(of: status)
                return .success(outcome)
            }
            if ContinuousClock.now >= deadline {
                kill(-process, SIGKILL)
                while waitpid(process, &status, 0) < 0, errno == EINTR {}
                return .failure(.tooLong)
            }
        }
    }

    private static func drain(_ descriptor: Int32, into bytes: inout [UInt8]) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return }
            bytes += buffer.prefix(min(count, max(0, most - bytes.count)))
        }
    }

    /// Both ends are closed on exec; reads never block.
    private static func makePipe(_ pipes: inout [Int32], at index: Int) -> Bool {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return false }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        (pipes[index], pipes[index + 1]) = (ends[0], ends[1])
        return true
    }
}

/// Splits a command line into words as a shell does, without any expansion (Python's shlex).
package enum CommandWords {
    /// nil when a quote has no end or a backslash is the last character.
    package static func split(_ text: String) -> [String]? {
        var words: [String] = []
        var (word, isWord) = ("", false)
        var quote: Character?
        var rest = text[...]
        while let character = rest.popFirst() {
            if let open = quote {
                if character == open {
                    quote = nil
                } else if character == "\\", open == "\"", let next = rest.first, next == "\"" || next == "\\" {
                    word.append(next)
                    rest.removeFirst()
                } else {
                    word.append(character)
                }
            } else if character == "'" || character == "\"" {
                (quote, isWord) = (character, true)
            } else if character == "\\" {
                guard let next = rest.popFirst() else { return nil }
                word.append(next)
                isWord = true
            } else if character.isWhitespace {
                if isWord { words.append(word) }
                (word, isWord) = ("", false)
            } else {
                word.append(character)
                isWord = true
            }
        }
        guard quote == nil else { return nil }
        if isWord { words.append(word) }
        return words
    }
}
