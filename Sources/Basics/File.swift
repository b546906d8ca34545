import CLinux
import Glibc
import SystemPackage

/// An open file that closes itself when the last reference ends.
///
/// All reads and writes name their offset, so any thread may call at any time; the kernel orders overlapping ones. Every call
/// is repeated after a signal and continued after a partial transfer. Only `sync` and `syncData` flush.
package final class File: Sendable {
    package enum Access: Sendable {
        case read, readWrite
    }

    package enum Creation: Sendable {
        /// The file must exist.
        case never
        case ifMissing
        /// The file must not exist.
        case exclusive
        /// The former content is removed.
        case truncating
    }

    private let descriptor: FileDescriptor
    /// The path by which it was opened, for messages; the file may have another one by now.
    package let path: String

    /// A new file gets `permissions`, less the umask. A symbolic link as last component is refused (ELOOP) unless
    /// `followsLinks`, which is for files that users name: containers mount secrets as links. `isDirect` bypasses the page
    /// cache, where the file system supports it (EINVAL elsewhere): offsets, lengths and the memory must then be multiples of
    /// 4 KiB. open(2) with O_DIRECT
    package init(
        _ path: String, _ access: Access = .read, create: Creation = .never, permissions: UInt16 = 0o600,
        isDirect: Bool = false, followsLinks: Bool = false
    ) throws(FileError) {
        var options: FileDescriptor.OpenOptions = [.closeOnExec]
        if !followsLinks { options.insert(.noFollow) }
        if isDirect { options.insert(FileDescriptor.OpenOptions(rawValue: linux_o_direct)) }
        switch create {
        case .never: break
        case .ifMissing: options.insert(.create)
        case .exclusive: options.formUnion([.create, .exclusiveCreate])
        case .truncating: options.formUnion([.create, .truncate])
        }
        do {
            descriptor = try FileDescriptor.open(
                FilePath(path), access == .read ? .readOnly : .readWrite, options: options,
                permissions: create == .never ? nil : FilePermissions(rawValue: CInterop.Mode(permissions)))
        } catch {
            throw FileError(
                errno: (error as? Errno)?.rawValue ?? EIO, operation: create == .never ? "open" : "create", path: path)
        }
        self.path = path
    }

    deinit { try? descriptor.close() }

    /// For calls that this type does not wrap; valid as long as the file is referenced.
    package var rawDescriptor: Int32 { descriptor.rawValue }

    // MARK: Bytes

    /// Fills `buffer` from `offset` on; fewer bytes than that are read only at the end of the file. pread(2)
    package func read(
        at offset: Int64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileError) -> Int {
        var done = 0
        while done < buffer.count, let base = buffer.baseAddress {
            let count = pread(rawDescriptor, base + done, buffer.count - done, off_t(offset) + done)
            if count < 0 {
                if errno == EINTR { continue }
                throw failure("read")
            }
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// Appends bytes from `offset` on until `output` is full or the file ends.
    package func read(at offset: Int64, into output: inout OutputRawSpan) throws(FileError) {
        try output.withUnsafeMutableBytes { (buffer, initialized) throws(FileError) in
            initialized += try read(
                at: offset, into: UnsafeMutableRawBufferPointer(rebasing: buffer[initialized...]))
        }
    }

    /// The bytes of `range`, cut to the file's reported length: in /proc that is 0.
    package func read(_ range: ByteRange) throws(FileError) -> [UInt8] {
        try read(atMost: Int(max(0, min(range.upperBound, try size) - range.lowerBound)), at: range.lowerBound)
    }

    /// The bytes from `offset` on, at most `limit`, also of a file whose length the kernel does not report, as in /proc.
    package func read(atMost limit: Int, at offset: Int64 = 0) throws(FileError) -> [UInt8] {
        var failure: FileError?
        let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            do throws(FileError) {
                count = try read(at: offset, into: UnsafeMutableRawBufferPointer(buffer))
            } catch { failure = error }
        }
        if let failure { throw failure }
        return bytes
    }

    /// Writes all of `bytes` at `offset`. After an error any part of them may have been written. pwrite(2)
    package func write(_ bytes: RawSpan, at offset: Int64) throws(FileError) {
        try bytes.withUnsafeBytes { (buffer) throws(FileError) in try write(buffer, at: offset) }
    }

    /// The same for bytes in raw memory.
    package func write(_ buffer: UnsafeRawBufferPointer, at offset: Int64) throws(FileError) {
        var done = 0
        while done < buffer.count, let base = buffer.baseAddress {
            let count = pwrite(rawDescriptor, base + done, buffer.count - done, off_t(offset) + done)
            if count < 0 {
                if errno == EINTR { continue }
                throw failure("write")
            }
            done += count
        }
    }

    /// Writes bytes that will not be read from the file soon, so that they do not stay in the page cache. False when they do,
    /// as the kernel or the file system does not support this. pwritev2(2) with RWF_DONTCACHE
    package func writeUncached(_ bytes: RawSpan, at offset: Int64) throws(FileError) -> Bool {
        let (done, error) = bytes.withUnsafeBytes { buffer in
            var (done, error) = (0, Int32(0))
            while done < buffer.count, let base = buffer.baseAddress, error == 0 {
                let count = linux_write_uncached(
                    rawDescriptor, base + done, buffer.count - done, offset + Int64(done))
                if count >= 0 { done += Int(count) } else if -count != Int64(EINTR) { error = Int32(-count) }
            }
            return (done, error)
        }
        switch error {
        case 0: return true
        case EOPNOTSUPP, ENOSYS, EINVAL: break
        default: throw FileError(errno: error, operation: "write", path: path)
        }
        try write(bytes.extracting(droppingFirst: done), at: offset + Int64(done))
        return false
    }

    package func write(_ bytes: [UInt8], at offset: Int64) throws(FileError) {
        try write(bytes.span.bytes, at: offset)
    }

    // MARK: Size and space

    /// In bytes. fstat(2)
    package var size: Int64 {
        get throws(FileError) {
            var status = stat()
            if fstat(rawDescriptor, &status) != 0 { throw failure("stat") }
            return Int64(status.st_size)
        }
    }

    /// Whether both are the same file, whatever their paths are by now. fstat(2)
    package func isSame(as other: File) throws(FileError) -> Bool {
        var (mine, theirs) = (stat(), stat())
        if fstat(rawDescriptor, &mine) != 0 || fstat(other.rawDescriptor, &theirs) != 0 { throw failure("stat") }
        return mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino
    }

    /// Bytes that the file takes on the disk; less than its size where it has holes. fstat(2)
    package var allocated: Int64 {
        get throws(FileError) {
            var status = stat()
            if fstat(rawDescriptor, &status) != 0 { throw failure("stat") }
            return Int64(status.st_blocks) * 512
        }
    }

    /// Cuts or extends with a hole. ftruncate(2)
    package func truncate(to size: Int64) throws(FileError) {
        while ftruncate(rawDescriptor, off_t(size)) != 0 {
            if errno != EINTR { throw failure("truncate") }
        }
    }

    /// Frees the disk space of `range`; it reads as zeros, the size stays. fallocate(2)
    package func punchHole(_ range: ByteRange) throws(FileError) {
        try check(linux_punch_hole(rawDescriptor, range.lowerBound, range.length), "punch a hole in")
    }

    /// Allocates disk space for `range` now, extending the file, so that a write there cannot fail for lack of space.
    /// fallocate(2)
    package func allocate(_ range: ByteRange) throws(FileError) {
        try check(linux_allocate(rawDescriptor, range.lowerBound, range.length), "allocate space for")
    }

    // MARK: Durability

    /// Flushes content and metadata. After an error the content is in doubt, even if a second call succeeds. fsync(2)
    package func sync() throws(FileError) {
        if fsync(rawDescriptor) != 0 { throw failure("flush") }
    }

    /// Flushes the content and the metadata needed to read it. fdatasync(2)
    package func syncData() throws(FileError) {
        if fdatasync(rawDescriptor) != 0 { throw failure("flush") }
    }

    /// When it was last read, as far as the file system records it, and when its bytes changed. fstat(2)
    package var times: (accessed: Timestamp, modified: Timestamp) {
        get throws(FileError) {
            var status = stat()
            if fstat(rawDescriptor, &status) != 0 { throw failure("stat") }
            return (Timestamp(status.st_atim), Timestamp(status.st_mtim))
        }
    }

    /// Sets the times that are given. futimens(2)
    package func setTimes(accessed: Timestamp? = nil, modified: Timestamp? = nil) throws(FileError) {
        // UTIME_OMIT of sys/stat.h is an expression, which is not imported.
        let omitted = timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2)
        let times = [accessed, modified].map { time in
            time.map { timespec(tv_sec: Int($0.seconds), tv_nsec: Int($0.nanoseconds)) } ?? omitted
        }
        if futimens(rawDescriptor, times) != 0 { throw failure("set the time of") }
    }

    /// Locks the file unless another open file holds the lock; the lock ends with this object. flock(2)
    package func tryLock() throws(FileError) -> Bool {
        let status = linux_lock_exclusive(rawDescriptor)
        if status == -EWOULDBLOCK { return false }
        try check(status, "lock")
        return true
    }

    private func check(_ status: Int32, _ operation: String) throws(FileError) {
        if status < 0 { throw FileError(errno: -status, operation: operation, path: path) }
    }

    private func failure(_ operation: String) -> FileError {
        FileError(errno: errno, operation: operation, path: path)
    }
}

/// A range of a file as a body to send; keeps the file open, and must not outlive changes to the range.
package struct FileSource: ByteSource {
    private let file: File
    private let range: ByteRange

    package init(_ file: File, _ range: ByteRange) { (self.file, self.range) = (file, range) }

    package var count: Int64 { range.length }

    package func read(at offset: Int64, into output: inout OutputRawSpan) throws(ByteTransferError) {
        let wanted = Int(clamping: min(range.length - offset, Int64(output.freeCapacity)))
        guard wanted > 0 else { return }
        do throws(FileError) {
            try output.withUnsafeMutableBytes { (buffer, initialized) throws(FileError) in
                let target = UnsafeMutableRawBufferPointer(rebasing: buffer[initialized..<initialized + wanted])
                let count = try file.read(at: range.lowerBound + offset, into: target)
                // A file that is cut short meanwhile would otherwise look like the end of the body.
                if count < wanted {
                    throw FileError(errno: EIO, operation: "read every byte of", path: file.path)
                }
                initialized += count
            }
        } catch { throw ByteTransferError(error) }
    }
}
