import Glibc
import Synchronization

/// The files here that have a descriptor. Their number is bounded, so that a process may write to more files than it may have
/// open.
///
/// A file that was not used recently loses its descriptor when another one is opened. A scan of the queue replaces an order
/// by use, which each write would have to change. The mutex is a leaf, and descriptors are closed outside it.
final class OpenDescriptors: Sendable {
    private struct Entry { weak var file: LocalFile? }

    private let queue = Mutex<[Entry]>([])
    /// Files may use one in so many of the process's descriptors.
    private static let share = 4
    private static let (least, most) = (16, 4096)

    /// Read each time: the limit may change while the process runs.
    private var limit: Int {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return Self.least }
        return min(Self.most, max(Self.least, Int(clamping: limit.rlim_cur) / Self.share))
    }

    /// A file has got a descriptor.
    /// Locks: the caller holds none of the file.
    func add(_ file: LocalFile) {
        guard file.enterQueue() else { return }
        let limit = limit
        let resting = queue.withLock { queue -> [LocalFile] in
            queue.append(Entry(file: file))
            guard queue.count > limit else { return [] }
            var (resting, kept): ([LocalFile], [Entry]) = ([], [])
            var excess = queue.count - limit
            for entry in queue {
                guard let other = entry.file else {
                    excess -= 1
                    continue
                }
                if excess > 0, other !== file, !other.wasUsed() {
                    excess -= 1
                    other.leaveQueue()
                    resting.append(other)
                } else {
                    kept.append(entry)
                }
            }
            // Where all are in use, the oldest lose their descriptors.
            for entry in kept.prefix(max(0, excess)) {
                guard let other = entry.file, other !== file else { continue }
                other.leaveQueue()
                resting.append(other)
            }
            queue = Array(kept.dropFirst(max(0, excess)))
            return resting
        }
        for other in resting { other.rest() }
    }
}
