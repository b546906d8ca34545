package import Basics
import Blocks
import Commits
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// read and lseek: staged bytes where there are some, zeros in holes made here, the committed object below.
extension BucketFileSystem {
    package func read(
        _ ino: InodeNumber, handle: HandleID, at offset: Int64, count: Int, into buffer: Buffer
    ) -> Outcome<Int> {
        do throws(FileSystemError) {
            let handle = try fileHandle(handle, of: ino)
            guard offset >= 0 else { throw FileSystemError(.invalid, "negative offset") }
            // Counted before the bytes are read: a writer then makes the kernel drop the pages of this read (`told`).
            if !handle.flags.direct { handle.file.cachedReads.add(1, ordering: .sequentiallyConsistent) }
            if handle.file.content.tryEnter() {
                defer { handle.file.content.leave() }
                if let count = try readNow(handle, at: offset, count: count, into: buffer) {
                    reads.hits.wrappingAdd(1, ordering: .relaxed)
                    reads.bytes.wrappingAdd(count, ordering: .relaxed)
                    return .success(count)
                }
            }
            return later { [self] () async throws(FileSystemError) in
                if let error = unanswered(handle.file) { throw error }
                let began = time.uptime()
                while true {
                    let epoch = handle.file.state.withLock { $0.life.epoch }
                    do throws(FileSystemError) {
                        return try await readOnce(handle, at: offset, count: count, into: buffer)
                    } catch {
                        do throws(FileSystemError) { try await overcome(error, handle.file, epoch) } catch {
                            noteUnanswered(error, handle.file, since: began)
                            if error.kind == .stale {
                                doubt(handle.file.ino, handle.file.state.withLock { $0.life.object?.version })
                            }
                            if error.kind != .interrupted { remember(error, "read", handle.file.ino) }
                            throw error
                        }
                    }
                }
            }
        } catch { return .ready(.failure(error)) }
    }

    /// Where the store did not answer a read-ahead, the kernel at once repeats the read for the page that a program waits for.
    /// Both share one deadline: within this time the repetition gets the same error.
    private static let repetition = Duration.seconds(1)

    private func unanswered(_ file: ActiveFile) -> FileSystemError? {
        let now = time.uptime()
        return file.state.withLock { state in
            guard let last = state.unanswered, now - last.at < Self.repetition else { return nil }
            return last.error
        }
    }

    private func noteUnanswered(_ error: FileSystemError, _ file: ActiveFile, since began: Duration) {
        let now = time.uptime()
        guard error.kind == .inputOutput || error.kind == .timedOut, now - began >= Self.repetition else { return }
        file.state.withLock { $0.unanswered = (now, error) }
    }

    private func readOnce(
        _ handle: FileHandle, at offset: Int64, count: Int, into buffer: Buffer
    ) async throws(FileSystemError) -> Int {
        do { try await handle.file.content.enter() } catch { throw .interrupted }
        defer { handle.file.content.leave() }
        let count = try await readWaiting(handle, at: offset, count: count, into: buffer)
        reads.misses.wrappingAdd(1, ordering: .relaxed)
        reads.bytes.wrappingAdd(count, ordering: .relaxed)
        return count
    }

    /// Returns when a failed read may succeed if repeated, or throws its error. `epoch` is the file's when the read began.
    private func overcome(_ error: FileSystemError, _ file: ActiveFile, _ epoch: Int) async throws(FileSystemError) {
        // No store returns the parts of an unfinished upload: the file has to be committed first.
        if error.needsCommit, !file.state.withLock({ $0.life.isUnlinked }) { return try await commit(file) }
        guard error.kind == .stale else { throw error }
        try await waitForMove(of: file.ino, file)
        guard file.state.withLock({ $0.life.epoch }) == epoch else { return }
        guard await isReplacedByUs(file) else { throw error }
        try await commit(file)
    }

    /// Whether the object below the draft was replaced by an upload of this same file for which no call waited.
    private func isReplacedByUs(_ file: ActiveFile) async -> Bool {
        let record = file.state.withLock { $0.life.isNameless ? nil : $0.life.draft?.record }
        guard let record, record.hasReachedStore, let key = try? key(of: file.ino),
            let found = try? await store.head(key, condition: nil).metadata.user[CommitOptions.commitHeader]
        else { return false }
        return CommitOptions.isCommit(found, of: record.commits)
    }

    /// The part of the file that a read gets, and where its bytes are.
    private struct View {
        var range: ByteRange
        var staged: StagedFile?
        var pieces: [Piece] = []
        /// The object with the bytes that are not staged.
        var base: CachedObject?
    }

