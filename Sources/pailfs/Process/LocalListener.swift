import Basics
import CLinux
import Glibc

/// A local socket at a path of the command line, which this user and root can connect to. A killed process leaves its socket, and
/// the next one at the same path replaces it.
enum LocalListener {
    /// The descriptor of a new socket at an absolute path, with a queue of `backlog` connections.
    static func listen(at path: String, backlog: Int32) throws(CommandError) -> Int32 {
        let (directory, name) = parts(of: path)
        var there = stat()
        if lstat(path, &there) == 0 {
            guard there.st_mode & S_IFMT == S_IFSOCK else {
                throw CommandError("\(path) exists and is not a socket; name a path for a new one")
            }
            let other = linux_local_connect(directory, name)
            if other >= 0 {
                close(other)
                throw CommandError("another process waits at \(path); name another socket")
            }
            try? File.remove(path)
        }
        let socket = linux_local_listen(directory, name, backlog)
        guard socket >= 0 else { throw cannotListen(path, -socket) }
        return socket
    }

    /// The descriptor of a connection to the socket at an absolute path, or -errno.
    static func connect(to path: String) -> Int32 {
        let (directory, name) = parts(of: path)
        return linux_local_connect(directory, name)
    }

    /// The process at the other end of a connected socket, 0 where its number is not visible here; nil for one of another user than
    /// this one and root.
    static func peer(of socket: Int32) -> Int32? {
        var (user, process) = (UInt32.max, Int32(0))
        guard linux_local_peer(socket, &user, &process) == 0, user == geteuid() || user == 0 else { return nil }
        return process
    }

    static func cannotListen(_ path: String, _ reason: Int32) -> CommandError {
        CommandError("pailfs cannot listen at \(path): \(String(cString: strerror(reason))); name another socket")
    }

    private static func parts(of path: String) -> (directory: String, name: String) {
        let slash = path.lastIndex(of: "/") ?? path.startIndex
        return (slash == path.startIndex ? "/" : String(path[..<slash]), String(path[path.index(after: slash)...]))
    }
}
