import Basics
import Metadata
import Synchronization
import Testing

@testable import FileSystem

@Suite struct ActiveFilesTests {
    private let ino = InodeNumber(rawValue: 9)

    private func file() -> ActiveFile {
        ActiveFile(ino: ino, state: ActiveFile.State(attributes: Attributes(kind: .file, mtime: .epoch)))
    }

    @Test func whoeverIsDoneWithAFileForgetsNoOtherOfItsNumber() {
        let files = ActiveFiles()
        // Its upload has ended, and so has its last handle.
        let first = files.retain(ino) { file() }
        #expect(files.release(first))
        #expect(files.find(ino) == nil)
        // Opened again, written to and closed before whoever uploaded the first version gets to say that it is done.
        let second = files.retain(ino) { file() }
        second.state.withLock { $0.isDirty = true }
        #expect(files.release(second))
        files.settle(first)
        #expect(files.find(ino) === second, "it has bytes that the bucket does not have")
        second.state.withLock { $0.isDirty = false }
        files.settle(second)
        #expect(files.find(ino) == nil)
    }

    @Test func aFileIsSharedByItsOwnUsersOnly() {
        let files = ActiveFiles()
        let first = files.retain(ino) { file() }
        _ = files.release(first)
        let second = files.retain(ino) { file() }
        _ = files.retain(ino) { file() }
        #expect(files.isShared(second) && !files.isShared(first))
    }
}
