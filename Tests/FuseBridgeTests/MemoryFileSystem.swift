import Basics
import FileSystem
import Metadata
import Synchronization

/// A small tree in memory, enough of POSIX for the kernel to work on it. Every other answer goes through `.pending`, so
/// that both ways of answering meet every operation. Forgotten inodes stay; handles are only counted.
final class MemoryFileSystem: FileSystemOperations {
    struct Node: Sendable {
        var status: FileStatus
        var bytes: [UInt8] = []
        var children: [ByteString: InodeNumber] = [:]
        var attributes: [ByteString: ByteString] = [:]
    }

    struct State: Sendable {
        var nodes: [InodeNumber: Node] = [:]
        var nextIno: UInt64 = 2
        var nextHandle: UInt64 = 1
        var openHandles: Set<HandleID> = []
        var references: [InodeNumber: Int] = [:]
        var calls = 0
        var interrupted = 0
        var flushed: [InodeNumber] = []
        /// Whether what changes the name "stuck" goes on, and what reads the file "held".
        var isReleased = false
        /// Calls that wait for that now.
        var held = 0
        var isShutDown = false
    }

    let state = Mutex(State())
    /// How many entries a directory answers before it fails; for the error in mid-directory.
    let time = SystemTime()

    init() {
        let root = Self.status(.root, .directory, mode: 0o755, time: time.now())
        state.withLock { $0.nodes[.root] = Node(status: root) }
    }

    static func status(_ ino: InodeNumber, _ kind: EntryKind, mode: UInt16, time: Timestamp) -> FileStatus {
        FileStatus(
            ino: ino, kind: kind, mode: mode, links: kind == .directory ? 2 : 1, uid: 0, gid: 0, size: 0,
            accessed: time, modified: time, changed: time, blockSize: 1 << 20)
    }

    /// Answers at once or on the pool, in turn.
    private func answer<Value: Sendable>(
        _ body: (inout State) throws(FileSystemError) -> Value
    ) -> Outcome<Value> {
        let (result, isPending) = state.withLock { state -> (Result<Value, FileSystemError>, Bool) in
            state.calls += 1
            let isPending = state.calls % 2 == 0
            do throws(FileSystemError) { return (.success(try body(&state)), isPending) } catch {
                return (.failure(error), isPending)
            }
        }
        return isPending ? .pending { result } : .ready(result)
    }

    /// What is done to the name "stuck" waits until it is released.
    private func answer<Value: Sendable>(
        of name: ByteString?, _ body: @escaping @Sendable (inout State) throws(FileSystemError) -> Value
    ) -> Outcome<Value> {
        guard name == "stuck" else { return answer(body) }
        return .pending { [self] in
            await hold()
            return await answer(body).value()
        }
    }

    private func hold() async {
        state.withLock { $0.held += 1 }
        while !state.withLock({ $0.isReleased }) { try? await Task.sleep(for: .milliseconds(10)) }
        state.withLock { $0.held -= 1 }
    }

    private func name(of ino: InodeNumber) -> ByteString? {
        state.withLock { state in state.nodes[.root]?.children.first { $0.value == ino }?.key }
    }

    private static func node(_ ino: InodeNumber, _ state: State) throws(FileSystemError) -> Node {
        guard let node = state.nodes[ino] else { throw FileSystemError(.stale, "no node \(ino)") }
        return node
    }

    private static func entry(_ status: FileStatus?) -> EntryReply {
        EntryReply(status: status, entryTimeout: .seconds(60), attributeTimeout: .zero)
    }

    private func make(
        _ name: ByteString, in parent: InodeNumber, _ kind: EntryKind, mode: UInt16, caller: Caller,
        _ state: inout State
    ) throws(FileSystemError) -> FileStatus {
        guard name.count <= 255 else { throw FileSystemError(.nameTooLong, "long name") }
        guard try Self.node(parent, state).children[name] == nil else { throw FileSystemError(.exists, "there") }
        let ino = InodeNumber(rawValue: state.nextIno)
        state.nextIno += 1
        var status = Self.status(ino, kind, mode: mode, time: time.now())
        (status.uid, status.gid) = (caller.uid, caller.gid)
        state.nodes[ino] = Node(status: status)
        state.nodes[parent]?.children[name] = ino
        state.references[ino, default: 0] += 1
        return status
    }

