package import Basics
import Synchronization

/// The uncommitted bytes of one file: a sparse file in `staging/` with every byte at its own offset, and the map of
/// which bytes those are.
///
/// Owns its file and the ledger's bytes for it until `discard` or `release`. Any thread may call anything at any time. Two
/// locks: `disk` orders the changes of one file and is held across their local pwrite, ftruncate or fallocate, so that
/// committed bytes copied in by `fill` never overwrite an earlier write; `content` is the short one, inside it, and is all
/// that readers take. A change that removes bytes updates the map before the disk and increments `epoch`, so that a reader
/// that finds the bytes gone sees it and reads again. After a crash the file stays, and also after the end of this object if
/// it is kept (`keep`): the journal decides what is done with it.
package final class StagedFile: Sendable {
    struct Content {
        var extents: ExtentMap
        var generation: UInt64 = 0
        /// Counts changes after which bytes read before may be wrong.
        var epoch: UInt64 = 0
        var isOpen = true
    }

    struct Disk {
        var blocks: DiskBlocks
        /// Bytes of the ledger that this file has reserved: never less than `blocks.charge`.
        var charged: Int64 = 0
        /// Whether every hole made so far reads as zeros from the file itself.
        var holesAreZero = true
        var isOpen = true
        /// The log from which recovery derives the map.
        var log: ExtentLog
        /// Set when the kernel could not write bytes back: the bytes in the file do not count from then on.
        var failure: StagingError?
    }

    /// A type of its own: each time a bare closure is read through a mutex's generic type it gets one more wrapper, until
    /// calling it overflows the stack.
    private struct Observer {
        var observe: (@Sendable (ByteRange) -> Void)?
    }

    /// The path of the file.
    package let path: String
    /// The file's name in `staging/`; a later process may have given its row another number.
    package var name: String { String(path.split(separator: "/").last ?? "") }
    /// The length of the version below it, from its row.
    package let baseSize: Int64
    let file: LocalFile
    /// The unit in which the file takes space.
    package let unit: DiskUnit
    let ledger: SpaceLedger
    /// Counts the bytes sent of the files in its directory.
    package let traffic: StagingTraffic
    let disk: Mutex<Disk>
    let content: Mutex<Content>
    private let isKept = Atomic(false)
    private let live: LiveFiles
    /// False when no byte can be in an upload alone, which saves a search of the whole map.
    let mayNeedUpload = Atomic(false)
    /// The end of the bytes from the start that were read for an upload, by any attempt, and not changed since.
    let sent = Atomic<Int64>(0)
    /// Bounds the bytes of committed versions that commits read in.
    package let fills: MemoryBudget
    private let observer = Mutex(Observer())

    init(path: String, baseSize: Int64, isUnfinished: Bool = false, area: StagingArea) throws(StagingError) {
        (self.path, self.baseSize) = (path, baseSize)
        (unit, ledger, traffic, fills, live) = (area.unit, area.ledger, area.traffic, area.fills, area.live)
        content = Mutex(Content(extents: ExtentMap(baseSize: baseSize)))
        disk = Mutex(
            Disk(
                blocks: DiskBlocks(of: area.unit),
                log: ExtentLog(
                    of: path, baseSize: baseSize, ledger: area.ledger, unit: area.unit, among: area.descriptors)))
        file = try area.inDirectory { () throws(StagingError) in
            try LocalFile(creating: path, isUnfinished: isUnfinished, among: area.descriptors)
        }
        live.add(self)
    }

    /// Opens the file of an earlier process, and frees blocks without staged bytes.
    init(reopening path: String, extents: ExtentMap, baseSize: Int64, area: StagingArea) throws(StagingError) {
        (self.path, self.baseSize) = (path, baseSize)
        (unit, ledger, traffic, fills, live) = (area.unit, area.ledger, area.traffic, area.fills, area.live)
        content = Mutex(Content(extents: extents))
        disk = Mutex(
            Disk(
                blocks: DiskBlocks(of: area.unit),
                log: ExtentLog(
                    leftBy: path, baseSize: baseSize, ledger: area.ledger, unit: area.unit, among: area.descriptors)))
        mayNeedUpload.store(extents.has(.stored), ordering: .relaxed)
        file = try LocalFile(opening: path, among: area.descriptors)
        let staged = extents.pieces(in: 0..<extents.size).filter { $0.source.isHere }
        guard try file.size >= staged.last?.range.upperBound ?? 0 else { throw .notStaged }
        var blocks = DiskBlocks(of: unit)
        var end: Int64 = 0
        try file.unnoticed { [file, unit] () throws(StagingError) in
            for piece in staged {
                let touched = unit.touched(by: piece.range)
                if end < touched.lowerBound { _ = file.punch(unit.range(of: end..<touched.lowerBound)) }
                blocks.insert(touched)
                end = touched.upperBound
            }
            // Bytes past its end are from a write that was not recorded.
            try file.truncate(to: min(try file.size, end * unit.bytes, extents.size))
        }
        ledger.adopt(blocks.charge, as: .written)
        disk.withLock { disk in
            (disk.blocks, disk.charged) = (blocks, blocks.charge)
            disk.holesAreZero = false
            disk.log.goOn(with: extents)
        }
        live.add(self)
    }

    deinit {
        live.remove(ObjectIdentifier(self))
        if isKept.load(ordering: .relaxed) { leave() } else { discard() }
    }

    /// Closes the file and leaves it as it is, for the next owner of its row.
    package func leave() {
        disk.withLock { disk in
            guard close(&disk) else { return }
            disk.log.leave()
            free(0..<Int64.max, &disk)
        }
    }

    /// Sets whether the file outlives this object, because its bytes were acknowledged.
    package func keep(_ isKept: Bool) { self.isKept.store(isKept, ordering: .relaxed) }

    /// Sets only the modification time of the staging file, which each later write changes: that of the dirty file, for the
    /// next process (`StagingArea.modified`).
    package func setModified(_ modified: Timestamp) throws(StagingError) {
        try disk.withLock { _ throws(StagingError) in try file.setModified(modified) }
    }

    /// Closes the descriptor of a file that is not in use; the next use opens it again.
    package func rest() { disk.withLock { if $0.isOpen { file.rest() } } }

    /// Brings every byte written so far to the disk. After a failure the file's bytes are in doubt for good, and every later
    /// call fails. fdatasync(2)
    package func flush() throws(StagingError) {
        try disk.withLock { disk throws(StagingError) in
            guard disk.isOpen else { throw .notStaged }
            if let failure = disk.failure { throw failure }
            try putBack(&disk)
            do throws(StagingError) { try file.flush() } catch {
                disk.failure = error
                throw error
            }
        }
    }

    /// The length of the file in bytes as programs see it.
    package var size: Int64 { content.withLock { $0.extents.size } }
    /// Grows with every change of the content; `fill` does not count as one.
    package var generation: UInt64 { content.withLock { $0.generation } }
    /// The map as it is now.
    package var extents: ExtentMap { content.withLock { $0.extents } }
    /// Bytes of disk that the file is charged for, with the log of its map.
    package var reservedBytes: Int64 { disk.withLock { $0.charged + $0.log.charged } }

    /// Whether some bytes are only at the store, in parts of an upload.
    package var needsItsUpload: Bool {
        mayNeedUpload.load(ordering: .relaxed) && content.withLock { $0.extents.has(.stored) }
    }
    /// Whether some bytes are the committed version's, or may be: bytes in parts of an upload may be copies of it.
    package var needsTheObject: Bool {
        content.withLock { content in
            [PieceSource.base, .filled, .stored].contains { content.extents.has($0) }
        }
    }
    /// Whether local space is so short that bytes that the store has, too, should leave the disk.
    package var isSpaceShort: Bool { ledger.pressure > 0.5 }

    /// Sets the observer of changes. It gets the range whose bytes may differ now, on the changing thread, outside the locks
    /// and before the change returns. Replaces the observer before.
    package func observeChanges(_ observe: @escaping @Sendable (ByteRange) -> Void) {
        observer.withLock { $0.observe = observe }
    }

    /// The pieces of `range`, cut to the size.
    package func pieces(in range: ByteRange) -> [Piece] { content.withLock { $0.extents.pieces(in: range) } }

    /// Writes `bytes` at `offset`; past the end the gap becomes a hole. On an error nothing was changed.
    package func write(_ bytes: RawSpan, at offset: Int64) throws(StagingError) {
        let range = try self.range(at: offset, bytes.byteCount)
        guard !range.isEmpty else { return }
        try disk.withLock { disk throws(StagingError) in
            try change(bytes, range, &disk)
        }
        changed(range)
    }

    /// Writes `bytes` at the present end of the file, and returns their offset. On an error nothing was changed.
    package func append(_ bytes: RawSpan) throws(StagingError) -> Int64 {
        let range = try disk.withLock { disk throws(StagingError) -> ByteRange in
            let range = try self.range(at: size, bytes.byteCount)
            if !range.isEmpty { try change(bytes, range, &disk) }
            return range
        }
        if !range.isEmpty { changed(range) }
        return range.lowerBound
    }

    /// Cuts the file, or grows it by a hole.
    package func truncate(to newSize: Int64) throws(StagingError) {
        guard newSize >= 0 else { throw .tooLarge }
        let from = try disk.withLock { disk throws(StagingError) -> Int64? in
            guard disk.isOpen else { throw .notStaged }
            let before = extents
            guard newSize != before.size else { return nil }
            if newSize == 0 { try startOver(&disk) }
            try prepareLog(.truncate(newSize), for: .committing, &disk)
            try disk.log.add(.truncate(newSize))
            content.withLock { content in
                content.extents.truncate(to: newSize)
                content.generation += 1
                if newSize < before.size { content.epoch += 1 }
            }
            guard newSize < before.size else { return before.size }
            do throws(StagingError) { try file.truncate(to: newSize) } catch {
                content.withLock { $0.extents = before }
                try? disk.log.replace(with: before)
                throw error
            }
            free(unit.touched(by: 0..<newSize).upperBound..<Int64.max, &disk)
            return newSize
        }
        if let from { changed(from..<Int64.max) }
    }

    /// Makes this new file the same as `original`: staged bytes are copied, all other pieces have the same source.
    func take(_ original: StagedFile) throws(StagingError) {
        let extents = original.extents
        let step: Int64 = 256 << 10
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(step), alignment: 4096)
        defer { unsafe memory.deallocate() }
        for piece in extents.pieces(in: 0..<extents.size) where piece.source.isHere {
            var offset = piece.range.lowerBound
            while offset < piece.range.upperBound {
                let range = offset..<min(offset + step, piece.range.upperBound)
                let buffer = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[..<Int(range.length)])
                _ = unsafe try original.read(range, into: buffer)
                try disk.withLock { disk throws(StagingError) in
                    try store(unsafe UnsafeRawBufferPointer(buffer).bytes, range, for: .written, &disk)
                }
                offset = range.upperBound
            }
        }
        try disk.withLock { disk throws(StagingError) in
            disk.holesAreZero = false
            try disk.log.replace(with: extents)
        }
        content.withLock { $0.extents = extents }
        mayNeedUpload.store(extents.has(.stored), ordering: .relaxed)
    }

    /// Makes `range`, cut to the size, read as zeros and frees its disk space.
    package func zero(_ range: ByteRange) throws(StagingError) {
        let zeroed = try disk.withLock { disk throws(StagingError) -> ByteRange? in
            guard disk.isOpen else { throw .notStaged }
            let range = range.clamped(to: 0..<size)
            guard !range.isEmpty else { return nil }
            try prepareLog(.set(range, .hole), for: .committing, &disk)
            try disk.log.add(.set(range, .hole))
            let extents = content.withLock { content in
                content.extents.set(range, to: .hole)
                content.generation += 1
                content.epoch += 1
                return content.extents
            }
            punch(range, extents, &disk)
            return range
        }
        if let zeroed { changed(zeroed) }
    }

    /// Grows the file by bytes of the committed version, which has at least `newSize`.
    package func takeBase(upTo newSize: Int64) throws(StagingError) {
        let range = try disk.withLock { disk throws(StagingError) -> ByteRange? in
            guard disk.isOpen else { throw .notStaged }
            let range = size..<max(size, newSize)
            guard !range.isEmpty else { return nil }
            try prepareLog(.set(range, .base), for: .committing, &disk)
            try disk.log.add(.set(range, .base))
            content.withLock { content in
                content.extents.set(range, to: .base)
                content.generation += 1
            }
            return range
        }
        if let range { changed(range) }
    }

    /// Reads staged bytes and holes into `target`, which has room for `range`, and returns how many bytes there are
    /// before the end of the file. `.notStaged` when a byte is in the committed version.
    @discardableResult
    package func read(_ range: ByteRange, into target: UnsafeMutableRawBufferPointer) throws(StagingError) -> Int {
        while true {
            let now = content.withLock { $0 }
            guard now.isOpen else { throw .notStaged }
            let pieces = now.extents.pieces(in: range)
            for piece in pieces {
                let start = Int(piece.range.lowerBound - range.lowerBound)
                let part = unsafe UnsafeMutableRawBufferPointer(
                    rebasing: target[start..<(start + Int(piece.range.length))])
                switch piece.source {
                case .base, .stored: throw .notStaged
                case .hole: unsafe part.initializeMemory(as: UInt8.self, repeating: 0)
                case .staged, .filled:
                    do throws(StagingError) { unsafe try file.read(into: part, at: piece.range.lowerBound) } catch {
                        // A file that was given up meanwhile cannot even be opened again.
                        if content.withLock({ $0.isOpen }) { throw error }
                    }
                }
            }
            // A truncation or punch that ran meanwhile may have removed the bytes before they were read.
            if content.withLock({ $0.epoch == now.epoch }) {
                return Int((pieces.last?.range.upperBound ?? range.lowerBound) - range.lowerBound)
            }
        }
    }

    /// The whole file, if it has no more than `limit` bytes and every one of them was written here.
    package func content(upTo limit: Int) -> [UInt8]? {
        let extents = extents
        let size = extents.size
        guard size <= Int64(limit), extents.isEntirely(.staged, in: 0..<size), !isSpaceShort else { return nil }
        var isRead = false
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: Int(size)) { buffer, count in
            count = unsafe (try? read(0..<size, into: UnsafeMutableRawBufferPointer(buffer))) ?? 0
            isRead = count == Int(size)
        }
        return isRead ? bytes : nil
    }

    /// `range` as a request body. It returns the bytes as they are when it is read, and ends in an error where the file was
    /// truncated or a byte is in the committed version.
    package func source(_ range: ByteRange) -> any ByteSource { StagedSource(file: self, range: range) }

    /// Removes the file and frees its space. Later calls fail with `.notStaged`.
    package func discard() {
        disk.withLock { disk in
            guard close(&disk) else { return }
            file.remove()
            disk.log.remove()
            free(0..<Int64.max, &disk)
        }
    }

    func close(_ disk: inout Disk) -> Bool {
        guard disk.isOpen else { return false }
        disk.isOpen = false
        content.withLock { content in
            content.isOpen = false
            content.epoch += 1
        }
        return true
    }

    /// Makes sure that the changes can be logged one after the other.
    func prepareLog(
        _ change: ExtentLog.Change, records: Int64 = 1, for use: SpaceLedger.Use, _ disk: inout Disk
    ) throws(StagingError) {
        let count = content.withLock { $0.extents.count }
        try disk.log.prepare(change, records: records, for: use, count: count) { extents }
    }

    private func change(_ bytes: RawSpan, _ range: ByteRange, _ disk: inout Disk) throws(StagingError) {
        let isNews = !content.withLock { $0.extents.isEntirely(.staged, in: range) }
        if isNews { try prepareLog(.set(range, .staged), for: .written, &disk) }
        try store(bytes, range, for: .written, &disk)
        if isNews { try disk.log.add(.set(range, .staged)) }
        content.withLock { content in
            content.extents.set(range, to: .staged)
            content.generation += 1
        }
    }

    private func changed(_ range: ByteRange) {
        _ = sent.min(range.lowerBound, ordering: .relaxed)
        observer.withLock { $0.observe }?(range)
    }

    func range(at offset: Int64, _ count: Int) throws(StagingError) -> ByteRange {
        let (end, overflow) = offset.addingReportingOverflow(Int64(count))
        guard offset >= 0, !overflow, end <= Int64.max - unit.bytes else { throw .tooLarge }
        return offset..<end
    }
}
