import Foundation
import Glibc
import Synchronization

/// A folder for one test, removed with it, and the environment its children get.
final class Scratch: Sendable {
    let directory: String
    private let children = Mutex(0)

    init() throws {
        var template = Array((FileManager.default.temporaryDirectory.path + "/pailfs-test-XXXXXX").utf8CString)
        guard let made = mkdtemp(&template) else { throw CocoaError(.fileWriteUnknown) }
        directory = String(cString: made)
        try FileManager.default.createDirectory(atPath: path("home"), withIntermediateDirectories: false)
        _ = FileManager.default.createFile(atPath: path("home/config"), contents: nil)
    }

    func path(_ name: String) -> String { "\(directory)/\(name)" }

    func has(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }

    func nextNumber() -> Int {
        children.withLock {
            $0 += 1
            return $0
        }
    }

    func makeDirectory(_ name: String) throws -> String {
        try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
        return path(name)
    }

    /// What the caller has, less every store's own variables, with a home of its own: no machine's settings take part.
    /// HOME also marks whatever a test leaves behind, see `processes()`.
    func environment(_ additions: [String: String] = [:]) -> [String: String] {
        var result = ProcessInfo.processInfo.environment.filter { name, _ in
            !["AWS_", "PAILFS_", "S3_", "GIT_", "RCLONE_"].contains { name.hasPrefix($0) }
        }
        result["HOME"] = path("home")
        // Root's are the machine's otherwise.
        result["XDG_CACHE_HOME"] = path("home/.cache")
        result["XDG_STATE_HOME"] = path("home/.local/state")
        // Not this machine's.
        result["PAILFS_CONFIG"] = path("home/config")
        result["LC_ALL"] = "C.UTF-8"
        // From Git 2.47 on, a commit starts maintenance in the background, which keeps the mount busy.
        (result["GIT_CONFIG_COUNT"], result["GIT_CONFIG_KEY_0"], result["GIT_CONFIG_VALUE_0"]) =
            ("1", "gc.autoDetach", "false")
        result["T"] = directory
        result["PYTHON"] = Programs.python
        result.merge(additions) { $1 }
        return result
    }

    /// The processes that carry this test's HOME, zombies left out: nobody may have reaped them yet.
    func processes(running program: String) -> [pid_t] {
        let mark = Data("HOME=\(path("home"))\0".utf8)
        let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return all.compactMap { pid_t($0) }.filter { pid in
            guard let environment = FileManager.default.contents(atPath: "/proc/\(pid)/environ"),
                environment.range(of: mark) != nil,
                let executable = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/exe")
            else { return false }
            return executable == program
        }
    }

    func remove() {
        try? FileManager.default.removeItem(atPath: directory)
    }
}

/// The programs under test and those that look at them from outside.
enum Programs {
    static let pailfs = program("PAILFS_BIN", orBuilt: "pailfs")
    static let pailstore = program("PAILSTORE_BIN", orBuilt: "pailstore")
    /// Python with boto3: the one `scripts/setup test` makes.
    static let python = ProcessInfo.processInfo.environment["PAILFS_TEST_PYTHON"] ?? "\(root)/.build/venv/bin/python"
    static let rclone = URL(fileURLWithPath: python).deletingLastPathComponent().appending(path: "rclone").path
    static let weed = ProcessInfo.processInfo.environment["PAILFS_TEST_WEED"] ?? "\(root)/.build/venv/bin/weed"

    /// The repository.
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().path

    /// A helper beside these tests.
    static func helper(_ name: String) -> String {
        "\(root)/Tests/MountTests/programs/\(name)"
    }

    private static func program(_ variable: String, orBuilt name: String) -> String {
        let path = ProcessInfo.processInfo.environment[variable] ?? "\(root)/.build/debug/\(name)"
        return URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    }
}