    private static func openHandle(_ state: inout State) -> HandleID {
        let handle = HandleID(rawValue: state.nextHandle)
        state.nextHandle += 1
        state.openHandles.insert(handle)
        return handle
    }

    func lookup(_ name: ByteString, in parent: InodeNumber) -> Outcome<EntryReply> {
        answer { state throws(FileSystemError) in
            guard let ino = try Self.node(parent, state).children[name] else { return Self.entry(nil) }
            state.references[ino, default: 0] += 1
            return Self.entry(try Self.node(ino, state).status)
        }
    }

    func forget(_ ino: InodeNumber, count: UInt64) {
        state.withLock { $0.references[ino, default: 0] -= Int(count) }
    }

    func attributes(_ ino: InodeNumber, handle: HandleID?) -> Outcome<AttributeReply> {
        answer { state throws(FileSystemError) in
            AttributeReply(status: try Self.node(ino, state).status, timeout: .zero)
        }
    }

    func setAttributes(
        _ ino: InodeNumber, to change: AttributeChange, handle: HandleID?
    ) -> Outcome<AttributeReply> {
        answer { state throws(FileSystemError) in
            var node = try Self.node(ino, state)
            if let mode = change.mode { node.status.mode = mode }
            if let uid = change.uid { node.status.uid = uid }
            if let gid = change.gid { node.status.gid = gid }
            if let accessed = change.accessed { node.status.accessed = accessed }
            if let modified = change.modified { node.status.modified = modified }
            if let size = change.size { Self.resize(&node, to: Int(size)) }
            state.nodes[ino] = node
            return AttributeReply(status: node.status, timeout: .zero)
        }
    }

    private static func resize(_ node: inout Node, to size: Int) {
        if size < node.bytes.count { node.bytes.removeLast(node.bytes.count - size) }
        node.bytes += Array(repeating: 0, count: size - node.bytes.count)
        node.status.size = Int64(size)
    }

    func readLink(_ ino: InodeNumber) -> Outcome<ByteString> {
        answer { state throws(FileSystemError) in ByteString(try Self.node(ino, state).bytes) }
    }

    func symlink(
        _ name: ByteString, in parent: InodeNumber, target: ByteString, caller: Caller
    ) -> Outcome<EntryReply> {
        answer { state throws(FileSystemError) in
            let status = try make(name, in: parent, .symlink, mode: 0o777, caller: caller, &state)
            state.nodes[status.ino]?.bytes = target.bytes
            return Self.entry(status)
        }
    }

    func makeDirectory(
        _ name: ByteString, in parent: InodeNumber, mode: UInt16, caller: Caller
    ) -> Outcome<EntryReply> {
        answer(of: name) { [self] state throws(FileSystemError) in
            Self.entry(try make(name, in: parent, .directory, mode: mode, caller: caller, &state))
        }
    }

    func removeDirectory(_ name: ByteString, in parent: InodeNumber) -> Outcome<Void> {
        answer(of: name) { state throws(FileSystemError) in
            guard let ino = try Self.node(parent, state).children[name] else {
                throw FileSystemError(.notFound, "no directory")
            }
            guard try Self.node(ino, state).children.isEmpty else { throw FileSystemError(.notEmpty, "not empty") }
            state.nodes[parent]?.children[name] = nil
        }
    }

    func unlink(_ name: ByteString, in parent: InodeNumber) -> Outcome<Void> {
        answer(of: name) { state throws(FileSystemError) in
            guard state.nodes[parent]?.children.removeValue(forKey: name) != nil else {
                throw FileSystemError(.notFound, "no file")
            }
        }
    }

    func hasCompletedRename(
        _ name: ByteString, in parent: InodeNumber, to newName: ByteString, in newParent: InodeNumber
    ) -> Bool { false }

