import Basics
import CFuse3
import CLinux
import FileSystem
import Metadata

// Requests about open directories.

extension FuseBridge {
    func openDirectory(_ request: consuming FuseRequest, _ ino: InodeNumber) {
        answer(request, fileSystem.openDirectory(ino)) { [fileSystem] request, handle in
            if !request.opened(OpenReply(handle: handle, keepCache: false, direct: false)) {
                fileSystem.releaseDirectory(ino, handle: handle)
            }
        }
    }

    /// `attributes` asks for readdirplus; `size` is how many bytes of entries the kernel takes.
    func readDirectory(
        _ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID, from offset: UInt64, size: Int,
        attributes: Bool
    ) {
        guard let buffer = buffers.tryBorrow(size) else {
            return answerLater(
                request,
                { [fileSystem, buffers] in
                    guard let buffer = try? await buffers.borrow(size) else {
                        return .failure(FileSystemError(.interrupted, "interrupted while waiting for memory"))
                    }
                    let reply = DirectoryPage(buffer, limit: size, attributes: attributes)
                    let outcome = fileSystem.readDirectory(
                        ino, handle: handle, from: offset, attributes: attributes, into: reply)
                    return reply.result(await outcome.value())
                }, replyWithPage)
        }
        let reply = DirectoryPage(buffer, limit: size, attributes: attributes)
        switch fileSystem.readDirectory(ino, handle: handle, from: offset, attributes: attributes, into: reply) {
        case .ready(let result): answer(request, .ready(reply.result(result)), replyWithPage)
        case .pending(let work): answerLater(request, { reply.result(await work()) }, replyWithPage)
        }
    }

    func releaseDirectory(_ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID) {
        fileSystem.releaseDirectory(ino, handle: handle)
        request.succeed()
    }

    func syncDirectory(_ request: consuming FuseRequest, _ ino: InodeNumber) {
        answer(request, fileSystem.syncDirectory(ino)) { request, _ in request.succeed() }
    }

    private var replyWithPage: Reply<DirectoryPage> {
        { [fileSystem] request, page in
            if !request.bytes(page.bytes) {
                for ino in page.referenced { fileSystem.forget(ino, count: 1) }
            }
        }
    }
}

/// One readdir or readdirplus reply in the making: libfuse's dirents, back to back in a pooled buffer.
private final class DirectoryPage: DirectoryReply, @unchecked Sendable {
    // Sendable: one `readDirectory` fills it, on one thread at a time, and it is read after that has answered.
    private let buffer: Buffer
    private let limit: Int
    private let attributes: Bool
    private var used = 0
    /// The inodes whose lookup count the kernel raises when it takes the page.
    private(set) var referenced: [InodeNumber] = []

    init(_ buffer: Buffer, limit: Int, attributes: Bool) {
        (self.buffer, self.limit, self.attributes) = (buffer, limit, attributes)
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: buffer.base, count: used) }

    /// An error after some entries is not returned: the next call starts behind them and meets it again.
    func result(_ answer: Result<Void, FileSystemError>) -> Result<DirectoryPage, FileSystemError> {
        if case .failure(let error) = answer, used == 0 { return .failure(error) }
        return .success(self)
    }

    func append(_ entry: DirectoryEntry) -> Bool {
        let count = entry.name.count
        let isNameOnly = entry.name == "." || entry.name == ".." || entry.isKindOpen
        let needed = withUnsafeTemporaryAllocation(of: CChar.self, capacity: count + 1) { name in
            for (index, byte) in entry.name.bytes.enumerated() { name[index] = CChar(bitPattern: byte) }
            name[count] = 0
            let start = buffer.base.advanced(by: used).assumingMemoryBound(to: CChar.self)
            guard attributes else {
                var status = stat(entry.status)
                // DT_UNKNOWN (readdir(3)).
                if entry.isKindOpen { status.st_mode &= ~mode_t(S_IFMT) }
                return fuse_add_direntry(nil, start, limit - used, name.baseAddress, &status, off_t(entry.offset))
            }
            var parameter = fuse_entry_param(
                EntryReply(
                    status: entry.status, entryTimeout: entry.entryTimeout, attributeTimeout: entry.attributeTimeout))
            // With no ino the kernel takes the name alone, and counts no reference.
            if isNameOnly { parameter.ino = 0 }
            if entry.isKindOpen { parameter.attr.st_mode &= ~mode_t(S_IFMT) }
            return fuse_add_direntry_plus(nil, start, limit - used, name.baseAddress, &parameter, off_t(entry.offset))
        }
        guard needed <= limit - used else { return false }
        used += needed
        if attributes, !isNameOnly { referenced.append(entry.status.ino) }
        return true
    }
}
