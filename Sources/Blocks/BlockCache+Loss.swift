import Basics
import Glibc

/// Another program may remove the directory, or files in it, at any time.
///
/// Files that this process has open stay readable. The blocks of other removed files count as never fetched, and the space
/// that they were charged for is free again.
extension BlockCache {
    /// Runs `act`, which needs the directory. Creates the directory and runs it again if the directory is missing.
    func inDirectory<Value>(_ act: () throws(FileError) -> Value) throws(FileError) -> Value {
        do throws(FileError) { return try act() } catch {
            guard error.errno == ENOENT else { throw error }
            try Directory.create(directory)
            return try act()
        }
    }

    /// Finds the files that are missing, and creates the directory again. Reads the index; for a thread that may wait.
    package func findLost() {
        try? Directory.create(directory)
        flush()
        let names = Set((try? Directory.names(in: directory)) ?? [])
        var last: BlockIndex.Candidate?
        while let rows = try? index.oldest(after: last, limit: 256), !rows.isEmpty {
            for row in rows where !names.contains(ByteString(String(row.file, radix: 16))) {
                let object = instance(row.key, row.version)
                object.load()
                _ = object.openedFile()
            }
            last = rows.last
        }
        flush()
    }
}
