package import Basics
package import Metadata
import Synchronization

/// Notes open files and directories for the next process of this mount. Any thread, at any time.
package protocol OpenFileLog: Sendable {
    /// To be called before the kernel learns the handle.
    func opened(_ handle: HandleID, of ino: InodeNumber)
    /// To be called when nothing is left to do for the handle.
    func closed(_ handle: HandleID)
    /// A directory was read up to this offset, which follows this component.
    func listed(_ handle: HandleID, _ offset: UInt64, _ component: ByteString)
    /// The handle of a directory was closed.
    func unlisted(_ handle: HandleID)
    /// The last noted position of a directory handle, if there is one.
    func listing(of handle: HandleID) -> (offset: UInt64, component: ByteString)?
}

/// Open files and directories by the number the kernel keeps for them. Numbers are never reused. A leaf lock.
///
/// A number holds the open flags and the generation of its process, so that the next process of this mount can make the handle
/// again (`HandleNumber`).
final class HandleTable: Sendable {
    enum Handle: Sendable {
        case file(FileHandle)
        case directory(DirectoryStream)
    }

    private struct State {
        var last: UInt64 = 0
        var handles: [HandleID: Handle] = [:]
    }

    /// The number of this process among those of the mount.
    private let generation: UInt32
    let log: (any OpenFileLog)?
    private let state = Mutex(State())

    init(generation: UInt32 = 0, log: (any OpenFileLog)? = nil) { (self.generation, self.log) = (generation, log) }

    /// Adds a handle. With `isWaiting` the kernel gets the number later or never; `note` has to be called before that.
    func insert(_ handle: Handle, isWaiting: Bool = false) -> HandleID {
        state.withLock { state in
            state.last += 1
            let file: FileHandle? = if case .file(let file) = handle { file } else { nil }
            let id = HandleNumber(
                flags: file?.flags, isBacked: file?.reads.backing != nil, generation: generation, count: state.last
            ).id
            state.handles[id] = handle
            if let file, !isWaiting { log?.opened(id, of: file.file.ino) }
            return id
        }
    }

    /// Logs a handle that was added with `isWaiting`, before the kernel gets its number.
    func note(_ id: HandleID, of ino: InodeNumber) { log?.opened(id, of: ino) }

    /// Logs that nothing is left to do for a removed handle.
    func noteClosed(_ id: HandleID) { log?.closed(id) }

    func find(_ id: HandleID) -> Handle? { state.withLock { $0.handles[id] } }

    /// Whether a handle has the file open for writing. Takes time proportional to the number of open handles.
    func hasWriter(of file: ActiveFile) -> Bool {
        state.withLock { state in
            state.handles.values.contains { handle in
                if case .file(let open) = handle { open.file === file && open.flags.writes } else { false }
            }
        }
    }

    var isEmpty: Bool { state.withLock { $0.handles.isEmpty } }

    /// Takes time proportional to the number of open handles.
    var openDirectories: [InodeNumber] {
        state.withLock { state in
            state.handles.values.compactMap { if case .directory(let stream) = $0 { stream.directory } else { nil } }
        }
    }

    /// The parts of a number that an earlier process gave out; nil for other numbers.
    func origin(of id: HandleID) -> HandleNumber? {
        let number = HandleNumber(id)
        return number.generation < HandleNumber.shortened(generation) ? number : nil
    }

    /// Puts back a handle of an earlier process. Returns the handle that another call has put back before, if there is one.
    func restore(_ handle: Handle, as id: HandleID) -> Handle? {
        state.withLock { state in
            if let other = state.handles[id] { return other }
            state.handles[id] = handle
            return nil
        }
    }

    @discardableResult
    func remove(_ id: HandleID) -> Handle? { state.withLock { $0.handles.removeValue(forKey: id) } }
}

/// The parts of a handle's number: the open flags in the highest byte, the process's generation in the next two, and a count. The
/// kernel keeps the number, so the flags of an open file are written down nowhere else.
struct HandleNumber: Sendable, Hashable {
    /// nil for a directory.
    var flags: OpenFlags?
    /// Whether the kernel reads the handle from a file of the block cache.
    var isBacked: Bool
    var generation: UInt16
    var count: UInt64

