package import Basics
import Glibc
import Synchronization

/// The bytes of one object or part: runs of immutable files that nobody else names.
///
/// Its files are removed when the last reference ends, unless it was kept by then: so an upload that fails leaves
/// nothing, and a replaced object stays readable for those who are reading it. After a crash, files that no record
/// names are swept when the bucket is opened.
package final class Content: Sendable {
    package let segments: [ContentSegment]
    /// In bytes.
    package let size: Int64
    let directory: String
    private let isKept: Atomic<Bool>
    /// Digests of the bytes by name; the bytes never change, so what was computed once stays true. A leaf lock.
    private let digests = Mutex<[String: [UInt8]]>([:])

    init(_ segments: [ContentSegment], in directory: String, kept: Bool) {
        self.segments = segments
        self.directory = directory
        size = segments.reduce(0) { $0 + $1.length }
        isKept = Atomic(kept)
    }

    deinit {
        guard !isKept.load(ordering: .acquiring) else { return }
        for segment in segments { Disk.unlink("\(directory)/\(segment.file)") }
    }

    /// A record on disk names the files from now on.
    func keep() { isKept.store(true, ordering: .releasing) }

    /// No record names the files any more.
    func discard() { isKept.store(false, ordering: .releasing) }

    /// The digest known as `name`, computed at most once or twice for this content.
    package func digest(
        _ name: String, compute: () throws(StorageError) -> [UInt8]
    ) throws(StorageError) -> [UInt8] {
        if let known = digests.withLock({ $0[name] }) { return known }
        let digest = try compute()
        remember(digest, as: name)
        return digest
    }

    /// Keeps a digest that was computed while the bytes arrived.
    package func remember(_ digest: [UInt8], as name: String) { digests.withLock { $0[name] = digest } }

    /// The runs that hold `range`, which must lie within the content.
    package func segments(in range: ByteRange) -> [ContentSegment] {
        var start: Int64 = 0
        var found: [ContentSegment] = []
        for segment in segments {
            let covered = range.clamped(to: start..<(start + segment.length))
            if !covered.isEmpty {
                found.append(
                    ContentSegment(
                        file: segment.file, offset: segment.offset + covered.lowerBound - start,
                        length: covered.length))
            }
            start += segment.length
            if start >= range.upperBound { break }
        }
        return found
    }

    /// Opens the file of a segment for reading.
    package func open(_ segment: ContentSegment) throws(StorageError) -> File {
        try Disk.calling { () throws(FileError) in try File("\(directory)/\(segment.file)") }
    }

    /// Hands out the bytes of `range` in order, at most `pieceSize` at a time.
    package func forEachPiece<Failure: Error>(
        of range: ByteRange, pieceSize: Int = 1 << 20, _ body: ([UInt8]) throws(Failure) -> Void,
        onError convert: (StorageError) -> Failure
    ) throws(Failure) {
        for segment in segments(in: range) {
            let end = segment.offset + segment.length
            var offset = segment.offset
            while offset < end {
                let piece: [UInt8]
                do throws(StorageError) {
                    let wanted = offset..<min(end, offset + Int64(pieceSize))
                    let file = try open(segment)
                    piece = try Disk.calling { () throws(FileError) in try file.read(wanted) }
                    guard piece.count == wanted.count else { throw .damaged(path: file.path) }
                } catch { throw convert(error) }
                try body(piece)
                offset += Int64(piece.count)
            }
        }
    }
}

/// Writes one new content file; nothing is on disk until the first byte.
///
/// Owned by the one task that receives the bytes. A writer that goes away unfinished takes its file along.
package final class ContentWriter {
    private let directory: String
    private let sync: Bool
    private let name = RandomID.hex()
    private var file: File?
    private var isFinished = false
    /// In bytes.
    package private(set) var size: Int64 = 0

    init(directory: String, sync: Bool) { (self.directory, self.sync) = (directory, sync) }

    deinit {
        if size > 0, !isFinished { Disk.unlink("\(directory)/\(name)") }
    }

    package func write(_ bytes: RawSpan) throws(StorageError) {
        guard bytes.byteCount > 0 else { return }
        let offset = size
        size += Int64(bytes.byteCount)
        do throws(FileError) {
            if file == nil { file = try File("\(directory)/\(name)", .readWrite, create: .exclusive) }
            try file?.write(bytes, at: offset)
        } catch { throw .system(error) }
    }

    package func write(_ bytes: [UInt8]) throws(StorageError) {
        try bytes.withRawSpan { (bytes) throws(StorageError) in try write(bytes) }
    }

    /// The file as content that is removed again unless somebody keeps it.
    package func finish() throws(StorageError) -> Content {
        if sync, let file {
            try Disk.calling { () throws(FileError) in try file.sync() }
            try Disk.syncDirectory(directory)
        }
        file = nil
        isFinished = true
        let segments = size == 0 ? [] : [ContentSegment(file: name, offset: 0, length: size)]
        return Content(segments, in: directory, kept: false)
    }
}

extension Content {
    /// The same bytes under names of their own, for another object: hard links where the file system has them, so that
    /// a copy costs nothing.
    func duplicate(_ range: ByteRange, in target: String, sync: Bool) throws(StorageError) -> Content {
        var copies: [ContentSegment] = []
        for segment in segments(in: range) {
            let name = RandomID.hex()
            let error = Disk.link("\(directory)/\(segment.file)", to: "\(target)/\(name)")
            guard error == 0 else {
                // The partial copy removes itself as it goes.
                _ = Content(copies, in: target, kept: false)
                guard error == EMLINK || error == EXDEV || error == EPERM || error == EOPNOTSUPP else {
                    throw .system(FileError(errno: error, operation: "link", path: "\(directory)/\(segment.file)"))
                }
                return try copyBytes(of: range, in: target, sync: sync)
            }
            copies.append(ContentSegment(file: name, offset: segment.offset, length: segment.length))
        }
        if sync, !copies.isEmpty { try Disk.syncDirectory(target) }
        return Content(copies, in: target, kept: false)
    }

    private func copyBytes(of range: ByteRange, in target: String, sync: Bool) throws(StorageError) -> Content {
        let writer = ContentWriter(directory: target, sync: sync)
        try forEachPiece(of: range) { (piece) throws(StorageError) in
            try writer.write(piece)
        } onError: {
            $0
        }
        return try writer.finish()
    }
}
