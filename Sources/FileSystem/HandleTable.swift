import Basics
import Synchronization

/// Open files and directories by the number the kernel keeps for them. Numbers are never reused. A leaf lock.
final class HandleTable: Sendable {
    enum Handle: Sendable {
        case file(FileHandle)
        case directory(DirectoryStream)
    }

    private struct State {
        var last: UInt64 = 0
        var handles: [HandleID: Handle] = [:]
    }

    private let state = Mutex(State())

    func insert(_ handle: Handle) -> HandleID {
        state.withLock { state in
            state.last += 1
            let id = HandleID(rawValue: state.last)
            state.handles[id] = handle
            return id
        }
    }

    func file(_ id: HandleID) throws(FileSystemError) -> FileHandle {
        guard case .file(let handle) = state.withLock({ $0.handles[id] }) else { throw .badHandle }
        return handle
    }

    func directory(_ id: HandleID) throws(FileSystemError) -> DirectoryStream {
        guard case .directory(let stream) = state.withLock({ $0.handles[id] }) else { throw .badHandle }
        return stream
    }

    @discardableResult
    func remove(_ id: HandleID) -> Handle? { state.withLock { $0.handles.removeValue(forKey: id) } }
}

extension FileSystemError {
    static let badHandle = FileSystemError(.badHandle, "no such open file")
}
