import Basics
import Glibc
import ObjectStorage
import Synchronization

/// Makes the directories of a download, and looks at what is there. A symbolic link below the destination is never followed: it
/// could lead out of it.
///
/// Locks: `made` is a leaf.
final class LocalDirectoryMaker: Sendable {
    private let root: String
    /// Names below the root, without a slash at their ends, that are directories.
    private let made = Mutex<Set<ByteString>>([])

    init(_ root: String) { self.root = root }

    /// Makes the directory of this name below the root and those above it. A slash at its end counts for nothing; an empty name
    /// is the root itself.
    func make(_ name: ByteString) throws(ObjectStoreError) {
        let name = name.hasSuffix("/") ? name.dropLast(1) : name
        if made.withLock({ $0.contains(name) }) { return }
        do throws(FileError) { try Directory.create(root, permissions: 0o777) } catch {
            throw ObjectStoreError(error, .get)
        }
        _ = made.withLock { $0.insert("") }
        var path: ByteString = ""
        for component in name.bytes.split(separator: UInt8(ascii: "/")) {
            path = CopyPlan.path(path, ByteString(component))
            if made.withLock({ $0.contains(path) }) { continue }
            let whole = "\(root)/\(path)"
            if mkdir(whole, 0o777) != 0, errno != EEXIST {
                throw ObjectStoreError(
                    FileError(errno: errno, operation: "create the directory", path: whole), .get)
            }
            guard try Self.look(at: whole)?.kind == .directory else { throw Self.refusal(of: whole) }
            _ = made.withLock { $0.insert(path) }
        }
    }

    /// The status of a name below the root; nil where nothing is there.
    func status(of name: ByteString) throws(ObjectStoreError) -> LocalFileStatus? {
        guard !name.isEmpty else { return try Self.look(at: root) }
        var path: ByteString = ""
        let parent = CopyPlan.parent(of: name)
        for component in parent.bytes.split(separator: UInt8(ascii: "/")) {
            path = CopyPlan.path(path, ByteString(component))
            if made.withLock({ $0.contains(path) }) { continue }
            let whole = "\(root)/\(path)"
            guard let status = try Self.look(at: whole) else { return nil }
            guard status.kind == .directory else { throw Self.refusal(of: whole) }
            _ = made.withLock { $0.insert(path) }
        }
        return try Self.look(at: "\(root)/\(name)")
    }

    /// Flushes the directories in which files were made.
    func sync() {
        for name in made.withLock({ $0 }) { try? Directory.sync("\(root)/\(name)") }
        try? Directory.sync(Directory.parent(of: root))
    }

    private static func refusal(of path: String) -> ObjectStoreError {
        ObjectStoreError(
            ofFile: "\(path) is not a directory; remove it, or choose another destination", errno: ENOTDIR, .get)
    }

    private static func look(at path: String) throws(ObjectStoreError) -> LocalFileStatus? {
        do throws(FileError) { return try LocalFileStatus(of: path) } catch {
            throw ObjectStoreError(error, .get)
        }
    }
}
