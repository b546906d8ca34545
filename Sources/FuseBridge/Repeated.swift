import Basics
import FileSystem
import Metadata

/// Requests that the kernel sends again because the process that took them died before it answered: it may have carried
/// them out. Where the state is what the request asks for, it succeeds; a program whose own request would have failed
/// because another one did the same just then is told that it did it, which it cannot tell apart.
extension Outcome {
    /// The same if the request is not `isRepeated`; else `recover` may turn an error into an answer.
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

    /// A repeated write at the end of the file, as the kernel knew it: not done twice if the bytes are there already. Of some of
    /// them the process may have died in the middle; so it goes where the first try went, not to the end that this one left.
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
