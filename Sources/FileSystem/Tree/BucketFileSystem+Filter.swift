import Basics
import Metadata
import ObjectStorage

/// The options `include` and `exclude`: names that programs neither see nor make.
///
/// The metadata cache has hidden names too, so that a directory with some is not empty for rmdir, and a renamed one takes them
/// along.
extension BucketFileSystem {
    /// Whether programs do not see the name. `isDirectory` is nil where the kind is not known: true then holds for either.
    func hides(_ name: ByteString, in parent: InodeNumber, isDirectory: Bool?) -> Bool {
        guard let filter, let directory = (try? metadata.key(of: parent)) ?? nil else { return false }
        return filter.hides(name, in: directory, isDirectory: isDirectory)
    }

    func hides(_ entry: Entry) -> Bool {
        hides(entry.name, in: entry.parent, isDirectory: entry.attributes.kind == .directory)
    }

    /// Refuses to make a name that the mount would hide, and keeps the reason for `pailfs explain` of the directory.
    func requireShown(
        _ name: ByteString, in parent: InodeNumber, isDirectory: Bool, for operation: String
    ) throws(FileSystemError) {
        guard hides(name, in: parent, isDirectory: isDirectory) else { return }
        let error = FileSystemError(
            .notPermitted, "\(name) would be hidden by the options include and exclude of this mount")
        remember(error, operation, parent)
        throw error
    }
}
