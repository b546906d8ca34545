/// Settings of the block cache.
package struct BlockOptions: Sendable {
    /// Bytes that may be under way ahead of one sequential reader.
    package var readAhead: Int64 = 128 << 20
    /// Whether blocks are kept on disk; otherwise in a quarter of the memory budget.
    package var usesDisk = true
    /// The shortest time between two writes of index rows. After a longer pause a row is written at once.
    package var flushInterval = Duration.milliseconds(100)
    /// How long the disk is not used after a failure.
    package var diskRetryInterval = Duration.seconds(30)

    /// Whether received bytes are compared with the store's checksums.
    package var verifies = true

    package init() {}
}

/// What the block cache holds and has done since it opened.
package struct BlockStatistics: Sendable, Hashable {
    /// Bytes of disk the blocks take, as counted against the quota.
    package var storedBytes: Int64 = 0
    /// Bytes of memory that stand in for a disk that is off, full or failing.
    package var shelvedBytes: Int = 0
    package var fetches: Int = 0
    package var fetchedBytes: Int64 = 0
    /// Fetches that were sent a second time, as their first byte was late.
    package var hedges: Int = 0
    package var evictedBytes: Int64 = 0
    /// Blocks whose bytes on disk did not match their checksum.
    package var corruptBlocks: Int = 0
    /// Versions whose bytes did not match their checksum.
    package var damagedVersions: Int = 0
    package var isDiskFailing = false
}
