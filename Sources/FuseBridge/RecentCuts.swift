import Basics
import FileSystem
import Metadata
import Synchronization

/// Files that were truncated a moment ago, by an open with O_TRUNC or by truncate(2).
///
/// Until the kernel has processed the answer it uses the old length. A read in that moment is answered with fewer bytes than the
/// kernel has asked for; the kernel fills the rest with zeros, and shows them if the file has grown again when it checks the
/// length: bytes that no program wrote. So such a read is repeated until the kernel has had time.
/// Locks: a leaf. After a crash: nothing is lost.
final class RecentCuts: Sendable {
    /// How long a read is repeated: the thread that waits for the kernel's answer has to be scheduled.
    private static let patience = Duration.milliseconds(20)
    private static let step = Duration.milliseconds(1)

    private let time: any TimeSource
    /// The kernel reads whole pages. In bytes.
    private let page: Int
    private let cuts = Mutex(LRU<InodeNumber, Duration>(capacity: 1024))

    init(time: any TimeSource, page: Int = Int(MemoryPage.size)) { (self.time, self.page) = (time, page) }

    /// Call it before the file system truncates the file, and again when the answer is sent.
    func note(_ ino: InodeNumber) { cuts.withLock { _ = $0.insert(time.uptime(), for: ino) } }

    /// `read`'s answer for `count` bytes of `ino`, once the kernel cannot misinterpret it.
    func settled(
        _ ino: InodeNumber, count: Int, _ read: @escaping @Sendable () -> Outcome<Int>
    ) -> Outcome<Int> {
        let outcome = read()
        switch outcome {
        case .ready(.success(let got)) where got + page <= count && isRecent(ino):
            return .pending { [self] in await again(ino, count: count, read) }
        case .ready: return outcome
        case .pending(let work):
            return .pending { [self] in
                let result = await work()
                guard case .success(let got) = result, got + page <= count, isRecent(ino) else { return result }
                return await again(ino, count: count, read)
            }
        }
    }

    private func again(
        _ ino: InodeNumber, count: Int, _ read: @Sendable () -> Outcome<Int>
    ) async -> Result<Int, FileSystemError> {
        while true {
            do { try await time.sleep(for: Self.step) } catch {
                return .failure(FileSystemError(.interrupted, "interrupted while another program truncates the file"))
            }
            let result = await read().value()
            guard case .success(let got) = result, got + page <= count, isRecent(ino) else { return result }
        }
    }

    private func isRecent(_ ino: InodeNumber) -> Bool {
        guard let cut = cuts.withLock({ $0.peek(ino) }) else { return false }
        return time.uptime() - cut < Self.patience
    }
}
