import CLinux
import Glibc

/// An open file of ours on local disk, read and written at offsets; closed when the last reference ends.
///
/// Any thread may call at any time: the descriptor is constant and the kernel orders the calls. All calls block on the disk.
package final class LocalFile: Sendable {
    private let descriptor: Int32

    /// Opens an existing file for reading and writing. open(2)
    package convenience init(_ path: String) throws(ByteTransferError) { try self.init(path, flags: 0) }

    /// Opens a file for reading and writing and creates it, readable by us alone, if it is missing. open(2)
    package convenience init(creating path: String) throws(ByteTransferError) { try self.init(path, flags: O_CREAT) }

    private init(_ path: String, flags: Int32) throws(ByteTransferError) {
        var descriptor: Int32
        repeat { descriptor = open(path, O_RDWR | O_CLOEXEC | flags, 0o600) } while descriptor < 0 && errno == EINTR
        if descriptor < 0 { throw ByteTransferError(errno: errno, reason: "cannot open \(path)") }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Fills `destination` from `offset` on and returns how many bytes there were: fewer only at the end. pread(2)
    package func read(
        into destination: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(ByteTransferError) -> Int {
        guard let base = destination.baseAddress else { return 0 }
        var done = 0
        while done < destination.count {
            let count = pread(descriptor, base + done, destination.count - done, Int(offset) + done)
            if count == 0 { break }
            if count < 0 {
                if errno == EINTR { continue }
                throw ByteTransferError(errno: errno, reason: "cannot read a local file")
            }
            done += count
        }
        return done
    }

    /// Writes all of `bytes` at `offset`; an error may leave a part of them. pwrite(2)
    package func write(_ bytes: RawSpan, at offset: Int64) throws(ByteTransferError) {
        let failure: Int32 = bytes.withUnsafeBytes { source in
            guard let base = source.baseAddress else { return 0 }
            var done = 0
            while done < source.count {
                let count = pwrite(descriptor, base + done, source.count - done, Int(offset) + done)
                if count < 0 {
                    if errno == EINTR { continue }
                    return errno
                }
                done += count
            }
            return 0
        }
        if failure != 0 { throw ByteTransferError(errno: failure, reason: "cannot write a local file") }
    }

    /// Gives the space of a range back to the file system; it reads as zeros then. fallocate(2), FALLOC_FL_PUNCH_HOLE
    package func punchHole(_ range: ByteRange) throws(ByteTransferError) {
        if range.isEmpty { return }
        let status = linux_punch_hole(descriptor, range.lowerBound, range.length)
        if status != 0 { throw ByteTransferError(errno: -status, reason: "cannot punch a hole in a local file") }
    }

    /// Cuts the file, or lengthens it with a hole. ftruncate(2)
    package func setSize(_ size: Int64) throws(ByteTransferError) {
        while ftruncate(descriptor, Int(size)) != 0 {
            if errno != EINTR { throw ByteTransferError(errno: errno, reason: "cannot set the size of a local file") }
        }
    }

    /// Length in bytes. fstat(2), st_size
    package var size: Int64 { status.map { Int64($0.st_size) } ?? 0 }

    /// Bytes the file takes on disk. fstat(2), st_blocks
    package var allocatedBytes: Int64 { status.map { Int64($0.st_blocks) * 512 } ?? 0 }

    private var status: stat? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? status : nil
    }
}

/// Acts on names in our own local directories.
package enum LocalDirectory {
    /// Creates a directory, readable by us alone; an existing one is no error. mkdir(2)
    package static func create(_ path: String) throws(ByteTransferError) {
        if mkdir(path, 0o700) != 0, errno != EEXIST {
            throw ByteTransferError(errno: errno, reason: "cannot create directory \(path)")
        }
    }

    /// Removes a file; a missing one is no error. unlink(2)
    package static func removeFile(_ path: String) throws(ByteTransferError) {
        if unlink(path) != 0, errno != ENOENT {
            throw ByteTransferError(errno: errno, reason: "cannot remove \(path)")
        }
    }

    /// Moves a file over whatever has the new name. rename(2)
    package static func move(_ path: String, to target: String) throws(ByteTransferError) {
        if rename(path, target) != 0 {
            throw ByteTransferError(errno: errno, reason: "cannot rename \(path) to \(target)")
        }
    }

    /// Calls `body` with each name in a directory but `.` and `..`, in no order. readdir(3)
    package static func forEachName(in path: String, _ body: (String) -> Void) throws(ByteTransferError) {
        guard let directory = opendir(path) else {
            throw ByteTransferError(errno: errno, reason: "cannot open directory \(path)")
        }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { body(name) }
        }
    }
}
