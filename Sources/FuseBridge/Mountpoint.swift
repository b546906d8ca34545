import Basics
import CFuse3
import CLinux
import Glibc

/// The directory a bucket is mounted on: the checks before a mount, and the unmount.
///
/// A mount that another process has made and handed in (`HandedConnection`) has a name instead of a path.
package struct Mountpoint: Sendable, Hashable {
    /// Absolute, without symlinks, as the kernel's mount table has it; or the name of a mount that was handed in.
    package let path: String

    /// Whether another process made the mount. This process then cannot find it in the mount table, and does not unmount it.
    package var isHanded: Bool { HandedConnection.isName(path) }

    /// Finds the directory. A dead mount on it (its process is gone) is found too.
    package init(_ path: String) throws(FuseError) {
        guard !path.isEmpty else { throw FuseError("the mountpoint is an empty string; name a directory") }
        if let resolved = File.resolved(path) {
            self.path = resolved
            return
        }
        let reason = errno
        // realpath(3) cannot look into a dead mount, but its parent directory still resolves.
        let trimmed = path.reversed().drop { $0 == "/" }.reversed()
        let name = String(trimmed.reversed().prefix { $0 != "/" }.reversed())
        let parent = String(trimmed.dropLast(name.count))
        guard reason == ENOTCONN, let parent = File.resolved(parent.isEmpty ? "." : parent) else {
            throw Self.error(path, errno: reason)
        }
        self.path = parent == "/" ? "/\(name)" : "\(parent)/\(name)"
    }

    /// A mountpoint that was resolved before. Resolving it again would wait for the process that serves the mount.
    package init(resolved path: String) { self.path = path }

    /// A mount that was handed in, by its name.
    package init(handed name: String) { path = name }

    /// A mountpoint for a command on an existing mount: the error does not advise to make the directory.
    package init(existing path: String) throws(FuseError) {
        var status = stat()
        if !path.isEmpty, lstat(path, &status) != 0, errno == ENOENT || errno == ENOTDIR {
            throw FuseError("\(path) does not exist; \"pailfs status\" lists the mounts")
        }
        try self.init(path)
    }

    /// The entry of the mount table for the path; nil for a mount that was handed in.
    package var mounted: MountEntry? { isHanded ? nil : MountTable.current().entry(at: ByteString(path)) }

    /// Checks that a mount can be made here, and removes a dead one left by a process that died.
    package func prepare(allowOther: Bool) throws(FuseError) {
        if let there = mounted {
            guard there.type.hasPrefix("fuse"), isDead else { throw Self.taken(path, by: there) }
            try unmount(lazily: true)
        }
        var status = stat()
        guard stat(path, &status) == 0 else { throw Self.error(path, errno: errno) }
        guard status.st_mode & 0o170000 == 0o040000 else {
            throw FuseError("\(path) is not a directory; name a directory to mount on")
        }
        try Self.checkMachine(allowOther: allowOther)
        guard geteuid() == 0 || access(path, W_OK) == 0 else {
            throw FuseError("you may not write to \(path), which fusermount3 requires; use a directory of your own")
        }
    }

    static func taken(_ path: String, by there: MountEntry) -> FuseError {
        FuseError("\(path) is already a mountpoint (of \(there.source)); unmount it first or use another directory")
    }

    /// Detaches the mount here: umount2(2) as root, fusermount3(1) otherwise, which writes errors to standard error unless
    /// `quietly`.
    package func unmount(lazily: Bool, quietly: Bool = false) throws(FuseError) {
        if geteuid() == 0 {
            let status = linux_unmount(path, lazily ? 1 : 0)
            if status == 0 { return }
            if -status == EBUSY {
                throw FuseError("\(path) is in use; close the files and shells in it (fuser -m \(path) lists them)")
            }
            throw FuseError("\(path) cannot be unmounted: \(text(ofErrno: -status))")
        }
        let arguments = ["fusermount3", "-u"] + (lazily ? ["-z"] : []) + (quietly ? ["-q"] : []) + ["--", path]
        guard run(arguments) == 0 else {
            throw FuseError("fusermount3 -u \(path) failed; its message is above")
        }
    }

    /// Checks that this user can mount anything at all.
    package static func checkMachine(allowOther: Bool) throws(FuseError) {
        guard access("/dev/fuse", F_OK) == 0 else {
            throw FuseError(
                "/dev/fuse is missing; load the kernel module (modprobe fuse), or in a container \(MountPrivileges.remedy)"
            )
        }
        if geteuid() == 0 { return try MountPrivileges.check() }
        guard access("/dev/fuse", R_OK | W_OK) == 0 else {
            throw FuseError("you may not open /dev/fuse; ask root for access to it (chmod 666 /dev/fuse)")
        }
        let folders = environment("PATH").map { $0.split(separator: ":").map(String.init) } ?? []
        guard (folders + ["/bin", "/usr/bin"]).contains(where: { access($0 + "/fusermount3", X_OK) == 0 }) else {
            throw FuseError("fusermount3 is missing; install the package fuse3")
        }
        if allowOther, !allowsOther {
            throw FuseError(
                "allow_other needs the line user_allow_other in /etc/fuse.conf; add it as root or drop the option")
        }
    }

    private static var allowsOther: Bool {
        guard let text = readFile("/etc/fuse.conf") else { return false }
        return text.description.split(separator: "\n").contains { line in
            line.split(whereSeparator: \.isWhitespace).map(String.init) == ["user_allow_other"]
        }
    }

    /// Whether no process serves the mount. The kernel answers stat(2) on a dead mount from its cache, but never statvfs(3).
    package var isDead: Bool {
        if isHanded { return false }
        var space = statvfs()
        return statvfs(path, &space) != 0 && errno == ENOTCONN
    }

    private static func error(_ path: String, errno: Int32) -> FuseError {
        switch errno {
        case ENOENT: FuseError("the mountpoint \(path) does not exist; create it with mkdir")
        case ENOTDIR: FuseError("\(path) is not a directory; name a directory to mount on")
        case EACCES: FuseError("you may not reach the mountpoint \(path); check the permissions of its parents")
        default: FuseError("the mountpoint \(path) cannot be used: \(text(ofErrno: errno))")
        }
    }
}

func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

func text(ofErrno errno: Int32) -> String { String(cString: strerror(errno)) }

/// Runs a program found in PATH and waits for it; its exit status, or -1 if it could not be started or was killed.
private func run(_ arguments: [String]) -> Int32 {
    var process = pid_t()
    guard withCStrings(arguments, { linux_spawn(&process, $0) }) == 0 else { return -1 }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 {
        guard errno == EINTR else { return -1 }
    }
    return status & 0x7f == 0 ? (status >> 8) & 0xff : -1
}
