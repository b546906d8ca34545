import Basics
import Blocks
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import FileSystem

@Suite struct ActiveFilesTests {
    private let ino = InodeNumber(rawValue: 9)

    private func file(_ draft: ActiveFile.Draft? = nil) -> ActiveFile {
        ActiveFile(
            ino: ino,
            state: ActiveFile.State(
                attributes: Attributes(kind: .file, mtime: .epoch),
                life: draft.map { FileLife(creating: $0) } ?? FileLife(opening: nil)))
    }

    @Test func whoeverIsDoneWithAFileForgetsNoOtherOfItsNumber() throws {
        let tree = try MountedTree()
        let draft = try tree.system.draft(on: nil, size: 0, key: "f")
        let version = ObjectVersion(etag: ETag("e"), size: 0, modified: .epoch)
        let object = tree.system.rooms.blocks.open("f", version)
        let files = ActiveFiles()
        // Its upload has ended, and so has its last handle.
        let first = files.retain(ino) { file() }
        #expect(files.release(first))
        #expect(files.find(ino) == nil)
        // Opened again, written to and closed before whoever uploaded the first version gets to say that it is done.
        let second = files.retain(ino) { file(draft) }
        #expect(files.release(second))
        files.forgetIfIdle(first)
        #expect(files.find(ino) === second, "it has bytes that the bucket does not have")
        second.state.withLock { $0.life.land(as: object) }
        files.forgetIfIdle(second)
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
