import Basics
import FuseBridge
import Glibc
import ObjectStorage
import Settings

/// A source or the destination of a copy, as the command line has it.
enum CopyEnd: Sendable {
    /// Standard input or output.
    case standard
    /// A path outside of mounts of pailfs.
    case local(String)
    /// A URL, or a path in a mount.
    case stored(ObjectTarget)

    /// A source; with `isTree` also a directory. One that `mayBeDeleted` need not exist any more.
    init(source text: String, options: [String], isTree: Bool, mayBeDeleted: Bool = false) throws(CommandError) {
        if text == "-" {
            self = .standard
        } else if text.contains("://") || Self.isInMount(text) {
            self = .stored(try ObjectTarget(text, options: options, whole: isTree, new: mayBeDeleted))
        } else {
            self = .local(try Self.sourcePath(text))
        }
    }

    /// A destination, which need not exist.
    init(destination text: String, options: [String]) throws(CommandError) {
        if text == "-" {
            self = .standard
        } else if text.contains("://") || Self.isInMount(text) {
            let target = try ObjectTarget(text, options: options, new: true)
            try target.requireWritable()
            self = .stored(target)
        } else {
            self = .local(try Self.destinationPath(text))
        }
    }

    /// Whether the nearest existing file at or above the path is in a mount of pailfs.
    static func isInMount(_ path: String) -> Bool {
        var path = path
        while true {
            if let resolved = File.resolved(path.isEmpty ? "." : path) {
                return MountTable.current().entry(holding: ByteString(resolved))?.type == "fuse.pailfs"
            }
            let parent = Directory.parent(of: path)
            guard parent != path else { return false }
            path = parent
        }
    }

    private static func sourcePath(_ text: String) throws(CommandError) -> String {
        guard !text.isEmpty else { throw CommandError("the source is an empty string; write a path or a URL") }
        guard let resolved = File.resolved(text) else {
            let reason = errno
            throw CommandError(
                reason == ENOENT
                    ? "\(text) does not exist; check its name, or write scheme://bucket/key"
                    : "\(text) cannot be reached: \(String(cString: strerror(reason)))")
        }
        return CopyPlan.named(text, resolved: resolved)
    }

    /// A symbolic link at the end is followed: the file that it points to is replaced, not the link.
    private static func destinationPath(_ text: String) throws(CommandError) -> String {
        guard !text.isEmpty else { throw CommandError("the destination is an empty string; write a path or a URL") }
        let isSlashed = text.hasSuffix("/")
        if let resolved = File.resolved(text) { return isSlashed && resolved != "/" ? resolved + "/" : resolved }
        guard (try? LocalFileStatus(of: text))?.kind != .symbolicLink else {
            throw CommandError("\(text) is a symbolic link to a file that does not exist; write that file's own path")
        }
        return MountRequest.absolute(text)
    }

    /// Whether a copy with its source's last name goes into the place: it is a directory, or its name ends in a slash.
    var isDirectory: Bool {
        switch self {
        case .standard: false
        case .local(let path):
            path.hasSuffix("/") || (try? LocalFileStatus(of: path))?.kind == .directory
        case .stored(let target): target.path.isEmpty || target.path.hasSuffix("/")
        }
    }

    /// Whether it is a path in a mount that does not end in a slash or a dot: then the copies of a directory get its name.
    var isNamedDirectory: Bool {
        guard let path = target?.mount?.given else { return false }
        return !CopyPlan.named(path, resolved: path).hasSuffix("/")
    }

    var target: ObjectTarget? {
        guard case .stored(let target) = self else { return nil }
        return target
    }

    /// Whether it is known to be a directory.
    var isTree: Bool {
        switch self {
        case .standard: false
        case .local(let path): (try? LocalFileStatus(of: File.resolved(path) ?? path))?.kind == .directory
        case .stored(let target): target.isDirectory == true
        }
    }

    /// The part of the URL in front of a key, as `s3://bucket/`, for messages; empty for a path.
    var label: ByteString {
        guard case .stored(let target) = self else { return "" }
        let bucket = target.request.bucket.map { "\($0)/" } ?? ""
        return ByteString("\(target.request.scheme.rawValue)://\(bucket)")
    }

    /// A path or key.
    var path: ByteString {
        switch self {
        case .standard: "-"
        case .local(let path): ByteString(path)
        case .stored(let target): target.path
        }
    }

    /// Identifies the place for the journal, independent of the working directory.
    var identity: [String] {
        switch self {
        case .standard: ["-"]
        case .local(let path): ["file", File.resolved(path) ?? MountRequest.absolute(path)]
        case .stored(let target):
            [
                target.request.scheme.rawValue, target.request.settings.endpoint ?? "", target.request.bucket ?? "",
                target.path.description,
            ]
        }
    }
}
