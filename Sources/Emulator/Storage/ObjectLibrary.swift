package import Basics
import Synchronization

/// Every bucket under one directory, which one process serves at a time.
///
/// The map of buckets is locked by its own mutex, a leaf; buckets lock themselves. Everything that touches the disk
/// blocks and belongs on a worker thread.
package final class ObjectLibrary: Sendable {
    private let directory: String
    private let sync: Bool
    private let buckets: Mutex<[String: Bucket]>
    /// Holds the lock on the directory as long as this lives.
    private let lock: File

    /// Opens or makes `directory` and loads its buckets. `sync` makes every write wait for the disk. `report` takes
    /// sentences about damaged records.
    package init(
        directory: String, sync: Bool = false, report: (String) -> Void = { _ in }
    ) throws(StorageError) {
        self.directory = directory
        self.sync = sync
        try Disk.makeDirectory(directory)
        let lock = try Disk.calling { () throws(FileError) in
            try File("\(directory)/.pailstore-lock", .readWrite, create: .ifMissing)
        }
        guard try Disk.calling({ () throws(FileError) in try lock.tryLock() }) else { throw .directoryInUse(directory) }
        self.lock = lock
        var found: [String: Bucket] = [:]
        for name in try Disk.names(in: directory) {
            let path = "\(directory)/\(name)"
            if name.hasPrefix(Self.removedPrefix) {
                Disk.removeTree(path)
            } else if Self.isBucketName(name), Bucket.isRecord(in: path) {
                found[name] = try Bucket.open(name, in: path, sync: sync, report: report)
            }
        }
        buckets = Mutex(found)
    }

    private static let removedPrefix = ".removed-"

    package func bucket(_ name: String) throws(StorageError) -> Bucket {
        guard let bucket = buckets.withLock({ $0[name] }) else { throw .noSuchBucket }
        return bucket
    }

    package func hasBucket(_ name: String) -> Bool { buckets.withLock { $0[name] != nil } }

    /// In byte order of their names.
    package var allBuckets: [Bucket] {
        buckets.withLock { Array($0.values) }.sorted { ByteString($0.name) < ByteString($1.name) }
    }

    /// Makes a bucket; its name must be one.
    package func createBucket(
        _ name: String, region: String, access: AccessControl = AccessControl(), now: Timestamp
    ) throws(StorageError) {
        precondition(Self.isBucketName(name), "a bucket name that was not checked")
        guard !hasBucket(name) else { throw .bucketExists }
        let record = BucketRecord(name: name, created: now, region: region, access: access)
        let bucket = try Bucket.create(record, in: "\(directory)/\(name)", sync: sync)
        let isNew = buckets.withLock { buckets in
            guard buckets[name] == nil else { return false }
            buckets[name] = bucket
            return true
        }
        if !isNew { throw .bucketExists }
    }

    /// Removes an empty bucket with its unfinished uploads.
    package func deleteBucket(_ name: String) throws(StorageError) {
        let bucket = try bucket(name)
        try bucket.close()
        let removed = "\(directory)/\(Self.removedPrefix)\(RandomID.hex())"
        try Disk.rename("\(directory)/\(name)", to: removed)
        buckets.withLock { _ = $0.removeValue(forKey: name) }
        Disk.removeTree(removed)
    }

    /// 3 to 63 of lower-case letters, digits, dots and hyphens, with a letter or digit at both ends ("Bucket naming
    /// rules" of the S3 guide); what every dialect allows, and safe as a directory name.
    package static func isBucketName(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        func isAlphanumeric(_ byte: UInt8) -> Bool {
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard (3...63).contains(bytes.count), let first = bytes.first, let last = bytes.last, isAlphanumeric(first),
            isAlphanumeric(last), !name.contains("..")
        else { return false }
        let isAddress = name.split(separator: ".").count == 4 && name.allSatisfy { $0.isNumber || $0 == "." }
        return !isAddress
            && bytes.allSatisfy { isAlphanumeric($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") }
    }
}
