import Basics
import Glibc

/// The log of which bytes of a staging file are staged, for recovery after a crash.
///
/// The file `N.map` beside the staging file `N`: records of 32 bytes, each a change of the map, in order. It exists only
/// while recovery could not derive the map without it (`isNeeded`): from a new file written without gaps, all of it staged,
/// or from a version that nothing was written to. A record follows its bytes, so the bytes that it names are there. If the
/// process is killed the last change may be missing, which was not acknowledged. The log is not flushed: after a power cut it
/// is of no use. Its space is reserved in the ledger first. Owned by its `StagedFile`, and used under that file's `disk`
/// lock.
struct ExtentLog {
    /// One change.
    enum Change {
        case set(ByteRange, PieceSource)
        case truncate(Int64)
    }

    static let suffix = ".map"
    private static let recordSize: Int64 = 32
    /// Bytes of disk allocated at a time, so that a record never lacks space after its bytes were written.
    private static let step: Int64 = 16 << 10
    /// Records after which a log with many more records than the map has pieces is rewritten.
    private static let mostIdle = 8192

    private let path: String
    private let ledger: SpaceLedger
    private let unit: DiskUnit
    /// The length of the version below the staging file, from the journal's row; 0 without a version.
    private let baseSize: Int64
    private let descriptors: OpenDescriptors
    private var file: LocalFile?
    private var records: Int64 = 0
    private var allocated: Int64 = 0
    /// Bytes of the ledger that this log has reserved.
    private(set) var charged: Int64 = 0

    /// The log of the staging file at `path`; no file is created yet.
    init(
        of path: String, baseSize: Int64, ledger: SpaceLedger, unit: DiskUnit = .usual,
        among descriptors: OpenDescriptors = OpenDescriptors()
    ) {
        (self.path, self.baseSize, self.ledger, self.unit) = (path + Self.suffix, baseSize, ledger, unit)
        self.descriptors = descriptors
    }

    /// The log of an earlier process. It stays beside the staging file and takes its space until a new one replaces it.
    init(
        leftBy path: String, baseSize: Int64, ledger: SpaceLedger, unit: DiskUnit, among descriptors: OpenDescriptors
    ) {
        self.init(of: path, baseSize: baseSize, ledger: ledger, unit: unit, among: descriptors)
        charged = (try? File(self.path).allocated) ?? 0
        ledger.adopt(charged, as: .written)
    }

    /// Whether recovery without a log would derive another map: see `read`.
    private func isNeeded(for extents: ExtentMap) -> Bool {
        baseSize > 0
            ? extents != ExtentMap(baseSize: baseSize) : !extents.isEntirely(.staged, in: 0..<extents.size)
    }

    /// Makes sure that `add` will succeed, `more` times from `change` on. Call before any byte is changed. `before` returns
    /// the present map, which has `count` pieces. It is called only when needed, since a change of a shared map copies it.
    /// Throws: `.noSpace` when the ledger has no space for `use`.
    mutating func prepare(
        _ change: Change, records more: Int64, for use: SpaceLedger.Use, count: Int, before: () -> ExtentMap
    ) throws(StagingError) {
        if file == nil {
            let before = before()
            var after = before
            after.apply(change)
            guard isNeeded(for: before) || isNeeded(for: after) else { return }
            try start(with: before, for: use)
        } else if records > Self.mostIdle, records > Int64(count) * 8 {
            // If this fails, the present log is still good.
            try? start(with: before(), for: use)
        }
        try makeRoom(for: more, use)
    }

    /// Appends the change to the log.
    mutating func add(_ change: Change) throws(StagingError) {
        guard let file else { return }
        let record = Self.encode(change)
        try file.write(record, at: records * Self.recordSize)
        records += 1
    }

    /// Replaces the whole map.
    mutating func replace(with extents: ExtentMap) throws(StagingError) {
        if file == nil, !isNeeded(for: extents) { return }
        try start(with: extents, for: .committing)
    }

    /// Continues with the map of an earlier process's row. Replaces the log of that process, if there is space for a new one:
    /// recovery reads a log only for a file that still changes.
    mutating func goOn(with extents: ExtentMap) {
        if isNeeded(for: extents) { try? start(with: extents, for: .committing) } else { remove() }
    }

    /// Whether the log is at its path, or is not needed.
    var isInPlace: Bool { file?.isInPlace ?? true }

    /// If the file cannot be removed now, the next start removes it.
    mutating func remove() {
        try? File.remove(path)
        file = nil
        release(charged)
    }

    /// Leaves the log on disk; another owner counts its space.
    mutating func leave() {
        file = nil
        release(charged)
    }

