import ArgumentParser
import CLinux
import FuseBridge
import Glibc

/// Lists the keys of a mounted directory that have no name there: with `names=raw` some have none.
struct HiddenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hidden", abstract: "Lists the keys of a directory that names=raw hides.",
        discussion:
            "One key per line; control characters, blanks and % appear as %XX."
    )

    @Argument(help: "A directory of a mount.") var directory: String

    mutating func run() throws {
        guard !HandedConnection.isName(directory) else {
            throw CommandError("\(directory) is not a directory; name a path where the mount is seen")
        }
        // No attribute value is longer (XATTR_SIZE_MAX).
        var value = [UInt8](repeating: 0, count: 65536)
        let count = getxattr(directory, "user.pailfs.hidden", &value, value.count)
        guard count >= 0 else {
            let reason = errno == ENODATA || errno == EOPNOTSUPP ? "it is not a directory in a mount" : Self.text(errno)
            throw CommandError("the hidden keys of \(directory) cannot be listed: \(reason)")
        }
        // Keys are bytes, not always text.
        guard Output.write(value[..<count]) else {
            throw CommandError("the output cannot be written: \(Self.text(errno))")
        }
    }

    private static func text(_ code: Int32) -> String { String(cString: strerror(code)) }
}
