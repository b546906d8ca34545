import Synchronization

/// Another program may delete a file in `staging/` while it is used. If this process has it open, the file is made again.
/// Otherwise its bytes are gone: reads and writes of them fail with `.deleted`, until the file is written from its start
/// again.
extension StagedFile {
    /// Makes the file again if it is missing. False once its bytes are found to be gone.
    func stayInPlace() -> Bool {
        disk.withLock { disk in
            guard disk.isOpen, disk.failure != .deleted else { return true }
            do throws(StagingError) { try putBack(&disk) } catch { return error != .deleted }
            return true
        }
    }

    /// Throws: `.deleted` when the bytes are gone.
    func putBack(_ disk: inout Disk) throws(StagingError) {
        if !file.isInPlace {
            let extents = extents
            let staged = extents.pieces(in: 0..<extents.size).filter(\.source.isHere).map(\.range)
            if staged.isEmpty {
                try file.remake()
            } else if try !file.restore(staged) {
                disk.failure = .deleted
                throw .deleted
            }
        }
        if !disk.log.isInPlace { try disk.log.replace(with: extents) }
    }

    /// Makes the file again with `bytes`, all of its content. False if its content is anything else.
    package func putBack(_ bytes: [UInt8]) -> Bool {
        disk.withLock { disk in
            guard disk.isOpen, disk.failure == .deleted, extents.size == bytes.count,
                extents.isEntirely(.staged, in: 0..<extents.size)
            else { return false }
            do throws(StagingError) {
                try file.remake()
                try file.write(bytes, at: 0)
            } catch { return false }
            disk.failure = nil
            return true
        }
    }

    /// Before a write from the start of the file: forgets bytes that are gone.
    func startOver(_ disk: inout Disk) throws(StagingError) {
        guard disk.failure == .deleted else { return }
        try file.remake()
        disk.failure = nil
    }
}

/// The `StagedFile`s of a `StagingArea`. The mutex is a leaf.
final class LiveFiles: Sendable {
    private struct Entry { weak var file: StagedFile? }

    private let files = Mutex<[ObjectIdentifier: Entry]>([:])

    var all: [StagedFile] { files.withLock { $0.values.compactMap(\.file) } }

    func add(_ file: StagedFile) { files.withLock { $0[ObjectIdentifier(file)] = Entry(file: file) } }

    /// Call when the file ends.
    func remove(_ file: ObjectIdentifier) { files.withLock { _ = $0.removeValue(forKey: file) } }
}
