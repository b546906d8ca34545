import Basics
import CLinux
import Glibc

/// The regular files at or below a path, directory by directory. Symbolic links are not followed.
enum TreeWalk {
    /// Calls `found` with each file, and `failed` with each path that cannot be read and the reason.
    static func files(below top: ByteString, failed: (ByteString, String) -> Void, found: (ByteString) -> Void) {
        var status = stat()
        guard lstat(top.path, &status) == 0 else { return failed(top, String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFDIR else { return found(top) }
        var directories = [top]
        while let directory = directories.popLast() { list(directory, &directories, failed, found) }
    }

    /// The size of a file; 0 if it cannot be read.
    static func size(of file: ByteString) -> Int64 {
        var status = stat()
        return lstat(file.path, &status) == 0 ? Int64(status.st_size) : 0
    }

    private static func list(
        _ directory: ByteString, _ directories: inout [ByteString], _ failed: (ByteString, String) -> Void,
        _ found: (ByteString) -> Void
    ) {
        guard let stream = opendir(directory.path) else {
            return failed(directory, String(cString: strerror(errno)))
        }
        defer { closedir(stream) }
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { failed(directory, String(cString: strerror(errno))) }
                return
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { ByteString(bytes: $0) }
            }
            if name == "." || name == ".." { continue }
            switch Int(entry.pointee.d_type) {
            case Int(DT_DIR): directories.append(directory + "/" + name)
            // Only regular files: a symbolic link has no content of its own.
            case Int(DT_REG): found(directory + "/" + name)
            default: break
            }
        }
    }
}

extension ByteString {
    /// The path for system calls: it need not be UTF-8.
    var path: [CChar] { bytes.map(CChar.init(bitPattern:)) + [0] }

    fileprivate init(bytes pointer: UnsafePointer<CChar>) {
        self.init((0..<strlen(pointer)).map { UInt8(bitPattern: pointer[$0]) })
    }
}
