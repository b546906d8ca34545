import Basics
import Synchronization

/// Which bytes of a staging file are what, in a small file beside it, so that a process that goes on with the mount knows.
///
/// A row of records of equal size: each sets a range to a source, or the length. Writing on where the last record ends only
/// moves that record's end, so a forward writer's log stays one record long; a log that has grown beyond its map's worth is
/// written anew. Written by its `StagedFile` under its `disk` lock, after the bytes it speaks of are in their file and
/// before bytes are taken away from it; so a killed process leaves a log that never names bytes that are not there. Not
/// flushed: after a power cut nobody goes on with a mount. A log that cannot be written is removed, and its file is then
/// nothing that can be gone on with.
final class ExtentLog: Sendable {
    private struct Record: Hashable {
        enum Act: UInt64 {
            case staged, hole, base, length
        }

        var act: Act
        var range: ByteRange

        /// A power of two, so that no record lies in two pages.
        static let size = 32
        private static let mark: UInt64 = 0x7061_696c

        var bytes: [UInt8] {
            [Self.mark, act.rawValue, UInt64(range.lowerBound), UInt64(range.upperBound)].flatMap { word in
                (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * UInt64($0))) }
            }
        }

        init(_ act: Act, _ range: ByteRange) { (self.act, self.range) = (act, range) }

        init?(_ bytes: ArraySlice<UInt8>) {
            guard bytes.count == Self.size else { return nil }
            let words = (0..<4).map { word in
                (0..<8).reduce(UInt64(0)) { $0 | UInt64(bytes[bytes.startIndex + word * 8 + $1]) << (8 * UInt64($1)) }
            }
            guard words[0] == Self.mark, let act = Act(rawValue: words[1]), words[2] <= words[3],
                words[3] <= UInt64(Int64.max)
            else { return nil }
            self.init(act, Int64(words[2])..<Int64(words[3]))
        }
    }

    private struct State {
        var file: File?
        var last: Record?
        var count = 0
    }

    /// Records after which a log is looked at, and written anew if its map has much fewer pieces.
    private static let mostRecords = 4096

    private let path: String
    private let state = Mutex(State())

    /// Nothing is written before the first change.
    init(path: String) { self.path = path }

    /// The log of an earlier process, for its file to go on.
    static func map(at path: String, baseSize: Int64) -> ExtentMap? {
        guard let file = try? File(path), let size = try? file.size, let bytes = try? file.read(0..<size) else {
            return nil
        }
        var map = ExtentMap(baseSize: baseSize)
        for start in stride(from: 0, to: bytes.count, by: Record.size) {
            // Each record was written in one piece.
            guard start + Record.size <= bytes.count, let record = Record(bytes[start..<(start + Record.size)]) else {
                return nil
            }
            switch record.act {
            case .staged: map.set(record.range, to: .staged)
            case .hole: map.set(record.range, to: .hole)
            case .base: map.set(record.range, to: .base)
            case .length: map.truncate(to: record.range.upperBound)
            }
        }
        return map
    }

    /// `range` has another source now; `map` is the whole, with that.
    func set(_ range: ByteRange, to source: PieceSource, _ map: ExtentMap) {
        let act: Record.Act =
            switch source {
            case .staged: .staged
            case .hole: .hole
            case .base: .base
            }
        append(Record(act, range), map)
    }

    /// The file has another length now.
    func truncate(to size: Int64, _ map: ExtentMap) { append(Record(.length, 0..<size), map) }

    /// The map is another one altogether.
    func replace(by map: ExtentMap) {
        var records = [Record(.length, 0..<0)]
        for piece in map.pieces(in: 0..<map.size) {
            let act: Record.Act =
                switch piece.source {
                case .staged: .staged
                case .hole: .hole
                case .base: .base
                }
            records.append(Record(act, piece.range))
        }
        write { state throws(FileError) in
            let fresh = path + ".new"
            let file = try File(fresh, .readWrite, create: .truncating)
            try file.write(records.flatMap(\.bytes), at: 0)
            try File.rename(fresh, to: path)
            (state.file, state.last, state.count) = (file, nil, records.count)
        }
    }

    /// The staging file is gone, or is somebody else's.
    func remove() {
        state.withLock { $0.file = nil }
        try? File.remove(path)
    }

    private func append(_ record: Record, _ map: ExtentMap) {
        let isLong = state.withLock { $0.count >= Self.mostRecords && $0.count > 4 * map.count }
        if isLong { return replace(by: map) }
        write { state throws(FileError) in
            let file: File
            if let open = state.file { file = open } else { file = try File(path, .readWrite, create: .truncating) }
            state.file = file
            var record = record
            if let last = state.last, last.act == record.act, last.act != .length,
                last.range.upperBound == record.range.lowerBound
            {
                record.range = last.range.lowerBound..<record.range.upperBound
                state.count -= 1
            }
            try file.write(record.bytes, at: Int64(state.count * Record.size))
            (state.last, state.count) = (record, state.count + 1)
        }
    }

    private func write(_ body: (inout State) throws(FileError) -> Void) {
        let isWritten = state.withLock { state in
            do throws(FileError) { try body(&state) } catch { return false }
            return true
        }
        if !isWritten { remove() }
    }
}
