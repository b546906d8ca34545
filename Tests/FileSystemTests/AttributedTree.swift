import Basics
import FileSystem
import Metadata

/// Suites that set and look at extended attributes of files in a tree, by their paths.
protocol AttributedTree {
    var tree: MountedTree { get }
}

extension AttributedTree {
    func set(
        _ name: String, _ value: String, of path: String, mode: ExtendedAttributeMode = .createOrReplace
    ) async throws(MountedTree.Failure) {
        let ino = try await tree.find(path).ino
        try await tree.run(
            tree.system.setExtendedAttribute(ByteString(name), of: ino, to: ByteString(value), mode: mode))
    }

    func get(_ name: String, of path: String) async throws(MountedTree.Failure) -> String {
        try await tree.run(tree.system.extendedAttribute(ByteString(name), of: try await tree.find(path).ino))
            .description
    }

    func list(_ path: String) async throws(MountedTree.Failure) -> [String] {
        try await tree.run(tree.system.extendedAttributes(of: try await tree.find(path).ino)).map(\.description)
    }

    func remove(_ name: String, of path: String) async throws(MountedTree.Failure) {
        let ino = try await tree.find(path).ino
        try await tree.run(tree.system.removeExtendedAttribute(ByteString(name), of: ino))
    }

    func failure(_ kind: FileSystemError.Kind) -> MountedTree.Failure { .init(kind: kind, reason: "") }
}

extension BucketFileSystem {
    /// The names of all attributes: with no room the caller asks for their size, so none is left out.
    func extendedAttributes(of ino: InodeNumber) -> Outcome<[ByteString]> { extendedAttributes(of: ino, room: 0) }
}
