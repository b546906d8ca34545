import Basics
import Commits
import ObjectStorage
import Staging
import Synchronization
import TestSupport
import Testing

@Suite("A file's commit")
struct FileCommitTests {
    @Test("sends a file of up to one part with one put", arguments: [0, 1, 64 << 10])
    func onePut(size: Int) async throws {
        let rig = try Rig()
        let content = Rig.bytes(size)
        for start in stride(from: 0, to: size, by: 4096) {
            try rig.write(Array(content[start..<min(size, start + 4096)]), at: start)
        }
        let version = try await rig.land(if: .absent)
        #expect(rig.store.content("file") == content)
        #expect(rig.store.requests.map(\.operation) == [.put])
        #expect(version == rig.store.info("file")?.version || version.etag == rig.store.info("file")?.version.etag)
        #expect(rig.store.info("file")?.metadata.user["pailfs-commit"] != nil)
    }

    @Test("sends a bigger file in parts, most of them before the commit")
    func streams() async throws {
        let rig = try Rig()
        let content = Rig.bytes(5 * (64 << 10) + 100)
        for start in stride(from: 0, to: content.count, by: 4096) {
            try rig.write(Array(content[start..<min(content.count, start + 4096)]), at: start)
        }
        for _ in 0..<2000 where rig.store.count(.uploadPart) < 5 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(rig.store.count(.uploadPart) == 5)
        #expect(rig.store.count(.createUpload) == 1)
        try await rig.land(if: .absent)
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.uploadPart) == 6)
        #expect(rig.store.requests.count == 8)
    }
}
