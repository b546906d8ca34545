import ArgumentParser
import Basics
import CLinux
import Glibc
import Settings

/// The start of the program: which of its spellings was used, and how errors are printed.
enum Entry {
    static let version = "0.1.0"

    static func run(_ given: [String]) -> Never {
        openStandardDescriptors()
        // A crash must not write the secrets of the environment to a disk.
        linux_forbid_core_dumps()
        do {
            guard let arguments = try Spelling.normalized(ProcessArguments.all(given: given)) else {
                exit(EXIT_SUCCESS)
            }
            if arguments.isEmpty {
                write(PailfsCommand.helpMessage())
                exit(EX_USAGE)
            }
            try Spelling.requireCommand(arguments)
            var command = try PailfsCommand.parseAsRoot(arguments)
            try command.run()
            exit(EXIT_SUCCESS)
        } catch let error as UsageError {
            say("pailfs: \(error.message)")
            exit(EX_USAGE)
        } catch let error as CommandError {
            fail(error.message)
        } catch let error as SettingsError {
            fail(error.description)
        } catch {
            PailfsCommand.exit(withError: error)
        }
    }

    /// Opens those of descriptors 0 to 2 that are closed, as some daemons start programs: otherwise a file would get one of these
    /// numbers, and messages would be written into it, or it would be closed with it.
    private static func openStandardDescriptors() {
        for number in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(number, F_GETFD) < 0 {
            // open(2) returns the lowest free number, which is this one.
            _ = open("/dev/null", O_RDWR)
        }
    }

    /// Prints a warning; the mount goes on without the thing it names.
    static func warn(_ text: String) { say("pailfs: warning: \(text)") }

    /// One sentence on standard error, and exit status 1.
    static func fail(_ message: String) -> Never {
        say("pailfs: \(message)")
        exit(EXIT_FAILURE)
    }

    /// Names files that the bucket lacks; of very many the first ten.
    static func sayUnstored(_ lines: [String]) {
        for line in lines.prefix(10) { say("pailfs: not stored: \(line)") }
        let rest = lines.count - 10
        if rest > 0 { say("pailfs: not stored: \(StatusText.count(rest, "more file")); the log names each") }
    }

    /// Prints one line on standard error; control characters in it, which may come from elsewhere, are escaped.
    static func say(_ text: String) { write(Output.text(ByteString(text))) }

    private static func write(_ text: String) {
        let bytes = Array("\(text)\n".utf8)
        _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
    }

    static var environment: [String: String] {
        var variables: [String: String] = [:]
        var next = environ
        while let text = next.pointee {
            let parts = String(cString: text).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { variables[String(parts[0])] = String(parts[1]) }
            next += 1
        }
        // mount(8) and systemd run helpers without it.
        if variables["HOME"] == nil { variables["HOME"] = home(of: geteuid()) }
        return variables
    }

    /// The home directory of a user in the system's database (getpwuid_r(3)).
    static func home(of user: UInt32) -> String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var text = [CChar](repeating: 0, count: 16 << 10)
        guard getpwuid_r(user, &entry, &text, text.count, &found) == 0, found != nil, let path = entry.pw_dir
        else { return nil }
        return String(cString: path)
    }
}
