package import Basics
import Blocks
import Commits
package import Metadata
import ObjectStorage
import Synchronization

/// unlink.
extension BucketFileSystem {
    package func unlink(_ name: ByteString, in parent: InodeNumber) -> Outcome<Void> {
        later { [self] () async throws(FileSystemError) in
            try requireWritable()
            let entry = try await existing(name, in: parent)
            guard entry.attributes.kind != .directory else {
                throw FileSystemError(.isDirectory, "\(name) is a directory")
            }
            try await remove(entry)
            touch(parent)
        }
    }

    /// Takes the entry out of the bucket and the tree. Open handles keep its bytes.
    func remove(_ entry: Entry) async throws(FileSystemError) {
        guard let file = files.find(entry.ino) else {
            try await removeObject(entry)
            return
        }
        do { try await file.writing.enter(alone: true) } catch { throw .interrupted }
        defer { file.writing.leave(alone: true) }
        // A commit that was under way has made an object of it meanwhile.
        let entry = try self.entry(entry.ino)
        let key = try key(of: entry.ino)
        let (overlay, base) = file.state.withLock { ($0.overlay, $0.base) }
        // Bytes that only the object has are still needed by open handles: it goes with the last of them.
        let isNeeded = files.isOpen(entry.ino) && base.map { !$0.isComplete } ?? false
        if entry.isPending || isNeeded {
            if !entry.isPending { try await keepDirectory(entry.parent, without: entry) }
            try cached { metadata throws(MetadataError) in try metadata.remove(entry.ino, pending: isNeeded) }
        } else {
            try await removeObject(entry)
        }
        file.state.withLock { state in
            state.isUnlinked = true
            if isNeeded { state.deleteAtRelease = ActiveFile.Deletion(key: key, entry: entry) }
        }
        await overlay?.commit.abandon()
        files.settle(file)
    }

    private func removeObject(_ entry: Entry) async throws(FileSystemError) {
        try await keepDirectory(entry.parent, without: entry)
        let key = try key(of: entry.ino)
        try await remote { store throws(ObjectStoreError) in try await store.delete(key, ifMatch: nil) }
        try cached { metadata throws(MetadataError) in try metadata.remove(entry.ino) }
        if !files.isOpen(entry.ino) { rooms.blocks.forget(key) }
    }
}