    func rename(
        _ name: ByteString, in parent: InodeNumber, to newName: ByteString, in newParent: InodeNumber, noReplace: Bool
    ) -> Outcome<Void> {
        answer(of: name) { state throws(FileSystemError) in
            guard let ino = try Self.node(parent, state).children[name] else {
                throw FileSystemError(.notFound, "no source")
            }
            if noReplace, try Self.node(newParent, state).children[newName] != nil {
                throw FileSystemError(.exists, "target is there")
            }
            state.nodes[parent]?.children[name] = nil
            state.nodes[newParent]?.children[newName] = ino
        }
    }

    func open(_ ino: InodeNumber, flags: OpenFlags) -> Outcome<OpenReply> {
        answer { state throws(FileSystemError) in
            var node = try Self.node(ino, state)
            if flags.truncate { Self.resize(&node, to: 0) }
            state.nodes[ino] = node
            return OpenReply(handle: Self.openHandle(&state), keepCache: false, direct: flags.direct)
        }
    }

    func create(
        _ name: ByteString, in parent: InodeNumber, mode: UInt16, flags: OpenFlags, caller: Caller
    ) -> Outcome<CreateReply> {
        answer(of: name) { [self] state throws(FileSystemError) in
            let status = try make(name, in: parent, .file, mode: mode, caller: caller, &state)
            return CreateReply(
                entry: Self.entry(status),
                open: OpenReply(handle: Self.openHandle(&state), keepCache: false, direct: flags.direct))
        }
    }

    func read(
        _ ino: InodeNumber, handle: HandleID, at offset: Int64, count: Int, into buffer: Buffer
    ) -> Outcome<Int> {
        let name = name(of: ino)
        if name == "hangs" {
            return .pending { [self] in
                while !Task.isCancelled { try? await Task.sleep(for: .milliseconds(10)) }
                state.withLock { $0.interrupted += 1 }
                return .failure(FileSystemError(.interrupted, "interrupted"))
            }
        }
        if name == "slow" {
            return .pending { [self] in
                do { try await Task.sleep(for: .milliseconds(400)) } catch { state.withLock { $0.interrupted += 1 } }
                return .success(0)
            }
        }
        if name == "held" {
            return .pending { [self] in
                await hold()
                return .success(0)
            }
        }
        if name == "broken" { return .failure(.inputOutput, "the store sent other bytes") }
        return answer { state throws(FileSystemError) in
            let bytes = try Self.node(ino, state).bytes
            let start = min(Int(offset), bytes.count)
            let slice = bytes[start..<min(bytes.count, start + count)]
            slice.withUnsafeBytes { buffer.bytes.copyMemory(from: $0) }
            return slice.count
        }
    }

    func dropPrivileges(of ino: InodeNumber) {}

    func write(_ ino: InodeNumber, handle: HandleID, at offset: Int64?, bytes: RawSpan) -> Outcome<Int> {
        let new = bytes.withUnsafeBytes { Array($0) }
        return answer { state throws(FileSystemError) in
            var node = try Self.node(ino, state)
            state.nodes[ino]?.bytes = []
            let start = offset.map(Int.init) ?? node.bytes.count
            if node.bytes.count < start + new.count { Self.resize(&node, to: start + new.count) }
            node.bytes.replaceSubrange(start..<(start + new.count), with: new)
            node.status.modified = time.now()
            state.nodes[ino] = node
            return new.count
        }
    }

    func flush(_ ino: InodeNumber, handle: HandleID, ifGoingOn: () -> Bool) -> Outcome<Void> {
        answer(of: name(of: ino)) { state in state.flushed.append(ino) }
    }

    func sync(_ ino: InodeNumber, handle: HandleID, dataOnly: Bool) -> Outcome<Void> {
        answer(of: name(of: ino)) { _ in }
    }

    func release(_ ino: InodeNumber, handle: HandleID) -> Outcome<Void> {
        answer { state in _ = state.openHandles.remove(handle) }
    }

