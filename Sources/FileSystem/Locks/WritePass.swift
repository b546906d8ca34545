import Basics
import Metadata
import Staging
import Synchronization

/// Leave to change what a file holds: its `writing` gate, and for the first change of a clean file `names` as well. While a
/// directory is renamed its objects are copied as they are, and a change that came about meanwhile would belong to an object
/// that is about to go.
struct WritePass: Sendable {
    let file: ActiveFile
    let alone: Bool
    fileprivate let names: KeyGate.Pass?
}

extension ActiveFile {
    /// Whether what programs see is an object whose key may change without the file knowing.
    fileprivate var isAsStored: Bool { state.withLock { !$0.life.isDirty && !$0.life.isUnlinked } }

    fileprivate var isAcknowledged: Bool { state.withLock { $0.life.isAcknowledged } }
}

extension BucketFileSystem {
    /// Leave at once, shared, or none.
    func tryEnterToWrite(_ file: ActiveFile) -> WritePass? {
        guard file.writing.tryEnter() else { return nil }
        if !file.isAcknowledged {
            if !file.isAsStored { return WritePass(file: file, alone: false, names: nil) }
            if let pass = names.tryEnter() { return WritePass(file: file, alone: false, names: pass) }
        }
        file.writing.leave()
        return nil
    }

    /// Waits until the staged bytes may change. Everything is about to be cut off if `emptying`; bytes of `source`'s object are
    /// about to become the file's. Callers hold no gate.
    func enterToWrite(
        _ file: ActiveFile, alone: Bool = false, emptying: Bool = false, and source: InodeNumber? = nil
    ) async throws(FileSystemError) -> WritePass {
        while true {
            let isFirst = file.isAsStored || source != nil
            let pass = isFirst ? try await enterNames(of: [file.ino] + (source.map { [$0] } ?? [])) : nil
            file.interruptUpload(isAway: watch.isAway)
            do { try await file.writing.enter(alone: alone) } catch {
                if let pass { names.leave(pass) }
                throw .interrupted
            }
            let entered = WritePass(file: file, alone: alone, names: pass)
            let isAcknowledged = file.isAcknowledged
            if !isAcknowledged, isFirst || !file.isAsStored { return entered }
            leave(entered)
            if isAcknowledged { try await makeWritable(file, emptying: emptying) }
        }
    }

    func leave(_ pass: WritePass) {
        pass.file.writing.leave(alone: pass.alone)
        if let names = pass.names { self.names.leave(names) }
    }

    /// Inside `writing`, alone, or with the last handle gone: what a change that failed has left of a clean file. It rests on the
    /// object as it was.
    func discardUnchangedDraft(_ file: ActiveFile) throws(FileSystemError) {
        let draft = file.state.withLock { $0.life.dropUnchanged() }
        guard let draft else { return }
        draft.staged.discard()
        try end(draft.record)
    }
}
