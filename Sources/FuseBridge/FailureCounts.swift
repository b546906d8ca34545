package import FileSystem
import Synchronization

/// How often requests have failed, by operation and error; errors that programs meet in the normal course of things do not count.
/// Locks: its mutex is a leaf.
package final class FailureCounts: Sendable {
    package struct Failure: Sendable, Hashable {
        /// As FUSE names it.
        package let operation: String
        package let kind: FileSystemError.Kind
    }

    private let counts = Mutex<[Failure: Int]>([:])

    package init() {}

    package var snapshot: [Failure: Int] { counts.withLock { $0 } }

    func count(_ operation: FuseOperation, _ kind: FileSystemError.Kind) {
        if kind.isOrdinary { return }
        counts.withLock { $0[Failure(operation: operation.rawValue, kind: kind), default: 0] += 1 }
    }
}
