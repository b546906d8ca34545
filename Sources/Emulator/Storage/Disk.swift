import Basics
import Glibc

/// The file system as the storage uses it; every failure is a `StorageError.system`.
enum Disk {
    /// Writes a new file whole; with `sync` it is on the disk when this returns.
    static func write(_ bytes: [UInt8], to path: String, sync: Bool) throws(StorageError) {
        try calling { () throws(FileError) in
            let file = try File(path, .readWrite, create: .exclusive)
            try file.write(bytes, at: 0)
            if sync { try file.sync() }
        }
    }

    static func read(_ path: String) throws(StorageError) -> [UInt8] {
        try calling { () throws(FileError) in try File(path).read(0..<Int64.max) }
    }

    static func rename(_ path: String, to target: String) throws(StorageError) {
        try calling { () throws(FileError) in try File.rename(path, to: target) }
    }

    static func makeDirectory(_ path: String) throws(StorageError) {
        try calling { () throws(FileError) in try Directory.create(path) }
    }

    static func syncDirectory(_ path: String) throws(StorageError) {
        try calling { () throws(FileError) in try Directory.sync(path) }
    }

    /// The names in a directory, in no order.
    static func names(in path: String) throws(StorageError) -> [String] {
        try calling { () throws(FileError) in try Directory.names(in: path).map(\.description) }
    }

    static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

    /// Removes a file; one that stays nevertheless is swept when its bucket is opened the next time.
    static func unlink(_ path: String) { try? File.remove(path) }

    /// link(2); 0 or the errno when the file system refuses.
    static func link(_ source: String, to target: String) -> CInt {
        unsafe Glibc.link(source, target) == 0 ? 0 : errno
    }

    /// Removes a directory and everything in it, as far as that is possible.
    static func removeTree(_ path: String) {
        guard let names = try? Directory.names(in: path) else { return unlink(path) }
        for name in names { removeTree("\(path)/\(name)") }
        _ = unsafe rmdir(path)
    }

    static func calling<Result>(_ body: () throws(FileError) -> Result) throws(StorageError) -> Result {
        do { return try body() } catch { throw .system(error) }
    }
}

/// Exactly 16 hexadecimal digits.
func hexadecimal(_ number: UInt64) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}
