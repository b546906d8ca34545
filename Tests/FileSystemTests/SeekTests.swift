import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// SEMANTICS section 3, readdir: offsets stay good while entries go.
@Suite(.timeLimit(.minutes(2))) struct SeekTests {
    @Test(.rule("readdir"), arguments: [0, 1, 3])
    func noEntryIsPassedOverWhereOthersHaveGone(gone: Int) async throws {
        let tree = try MountedTree()
        let all = (0..<40).map { "f\($0 + 10)" }
        for name in all { tree.store.setObject(ObjectKey(ByteString(name)), [1]) }
        let handle = try await tree.run(tree.system.openDirectory(.root))
        var offsets: [String: UInt64] = [:]
        var offset: UInt64 = 0
        for _ in 0..<4 {
            let reply = SmallReply(capacity: 7)
            try await tree.run(
                tree.system.readDirectory(.root, handle: handle, from: offset, attributes: true, into: reply))
            for entry in reply.entries { offsets[entry.name.description] = entry.offset }
            offset = reply.entries.last?.offset ?? 0
        }
        for name in all[5..<5 + gone] { try await tree.unlink(name) }
        // Into the middle of the second reply, whose front has lost some.
        var names: Set<String> = []
        offset = try #require(offsets[all[9]])
        while true {
            let reply = SmallReply(capacity: 7)
            try await tree.run(
                tree.system.readDirectory(.root, handle: handle, from: offset, attributes: true, into: reply))
            guard let last = reply.entries.last else { break }
            names.formUnion(reply.entries.map { $0.name.description })
            offset = last.offset
        }
        tree.system.releaseDirectory(.root, handle: handle)
        #expect(names.isSuperset(of: all[10...]))
        if gone == 0 { #expect(names == Set(all[10...])) }
    }

    @Test(.rule("readdir")) func theFirstEntriesComeBeforeTheLastPage() async throws {
        var capabilities = Capabilities()
        capabilities.listPage = 10
        let tree = try MountedTree(capabilities: capabilities)
        let all = (0..<40).map { "f\($0 + 10)" }
        for name in all { tree.store.setObject(ObjectKey(ByteString(name)), [1]) }
        let handle = try await tree.run(tree.system.openDirectory(.root))
        let gate = tree.store.hold(.list)
        gate.letOnePass()
        var (names, offset) = ([String](), UInt64(0))
        while true {
            let reply = SmallReply(capacity: 7)
            try await tree.run(
                tree.system.readDirectory(.root, handle: handle, from: offset, attributes: true, into: reply))
            guard let last = reply.entries.last else { break }
            if names.isEmpty {
                #expect(reply.entries.count == 7)
                gate.open()
            }
            names += reply.entries.map { $0.name.description }
            offset = last.offset
        }
        tree.system.releaseDirectory(.root, handle: handle)
        #expect(names == [".", ".."] + all)
    }
}
