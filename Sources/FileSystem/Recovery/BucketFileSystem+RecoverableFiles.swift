package import Basics
import Blocks
package import Commits
package import Journaling
import Logging
import Metadata
import ObjectStorage
import Staging
import Synchronization

/// `pailfs recover`: files that were being written when a process died, and were not acknowledged.
///
/// Their rows and bytes stay as they are until the user decides. `recoverableFiles` has those of earlier processes; a call that
/// works on a file takes it out meanwhile, so that no other call does.
extension BucketFileSystem {
    /// All such files, the oldest first. Reads the disk.
    package func listRecoverableFiles() -> [RecoverableFile] {
        recoverableFiles.all.sorted { $0.key < $1.key }.map { recoverable($0.key, $0.value) }
    }

    private func recoverable(_ id: IntentID, _ intent: FileIntent) -> RecoverableFile {
        RecoverableFile(
            id, intent, stagedIn: rooms.staging.directory, boot: rooms.journal.boot,
            acknowledged: intent.isAcknowledged ? intent.map : nil)
    }

    /// Writes a file to a new file at `path`; bytes that are not here are fetched if the store still has their version. Returns
    /// the ranges that could not be fetched, which are an error without `evenIfPartial`.
    package func saveRecoverable(
        _ id: IntentID, to path: String, evenIfDoubtful: Bool, evenIfPartial: Bool = false
    ) async throws(FileSystemError) -> [ByteRange] {
        try await withRecoverable(id, evenIfDoubtful: evenIfDoubtful) {
            [self] file, _ throws(FileSystemError) in
            let intent = file.intent
            let base = intent.base.map { rooms.blocks.open(ObjectKey($0.key), $0.version) }
            do throws(CommitError) {
                return try await file.write(
                    to: path, base: base.map { BaseObject(object: $0, buffers: rooms.buffers) },
                    evenIfPartial: evenIfPartial)
            } catch { throw FileSystemError(error) }
        }
    }

    /// Discards a file.
    package func discardRecoverable(_ id: IntentID) async throws(FileSystemError) {
        try await withRecoverable(id, evenIfDoubtful: true) {
            [self] file, stays throws(FileSystemError) in
            let uploads = try uploads(of: id)
            try journalled { journal throws(JournalingError) in
                try journal.write([.endFile(id)], flushed: true)
            }
            stays = false
            for (row, upload) in uploads {
                do throws(CommitError) { try await jobs.runner.abort(row, upload.record) } catch {
                    jobs.add(abortOf: upload.record, row, because: "\(error)")
                }
            }
            do throws(StagingError) { try rooms.staging.remove(file.intent.staging) } catch {
                throw FileSystemError(error)
            }
        }
    }

    /// Acknowledges a file and commits it, on the condition that it had: another host's newer version is a conflict
    /// (pailfs-semantics(7), TWO WRITERS). After an error it stays acknowledged, and is retried.
    package func commitRecoverable(_ id: IntentID, evenIfDoubtful: Bool) async throws(FileSystemError) {
        try requireWritable()
        try await withRecoverable(id, evenIfDoubtful: evenIfDoubtful) {
            [self] recoverable, stays throws(FileSystemError) in
            guard let map = recoverable.map else {
                throw FileSystemError(.inputOutput, "there is no record of which bytes of the file were written")
            }
            var intent = recoverable.intent
            intent.extents = map.pieces(in: 0..<map.size).map {
                ExtentRecord(end: $0.range.upperBound, source: $0.source.rawValue)
            }
            if intent.headers == nil { intent.headers = HeadersRecord(try await headersOfBase(intent)) }
            let uploads = try uploads(of: id)
            let isInUse = files.inUse.contains {
                ((try? metadata.key(of: $0.file.ino)) ?? nil) == intent.key
            }
            if isInUse { throw inUse(intent) }
            rooms.staging.giveBack(intent.staging)
            let file: ActiveFile
            do throws(FileSystemError) { file = try restore(id, intent, uploads: uploads, isServed: true) } catch {
                _ = try? rooms.staging.hold(intent.staging)
                throw error
            }
            stays = false
            if let entry = try? entry(file.ino) {
                kernel.notifier?.invalidate(entry.ino)
                kernel.notifier?.invalidate(entry.name, in: entry.parent)
            }
            do throws(FileSystemError) {
                try await acknowledgeRestored(file, intent)
                try await commit(file)
            } catch {
                remember(error, "recover", file.ino)
                if file.isDirty { queue(file) }
                throw error
            }
            files.forgetIfIdle(file)
        }
    }

    /// The uploads of a file in the journal.
    private func uploads(
        of id: IntentID
    ) throws(FileSystemError) -> [(id: IntentID, upload: JournalContents.Upload)] {
        do { return try rooms.journal.contents().uploads(of: id) } catch { throw FileSystemError(error) }
    }

    /// Takes a file out while `body` works on it, and puts it back if it stays.
    private func withRecoverable<Value: Sendable>(
        _ id: IntentID, evenIfDoubtful: Bool,
        _ body: (RecoverableFile, inout Bool) async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        guard let intent = recoverableFiles.take(id) else {
            throw FileSystemError(
                .notFound, "there is no file \(id.rawValue) to recover; \"pailfs recover list\" shows the files")
        }
        var stays = true
        defer { if stays { recoverableFiles.keep(id, intent) } }
        let file = recoverable(id, intent)
        guard file.isCertain || evenIfDoubtful else {
            throw FileSystemError(
                .inputOutput,
                "the machine went down before the bytes were flushed, so they may be wrong; add --doubtful to accept them"
            )
        }
        return try await body(file, &stays)
    }

    /// Writes the row that acknowledges the bytes, and flushes it.
    private func acknowledgeRestored(_ file: ActiveFile, _ intent: FileIntent)
        async throws(FileSystemError)
    {
        let lock = try await lock(file, interrupting: false, unless: { _ in true })
        let (draft, condition) = lock.file.state.withLock { ($0.life.draft, $0.life.condition) }
        guard let draft else { return }
        do throws(CommitError) {
            try draft.record.acknowledge(
                draft.staged, in: rooms.staging, key: ObjectKey(intent.key),
                metadata: intent.headers?.metadata ?? ObjectMetadata(),
                condition: condition, now: Timestamp(seconds: intent.changed))
        } catch { throw FileSystemError(error) }
    }

    /// The headers of the version that the file was opened with, with the time of the last change.
    private func headersOfBase(_ intent: FileIntent) async throws(FileSystemError) -> ObjectMetadata {
        var headers = ObjectMetadata()
        if let base = intent.base {
            do throws(ObjectStoreError) {
                let info = try await store.head(ObjectKey(base.key), condition: nil)
                if info.version.etag.text == base.etag { headers = info.metadata }
            } catch { if error.kind != .notFound { throw FileSystemError(error) } }
        }
        headers.user[CommitOptions.commitHeader] = nil
        var attributes = Attributes(
            kind: .file, size: 0, mtime: .epoch, ctime: .epoch, version: nil, storageClass: nil)
        AttributeCodec.decode(headers, into: &attributes)
        (attributes.mtime, attributes.ctime) = (
            Timestamp(seconds: intent.changed), Timestamp(seconds: intent.changed)
        )
        return AttributeCodec.encode(attributes, over: headers)
    }
}
