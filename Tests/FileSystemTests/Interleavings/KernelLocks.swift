import Basics
import Metadata

/// What the kernel locks while it asks a file system (Documentation/filesystems/directory-locking of Linux): a directory while a
/// name in it is made, removed or moved, and the inode that is removed, moved, replaced or written.
///
/// Requires: all tasks run on one thread, as SeededScheduler has it.
final class KernelLocks: @unchecked Sendable {
    struct Held {
        fileprivate var inodes: [InodeNumber] = []

        func has(_ ino: InodeNumber?) -> Bool { ino.map(inodes.contains) ?? false }

        static func += (held: inout Held, more: Held) { held.inodes += more.inodes }
    }

    private var gates: [InodeNumber: TaskGate] = [:]

    /// Locks inodes in the order of their numbers; the top directory has the first.
    func lock(_ inodes: [InodeNumber?]) async -> Held {
        let inodes = Set(inodes.compactMap(\.self)).sorted()
        for ino in inodes {
            let gate = gates[ino] ?? TaskGate()
            gates[ino] = gate
            await gate.enterRegardless(alone: true)
        }
        return Held(inodes: inodes)
    }

    func unlock(_ held: Held) { for ino in held.inodes.reversed() { gates[ino]?.leave(alone: true) } }
}
