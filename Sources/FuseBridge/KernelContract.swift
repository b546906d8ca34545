import CFuse3

/// What is agreed with the kernel once, when it sends INIT.
enum KernelContract {
    /// Most bytes of one read or write.
    static let largestTransfer: UInt32 = 1 << 20
    /// Reads the kernel may have in flight on its own account: latency is hidden by bytes in flight, and with its default
    /// of 12 read-ahead stalls.
    static let mostBackground: UInt32 = 128

    static func negotiate(_ connection: inout fuse_conn_info) {
        connection.max_write = largestTransfer
        connection.max_readahead = largestTransfer
        connection.max_background = mostBackground
        connection.congestion_threshold = mostBackground / 4 * 3
        // Cached pages are invalidated by this process, not by the kernel whenever a size or mtime changes: a listing may be
        // older than this process's own state.
        cfuse_want(&connection, wanted)
        cfuse_refuse(&connection, refused)
    }

    private static let wanted = UInt64(
        FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO
            | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_DIO | FUSE_CAP_EXPLICIT_INVAL_DATA)
    private static let refused = UInt64(
        FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE
            | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS)
}
