import Foundation

/// A directory of a test's own, removed with everything in it when the last reference ends.
package final class TemporaryDirectory: Sendable {
    /// Absolute, without a slash at its end.
    package let path: String

    package init() throws {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent("pailfs-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        path = url.resolvingSymlinksInPath().path
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The path of `name` in the directory; nothing is created.
    package func path(_ name: String) -> String { path + "/" + name }
}
