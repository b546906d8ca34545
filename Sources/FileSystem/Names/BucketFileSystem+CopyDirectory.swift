import Basics
import Blocks
import Commits
import Metadata
import ObjectStorage

/// The copies that the rename of a directory makes at the store.
extension BucketFileSystem {
    /// How often an object is read again that another host replaces while it is copied.
    private static let mostReplacements = 8

    /// One object at its new key, and the version that was copied.
    private struct Copy {
        let source: ListedObject
        let key: ObjectKey
        let version: ObjectVersion
    }

    /// Copies every object to its new key. Returns the objects as they were copied: one that another host replaced since it was
    /// listed is copied as it is now, and one that another host deleted is missing.
    ///
    /// Throws EIO when a copy failed; `copies` are those that were made.
    func copyAll(
        _ objects: [ListedObject], from oldPrefix: ByteString, to newPrefix: ByteString,
        into copies: inout [ObjectKey: ObjectVersion]
    ) async throws(FileSystemError) -> [ListedObject] {
        let longest = store.capabilities.longestKey
        for object in objects where object.key.bytes.count - oldPrefix.count + newPrefix.count > longest {
            throw FileSystemError(.nameTooLong, "the new key of \(object.key) would exceed \(longest) bytes")
        }
        typealias Copied = Result<Copy?, ObjectStoreError>
        let results = await withTaskGroup(of: Copied.self) { group in
            var results: [Copied] = []
            var rest = objects.makeIterator()
            func addNext() {
                guard let object = rest.next() else { return }
                let newKey = object.key.moved(from: oldPrefix, to: newPrefix)
                group.addTask { [self] in
                    await Result { () async throws(ObjectStoreError) in try await copy(object, to: newKey) }
                }
            }
            for _ in 0..<policy.copies { addNext() }
            for await result in group {
                results.append(result)
                if case .success = result { addNext() }
            }
            return results
        }
        var copied: [ObjectKey: ListedObject] = [:]
        var failure: ObjectStoreError?
        for result in results {
            switch result {
            case .success(let copy?): (copies[copy.key], copied[copy.source.key]) = (copy.version, copy.source)
            case .success(nil): break
            case .failure(let error): failure = failure ?? error
            }
        }
        if let failure {
            throw FileSystemError(.inputOutput, "the directory is not renamed because a copy failed: \(failure)")
        }
        return objects.compactMap { copied[$0.key] }
    }

    /// nil when another host has deleted the object.
    private func copy(_ listed: ListedObject, to newKey: ObjectKey) async throws(ObjectStoreError) -> Copy? {
        let copier = ObjectCopier(store: store, journal: rooms.journal, jobs: jobs)
        var object = listed
        var replacements = 0
        while true {
            do throws(ObjectStoreError) {
                let version =
                    object.isSymlink && store.capabilities.symlinks
                    ? try await store.copyLink(object.key, to: newKey)
                    : try await copier.copy(
                        object.key, object.version, to: newKey, storageClass: object.storageClass)
                return Copy(source: object, key: newKey, version: version)
            } catch {
                let isOthers = error.kind == .preconditionFailed || error.kind == .notFound
                guard isOthers, replacements < Self.mostReplacements else { throw error }
                replacements += 1
                // One with the same ETag was removed and stored again: another host may rename it to and fro.
                guard let found = try await readAgain(object) else { return nil }
                object = found
            }
        }
    }

    /// The object as it is now, which its entry shows from then on; nil when it is gone.
    private func readAgain(_ object: ListedObject) async throws(ObjectStoreError) -> ListedObject? {
        // A HEAD of a native link describes the object that the link leads to.
        if object.isSymlink, store.capabilities.symlinks { return try await store.listed(object.key) }
        let start = metadata.beginRequest()
        do throws(ObjectStoreError) {
            let info = try await store.head(object.key, condition: nil)
            note(info, of: object.key, since: start)
            return ListedObject(key: object.key, version: info.version, storageClass: info.storageClass)
        } catch {
            guard error.kind == .notFound else { throw error }
            note(nil, of: object.key, since: start)
            return nil
        }
    }

    /// Records the object as it is now. Open handles on another version keep that, as when a lookup finds the new one.
    private func note(_ info: ObjectInfo?, of key: ObjectKey, since start: RequestStart) {
        guard let entry = (try? known(key.bytes)) ?? nil, !entry.isPending else { return }
        if let info {
            let entry = try? record(info, of: entry, since: start, forHolder: true)
            if let entry = entry ?? nil { _ = current(entry) }
        } else if entry.attributes.kind != .directory {
            // The entries below a directory stay when its marker is gone.
            _ = try? metadata.recordGone(entry.ino, since: start)
        }
    }
}
