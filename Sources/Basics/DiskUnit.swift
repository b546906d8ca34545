import CLinux

/// The unit in which a file system takes space for a file and gives it back. A value without I/O.
///
/// 4 KiB on most disks, whatever the pages of memory are. A file system may take more where pages are larger, as on many
/// arm64 machines: tmpfs a page, ext4, XFS and Btrfs what they were made with, at most a page.
package struct DiskUnit: Sendable, Hashable {
    /// Of a file system that takes no less than 4 KiB.
    package static let usual = DiskUnit(bytes: 4096)

    /// A power of two.
    package let bytes: Int64

    /// Requires: `bytes` is a power of two.
    package init(bytes: Int64) {
        precondition(bytes > 0 && bytes & (bytes - 1) == 0, "a unit of disk space is a power of two")
        self.bytes = bytes
    }

    /// That of the file system that holds `path`; the usual one if that cannot be found out. statvfs(3)
    package init(of path: String) { self.init(blockSize: linux_block_size(path), page: MemoryPage.size) }

    /// That of a file system that says it has blocks of `blockSize` bytes. Network file systems mean the size of a request by
    /// that, and some say less than what they take.
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
