package import Basics

/// A pattern of the options for names in a mount: for names anywhere or, with a slash that is not at its end, for paths from the
/// top of the mount.
package struct NamePattern: Sendable, Hashable {
    private let pattern: PathPattern
    private let isForPaths: Bool
    /// A slash at the end of the pattern: it is for directories only.
    package let isForDirectories: Bool

    /// nil for a pattern that is empty or has an error.
    package init?(_ text: String) {
        var text = Substring(text)
        isForDirectories = text.hasSuffix("/")
        if isForDirectories { text.removeLast() }
        isForPaths = text.contains("/")
        if text.hasPrefix("/") { text.removeFirst() }
        guard !text.isEmpty, let pattern = PathPattern(String(text)) else { return nil }
        self.pattern = pattern
    }

    /// `path` begins at the top of the mount, and `name` is its last name.
    package func matches(path: ByteString, name: ByteString) -> Bool { pattern.matches(isForPaths ? path : name) }
}
