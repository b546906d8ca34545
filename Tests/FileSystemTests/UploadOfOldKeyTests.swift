import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A file that is being written below a directory when that is renamed has parts in an upload of its old key.
@Suite(.timeLimit(.minutes(2))) struct UploadOfOldKeyTests {
    @Test(arguments: ["directory", "file", "nothing"])
    func itIsStoredWhenSpaceIsShortAfterTheRename(what: String) async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, capacity: 1 << 20, partSize: 64 << 10)
        var generator = SeededGenerator(seed: 1)
        let content = generator.bytes(3 << 20)
        try await tree.makeDirectory("d")
        let file = try await tree.open("d/big", OpenFlags(reads: true, writes: true), create: true)
        // Of a file the upload is still about to begin when it is renamed.
        let creating = what == "file" ? tree.store.hold(.createUpload) : nil
        try await tree.write(file, Array(content[..<300_000]), at: 0)
        if let creating {
            await creating.waitForArrivals()
            try await tree.rename("d/big", to: "d/large")
            creating.open()
        }
        // What began under the old name of a file is given up, and nothing is sent until space is short.
        let isReady = what == "file" ? (ObjectStoreError.Operation.abortUpload, 1) : (.uploadPart, 4)
        try await waitUntil("the upload is as it is to be") { tree.store.count(isReady.0) >= isReady.1 }
        try await Task.sleep(for: .milliseconds(50))
        if what == "directory" { try await tree.rename("d", to: "e") }
        let clock = tree.advancingTime()
        defer { clock.cancel() }
        for start in stride(from: 300_000, to: content.count, by: 100_000) {
            let piece = Array(content[start..<min(content.count, start + 100_000)])
            try await tree.write(file, piece, at: Int64(start))
        }
        try await tree.close(file)
        let key: ObjectKey = what == "file" ? "d/large" : what == "directory" ? "e/big" : "d/big"
        let isStored = tree.store.content(key) == content
        #expect(isStored)
        #expect(tree.store.uploadsInProgress.isEmpty)
    }
}
