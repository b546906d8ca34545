import CLinux
import Glibc
import SystemPackage

extension File {
    /// Replaces the content of `path` whole or not at all, also across a power cut: a temporary file beside it is written,
    /// flushed and renamed, and the directory flushed.
    package static func writeAtomically(
        _ bytes: [UInt8], to path: String, permissions: UInt16 = 0o600
    ) throws(FileError) {
        let temporary = "\(path).\(RandomID.hex(bytes: 8)).tmp"
        do {
            let file = try File(temporary, .readWrite, create: .exclusive, permissions: permissions)
            try file.write(bytes, at: 0)
            try file.sync()
            try rename(temporary, to: path)
        } catch {
            unlink(temporary)
            throw error
        }
        try Directory.sync(Directory.parent(of: path))
    }

    /// Replaces an existing file at the new path. rename(2)
    package static func rename(_ path: String, to newPath: String) throws(FileError) {
        if Glibc.rename(path, newPath) != 0 {
            throw FileError(errno: errno, operation: "rename", path: "\(path) to \(newPath)")
        }
    }

    /// Removes a file; a missing one is no error. unlink(2)
    package static func remove(_ path: String) throws(FileError) {
        if unlink(path) != 0, errno != ENOENT { throw FileError(errno: errno, operation: "remove", path: path) }
    }

    /// The absolute form of `path`, without links, dots and doubled slashes; nil, with the reason in errno, when no file is
    /// there. realpath(3)
    package static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}