    /// Writes a log of just this map, whole or not at all.
    private mutating func start(with extents: ExtentMap, for use: SpaceLedger.Use) throws(StagingError) {
        let changes = extents.pieces(in: 0..<extents.size).map { Change.set($0.range, $0.source) }
        let bytes = changes.flatMap(Self.encode)
        let temporary = path + LocalFile.unfinishedSuffix
        // Until the new log replaces the old one, both take space.
        let (old, new) = (charged, charge(Int64(bytes.count)))
        try reserve(new, use)
        do throws(FileError) {
            let fresh = try File(temporary, .readWrite, create: .truncating)
            try fresh.write(bytes, at: 0)
            try File.rename(temporary, to: path)
            file = LocalFile(fresh, at: path, among: descriptors)
        } catch {
            try? File.remove(temporary)
            release(new)
            throw StagingError(error)
        }
        release(old)
        // The rest of its last block belongs to the log as well.
        (records, allocated) = (Int64(changes.count), unit.roundedUp(Int64(bytes.count)))
    }

    private mutating func makeRoom(for more: Int64, _ use: SpaceLedger.Use) throws(StagingError) {
        let end = (records + more) * Self.recordSize
        guard let file, end > allocated else { return }
        let target = unit.roundedUp(allocated + ((end - allocated - 1) / Self.step + 1) * Self.step)
        let extra = max(0, charge(target) - charged)
        try reserve(extra, use)
        do throws(FileError) { try file.allocate(allocated..<target) } catch {
            // Not every file system allocates space ahead.
            guard error.errno == EOPNOTSUPP else {
                release(extra)
                throw StagingError(error)
            }
        }
        allocated = target
    }

    /// The most bytes of disk that a log of `length` bytes takes; its steps need not be contiguous.
    private func charge(_ length: Int64) -> Int64 {
        DiskBlocks.charge(
            blocks: unit.roundedUp(length) / unit.bytes, runs: Int(length / Self.step) + 1, of: unit)
    }

    private mutating func reserve(_ bytes: Int64, _ use: SpaceLedger.Use) throws(StagingError) {
        guard bytes == 0 || ledger.reserve(bytes, for: use, evicting: true) else { throw .noSpace }
        charged += bytes
    }

    private mutating func release(_ bytes: Int64) {
        charged -= bytes
        ledger.release(bytes, of: .written)
    }

    // MARK: After a crash

    /// The map of a staging file that a dead process left, over a version of `baseSize` bytes (0: without one); nil when it
    /// was not recorded.
    static func read(of path: String, baseSize: Int64) -> ExtentMap? {
        guard let file = try? File(path + suffix), let size = try? file.size,
            let bytes = try? file.read(0..<size)
        else {
            guard let staged = try? File(path), let length = try? staged.size else { return nil }
            // An empty file over a version: nothing was written.
            if baseSize > 0 { return length == 0 ? ExtentMap(baseSize: baseSize) : nil }
            var map = ExtentMap(baseSize: 0)
            map.set(0..<length, to: .staged)
            return map
        }
        var map = ExtentMap(baseSize: 0)
        var rest = bytes[...]
        while rest.count >= Int(recordSize), let change = decode(rest.prefix(Int(recordSize))) {
            map.apply(change)
            rest = rest.dropFirst(Int(recordSize))
        }
        return map
    }

    /// Kind, start, end, and a checksum of them: space allocated ahead is zeros, which are no record.
    private static func encode(_ change: Change) -> [UInt8] {
        let (kind, start, end): (UInt64, Int64, Int64) =
            switch change {
            case .set(let range, let source):
                (UInt64(source.rawValue) + 1, range.lowerBound, range.upperBound)
            case .truncate(let size): (truncation, 0, size)
            }
        let words = [kind, UInt64(bitPattern: start), UInt64(bitPattern: end)]
        return (words + [sum(words)]).flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) }
        }
    }

    private static func decode(_ bytes: ArraySlice<UInt8>) -> Change? {
        let all = Array(bytes)
        let words = (0..<4).map { word in
            (0..<8).reduce(UInt64(0)) { $0 | UInt64(all[word * 8 + $1]) << (8 * $1) }
        }
        let (start, end) = (Int64(bitPattern: words[1]), Int64(bitPattern: words[2]))
        guard words[3] == sum(Array(words[..<3])), start >= 0, end >= start else { return nil }
        if words[0] == truncation { return .truncate(end) }
        guard words[0] > 0, words[0] < truncation,
            let source = PieceSource(rawValue: UInt8(words[0] - 1))
        else {
            return nil
        }
        return .set(start..<end, source)
    }

    private static let truncation: UInt64 = 16

    /// FNV-1a over the words: shows whether bytes are a record.
    private static func sum(_ words: [UInt64]) -> UInt64 {
        words.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ $1) &* 0x0000_0100_0000_01b3 }
    }
}

extension ExtentMap {
    fileprivate mutating func apply(_ change: ExtentLog.Change) {
        switch change {
        case .set(let range, let source): set(range, to: source)
        case .truncate(let size): truncate(to: size)
        }
    }
}
