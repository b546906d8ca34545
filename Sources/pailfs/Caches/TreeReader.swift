import Basics
import CLinux
import Glibc
import Synchronization

/// Reads every file at or below a path in a mount, several at a time, so that the mount keeps them.
///
/// One thread walks, the others read; what is found and not yet read is bounded. The mutex is a leaf.
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

    /// Returns when all is read; what was not is in the tally.
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
        walk(ByteString(path))
        state.withLock { $0.isWalked = true }
        for _ in 0..<jobs { arrived.signal() }
        for _ in 0..<jobs { ended.wait() }
    }

    // MARK: walking

    private func walk(_ top: ByteString) {
        var status = stat()
        guard lstat(top.text, &status) == 0 else { return tally.failed(Output.text(top), Self.reason()) }
        guard status.st_mode & S_IFMT == S_IFDIR else { return offer(top) }
        var directories = [top]
        while let directory = directories.popLast() { list(directory, &directories) }
    }

    /// Offers the files of a directory, and adds the directories in it.
    private func list(_ directory: ByteString, _ directories: inout [ByteString]) {
        guard let stream = opendir(directory.text) else {
            return tally.failed(Output.text(directory), Self.reason())
        }
        defer { closedir(stream) }
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { tally.failed(Output.text(directory), Self.reason()) }
                return
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { ByteString(bytes: $0) }
            }
            if name == "." || name == ".." { continue }
            switch Int(entry.pointee.d_type) {
            case Int(DT_DIR): directories.append(directory + "/" + name)
            // A link is no content of its own.
            case Int(DT_REG): offer(directory + "/" + name)
            default: break
            }
        }
    }

    private func offer(_ file: ByteString) {
        while state.withLock({ $0.waiting.count >= Self.mostWaiting }) { taken.wait() }
        state.withLock { $0.waiting.append(file) }
        arrived.signal()
    }

    /// nil when there is nothing more.
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
        // Around the page cache, whose pages would keep the mount from being asked.
        let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | linux_o_direct
        let descriptor = open(file.text, flags)
        guard descriptor >= 0 else { return tally.failed(Output.text(file), Self.reason()) }
        defer { close(descriptor) }
        while true {
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return tally.failed(Output.text(file), Self.reason(descriptor)) }
            if count == 0 { break }
            tally.read(Int64(count))
        }
        // What is closed before its last bytes have landed on the disk is given up.
        for _ in 0..<20 where !Self.isCached(file) { usleep(5000) }
        tally.finished { Self.isCached(file) }
    }

    private static func isCached(_ file: ByteString) -> Bool {
        var value: UInt8 = 0
        return getxattr(file.text, "user.pailfs.cached", &value, 1) != 1 || value != UInt8(ascii: "0")
    }

    /// What the mount knows of an error is more than its number.
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

extension ByteString {
    /// For the system: paths need not be UTF-8.
    fileprivate var text: [CChar] { bytes.map(CChar.init(bitPattern:)) + [0] }

    fileprivate init(bytes pointer: UnsafePointer<CChar>) {
        self.init((0..<strlen(pointer)).map { UInt8(bitPattern: pointer[$0]) })
    }
}
