import Basics
import Metadata
import Staging
import Synchronization

/// The locks under which a call changes a file's bytes: its `writing` gate, and for the first change of a clean file `names` too.
/// The rename of a directory copies the objects below: a change that began meanwhile would belong to an object that is deleted.
struct WritePass: Sendable {
    let file: ActiveFile
    let alone: Bool
    fileprivate let names: KeyGate.Pass?
}

extension ActiveFile {
    /// Whether programs see the stored object, whose key the rename of a directory changes.
    fileprivate var isAsStored: Bool { state.withLock { !$0.life.isDirty && !$0.life.isUnlinked } }

    fileprivate var isAcknowledged: Bool { state.withLock { $0.life.isAcknowledged } }
}

extension BucketFileSystem {
    /// The locks, shared with other writers, if all of them are free.
    func tryEnterToWrite(_ file: ActiveFile) -> WritePass? {
        guard file.writing.tryEnter() else { return nil }
        if !file.isAcknowledged {
            if !file.isAsStored { return WritePass(file: file, alone: false, names: nil) }
            if let pass = names.tryEnter() { return WritePass(file: file, alone: false, names: pass) }
        }
        file.writing.leave()
        return nil
    }

    /// Waits until the staged bytes may change. With `emptying` the call truncates the file to 0. `source` is a file whose object
    /// the call copies.
    ///
    /// Locks: none but the line for local space.
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

    /// Discards the draft of a file that no write has changed: its bytes are the object's.
    ///
    /// Locks: the file, or no handle of it is left.
    func discardUnchangedDraft(_ file: ActiveFile) throws(FileSystemError) {
        let draft = file.state.withLock { $0.life.dropUnchanged() }
        guard let draft else { return }
        draft.staged.discard()
        try end(draft.record)
    }
}
