import Basics
import FileSystem
import Glibc
import Metadata
import ObjectStorage
import Synchronization

/// Downloads one version of an object into a local file: whole, or in ranges, several at a time.
///
/// The bytes arrive in a file beside the destination, which is flushed and gets the destination's name at the end: under that name
/// there is the file from before or all of the new one. With a journal the file of a download that was cut off stays, and the next
/// run fetches what it lacks, of the same version. After any other failure the file is removed.
struct ObjectDownload: Sendable {
    let store: any ObjectStore
    let key: ObjectKey
    let version: ObjectVersion
    /// The path of the destination.
    let path: String
    /// The answer to a HEAD, if there was one already.
    var info: ObjectInfo?
    /// Fails where the destination exists.
    var isExclusive = false
    /// The permissions of new files that have none stored; those of the umask are taken away from every file's.
    var umask: UInt16 = 0o022
    var journal: CopyJournal?
    /// Names the copy in the journal.
    var item: ByteString = ""
    var width = CopyPlan.transfersPerFile
    /// Called with the bytes that need not be fetched again.
    var skipped: @Sendable (Int64) -> Void = { _ in }

    private struct Partial {
        let file: File
        let missing: [ByteRange]
    }

    /// Returns the status of the finished file.
    func run() async throws(ObjectStoreError) -> LocalFileStatus {
        let partial: Partial
        do throws(FileError) { partial = try begin() } catch { throw ObjectStoreError(error, .get) }
        do throws(ObjectStoreError) {
            let info = try await fetch(partial)
            try info.requireNoLink(key)
            do throws(FileError) { return try finish(partial.file, info) } catch {
                if isExclusive, error.errno == EEXIST { throw ObjectStoreError(existing: ByteString(path)) }
                throw ObjectStoreError(error, .get)
            }
        } catch {
            if journal == nil || !error.leavesWorkToResume {
                try? File.remove(partial.file.path)
                journal?.add(.ended(item: item))
            }
            throw error.markedIfLocal
        }
    }

    // MARK: The file beside the destination

    private var source: String { "\(version.size):\(version.etag.text)" }

    private func begin() throws(FileError) -> Partial {
        let directory = Directory.parent(of: path)
        if let known = journal?.partial(of: item) {
            let path = "\(directory)/\(known.file)"
            if known.source == source, let file = try? File(path, .readWrite), (try? file.size) == version.size {
                return Partial(file: file, missing: CopyPlan.missingRanges(size: version.size, known: known.ranges))
            }
            try File.remove(path)
        }
        let name = ".pailfs-\(RandomID.hex(bytes: 8)).part"
        // First the line, so that the next run knows of the file.
        journal?.add(.partial(item: item, file: name, source: source))
        let file = try File("\(directory)/\(name)", .readWrite, create: .exclusive)
        let missing = CopyPlan.missingRanges(size: version.size, known: [])
        do throws(FileError) { if missing.count > 1 { try file.truncate(to: version.size) } } catch {
            try? File.remove(file.path)
            throw error
        }
        return Partial(file: file, missing: missing)
    }

    private func finish(_ file: File, _ info: ObjectInfo) throws(FileError) -> LocalFileStatus {
        var attributes = Attributes(kind: .file, mtime: info.version.modified)
        AttributeCodec.decode(info.metadata, into: &attributes)
        let earlier = try LocalFileStatus(of: path)
        let stored = (attributes.mode ?? 0o666) & ~umask
        // Other bytes do not get the right to run as their owner (write(2)).
        try Directory.setPermissions((earlier?.permissions ?? stored) & 0o777, of: file.path)
        try file.setTimes(modified: attributes.mtime)
        try file.sync()
        if isExclusive {
            try Self.renameToNew(file.path, path)
        } else {
            try File.rename(file.path, to: path)
        }
        journal?.add(.ended(item: item))
        return try LocalFileStatus(of: file)
    }

    /// Renames a file and fails where the new name exists. link(2)
    private static func renameToNew(_ path: String, _ newPath: String) throws(FileError) {
        if link(path, newPath) == 0 { return try File.remove(path) }
        guard [EPERM, EOPNOTSUPP, ENOSYS].contains(errno) else {
            throw FileError(errno: errno, operation: "create", path: newPath)
        }
        try renameWithoutLink(path, newPath)
    }

    /// The same where the file system has no hard links, such as vfat: an empty file takes the new name, and is replaced.
    /// After a crash between the two, the empty file stays.
    static func renameWithoutLink(_ path: String, _ newPath: String) throws(FileError) {
        _ = try File(newPath, .readWrite, create: .exclusive)
        try File.rename(path, to: newPath)
    }

    // MARK: The bytes

    private func fetch(_ partial: Partial) async throws(ObjectStoreError) -> ObjectInfo {
        if version.size <= CopyPlan.rangeLength {
            // The store checks the bytes of a whole object.
            let request = GetRequest(key, condition: .ifMatch(version.etag))
            let answer = try await store.get(request, into: FileSink(partial.file, 0..<version.size))
            try require(answer.range, is: 0..<version.size)
            return answer.info
        }
        let info: ObjectInfo
        if let known = self.info {
            info = known
        } else {
            info = try await store.head(key, condition: .ifMatch(version.etag))
        }
        let missing = partial.missing.reduce(0) { $0 + $1.length }
        skipped(version.size - missing)
        _ = try await concurrently(partial.missing, width: width) {
            (range) throws(ObjectStoreError) in
            let request = GetRequest(key, range: range, condition: .ifMatch(version.etag))
            let answer = try await store.get(request, into: FileSink(partial.file, range))
            try require(answer.range, is: range)
            journal?.add(.range(item: item, range))
        }
        try await verify(partial.file, info)
        return info
    }

    private func require(_ range: ByteRange, is wanted: ByteRange) throws(ObjectStoreError) {
        guard range == wanted else {
            throw ObjectStoreError(
                .integrity, .get, key: key, code: "OtherLength",
                message: "the store sent bytes \(range) of an object of \(version.size) bytes")
        }
    }

    /// Compares the file with the checksums of the store, where it has any.
    private func verify(_ file: File, _ info: ObjectInfo) async throws(ObjectStoreError) {
        let parts = try await store.checksums(of: key, info)
        guard case .differs(let reason) = FileSums.compare(file, with: parts) else { return }
        var failure = ObjectStoreError(
            ofFile:
                "the bytes that arrived of \(SafeText.of(key.description)) are not those of the object: \(reason); copy it again",
            errno: EIO, .get)
        failure.key = key
        throw failure
    }
}

/// Writes the bytes of a range into a file, at their place. Used by one request at a time.
final class FileSink: ByteSink {
    private let file: File
    private let range: ByteRange
    private let received = Atomic<Int64>(0)

    init(_ file: File, _ range: ByteRange) { (self.file, self.range) = (file, range) }

    func receive(_ bytes: RawSpan) throws(ByteTransferError) {
        let offset = received.load(ordering: .relaxed)
        guard offset + Int64(bytes.byteCount) <= range.length else {
            throw ByteTransferError(errno: EIO, reason: "the store sent more bytes than the object has")
        }
        do throws(FileError) { try file.write(bytes, at: range.lowerBound + offset) } catch {
            throw ByteTransferError(error)
        }
        received.store(offset + Int64(bytes.byteCount), ordering: .relaxed)
    }

    func restart() { received.store(0, ordering: .relaxed) }
}