    func allocate(_ ino: InodeNumber, handle: HandleID, range: ByteRange, mode: Int32) -> Outcome<Void> {
        answer { state throws(FileSystemError) in
            guard mode == 0 else { throw FileSystemError(.notSupported, "mode") }
            var node = try Self.node(ino, state)
            if range.upperBound > node.status.size { Self.resize(&node, to: Int(range.upperBound)) }
            state.nodes[ino] = node
        }
    }

    func copyRange(from source: FileRange, to target: FileRange, count: Int64) -> Outcome<Int64> {
        .failure(.notSupported, "the kernel reads and writes")
    }

    func seek(_ ino: InodeNumber, handle: HandleID, from offset: Int64, to kind: SeekKind) -> Outcome<Int64> {
        answer { state throws(FileSystemError) in
            let size = try Self.node(ino, state).status.size
            guard offset < size else { throw FileSystemError(.noSuchOffset, "past the end") }
            return kind == .data ? offset : size
        }
    }

    func openDirectory(_ ino: InodeNumber) -> Outcome<HandleID> { answer { state in Self.openHandle(&state) } }

    func readDirectory(
        _ ino: InodeNumber, handle: HandleID, from offset: UInt64, attributes: Bool, into reply: any DirectoryReply
    ) -> Outcome<Void> {
        answer { state throws(FileSystemError) in
            let node = try Self.node(ino, state)
            var list: [(ByteString, FileStatus)] = [(".", node.status), ("..", node.status)]
            for (name, child) in node.children.sorted(by: { $0.key < $1.key }) {
                list.append((name, try Self.node(child, state).status))
            }
            for (index, (name, status)) in list.enumerated().dropFirst(Int(offset)) {
                let taken = reply.append(
                    DirectoryEntry(
                        name: name, status: status, offset: UInt64(index + 1), entryTimeout: .seconds(60),
                        attributeTimeout: .seconds(60)))
                guard taken else { break }
                if attributes, index > 1 { state.references[status.ino, default: 0] += 1 }
            }
        }
    }

    func releaseDirectory(_ ino: InodeNumber, handle: HandleID) {
        state.withLock { _ = $0.openHandles.remove(handle) }
    }

    func syncDirectory(_ ino: InodeNumber) -> Outcome<Void> { answer { _ in } }

    func statistics() -> Outcome<FileSystemStatistics> {
        answer { _ in FileSystemStatistics(capacity: 1 << 50, available: 1 << 49, longestName: 255) }
    }

    func extendedAttribute(_ name: ByteString, of ino: InodeNumber) -> Outcome<ByteString> {
        answer { state throws(FileSystemError) in
            guard let value = try Self.node(ino, state).attributes[name] else {
                throw FileSystemError(.noData, "no attribute")
            }
            return value
        }
    }

    func extendedAttributes(of ino: InodeNumber, room: Int) -> Outcome<[ByteString]> {
        answer { state throws(FileSystemError) in try Self.node(ino, state).attributes.keys.sorted() }
    }

    func setExtendedAttribute(
        _ name: ByteString, of ino: InodeNumber, to value: ByteString, mode: ExtendedAttributeMode
    ) -> Outcome<Void> {
        answer { state throws(FileSystemError) in
            let isThere = try Self.node(ino, state).attributes[name] != nil
            if mode == .create, isThere { throw FileSystemError(.exists, "there") }
            if mode == .replace, !isThere { throw FileSystemError(.noData, "not there") }
            state.nodes[ino]?.attributes[name] = value
        }
    }

    func removeExtendedAttribute(_ name: ByteString, of ino: InodeNumber) -> Outcome<Void> {
        answer { state throws(FileSystemError) in
            guard state.nodes[ino]?.attributes.removeValue(forKey: name) != nil else {
                throw FileSystemError(.noData, "no attribute")
            }
        }
    }

    var hasOpenHandles: Bool { state.withLock { !$0.openHandles.isEmpty } }

    func shutDown(by end: @escaping @Sendable () -> Duration?) async -> [UnstoredFile] {
        state.withLock { $0.isShutDown = true }
        return [UnstoredFile(path: "left", reason: "for the test")]
    }
}
