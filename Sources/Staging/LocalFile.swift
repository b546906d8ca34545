import Basics
import Glibc
import Synchronization

/// The one staging file of a `StagedFile`, with the errors of this module. Any thread may use it.
///
/// `rest` closes its descriptor, also when other files need one (`OpenDescriptors`); the next use opens the file again. So a
/// process may have more files than descriptors. The mutex is a leaf, and only `restore` holds it while the file is read.
final class LocalFile: Sendable {
    private let descriptor: Mutex<File?>
    /// The file's path, or its later path while it is incomplete.
    private let path: String
    private let descriptors: OpenDescriptors
    /// Whether the file has its final name.
    private let isComplete: Atomic<Bool>
    private let isQueued = Atomic(false)
    private let isUsed = Atomic(true)

    /// Creates a file with mode 0600. An unfinished one has a temporary name until `complete`, so that no start takes it for
    /// a staging file.
    init(
        creating path: String, isUnfinished: Bool = false, among descriptors: OpenDescriptors
    ) throws(StagingError) {
        (self.path, self.descriptors) = (path, descriptors)
        isComplete = Atomic(!isUnfinished)
        let name = isUnfinished ? path + Self.unfinishedSuffix : path
        do { descriptor = Mutex(try File(name, .readWrite, create: .exclusive)) } catch { throw StagingError(error) }
        if !isUnfinished { descriptors.add(self) }
    }

    /// Opens an existing file.
    init(opening path: String, among descriptors: OpenDescriptors) throws(StagingError) {
        (self.path, self.descriptors) = (path, descriptors)
        isComplete = Atomic(true)
        do { descriptor = Mutex(try File(path, .readWrite)) } catch { throw StagingError(error) }
        descriptors.add(self)
    }

    /// Takes a file that is open already.
    init(_ file: File, at path: String, among descriptors: OpenDescriptors) {
        (self.path, self.descriptors) = (path, descriptors)
        isComplete = Atomic(true)
        descriptor = Mutex(file)
        descriptors.add(self)
    }

    /// Closes the descriptor once no call uses it.
    /// Requires: the file is complete, and no other file has its path.
    func rest() { descriptor.withLock { $0 = nil } }

    /// Enters the queue for descriptors; false if the file was in it.
    func enterQueue() -> Bool { !isQueued.exchange(true, ordering: .acquiringAndReleasing) }

    func leaveQueue() { isQueued.store(false, ordering: .releasing) }

    /// Whether it was used since the last call.
    func wasUsed() -> Bool { isUsed.exchange(false, ordering: .relaxed) }

    private var file: File {
        get throws(FileError) {
            isUsed.store(true, ordering: .relaxed)
            var isOpened = false
            let file = try descriptor.withLock { file throws(FileError) in
                if let file { return file }
                let opened = try File(path, .readWrite)
                (file, isOpened) = (opened, true)
                return opened
            }
            if isOpened { descriptors.add(self) }
            return file
        }
    }

    /// The suffix of a file that is being made, or made again, and not complete: the next start removes it.
    static let unfinishedSuffix = ".new"

    /// Gives an unfinished file its name.
    func complete() throws(StagingError) {
        do { try File.rename(file.path, to: path) } catch { throw StagingError(error) }
        isComplete.store(true, ordering: .releasing)
        descriptors.add(self)
    }

    /// Whether the file is at its path, where another program may have removed it. True for an unfinished file, which has no
    /// final path yet, and when a failing disk gives no answer.
    var isInPlace: Bool {
        guard isComplete.load(ordering: .acquiring) else { return true }
        do {
            guard let there = try LocalFileStatus(of: path) else { return false }
            guard let open = descriptor.withLock({ $0 }) else { return true }
            return try LocalFileStatus(of: open).identity == there.identity
        } catch { return true }
    }

    /// Makes the file at its path again from the one that is still open: the bytes of `ranges`, length and times. False when
    /// it is not open.
    /// Requires: no change of the file runs.
    func restore(_ ranges: [ByteRange]) throws(StagingError) -> Bool {
        do throws(FileError) {
            return try descriptor.withLock { descriptor throws(FileError) in
                guard let open = descriptor else { return false }
                let made = try File(path + Self.unfinishedSuffix, .readWrite, create: .truncating)
                do throws(FileError) {
                    for range in ranges { try made.copy(range, from: open) }
                    try made.truncate(to: open.size)
                    let times = try open.times
                    try made.setTimes(accessed: times.accessed, modified: times.modified)
                    try File.rename(made.path, to: path)
                } catch {
                    try? File.remove(made.path)
                    throw error
                }
                descriptor = made
                return true
            }
        } catch { throw StagingError(error) }
    }