    private func view(_ handle: FileHandle, at offset: Int64, count: Int) throws(FileSystemError) -> View {
        let (size, draft, base, epoch) = handle.file.state.withLock { state in
            (state.attributes.size, state.life.draft, state.life.object, state.life.epoch)
        }
        if draft == nil, base == nil { try requireOwn(handle.file) }
        let pinned = draft == nil ? handle.pinned(base, epoch: epoch) : nil
        let known = draft?.staged.size ?? pinned?.version.size ?? size
        let end = min(known, offset.addingReportingOverflow(Int64(count)).partialValue)
        var view = View(range: offset..<max(offset, end), base: pinned)
        if let draft {
            view.staged = draft.staged
            view.pieces = draft.staged.pieces(in: view.range)
            // Read after the pieces: once an upload is complete, the bytes that only it had are in the object below.
            if view.pieces.contains(where: { $0.source == .base }) { view.base = below(draft, of: handle.file) }
        }
        return view
    }

    /// The bytes read, or nil when some must be fetched.
    private func readNow(
        _ handle: FileHandle, at offset: Int64, count: Int, into buffer: Buffer
    ) throws(FileSystemError) -> Int? {
        let view = try view(handle, at: offset, count: count)
        guard !view.range.isEmpty else { return 0 }
        guard let staged = view.staged else {
            guard let base = view.base else { throw Self.noContent }
            let isRead = unsafe handle.reader(of: base)
                .readCached(view.range, into: buffer.slice(0, Int(view.range.length)))
            return isRead ? Int(view.range.length) : nil
        }
        for piece in view.pieces {
            let target = unsafe buffer.slice(
                Int(piece.range.lowerBound - offset), Int(piece.range.length))
            switch piece.source {
            case .staged, .filled, .hole:
                do throws(StagingError) { _ = try unsafe staged.read(piece.range, into: target) } catch {
                    // The bytes may have left the staging file meanwhile, for the store.
                    if error == .notStaged { return nil }
                    throw FileSystemError(error)
                }
            case .stored: return nil
            case .base:
                guard let base = view.base else { throw Self.noContent }
                guard unsafe handle.reader(of: base).readCached(piece.range, into: target) else { return nil }
            }
        }
        return Int(view.range.length)
    }

    private func readWaiting(
        _ handle: FileHandle, at offset: Int64, count: Int, into buffer: Buffer
    ) async throws(FileSystemError) -> Int {
        let view = try view(handle, at: offset, count: count)
        guard !view.range.isEmpty else { return 0 }
        guard let staged = view.staged else {
            try await readBase(view.base, handle, view.range, from: offset, into: buffer)
            return Int(view.range.length)
        }
        for piece in view.pieces {
            switch piece.source {
            case .staged, .filled, .hole:
                do throws(StagingError) {
                    _ = try unsafe staged.read(
                        piece.range,
                        into: buffer.slice(Int(piece.range.lowerBound - offset), Int(piece.range.length)))
                } catch {
                    // The bytes have left the staging file meanwhile, for the store or for newer ones.
                    let isReplaced = handle.file.state.withLock { $0.life.draft?.staged !== staged }
                    guard error == .notStaged, isReplaced || staged.pieces(in: piece.range) != [piece] else {
                        throw FileSystemError(error)
                    }
                    return try await readWaiting(handle, at: offset, count: count, into: buffer)
                }
            case .stored: throw .onlyInUpload
            case .base: try await readBase(view.base, handle, piece.range, from: offset, into: buffer)
            }
        }
        return Int(view.range.length)
    }

    private func readBase(
        _ base: CachedObject?, _ handle: FileHandle, _ range: ByteRange, from offset: Int64, into buffer: Buffer
    ) async throws(FileSystemError) {
        guard let base else { throw Self.noContent }
        do throws(BlockError) {
            try await handle.reader(of: base).read(range, into: buffer, at: Int(range.lowerBound - offset))
        } catch { throw FileSystemError(error) }
    }

    private static let noContent = FileSystemError(.inputOutput, "the file has neither staged nor committed bytes")

    package func seek(
        _ ino: InodeNumber, handle: HandleID, from offset: Int64, to kind: SeekKind
    ) -> Outcome<Int64> {
        now { () throws(FileSystemError) in
            let file = try fileHandle(handle, of: ino).file
            let (size, staged) = file.state.withLock { state in
                (state.life.draft?.staged.size ?? state.attributes.size, state.life.draft?.staged)
            }
            guard offset >= 0, offset < size else {
                throw FileSystemError(.noSuchOffset, "no data at or after offset \(offset)")
            }
            guard let staged else { return kind == .data ? offset : size }
            for piece in staged.pieces(in: offset..<size) where (piece.source == .hole) == (kind == .hole) {
                return piece.range.lowerBound
            }
            if kind == .data { throw FileSystemError(.noSuchOffset, "no data after offset \(offset)") }
            return size
        }
    }
}
