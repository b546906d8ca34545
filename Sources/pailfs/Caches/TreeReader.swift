import Basics
import CLinux
import Glibc
import Synchronization

/// Reads every file at or below a path in a mount, several at a time, so that the mount caches them.
///
/// One thread walks the tree, the others read; the queue of files between them is bounded. Locks: the mutex is a leaf.
final class TreeReader: Sendable {
    private static let mostWaiting = 1000
    private static let pieceBytes = 1 << 20

    private struct State {
        var waiting: [ByteString] = []
        var isWalked = false
    }

    private let tally: WarmTally
    private let state = Mutex(State())
    private let arrived = Semaphore()
    private let taken = Semaphore()

    init(_ tally: WarmTally) { self.tally = tally }

    /// Returns when all files are read; failures are in the tally.
    func read(_ path: String, jobs: Int) {
        let ended = Semaphore()
        for _ in 0..<jobs {
            startThread(name: "warm") { [self] in
                let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceBytes, alignment: 4096)
                while let file = next() { read(file, buffer) }
                buffer.deallocate()
                ended.signal()
            }
        }
        TreeWalk.files(below: ByteString(path), failed: { tally.failed(Output.text($0), $1) }, found: offer)
        state.withLock { $0.isWalked = true }
        for _ in 0..<jobs { arrived.signal() }
        for _ in 0..<jobs { ended.wait() }
    }

    private func offer(_ file: ByteString) {
        while state.withLock({ $0.waiting.count >= Self.mostWaiting }) { taken.wait() }
        state.withLock { $0.waiting.append(file) }
        arrived.signal()
    }

    /// nil when there are no more files.
    private func next() -> ByteString? {
        arrived.wait()
        let (file, wasFull) = state.withLock { state in
            (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.waiting.count == Self.mostWaiting - 1)
        }
        if wasFull { taken.signal() }
        return file
    }

    // MARK: reading

    private func read(_ file: ByteString, _ buffer: UnsafeMutableRawBufferPointer) {
        // O_DIRECT: a read from the kernel's page cache would not reach the mount.
        let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | linux_o_direct
        let descriptor = open(file.path, flags)
        guard descriptor >= 0 else { return tally.failed(Output.text(file), Self.reason()) }
        defer { close(descriptor) }
        while true {
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return tally.failed(Output.text(file), Self.reason(descriptor)) }
            if count == 0 { break }
            tally.read(Int64(count))
        }
        // Closing drops the blocks whose bytes have not reached the disk.
        for _ in 0..<20 where !Self.isCached(file) { usleep(5000) }
        tally.finished { Self.isCached(file) }
    }

    private static func isCached(_ file: ByteString) -> Bool {
        var value: UInt8 = 0
        return getxattr(file.path, "user.pailfs.cached", &value, 1) != 1 || value != UInt8(ascii: "0")
    }

    /// The mount's description of an error says more than the errno.
    private static func reason(_ descriptor: Int32? = nil) -> String {
        let text = String(cString: strerror(errno))
        let known = descriptor.flatMap { attribute("user.pailfs.lasterror", of: $0) }
        return known.map { "\(text) (\($0))" } ?? text
    }

    private static func attribute(_ name: String, of descriptor: Int32) -> String? {
        var value = [UInt8](repeating: 0, count: 4096)
        let count = fgetxattr(descriptor, name, &value, value.count)
        return count >= 0 ? String(decoding: value[..<count], as: UTF8.self) : nil
    }
}
