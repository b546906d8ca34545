import Basics
import Synchronization

/// Keys of directories by inode number, so that the key of a file is one look-up and not a walk to the root.
///
/// Two generations make a cheap LRU: a key that is used moves to the young one, and when that is full the old one is dropped.
/// A rename or removal of a directory empties both. The generation number keeps a walk that began before from adding its
/// result.
final class DirectoryKeys: Sendable {
    private struct State {
        var young: [Int64: ByteString] = [:]
        var old: [Int64: ByteString] = [:]
        var generation: UInt64 = 0
    }

    private static let capacity = 4096

    private let state = Mutex(State())

    var generation: UInt64 { state.withLock { $0.generation } }

    subscript(ino: Int64) -> ByteString? {
        state.withLock { state in
            if let key = state.young[ino] { return key }
            guard let key = state.old[ino] else { return nil }
            Self.insert(key, ino, &state)
            return key
        }
    }

    func insert(_ key: ByteString, for ino: Int64, generation: UInt64) {
        state.withLock { state in
            if state.generation == generation { Self.insert(key, ino, &state) }
        }
    }

    func removeAll() {
        state.withLock { state in
            state.generation &+= 1
            (state.young, state.old) = ([:], [:])
        }
    }

    private static func insert(_ key: ByteString, _ ino: Int64, _ state: inout State) {
        if state.young.count >= capacity { (state.old, state.young) = (state.young, [:]) }
        state.young[ino] = key
    }
}
