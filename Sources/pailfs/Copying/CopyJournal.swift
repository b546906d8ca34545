import Basics
import Digests
import Glibc
import Journaling
import ObjectStorage
import Synchronization

/// The journal of one `pailfs cp`, with which the same command resumes the copy after a crash.
///
/// A file of lines in `copies` of the cache directory; its name is a digest of the command's sources, destination and options. The
/// command locks it (flock(2)) and appends: an upload when it is begun, each range of a download when its bytes are written, each
/// item when it is copied. A command that has copied everything removes the file.
///
/// Locks: `state` is a leaf; lines are written outside it, each at an offset of its own.
/// After a crash: the lines say what the store and the disk have; a line that was not written whole is left out. A lost file
/// costs a copy from the beginning, and leaves an upload that "pailfs uploads list" shows. After a power cut, uploads are
/// resumed, and downloads start again. A file that no command has used for 30 days is removed by the next one.
final class CopyJournal: Sendable {
    private struct State {
        /// The offset of the next line.
        var end: Int64
        /// The uploads and downloads that are not finished, of earlier processes and of this one.
        var records: CopyRecords
    }

    private static let lifetime = Duration.seconds(30 * 24 * 60 * 60)
    /// Lines in a file that is not worth a rewrite.
    private static let fewLines = 1000
    private static let pieceLength = 1 << 20

    private let file: File
    private let state: Mutex<State>
    /// The items that earlier processes have copied.
    let doneBefore: [ByteString: CopyRecords.Done]

    /// Opens or makes the journal of the command that `identity` names; nil when another process has it.
    init?(in directory: String, identity: [String], boot: String = Journal.currentBoot) throws(FileError) {
        try Directory.create(directory)
        Self.removeOld(in: directory, now: SystemTime().now())
        let name = Hex.encode(SHA256.of(identity.map { PercentEncoding.encode($0) }.joined(separator: " ")))
        guard var file = try Self.open("\(directory)/\(name)") else { return nil }
        var (records, end) = try Self.read(file, boot: boot)
        if records.lines > Self.fewLines, records.lines > 2 * records.liveCount {
            (file, end) = try Self.rewrite(file, with: records, boot: boot)
        }
        let lines = CopyRecord.process(boot: boot).line
        try file.write(lines, at: end)
        (self.file, doneBefore) = (file, records.done)
        records.startProcess()
        state = Mutex(State(end: end + Int64(lines.count), records: records))
    }

    /// The locked file; nil when another process has it. A process that ends removes its file, and a rewrite replaces it: a lock
    /// on such a file keeps no other process out.
    static func open(
        _ path: String,
        opening: (String) throws(FileError) -> File = { (path) throws(FileError) in
            try File(path, .readWrite, create: .ifMissing)
        }
    ) throws(FileError) -> File? {
        while true {
            let file = try opening(path)
            guard try file.tryLock() else { return nil }
            if try LocalFileStatus(of: path)?.identity == LocalFileStatus(of: file).identity { return file }
        }
    }

    /// The records of the file and the end of its lines.
    private static func read(_ file: File, boot: String) throws(FileError) -> (CopyRecords, end: Int64) {
        var records = CopyRecords()
        var (rest, offset): ([UInt8], Int64) = ([], 0)
        while true {
            let piece = try file.read(atMost: pieceLength, at: offset)
            offset += Int64(piece.count)
            rest += piece
            let whole = rest.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
            records.add(lines: rest[..<whole], boot: boot)
            rest.removeFirst(whole)
            if piece.count < pieceLength { break }
        }
        guard !rest.isEmpty else { return (records, offset) }
        // The line that was cut off gets an end.
        try file.write([UInt8(ascii: "\n")], at: offset)
        return (records, offset + 1)
    }

    /// A locked file with the lines that matter, in the place of `old`. After a crash here the old file is there, or the new one.
    private static func rewrite(
        _ old: File, with records: CopyRecords, boot: String
    ) throws(FileError) -> (File, end: Int64) {
        let path = old.path + ".new"
        let file = try File(path, .readWrite, create: .truncating)
        guard try file.tryLock() else { throw FileError(errno: EBUSY, operation: "lock", path: path) }
        var (lines, end) = (CopyRecord.process(boot: boot).line, Int64(0))
        for record in records.liveLines {
            lines += record.line
            guard lines.count >= pieceLength else { continue }
            try file.write(lines, at: end)
            (lines, end) = ([], end + Int64(lines.count))
        }
        try file.write(lines, at: end)
        try file.syncData()
        try File.rename(path, to: old.path)
        return (file, end + Int64(lines.count))
    }

    func upload(of item: ByteString) -> CopyRecords.Upload? { state.withLock { $0.records.uploads[item] } }
    func partial(of item: ByteString) -> CopyRecords.Partial? { state.withLock { $0.records.partials[item] } }

    /// Appends a line. If that fails, the copy continues and cannot be resumed from here.
    func add(_ record: CopyRecord) {
        let line = record.line
        let offset = state.withLock { state in
            state.records.add(record)
            defer { state.end += Int64(line.count) }
            return state.end
        }
        try? file.write(line, at: offset)
        // The ID of an upload is nowhere else.
        if case .upload = record { try? file.syncData() }
    }

    /// Aborts the item's upload, if it has one.
    func abortUpload(of item: ByteString, in store: any ObjectStore) async {
        guard let known = upload(of: item) else { return }
        // Where this fails, "pailfs uploads list" shows the upload.
        try? await store.abortUpload(ObjectKey(item), UploadID(known.id))
        add(.ended(item: item))
    }

    /// Ends what a run that has copied everything has left: uploads and downloads of items that the sources do not have any more.
    /// `store` is that of the destination; nil where it is local.
    func endTransfers(in store: (any ObjectStore)?) async {
        let left = state.withLock { $0.records }
        if let store { for item in left.uploads.keys { await abortUpload(of: item, in: store) } }
        for (item, partial) in left.partials {
            try? File.remove("\(Directory.parent(of: item.description))/\(partial.file)")
            add(.ended(item: item))
        }
    }

    /// Removes the journal if it has nothing to resume. Of a run that `isComplete`, the copied items need not be known any more.
    func close(isComplete: Bool) {
        let isNeeded = state.withLock { state in
            !state.records.hasNoTransfers || !isComplete && (state.records.hasDone || !doneBefore.isEmpty)
        }
        if !isNeeded { try? File.remove(file.path) }
    }

    private static func removeOld(in directory: String, now: Timestamp) {
        for name in (try? Directory.names(in: directory)) ?? [] {
            let path = "\(directory)/\(name)"
            guard let status = try? LocalFileStatus(of: path), status.kind == .file,
                now - status.modified > lifetime, let old = try? File(path, .readWrite), (try? old.tryLock()) == true
            else { continue }
            try? File.remove(path)
        }
    }
}
