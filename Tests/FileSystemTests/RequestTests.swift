import Basics
import FileSystem
import ObjectStorage
import TestSupport
import Testing

/// SEMANTICS section 2: what each act may cost, counted at the store.
@Suite struct RequestTests {
    private func tree(objects: Int, page: Int = 1000) throws -> MountedTree {
        var capabilities = Capabilities()
        capabilities.listPage = page
        let tree = try MountedTree(capabilities: capabilities)
        for index in 0..<objects { tree.store.setObject(ObjectKey("d/file\(index)"), Array("content \(index)".utf8)) }
        return tree
    }

    @Test func listingADirectoryCostsItsPages() async throws {
        let tree = try tree(objects: 25, page: 10)
        _ = try await tree.find("d")
        tree.store.forgetRequests()
        #expect(try await tree.names("d").count == 25)
        for index in 0..<25 { _ = try await tree.find("d/file\(index)") }
        #expect(tree.store.requests.map(\.operation) == [.list, .list, .list])
    }

    @Test func listingAgainWithinTtlCostsNothingEvenAfterARemount() async throws {
        let tree = try tree(objects: 25, page: 10)
        _ = try await tree.names("d")
        try await tree.remount()
        tree.store.forgetRequests()
        #expect(try await tree.names("d").count == 25)
        #expect(tree.store.requests.isEmpty)
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.names("d").count == 25)
        #expect(!tree.store.requests.isEmpty)
    }

    @Test func aNameInADirectoryNeverListedCostsOneListing() async throws {
        let tree = try tree(objects: 25, page: 10)
        _ = try await tree.find("d")
        tree.store.forgetRequests()
        _ = try await tree.find("d/file7")
        #expect(tree.store.requests.map(\.operation) == [.list])
    }

    @Test func aMissingNameInAListedDirectoryCostsNothing() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { try await tree.find("d/none") }
        #expect(tree.store.requests.isEmpty)
    }

    @Test func readingASmallFileAfterListingCostsOneGetAndThenNothing() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        #expect(try await tree.load("d/file1") == Array("content 1".utf8))
        #expect(tree.store.requests.map(\.operation) == [.get])
        #expect(try await tree.load("d/file1") == Array("content 1".utf8))
        #expect(tree.store.requests.count == 1)
    }

    @Test func renamingAFileCostsOneRequestWhereTheStoreRenames() async throws {
        var capabilities = Capabilities()
        capabilities.move = true
        let tree = try MountedTree(capabilities: capabilities)
        for name in ["a", "b", "c"] { tree.store.setObject(ObjectKey("d/\(name)"), Array(name.utf8)) }
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        try await tree.rename("d/a", to: "d/b")
        #expect(tree.store.requests.map(\.operation) == [.move])
        #expect(try await tree.load("d/b") == Array("a".utf8))
        #expect(try await tree.names("d") == ["b", "c"])
    }

    @Test func whatIsUsedIsAskedForOnceWithinTtl() async throws {
        var capabilities = Capabilities()
        capabilities.usage = true
        let tree = try MountedTree(capabilities: capabilities)
        tree.store.setObject("a", [1, 2, 3])
        for _ in 0..<3 {
            let figures = try await tree.run(tree.system.statistics())
            #expect(figures.capacity - figures.available == 3)
            #expect(figures.files == 1)
        }
        #expect(tree.store.count(.usage) == 1)
        tree.store.fault = { operation, _ in
            operation == .usage ? ObjectStoreError(.unreachable, .usage, message: "gone") : nil
        }
        tree.time.advance(by: .seconds(61))
        let figures = try await tree.run(tree.system.statistics())
        #expect(figures.capacity - figures.available == 3)
    }

    @Test func writingANewFileCostsOnePutAndReadingItBackNothing() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        try await tree.store("d/new", Array("hello".utf8))
        #expect(tree.store.requests.map(\.operation) == [.put])
        #expect(try await tree.load("d/new") == Array("hello".utf8))
        #expect(tree.store.requests.count == 1)
        #expect(tree.store.content("d/new") == Array("hello".utf8))
    }

    @Test func attributesSetBeforeCloseTravelInThePut() async throws {
        let tree = try tree(objects: 0)
        _ = try await tree.names("")
        tree.store.forgetRequests()
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true), create: true)
        try await tree.write(file, [1, 2, 3], at: 0)
        var change = AttributeChange()
        change.mode = 0o751
        change.modified = Timestamp(seconds: 12345, nanoseconds: 678)
        _ = try await tree.run(tree.system.setAttributes(file.0, to: change, handle: file.1))
        try await tree.close(file)
        #expect(tree.store.requests.map(\.operation) == [.put])
        #expect(tree.store.info("f")?.metadata.user["mtime"] == "12345.000000678")
        #expect(tree.store.info("f")?.metadata.user["mode"] == String(0o100751))
        try await tree.remount()
        let status = try await tree.find("f")
        #expect(status.mode == 0o751)
        #expect(status.modified == Timestamp(seconds: 12345, nanoseconds: 678))
    }

    @Test func aBigFileGoesUpInPartsAndComesDownInRanges() async throws {
        let tree = try tree(objects: 0)
        _ = try await tree.names("")
        tree.store.forgetRequests()
        var generator = SeededGenerator(seed: 7)
        let bytes = generator.bytes(20 << 20)
        try await tree.store("big", bytes)
        #expect(tree.store.count(.createUpload) == 1)
        #expect(tree.store.count(.uploadPart) == 3)
        #expect(tree.store.count(.completeUpload) == 1)
        #expect(tree.store.requests.count == 5)

        let other = try MountedTree()
        other.store.setObject("big", bytes)
        _ = try await other.names("")
        other.store.forgetRequests()
        #expect(try await other.load("big") == bytes)
        #expect(other.store.requests.map(\.operation) == [.get, .get, .get])
    }

    @Test func unlinkCostsOneDeleteAndMkdirOnePut() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        try await tree.unlink("d/file0")
        #expect(tree.store.requests.map(\.operation) == [.delete])
        try await tree.makeDirectory("d/new")
        #expect(tree.store.requests.map(\.operation) == [.delete, .put])
        try await tree.removeDirectory("d/new")
        #expect(tree.store.requests.map(\.operation) == [.delete, .put, .list, .delete])
    }

    @Test func renamingAFileCostsOneCopyAndOneDelete() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        try await tree.rename("d/file0", to: "d/renamed")
        #expect(tree.store.requests.map(\.operation) == [.copy, .delete])
        #expect(try await tree.load("d/renamed") == Array("content 0".utf8))
    }

    @Test func renamingAFileThatIsNotCommittedCostsNothing() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        let file = try await tree.open("d/tmp", OpenFlags(reads: false, writes: true), create: true)
        try await tree.write(file, [1], at: 0)
        tree.store.forgetRequests()
        try await tree.rename("d/tmp", to: "d/file1")
        #expect(tree.store.requests.isEmpty)
        try await tree.close(file)
        #expect(tree.store.requests.map(\.operation) == [.put])
        #expect(tree.store.content("d/file1") == [1])
    }
}