    /// Makes an empty file at the path, in place of the one that was removed.
    func remake() throws(StagingError) {
        do throws(FileError) {
            try descriptor.withLock { descriptor throws(FileError) in
                descriptor = try File(path, .readWrite, create: .truncating)
            }
        } catch { throw StagingError(error) }
        descriptors.add(self)
    }

    /// Its length on the disk, in bytes.
    var size: Int64 {
        get throws(StagingError) { do { return try file.size } catch { throw StagingError(error) } }
    }

    /// fdatasync(2)
    func flush() throws(StagingError) {
        do { try file.syncData() } catch { throw StagingError(error) }
    }

    func write(_ bytes: RawSpan, at offset: Int64) throws(StagingError) {
        do { try file.write(bytes, at: offset) } catch { throw StagingError(error) }
    }

    func write(_ bytes: [UInt8], at offset: Int64) throws(StagingError) {
        do { try file.write(bytes, at: offset) } catch { throw StagingError(error) }
    }

    /// Reads until `target` is full; bytes past the end of the file are zeros.
    func read(into target: UnsafeMutableRawBufferPointer, at offset: Int64) throws(StagingError) {
        do {
            let count = unsafe try file.read(at: offset, into: target)
            unsafe UnsafeMutableRawBufferPointer(rebasing: target[count...])
                .initializeMemory(as: UInt8.self, repeating: 0)
        } catch { throw StagingError(error) }
    }

    /// fallocate(2)
    func allocate(_ range: ByteRange) throws(FileError) { try file.allocate(range) }

    func truncate(to size: Int64) throws(StagingError) {
        do { try file.truncate(to: size) } catch { throw StagingError(error) }
    }

    /// The modification time that programs see; nil when it cannot be read.
    var modified: Timestamp? { (try? file.times).map { Self.told($0.accessed, $0.modified) } }

    func setModified(_ modified: Timestamp) throws(StagingError) {
        do { try file.setTimes(accessed: .epoch, modified: modified) } catch { throw StagingError(error) }
    }

    /// Runs `act`, a change that no program has asked for, and keeps the modification time. Meanwhile the access time, which
    /// has no other use, holds that time plus `held` seconds: recovery finds it there if the process is killed.
    /// Requires: one caller at a time, and no `setModified` meanwhile.
    func unnoticed<Value, Failure: Error>(_ act: () throws(Failure) -> Value) throws(Failure) -> Value {
        guard let modified else { return try act() }
        let kept = Timestamp(seconds: modified.seconds + Self.held, nanoseconds: modified.nanoseconds)
        try? file.setTimes(accessed: kept)
        defer { try? setModified(modified) }
        return try act()
    }

    /// 200 years.
    private static let held: Int64 = 6_311_433_600

    /// The modification time that the times of a file stand for (`unnoticed`).
    static func told(_ accessed: Timestamp, _ modified: Timestamp) -> Timestamp {
        guard accessed.seconds > held / 5 * 4 else { return modified }
        return Timestamp(seconds: accessed.seconds - held, nanoseconds: accessed.nanoseconds)
    }

    /// False where the file system does not support it.
    func punch(_ range: ByteRange) -> Bool {
        do { try file.punchHole(range) } catch { return false }
        return true
    }

    /// Unlinks the file and frees its blocks at once, although it stays open.
    func remove() {
        let file = descriptor.withLock { $0.take() }
        // If the file cannot be removed now, the next start finds it as an orphan.
        try? File.remove(path)
        if let file, file.path != path { try? File.remove(file.path) }
        try? file?.truncate(to: 0)
    }
}

extension File {
    /// Copies `range` of another file, cut to its length, to the same place here.
    fileprivate func copy(_ range: ByteRange, from other: File) throws(FileError) {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let bytes = try other.read(offset..<min(offset + (256 << 10), range.upperBound))
            guard !bytes.isEmpty else { return }
            try write(bytes, at: offset)
            offset += Int64(bytes.count)
        }
    }
}

extension StagingError {
    init(_ error: FileError) {
        switch error.errno {
        // EFBIG is from ulimit -f: a store's own limit is smaller than that of any disk.
        case ENOSPC, EDQUOT, EFBIG: self = .noSpace
        case ENOENT: self = .deleted
        case EROFS: self = .readOnlyDisk
        default: self = .failed(errno: error.errno, reason: error.description)
        }
    }

    /// The errno for callers that can only return one.
    package var errno: Int32 {
        switch self {
        case .noSpace: ENOSPC
        case .tooLarge: EFBIG
        case .readOnlyDisk: EROFS
        case .notStaged, .deleted: EIO
        case .failed(let errno, _): errno
        }
    }
}
