import Basics
import Blocks
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// Inodes that have lost their names here and that the kernel may still use (`FormerInodes`).
extension BucketFileSystem {
    /// To be called before an entry loses its name by a call of this mount. The record has no effect as long as the inode has a
    /// name.
    func noteFormer(_ entry: Entry) {
        let headers = entry.attributes.headersKnown ? (try? metadata.metadata(of: entry.ino)) ?? nil : nil
        var attributes = entry.attributes
        if attributes.kind == .directory {
            attributes.noteChange(at: time.now())
            keepOrphan(directory: entry.ino, attributes)
        }
        let former = FormerInodes.Former(
            attributes: attributes, headers: headers, key: try? key(of: entry.ino), file: files.find(entry.ino))
        note(former, of: entry.ino)
    }

    /// To be called when the last handle of a file without a name is closed.
    func noteFormer(_ file: ActiveFile) {
        let (attributes, headers, base) = file.state.withLock { ($0.attributes, $0.metadata, $0.life.object) }
        note(FormerInodes.Former(attributes: attributes, headers: headers, key: base?.key, file: file), of: file.ino)
    }

    private func note(_ former: FormerInodes.Former, of ino: InodeNumber) {
        if let evicted = formers.insert(former, for: ino) { drop(evicted) }
    }

    /// Returns the record of an inode that has lost its name here; nil if the inode has a name, or has no record.
    func former(_ ino: InodeNumber) -> FormerInodes.Former? {
        guard let former = formers.find(ino), (try? metadata.entry(ino)) == .some(nil) else { return nil }
        return former
    }

    /// The attributes of an entry whose file is not active. A file that was not stored leaves the table before its entry is
    /// removed; then only the former inode's file has the length.
    func latest(of entry: Entry) -> Attributes {
        let file = formers.find(entry.ino)?.file
        return file.flatMap { file in file.state.withLock { $0.life.isUnlinked ? $0.attributes : nil } }
            ?? entry.attributes
    }

    /// Runs `act`, a call about an inode. If the inode loses its name meanwhile, runs it once more: `act` then finds a file
    /// without a name.
    func withOrWithoutName<Value: Sendable>(
        _ ino: InodeNumber, _ act: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        do { return try await act() } catch {
            let isUnlinked = files.find(ino)?.state.withLock { $0.life.isUnlinked } ?? false
            guard error.kind == .stale, isUnlinked || former(ino) != nil else { throw error }
            return try await act()
        }
    }

    /// The kernel has dropped its inode of this number. It also sends this for single references, when a killed program did not
    /// take an answer that held one.
    package func forget(_ ino: InodeNumber, count: UInt64) {
        guard !files.isOpen(ino), let former = formers.remove(ino) else { return }
        drop(former)
    }

    /// Deletes the bytes that only an inode without a name had.
    private func drop(_ former: FormerInodes.Former) {
        if let file = former.file, !files.isOpen(file.ino) {
            file.state.withLock { $0.life.isUnlinked ? $0.life.draft : nil }?.staged.discard()
        }
        guard let key = former.key, let version = former.shown.version else { return }
        rooms.blocks.forget(key, version) {
            let now = (try? metadata.entry(at: key.bytes)) ?? nil
            let isUsed = files.all.contains { file in
                file.state.withLock { $0.life.object?.key == key && $0.life.object?.version.etag == version.etag }
            }
            return now?.attributes.version?.etag == version.etag || isUsed
        }
    }

    /// The file of a former inode, with one more user; nil if there is none.
    func revive(_ ino: InodeNumber) -> ActiveFile? {
        guard let former = former(ino), former.attributes.kind == .file else { return nil }
        let file = files.retain(ino) {
            if let file = former.file { return file }
            let object = former.key.flatMap { key in former.attributes.version.map { rooms.blocks.open(key, $0) } }
            let life = FileLife<ActiveFile.Draft, _, ActiveFile.Deletion>(orphan: nil, over: .init(object))
            return ActiveFile(
                ino: ino,
                state: ActiveFile.State(attributes: former.attributes, metadata: former.headers, life: life))
        }
        guard file.state.withLock({ $0.life.isUnlinked }) else {
            releaseInBackground(file)
            return nil
        }
        return file
    }

    /// Whether a file without a name has its bytes: in the cache, which then keeps them, or in an object that stays while it is
    /// open.
    func hasItsBytes(_ file: ActiveFile) -> Bool {
        let (base, size, hasObject) = file.state.withLock { state in
            (state.life.object, state.life.draft?.staged.size ?? state.attributes.size, state.life.removal != nil)
        }
        guard !hasObject, size > 0, let base else { return true }
        return pin(base, for: file, whole: true)
    }

    /// The answer to stat(2).
    func status(of former: FormerInodes.Former, _ ino: InodeNumber) -> FileStatus {
        var status = shown(ino, former.shown)
        status.links = 0
        return status
    }
}
