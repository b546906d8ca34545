import Basics
import Glibc
import Synchronization

/// A piece of a staged file as a request body; keeps the file alive. Any thread; no lock.
final class StagedSource: ByteSource {
    private let file: StagedFile
    private let range: ByteRange

    init(file: StagedFile, range: ByteRange) { (self.file, self.range) = (file, range) }

    var count: Int64 { range.length }

    func read(at offset: Int64, into output: inout OutputRawSpan) throws(ByteTransferError) {
        guard offset < count else { return }
        let wanted = Int(min(Int64(output.freeCapacity), count - offset))
        let start = range.lowerBound + offset
        let file = file
        let failure = unsafe output.withUnsafeMutableBytes { buffer, initialized -> ByteTransferError? in
            let target = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[initialized..<(initialized + wanted)])
            do throws(StagingError) {
                let got = unsafe try file.read(ByteRange(at: start, count: Int64(wanted)), into: target)
                guard got == wanted else {
                    return ByteTransferError(
                        errno: StagingError.notStaged.errno, reason: "the file was truncated while it was uploaded")
                }
                initialized += wanted
                noteRead(upTo: start + Int64(wanted))
                return nil
            } catch {
                return ByteTransferError(errno: error.errno, reason: error.description)
            }
        }
        if let failure { throw failure }
    }

    /// Bytes that are sent again do not count as progress, even if another body sends them.
    private func noteRead(upTo end: Int64) {
        let before = file.sent.max(end, ordering: .relaxed).oldValue
        if end > before { file.traffic.noteRead(end - before) }
    }
}
