import Basics
import CFuse3
import CLinux
import FileSystem
import Metadata

// Requests about open files.

extension FuseBridge {
    func open(_ request: consuming FuseRequest, _ ino: InodeNumber, flags: Int32) {
        let flags = OpenFlags(flags)
        if flags.truncate { cuts.note(ino) }
        answer(request, fileSystem.open(ino, flags: flags)) { [self] request, reply in
            if flags.truncate { cuts.note(ino) }
            if !request.opened(reply) { finish(fileSystem.release(ino, handle: reply.handle)) }
        }
    }

    func create(
        _ request: consuming FuseRequest, _ name: ByteString, in parent: InodeNumber, mode: mode_t, flags: Int32
    ) {
        let caller = Caller(request.handle)
        var openFlags = OpenFlags(flags)
        // The process before this one may have made the file already.
        if HeldConnection.isRepeated { openFlags.exclusive = false }
        let outcome = fileSystem.create(
            name, in: parent, mode: UInt16(truncatingIfNeeded: mode & 0o7777), flags: openFlags, caller: caller)
        answer(request, outcome) { [self] request, reply in
            if !request.created(reply), let ino = reply.entry.status?.ino {
                finish(fileSystem.release(ino, handle: reply.open.handle))
                fileSystem.forget(ino, count: 1)
            }
        }
    }

    /// Reads into a pooled buffer and replies from it; only a read that finds no free memory waits for some.
    func read(_ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID, at offset: Int64, count: Int) {
        guard let buffer = buffers.tryBorrow(count) else {
            let work = { @Sendable [cuts, fileSystem, buffers] () async -> Result<ReadBytes, FileSystemError> in
                let buffer: Buffer
                do { buffer = try await buffers.borrow(count) } catch {
                    return .failure(FileSystemError(.interrupted, "interrupted while waiting for memory"))
                }
                let outcome = cuts.settled(ino, count: count) { [fileSystem] in
                    fileSystem.read(ino, handle: handle, at: offset, count: count, into: buffer)
                }
                return await outcome.value().map { ReadBytes(buffer: buffer, count: $0) }
            }
            return answerLater(request, work) { request, read in _ = request.bytes(read.bytes) }
        }
        let outcome = cuts.settled(ino, count: count) { [fileSystem] in
            fileSystem.read(ino, handle: handle, at: offset, count: count, into: buffer)
        }
        answer(request, outcome) { request, got in
            _ = request.bytes(ReadBytes(buffer: buffer, count: got).bytes)
        }
    }

    /// `bytes` belong to libfuse and are valid until this returns; without `offset` they are appended to the file.
    func write(
        _ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID, at offset: Int64?, bytes: RawSpan
    ) {
        if HeldConnection.dropsPrivileges { fileSystem.dropPrivileges(of: ino) }
        answer(request, fileSystem.write(ino, handle: handle, at: offset, bytes: bytes)) { request, count in
            request.written(count)
        }
    }

    func flush(_ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID) {
        let caller = CallingThread(of: request.handle)
        let outcome = fileSystem.flush(ino, handle: handle) { caller.mayHaveOpen(ino) }
        // No signal interrupts the flush for which a process waits when it ends.
        answer(request, outcome, isHeard: !caller.wasKilled) { request, _ in request.succeed() }
    }

    func release(_ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID) {
        answer(request, fileSystem.release(ino, handle: handle)) { request, _ in request.succeed() }
    }

    func sync(_ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID, dataOnly: Bool) {
        answer(request, fileSystem.sync(ino, handle: handle, dataOnly: dataOnly)) { request, _ in request.succeed() }
    }

    func allocate(
        _ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID, at offset: Int64, length: Int64,
        mode: Int32
    ) {
        let (end, overflow) = offset.addingReportingOverflow(length)
        guard offset >= 0, length > 0 else { return request.refuse(EINVAL) }
        guard !overflow else { return request.refuse(EFBIG) }
        dropPrivileges(of: ino, for: Caller(request.handle))
        answer(request, fileSystem.allocate(ino, handle: handle, range: offset..<end, mode: mode)) { request, _ in
            request.succeed()
        }
    }

    /// For these requests the kernel does not say whether the caller has CAP_FSETID.
    private func dropPrivileges(of ino: InodeNumber, for caller: Caller) {
        if caller.uid != 0 { fileSystem.dropPrivileges(of: ino) }
    }

    /// Where the file system does not copy, the kernel copies by reading and writing.
    func copyRange(_ request: consuming FuseRequest, from source: FileRange, to target: FileRange, count: Int64) {
        dropPrivileges(of: target.ino, for: Caller(request.handle))
        answer(request, fileSystem.copyRange(from: source, to: target, count: count)) { request, count in
            request.written(Int(count))
        }
    }

    /// The kernel answers every other `whence` itself.
    func seek(
        _ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID, from offset: Int64, whence: Int32
    ) {
        let kind: SeekKind
        switch whence {
        case linux_seek_data: kind = .data
        case linux_seek_hole: kind = .hole
        default: return request.refuse(EINVAL)
        }
        answer(request, fileSystem.seek(ino, handle: handle, from: offset, to: kind)) { request, found in
            request.offset(found)
        }
    }
}

/// The outcome of a read: the front of a buffer.
private struct ReadBytes: Sendable {
    let buffer: Buffer
    let count: Int

    var bytes: UnsafeRawBufferPointer {
        precondition(count >= 0 && count <= buffer.capacity, "a read returned more bytes than were requested")
        return UnsafeRawBufferPointer(start: buffer.base, count: count)
    }
}
