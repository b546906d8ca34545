import CLinux

/// The unit in which a file system allocates and frees the space of a file. A value without I/O.
///
/// 4 KiB on most disks, whatever the size of a memory page. A file system may have a larger unit where pages are larger, as
/// on many arm64 machines: on tmpfs it is a page; on ext4, XFS and Btrfs it is chosen when they are made, at most a page.
package struct DiskUnit: Sendable, Hashable {
    /// The unit of most file systems, and the smallest: 4 KiB.
    package static let usual = DiskUnit(bytes: 4096)

    /// A power of two.
    package let bytes: Int64

    /// Requires: `bytes` is a power of two.
    package init(bytes: Int64) {
        precondition(bytes > 0 && bytes & (bytes - 1) == 0, "a unit of disk space is a power of two")
        self.bytes = bytes
    }

    /// The unit of the file system that holds `path`; the usual one if it cannot be read. statvfs(3)
    package init(of path: String) { self.init(blockSize: linux_block_size(path), page: MemoryPage.size) }

    /// The unit of a file system that reports blocks of `blockSize` bytes. Network file systems report the size of a request
    /// there, and some file systems report less than they allocate.
    init(blockSize: Int64, page: Int64) {
        var bytes = Self.usual.bytes
        while bytes < min(blockSize, page) { bytes *= 2 }
        self.init(bytes: bytes)
    }

    /// The end of the unit that holds the byte before `offset`.
    package func roundedUp(_ offset: Int64) -> Int64 { (offset + bytes - 1) / bytes * bytes }

    /// The units that a range of bytes touches.
    package func touched(by range: ByteRange) -> Range<Int64> {
        guard !range.isEmpty else { return 0..<0 }
        return range.lowerBound / bytes..<((range.upperBound - 1) / bytes + 1)
    }

    /// The bytes of some units.
    package func range(of units: Range<Int64>) -> ByteRange {
        units.lowerBound * bytes..<units.upperBound * bytes
    }
}
