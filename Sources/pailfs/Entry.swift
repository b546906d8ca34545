import ArgumentParser
import Basics
import Glibc
import Settings

/// The start of the program: which of its spellings was used, and how errors are told.
enum Entry {
    static let version = "0.1.0"

    static func run(_ arguments: [String]) -> Never {
        do {
            guard let arguments = try Spelling.normalized(arguments) else { exit(EXIT_SUCCESS) }
            if arguments.isEmpty {
                say(PailfsCommand.helpMessage())
                exit(EX_USAGE)
            }
            var command = try PailfsCommand.parseAsRoot(arguments)
            try command.run()
            exit(EXIT_SUCCESS)
        } catch let error as CommandError {
            fail(error.message)
        } catch let error as SettingsError {
            fail(error.description)
        } catch {
            PailfsCommand.exit(withError: error)
        }
    }

    /// One sentence on standard error, and exit status 1.
    static func fail(_ message: String) -> Never {
        say("pailfs: \(message)")
        exit(EXIT_FAILURE)
    }

    /// One line on standard error.
    static func say(_ text: String) {
        let bytes = Array("\(Output.text(ofLines: text))\n".utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
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
        if variables["HOME"] == nil { variables["HOME"] = home }
        return variables
    }

    /// What the system's users have as the home of this one (getpwuid_r(3)).
    private static var home: String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var text = [CChar](repeating: 0, count: 16 << 10)
        guard getpwuid_r(geteuid(), &entry, &text, text.count, &found) == 0, found != nil, let path = entry.pw_dir
        else { return nil }
        return String(cString: path)
    }
}

/// The spellings that mount(8) and fstab(5) use, as the one of the command.
enum Spelling {
    /// The arguments for the parser, without the program's name; nil when there is nothing to do.
    static func normalized(_ arguments: [String]) throws(SettingsError) -> [String]? {
        var rest = Array(arguments.dropFirst())
        let name = arguments.first.map { $0.split(separator: "/").last.map(String.init) ?? "" } ?? ""
        if name.hasPrefix("mount.") {
            guard let helper = withoutMountFlags(rest) else { return nil }
            rest = ["mount"] + helper
        } else if let first = rest.first, first.contains("://") {
            rest = ["mount"] + rest
        }
        guard let command = rest.first, ["mount", "serve"].contains(command) else { return rest }
        return [command] + (try MountSettings.replacingLongOptions(in: Array(rest.dropFirst())))
    }

    /// What mount(8) passes to a helper: `spec dir [-sfnv] [-N namespace] [-o options] [-t type]`; nil when -f says that
    /// it is only for show.
    private static func withoutMountFlags(_ arguments: [String]) -> [String]? {
        var result: [String] = []
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if ["-N", "-t"].contains(argument) {
                rest = rest.dropFirst()
            } else if argument.hasPrefix("-"), !argument.hasPrefix("-o"),
                argument.dropFirst().allSatisfy("sfnv".contains)
            {
                if argument.contains("f") { return nil }
            } else {
                result.append(argument)
                if argument == "-o", let list = rest.popFirst() { result.append(list) }
            }
        }
        return result
    }
}
