package import Basics
import Blocks
import Commits
import Journaling
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// write, truncate, fallocate: into staging, while full parts go up behind a forward writer.
extension BucketFileSystem {
    package func write(
        _ ino: InodeNumber, handle: HandleID, at offset: Int64?, bytes: RawSpan
    ) -> Outcome<Int> {
        do throws(FileSystemError) {
            let handle = try fileHandle(handle, of: ino)
            guard handle.flags.writes else { throw .badHandle }
            let file = handle.file
            let pause = space.pause(beforeWriting: bytes.byteCount)
            if pause == nil, let pass = tryEnterToWrite(file) {
                defer { leave(pass) }
                do throws(FileSystemError) { return told(try stage(bytes, in: file, at: offset), handle) } catch {
                    guard error.lacksLocalSpace || error.needsCommit else {
                        rememberWrite(error, file)
                        throw error
                    }
                }
            }
            let copy = bytes.copied
            return later { [self] () async throws(FileSystemError) in
                if let pause, pause > .zero {
                    makeRoom()
                    do { try await time.sleep(for: pause) } catch { throw .interrupted }
                }
                let count: Int
                do throws(FileSystemError) {
                    count = try await waitingForSpace(file) { [self] () async throws(FileSystemError) in
                        let pass = try await enterToWrite(file)
                        defer { leave(pass) }
                        return try copy.withRawSpan { (bytes) throws(FileSystemError) in
                            try stage(bytes, in: file, at: offset)
                        }
                    }
                } catch {
                    rememberWrite(error, file)
                    throw error
                }
                return try await told(count, handle).value().get()
            }
        } catch { return .ready(.failure(error)) }
    }

    /// The answer to a write of `count` bytes. While a write goes around the kernel's page cache, a read of another program may
    /// put the bytes from before into it: the kernel drops them first.
    private func told(_ count: Int, _ handle: FileHandle) -> Outcome<Int> {
        let file = handle.file
        let reads = file.cachedReads.load(ordering: .sequentiallyConsistent)
        guard handle.flags.direct, reads > file.forgottenReads.load(ordering: .acquiring),
            let notifier = kernel.notifier
        else {
            return .success(count)
        }
        return .pending {
            notifier.invalidate(file.ino)
            do throws(CancellationError) {
                try await notifier.awaitInvalidation(of: file.ino)
                file.forgottenReads.max(reads, ordering: .releasing)
            } catch {
                // The caller was killed and takes no answer; the kernel drops the pages all the same.
            }
            return .success(count)
        }
    }

    private func rememberWrite(_ error: FileSystemError, _ file: ActiveFile) {
        if error.kind == .noSpace || error.kind == .inputOutput { remember(error, "write", file.ino) }
    }

    /// Locks: the `writing` gate.
    private func stage(
        _ bytes: RawSpan, in file: ActiveFile, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        let count = Int64(bytes.byteCount)
        let draft = try draft(of: file)
        let place = offset ?? draft.staged.size
        guard place >= 0, place <= Int64.max - count else { throw tooLarge }
        try requireRoom(to: place + count, in: draft.staged.size)
        if draft.commit.needsCommit(before: ByteRange(at: place, count: count)) { throw .onlyInUpload }
        let start: Int64
        do throws(StagingError) {
            if let offset {
                try draft.staged.write(bytes, at: offset)
                start = offset
            } else {
                start = try draft.staged.append(bytes)
            }
        } catch { throw FileSystemError(error) }
        changed(file, draft)
        if !file.state.withLock({ $0.life.isUnlinked }), let key = try? key(of: file.ino) {
            draft.commit.noteWrite(ByteRange(at: start, count: count), key: key) { [self] in
                headersForCommit(of: file, to: key)
            }
        }
        return bytes.byteCount
    }

    /// Sets the size and the times of a file whose staged bytes have changed.
    func changed(_ file: ActiveFile, _ draft: ActiveFile.Draft) {
        let now = time.now()
        let size = file.state.withLock { state in
            // Read under the lock: a concurrent writer may have changed the size, and an older one must not follow a newer one.
            state.attributes.size = draft.staged.size
            state.attributes.mtime = now
            state.attributes.noteChange(at: now)
            state.life.change()
            return state.attributes.size
        }
        // The kernel sent the change, so it knows the length.
        kernel.note(size: size, of: file.ino)
    }

    /// The draft of a file, made at its first write.
    ///
    /// Locks: the `writing` gate.
    func draft(of file: ActiveFile) throws(FileSystemError) -> ActiveFile.Draft {
        let (existing, base) = file.state.withLock { ($0.life.draft, $0.life.object) }
        if let existing {
            do { try existing.record.changing() } catch { throw FileSystemError(error) }
            return existing
        }
        try requireName(file)
        // A file without a name has no key: its former key shows at least what it was.
        let place = base?.key ?? (try? key(of: file.ino)) ?? ObjectKey("unlinked")
        let made = try draft(on: base, size: base?.version.size ?? 0, key: place)
        if file.state.withLock({ $0.life.isUnlinked }) { try end(made.record) }
        // Two first writes may share the gate: one draft wins.
        let winner = file.state.withLock { state in
            state.life.begin(made, condition: base.map { .match($0.version.etag) } ?? .absent)
        }
        if winner.staged !== made.staged {
            try end(made.record)
            made.staged.discard()
        } else if file.state.withLock({ $0.life.isUnlinked }) {
            keepOrphan(file)
        }
        return winner
    }