    init(flags: OpenFlags?, isBacked: Bool = false, generation: UInt32, count: UInt64) {
        (self.flags, self.isBacked) = (flags, isBacked)
        (self.generation, self.count) = (Self.shortened(generation), count)
    }

    init(_ id: HandleID) {
        let bits = UInt8(truncatingIfNeeded: id.rawValue >> 56)
        if bits & 16 != 0 {
            flags = OpenFlags(reads: bits & 1 != 0, writes: bits & 2 != 0, direct: bits & 8 != 0)
        }
        isBacked = bits & 32 != 0
        generation = UInt16(truncatingIfNeeded: id.rawValue >> 40)
        count = id.rawValue & ((1 << 40) - 1)
    }

    var id: HandleID {
        var bits: UInt64 = 0
        if let flags {
            bits = 16 | (flags.reads ? 1 : 0) | (flags.writes ? 2 : 0) | (flags.direct ? 8 : 0)
            if isBacked { bits |= 32 }
        }
        return HandleID(rawValue: bits << 56 | UInt64(generation) << 40 | count & ((1 << 40) - 1))
    }

    static func shortened(_ generation: UInt32) -> UInt16 { UInt16(min(generation, UInt32(UInt16.max))) }
}

extension FileSystemError {
    static let badHandle = FileSystemError(.badHandle, "no such open file")
}

/// Handles of this process and of earlier ones. Those of earlier processes are made again: the noted ones before anything is
/// served, any other when it is used. The file's entry and its dirty bytes are known; the version that the handle had pinned is
/// not, so the handle reads the version known now. A file without a name is restored from its record (`Orphan`).
extension BucketFileSystem {
    /// Makes the handles of an earlier process again. If a file cannot be restored, each use of its handle fails.
    func reopenHandles(_ openFiles: [(handle: HandleID, ino: InodeNumber)]) {
        for (handle, ino) in openFiles { _ = try? fileHandle(handle, of: ino) }
    }

    package var hasOpenHandles: Bool { !handles.isEmpty }

    func fileHandle(_ id: HandleID, of ino: InodeNumber) throws(FileSystemError) -> FileHandle {
        switch handles.find(id) {
        case .file(let handle): return handle
        case .directory: throw .badHandle
        case nil: break
        }
        guard let origin = handles.origin(of: id), let flags = origin.flags else { throw .badHandle }
        if recoverableFiles.isInterrupted(ino) {
            throw FileSystemError(
                .inputOutput, "writes to the file before the restart of pailfs may be lost; see \"pailfs recover list\""
            )
        }
        let unlinked = files.find(ino).flatMap { $0.state.withLock { $0.life.isUnlinked } ? $0 : nil }
        let file = if let unlinked { files.retain(ino) { unlinked } } else { activate(try entry(ino)) }
        let reads = kernel.reads?.adopt(file.ino, isBacked: origin.isBacked, direct: flags.direct) ?? .cached
        let handle = FileHandle(file: file, flags: flags, reads: reads)
        guard case .file(let other) = handles.restore(.file(handle), as: id) else { return handle }
        kernel.reads?.close(file.ino, reads)
        releaseInBackground(handle.file)
        return other
    }

    func directoryStream(_ id: HandleID, of ino: InodeNumber) throws(FileSystemError) -> DirectoryStream {
        switch handles.find(id) {
        case .directory(let stream): return stream
        case .file: throw .badHandle
        case nil: break
        }
        guard let origin = handles.origin(of: id), origin.flags == nil else { throw .badHandle }
        let stream = DirectoryStream(directory: ino)
        if let (offset, component) = handles.log?.listing(of: id) {
            stream.handedOut(from: DirectoryStream.Position(offset: offset, component: component), [])
        }
        let restored = handles.restore(.directory(stream), as: id)
        metadata.awaitForgetting()
        guard case .directory(let other) = restored else { return stream }
        return other
    }
}
