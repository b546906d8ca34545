import Basics
import FileSystem
import Metadata

/// Requests that the kernel sends again because the process that read them died before it answered: that process may have carried
/// them out. Where the state is already as the request wants it, the request succeeds. If another program has made the same
/// change just then, the caller gets success instead of the error; it cannot see the difference.
extension Outcome {
    /// This outcome if the request is not `isRepeated`; otherwise `recover` may turn an error into a success.
    func repeated(
        _ isRepeated: Bool, _ recover: @escaping @Sendable (FileSystemError) async -> Value?
    ) -> Outcome {
        guard isRepeated else { return self }
        return .pending {
            let result = await value()
            guard case .failure(let error) = result, let value = await recover(error) else { return result }
            return .success(value)
        }
    }
}

extension FuseBridge {
    /// The entry of `name` if it is what a repeated request would have made.
    func existing(
        _ name: ByteString, in parent: InodeNumber, _ kind: EntryKind, _ error: FileSystemError
    ) async -> EntryReply? {
        guard error.kind == .exists, let entry = await entry(name, in: parent), entry.status?.kind == kind else {
            return nil
        }
        return entry
    }

    /// A repeated append, at the offset that the kernel had for the end of the file: not done twice if the bytes are there
    /// already. The process may have died with some of them written, so the bytes go to the offset of the first try, not to the
    /// present end.
    func appendAgain(
        _ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID, at offset: Int64, bytes: [UInt8]
    ) {
        answerLater(
            request,
            { [fileSystem, buffers] in
                guard let buffer = try? await buffers.borrow(bytes.count) else {
                    return .failure(FileSystemError(.interrupted, "interrupted while waiting for memory"))
                }
                let read = await fileSystem.read(ino, handle: handle, at: offset, count: bytes.count, into: buffer)
                    .value()
                let there = UnsafeRawBufferPointer(start: buffer.base, count: bytes.count)
                if case .success(bytes.count) = read, there.elementsEqual(bytes) { return .success(bytes.count) }
                return await fileSystem.write(ino, handle: handle, at: offset, bytes: bytes.span.bytes).value()
            }
        ) { request, count in request.written(count) }
    }

    /// The entry of `name`; nil if there is none.
    func entry(_ name: ByteString, in parent: InodeNumber) async -> EntryReply? {
        guard case .success(let entry) = await fileSystem.lookup(name, in: parent).value(), entry.status != nil else {
            return nil
        }
        return entry
    }
}
