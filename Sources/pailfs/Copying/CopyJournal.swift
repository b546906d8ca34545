import Basics
import Digests
import Journaling
import Synchronization

/// The journal of one `pailfs cp`, from which the same command goes on after a crash.
///
/// A file of lines in `copies` of the cache directory; its name is a digest of the command's sources and destination. The command
/// locks it (flock(2)) and appends: an upload when it is begun, each range of a download when its bytes are written, each item
/// when it is copied. A command that has copied everything
/// removes the file.
///
/// Locks: `state` is a leaf; lines are written outside it, each at an offset of its own.
/// After a crash: the lines say what the store and the disk have; a line that was not written whole is left out. A lost file
/// costs a copy from the beginning, and leaves an upload that "pailfs uploads list" shows. After a power cut, uploads are
/// resumed, and downloads begin anew. Files that no command has used for 30 days are removed.
final class CopyJournal: Sendable {
    private struct State {
        /// Where the next line begins.
        var end: Int64
        /// Of the process before and of this one.
        var records: CopyRecords
    }

    private static let lifetime = Duration.seconds(30 * 24 * 60 * 60)

    private let file: File
    private let state: Mutex<State>
    /// The items that an earlier process has copied.
    let doneBefore: [ByteString: CopyRecords.Done]

    /// Opens or makes the journal of the command that `identity` names; nil when another process has it.
    init?(in directory: String, identity: [String], boot: String = Journal.currentBoot) throws(FileError) {
        try Directory.create(directory)
        Self.removeOld(in: directory, now: SystemTime().now())
        let name = Hex.encode(SHA256.of(identity.map { PercentEncoding.encode($0) }.joined(separator: " ")))
        file = try File("\(directory)/\(name)", .readWrite, create: .ifMissing)
        guard try file.tryLock() else { return nil }
        let bytes = try file.read(0..<(try file.size))
        var records = CopyRecords(bytes, boot: boot)
        doneBefore = records.done
        var lines = CopyRecord.process(boot: boot).line
        if bytes.last ?? UInt8(ascii: "\n") != UInt8(ascii: "\n") { lines.insert(UInt8(ascii: "\n"), at: 0) }
        try file.write(lines, at: Int64(bytes.count))
        records.startProcess()
        state = Mutex(State(end: Int64(bytes.count + lines.count), records: records))
    }

    func upload(of item: ByteString) -> CopyRecords.Upload? { state.withLock { $0.records.uploads[item] } }
    func partial(of item: ByteString) -> CopyRecords.Partial? { state.withLock { $0.records.partials[item] } }

    /// Appends a line. If that fails, the copy goes on and cannot be resumed from here.
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

    /// Removes the journal if it has nothing to go on from. Of a run that `isComplete`, the copied items need not be known any more.
    func close(isComplete: Bool) {
        let isNeeded = state.withLock { !($0.records.hasNoTransfers && (isComplete || $0.records.done.isEmpty)) }
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
