import Basics
import CLinux
import Glibc

/// Space that files take on the disk, as du(1) counts: holes are free.
enum DiskUsage {
    /// Bytes of a file, or of all files in a directory and below it; 0 if it does not exist.
    static func bytes(of path: String) -> Int64 {
        var status = stat()
        guard lstat(path, &status) == 0 else { return 0 }
        return status.st_mode & S_IFMT == S_IFDIR ? bytes(in: path) : Int64(status.st_blocks) * 512
    }

    /// Bytes of the entries of a directory whose names satisfy `isWanted`.
    static func bytes(in directory: String, where isWanted: (ByteString) -> Bool = { _ in true }) -> Int64 {
        let names = (try? Directory.names(in: directory)) ?? []
        return names.filter(isWanted).reduce(0) { $0 + bytes(of: "\(directory)/\($1)") }
    }
}