/// Calls on directories.
package enum Directory {
    /// The directory where relative paths begin; nil when it was removed. getcwd(3)
    package static var working: String? {
        guard let path = getcwd(nil, 0) else { return nil }
        defer { free(path) }
        return String(cString: path)
    }

    /// Whether the directory has no entries but `.` and `..`. readdir(3)
    package static func isEmpty(_ path: String) throws(FileError) -> Bool {
        guard let stream = opendir(path) else { throw FileError(errno: errno, operation: "open", path: path) }
        defer { closedir(stream) }
        for _ in 0..<3 { if readdir(stream) == nil { return true } }
        return false
    }

    /// Removes a directory with all of its content, or a file. A missing one is no error; files that cannot be removed stay.
    package static func removeTree(_ path: String) {
        if unlink(path) == 0 || errno == ENOENT { return }
        for name in (try? names(in: path)) ?? [] { removeTree("\(path)/\(name)") }
        rmdir(path)
    }

    /// Creates `path` and the missing directories above it; an existing one stays as it is. With `lasting` the new
    /// directories survive a power cut. mkdir(2)
    package static func create(_ path: String, permissions: UInt16 = 0o700, lasting: Bool = false) throws(FileError) {
        var made = mkdir(path, mode_t(permissions)) == 0
        var reason = errno
        if !made, reason == ENOENT, parent(of: path) != path {
            try create(parent(of: path), permissions: permissions, lasting: lasting)
            made = mkdir(path, mode_t(permissions)) == 0
            reason = errno
        }
        if made {
            guard lasting else { return }
            do { try sync(parent(of: path)) } catch {
                // A directory that this user may write but not read cannot be flushed.
                guard error.errno == EACCES else { throw error }
            }
            return
        }
        var status = stat()
        if reason == EEXIST, stat(path, &status) == 0, status.st_mode & Glibc.S_IFMT == Glibc.S_IFDIR { return }
        throw FileError(errno: reason, operation: "create the directory", path: path)
    }

    /// Sets the permissions of a file or directory. chmod(2)
    package static func setPermissions(_ permissions: UInt16, of path: String) throws(FileError) {
        if chmod(path, mode_t(permissions)) != 0 {
            throw FileError(errno: errno, operation: "set the permissions of", path: path)
        }
    }

    /// The names in a directory, without `.` and `..`, in no order. readdir(3)
    package static func names(in path: String) throws(FileError) -> [ByteString] {
        guard let stream = opendir(path) else {
            throw FileError(errno: errno, operation: "list the directory", path: path)
        }
        defer { closedir(stream) }
        var names: [ByteString] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { throw FileError(errno: errno, operation: "list the directory", path: path) }
                return names
            }
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { ByteString($0.prefix { $0 != 0 }) }
            if name != ".", name != ".." { names.append(name) }
        }
    }

    /// Makes renames, creations and removals in the directory survive a power cut. fsync(2)
    package static func sync(_ path: String) throws(FileError) {
        let descriptor: FileDescriptor
        do {
            descriptor = try FileDescriptor.open(
                FilePath(path), .readOnly, options: [.closeOnExec, .directory])
        } catch {
            throw FileError(errno: (error as? Errno)?.rawValue ?? EIO, operation: "open the directory", path: path)
        }
        defer { try? descriptor.close() }
        if fsync(descriptor.rawValue) != 0 {
            throw FileError(errno: errno, operation: "flush the directory", path: path)
        }
    }

    /// Whether the inode number of the file at `path` stays the same when it is mounted again: on ext2 to ext4, XFS, Btrfs,
    /// F2FS, ZFS, bcachefs and tmpfs (statfs(2)). On others, overlayfs among them, it may change.
    package static func keepsInodeNumbers(at path: String) -> Bool {
        let known: Set<Int64> = [
            0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e, 0x0102_1994,
        ]
        return known.contains(linux_file_system(path))
    }

    /// Free bytes of the file system that holds `path`, for users without privileges, and all its bytes. statvfs(3)
    package static func space(at path: String) throws(FileError) -> (free: Int64, total: Int64) {
        var (free, total): (Int64, Int64) = (0, 0)
        let status = linux_path_space(path, &free, &total)
        if status < 0 { throw FileError(errno: -status, operation: "read the free space of", path: path) }
        return (free, total)
    }

    /// The path before the last component.
    package static func parent(of path: String) -> String {
        var path = path[...]
        while path.count > 1, path.last == "/" { path = path.dropLast() }
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

/// Identifies a file, whatever its paths are.
package struct FileIdentity: Sendable, Hashable {
    package var device: UInt64
    package var inode: UInt64
}

/// The status of a path from lstat(2), which does not follow a symbolic link, or of an open file from fstat(2).
package struct LocalFileStatus: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case file, directory, symbolicLink, other
    }

    package var kind: Kind
    package var identity: FileIdentity
    /// The user that owns the file.
    package var owner: UInt32
    /// The lowest twelve bits of the mode.
    package var permissions: UInt16
    /// In bytes.
    package var size: Int64
    /// When it was last read, as far as the file system records it.
    package var accessed: Timestamp
    /// When its bytes last changed.
    package var modified: Timestamp
    /// When its bytes or its status last changed; no program can set it.
    package var changed: Timestamp

    /// nil when `path` does not exist.
    package init?(of path: String) throws(FileError) {
        var status = stat()
        if lstat(path, &status) != 0 {
            if errno == ENOENT { return nil }
            throw FileError(errno: errno, operation: "stat", path: path)
        }
        self.init(status)
    }

    /// The status of the open file, whatever its path names by now.
    package init(of file: File) throws(FileError) {
        var status = stat()
        if fstat(file.rawDescriptor, &status) != 0 {
            throw FileError(errno: errno, operation: "stat", path: file.path)
        }
        self.init(status)
    }

    private init(_ status: stat) {
        switch status.st_mode & Glibc.S_IFMT {
        case Glibc.S_IFREG: kind = .file
        case Glibc.S_IFDIR: kind = .directory
        case Glibc.S_IFLNK: kind = .symbolicLink
        default: kind = .other
        }
        identity = FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
        (owner, permissions, size) = (status.st_uid, UInt16(status.st_mode & 0o7777), Int64(status.st_size))
        (accessed, modified) = (Timestamp(status.st_atim), Timestamp(status.st_mtim))
        changed = Timestamp(status.st_ctim)
    }

    /// The user of this process. geteuid(2)
    package static var ourUser: UInt32 { geteuid() }

    /// Whether only `user` and root could have put it there.
    package func isTrusted(by user: UInt32 = ourUser) -> Bool { owner == user || owner == 0 }
}
