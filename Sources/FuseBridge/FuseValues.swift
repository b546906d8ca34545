import Basics
import CFuse3
import CLinux
import FileSystem
import Metadata

// Conversions between the file system's types and libfuse's structs.

extension stat {
    init(_ status: FileStatus) {
        self.init()
        let type: UInt32 =
            switch status.kind {
            case .file: 0o100000
            case .directory: 0o040000
            case .symlink: 0o120000
            }
        st_ino = numericCast(status.ino.rawValue)
        st_mode = type | UInt32(status.mode & 0o7777)
        st_nlink = numericCast(status.links)
        (st_uid, st_gid) = (status.uid, status.gid)
        st_size = off_t(status.size)
        st_blocks = numericCast(max(0, status.size) / 512 + (status.size % 512 > 0 ? 1 : 0))
        st_blksize = numericCast(status.blockSize)
        st_atim = timespec(status.accessed)
        st_mtim = timespec(status.modified)
        st_ctim = timespec(status.changed)
    }
}

extension timespec {
    init(_ time: Timestamp) { self.init(tv_sec: numericCast(time.seconds), tv_nsec: numericCast(time.nanoseconds)) }
}

extension fuse_entry_param {
    init(_ reply: EntryReply) {
        self.init()
        entry_timeout = reply.entryTimeout.inSeconds
        attr_timeout = reply.attributeTimeout.inSeconds
        // An ino of 0 means "does not exist", and the kernel caches that for the entry timeout.
        guard let status = reply.status else { return }
        ino = status.ino.rawValue
        attr = stat(status)
    }
}

extension fuse_file_info {
    init(_ reply: OpenReply) {
        self.init()
        fh = reply.handle.rawValue
        keep_cache = reply.keepCache ? 1 : 0
        direct_io = reply.direct ? 1 : 0
    }
}

extension statvfs {
    /// Blocks of 4 KiB. A bucket has no limit of inodes: a large total is reported, less the inodes in use, if their number is
    /// known.
    init(_ figures: FileSystemStatistics) {
        self.init()
        f_bsize = 4096
        f_frsize = 4096
        f_blocks = numericCast(max(0, figures.capacity) / 4096)
        f_bfree = numericCast(max(0, figures.available) / 4096)
        f_bavail = f_bfree
        if figures.files > 0 {
            f_ffree = 1 << 32
            f_favail = f_ffree
            f_files = f_ffree + numericCast(figures.files)
        }
        f_namemax = numericCast(figures.longestName)
    }
}

extension OpenFlags {
    /// The flags of open(2) as the kernel passes them on.
    init(_ flags: Int32) {
        let access = flags & O_ACCMODE
        self.init(
            reads: access == O_RDONLY || access == O_RDWR, writes: access == O_WRONLY || access == O_RDWR,
            truncate: flags & O_TRUNC != 0, exclusive: flags & O_EXCL != 0,
            direct: flags & linux_o_direct != 0)
        dropsPrivileges = HeldConnection.dropsPrivileges
    }
}

extension Caller {
    init(_ request: fuse_req_t) {
        guard let context = fuse_req_ctx(request) else { fatalError("libfuse passed a request without a caller") }
        self.init(
            uid: context.pointee.uid, gid: context.pointee.gid,
            umask: UInt16(truncatingIfNeeded: context.pointee.umask))
    }
}

extension AttributeChange {
    /// setattr's `to_set` bits (FUSE_SET_ATTR_*); "now" is taken from `time`.
    init(_ attributes: stat, set bits: Int32, time: any TimeSource) {
        self.init()
        // A chown(2) that names neither owner nor group sets nothing else.
        dropsPrivileges = HeldConnection.dropsPrivileges || bits == 0
        if bits & FUSE_SET_ATTR_MODE != 0 { mode = UInt16(truncatingIfNeeded: attributes.st_mode & 0o7777) }
        if bits & FUSE_SET_ATTR_UID != 0 { uid = attributes.st_uid }
        if bits & FUSE_SET_ATTR_GID != 0 { gid = attributes.st_gid }
        if bits & FUSE_SET_ATTR_SIZE != 0 { size = Int64(attributes.st_size) }
        if bits & FUSE_SET_ATTR_ATIME_NOW != 0 {
            accessed = time.now()
        } else if bits & FUSE_SET_ATTR_ATIME != 0 {
            accessed = Timestamp(attributes.st_atim)
        }
        if bits & FUSE_SET_ATTR_MTIME_NOW != 0 {
            modified = time.now()
        } else if bits & FUSE_SET_ATTR_MTIME != 0 {
            modified = Timestamp(attributes.st_mtim)
        }
    }
}

extension ByteString {
    init(_ name: UnsafePointer<CChar>?) {
        guard let name else { fatalError("libfuse passed no name") }
        self.init(UnsafeRawBufferPointer(start: name, count: strlen(name)))
    }
}

extension Duration {
    /// Fractional seconds, as libfuse takes its timeouts.
    var inSeconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}