    func draft(on base: CachedObject?, size: Int64, key: ObjectKey) throws(FileSystemError) -> ActiveFile.Draft {
        let id = rooms.journal.newID()
        let record: FileRecord
        do throws(JournalingError) {
            record = try FileRecord(
                id, key: key, base: base.map { ($0.key, $0.version) }, now: time.now(), in: rooms.journal,
                jobs: jobs)
        } catch { throw FileSystemError(error) }
        do throws(StagingError) {
            return draft(try rooms.staging.create(id, baseSize: size), on: base, record)
        } catch {
            try end(record)
            throw FileSystemError(error)
        }
    }

    func draft(_ staged: StagedFile, on base: CachedObject?, _ record: FileRecord) -> ActiveFile.Draft {
        let content = base.map { BaseObject(object: $0, buffers: rooms.buffers) }
        let commit = FileCommit(
            store: store, staged: staged, base: content, options: commitOptions, uploads: rooms.uploads,
            pool: rooms.pool, time: time, logger: rooms.logger, record: record
        ) { [rooms] key, version in BaseObject(object: rooms.blocks.open(key, version), buffers: rooms.buffers) }
        return ActiveFile.Draft(staged: staged, commit: commit, record: record)
    }

    /// Ends the row of a file that is stored or given up: recovery has nothing to do for it.
    func end(
        _ record: FileRecord, isRemoved: Bool = false, also changes: [JournalChange] = []
    ) throws(FileSystemError) {
        do { try record.end(isRemoved: isRemoved, also: changes) } catch { throw FileSystemError(error) }
    }

    /// ftruncate, truncate, or the O_TRUNC of an open file. False, and nothing is done, when the file has that length already; a
    /// truncation to 0 is always carried out.
    @discardableResult
    func truncate(_ file: ActiveFile, to size: Int64) async throws(FileSystemError) -> Bool {
        guard size >= 0 else { throw FileSystemError(.invalid, "negative size") }
        try requireRoom(to: size, in: file.attributes.size)
        return try await waitingForSpace(file) { [self] () async throws(FileSystemError) in
            let pass = try await enterToWrite(file, alone: true, emptying: size == 0)
            defer { leave(pass) }
            try requireChangeable(file, from: size, emptying: size == 0)
            if size > 0, file.state.withLock({ $0.attributes.size == size }) { return false }
            let draft = try draft(of: file)
            do throws(StagingError) { try draft.staged.truncate(to: size) } catch { throw FileSystemError(error) }
            draft.commit.noteTruncate()
            changed(file, draft)
            try setModified(of: draft.staged, to: file.attributes.mtime)
            return true
        }
    }

    /// Throws when a file of `size` bytes may not become so long.
    private func requireRoom(to end: Int64, in size: Int64) throws(FileSystemError) {
        guard end <= max(largestFile, size) else { throw tooLarge }
    }

    private var tooLarge: FileSystemError {
        let limit = largestFile
        let reason =
            limit == store.capabilities.limits.largestFile
            ? "max-size, \(limit) bytes" : "the store's limit of \(limit) bytes"
        return FileSystemError(.fileTooLarge, "the file would exceed \(reason)")
    }

    /// Throws when bytes from `offset` on are only in an upload, which a change of them would spoil.
    private func requireChangeable(
        _ file: ActiveFile, from offset: Int64, emptying: Bool = false
    ) throws(FileSystemError) {
        guard !emptying, let commit = file.state.withLock({ $0.life.draft?.commit }),
            commit.needsCommit(before: offset..<Int64.max)
        else { return }
        throw .onlyInUpload
    }

    package func allocate(
        _ ino: InodeNumber, handle: HandleID, range: ByteRange, mode: Int32
    ) -> Outcome<Void> {
        // FALLOC_FL_KEEP_SIZE 1, PUNCH_HOLE 2, ZERO_RANGE 16 (linux/falloc.h).
        let (keepSize, punch, zero) = (Int32(1), Int32(2), Int32(16))
        guard mode & ~(keepSize | punch | zero) == 0 else {
            return .failure(.notSupported, "fallocate mode \(mode) is not supported")
        }
        return later { [self] () async throws(FileSystemError) in
            let handle = try fileHandle(handle, of: ino)
            guard handle.flags.writes else { throw .badHandle }
            let file = handle.file
            try requireRoom(to: range.upperBound, in: file.attributes.size)
            try await waitingForSpace(file) { [self] () async throws(FileSystemError) in
                let pass = try await enterToWrite(file, alone: true)
                defer { leave(pass) }
                try requireChangeable(file, from: range.lowerBound)
                let draft = try draft(of: file)
                let size = draft.staged.size
                do throws(StagingError) {
                    if mode & (punch | zero) != 0 {
                        let end = min(range.upperBound, size)
                        if range.lowerBound < end { try draft.staged.zero(range.lowerBound..<end) }
                    }
                    if mode & keepSize == 0, mode & punch == 0, range.upperBound > size {
                        try draft.staged.truncate(to: range.upperBound)
                    }
                } catch { throw FileSystemError(error) }
                draft.commit.noteTruncate()
                changed(file, draft)
                try setModified(of: draft.staged, to: file.attributes.mtime)
            }
        }
    }
}
