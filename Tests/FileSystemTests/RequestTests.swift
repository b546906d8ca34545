import Basics
import FileSystem
import Metadata
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

    /// A long directory whose listing has grown old: new names cost no listing each.
    @Test func creatingManyFilesInALongDirectoryListsItOnce() async throws {
        let tree = try tree(objects: 120, page: 10)
        #expect(try await tree.names("d").count == 120)
        let directory = try await tree.find("d").ino
        tree.time.advance(by: .seconds(120))
        tree.store.forgetRequests()
        for index in 0..<20 { try await tree.store("d/new\(index)", [1]) }
        // One for each name, and the pages of those that list it: however late the ones who wait for them are woken.
        #expect(tree.store.count(.list) <= 20 + 1 + 4 + 8 + 14)
        for _ in 0..<5000 {
            if try tree.rooms.metadata.directory(directory).isFresh { break }
            try await Task.sleep(for: .milliseconds(1))
        }
        tree.store.forgetRequests()
        for index in 20..<100 { try await tree.store("d/new\(index)", [1]) }
        #expect(tree.store.count(.list) == 0)
        #expect(tree.store.count(.put) == 80)
        #expect(try await tree.names("d").count == 220)
    }

    /// Directories `t/00` to `t/39` with five files each, and in every tenth a directory with two more.
    private func forest() throws -> (tree: MountedTree, names: (Int) -> [String]) {
        var capabilities = Capabilities()
        capabilities.listPage = 25
        let tree = try MountedTree(capabilities: capabilities)
        for number in 0..<40 {
            let directory = "t/" + (number < 10 ? "0" : "") + "\(number)"
            for file in 0..<5 { tree.store.setObject(ObjectKey("\(directory)/file\(file)"), [1]) }
            guard number % 10 == 0 else { continue }
            for file in 0..<2 { tree.store.setObject(ObjectKey("\(directory)/deep/file\(file)"), [1]) }
        }
        return (tree, { (0..<5).map { "file\($0)" } + ($0 % 10 == 0 ? ["deep"] : []) })
    }

    @Test func aWalkFromDirectoryToDirectoryIsListedFlat() async throws {
        let (tree, names) = try forest()
        let directories = try await tree.names("t").sorted()
        tree.store.forgetRequests()
        for (number, directory) in directories.enumerated() {
            #expect(try await tree.names("t/\(directory)").sorted() == names(number).sorted())
            guard number % 10 == 0 else { continue }
            #expect(try await tree.names("t/\(directory)/deep").sorted() == ["file0", "file1"])
        }
        // Two by themselves and one below them, then every page once; some may have been asked for in vain.
        #expect(tree.store.count(.list) <= 3 + 8 + 4)
        tree.store.forgetRequests()
        for directory in directories { _ = try await tree.names("t/\(directory)") }
        #expect(tree.store.requests.isEmpty)
    }

    @Test func aFlatListingShowsOurOwnChangesAndThoseOfOthers() async throws {
        let (tree, names) = try forest()
        let directories = try await tree.names("t").sorted()
        for directory in directories.prefix(2) { _ = try await tree.names("t/\(directory)") }
        try await tree.store("t/05/mine", [1, 2, 3])
        try await tree.unlink("t/06/file0")
        try await tree.rename("t/07", to: "t/99")
        tree.store.setObject("t/08/theirs", [1])
        for (number, directory) in directories.enumerated().dropFirst(2) where number != 7 {
            var expected = names(number)
            if number == 5 { expected.append("mine") }
            if number == 6 { expected.removeFirst() }
            if number == 8 { expected.append("theirs") }
            #expect(try await tree.names("t/\(directory)").sorted() == expected.sorted(), "\(directory)")
        }
        #expect(try await tree.names("t/99").sorted() == names(7))
    }

    @Test func directoriesHereAndThereAreListedByThemselves() async throws {
        let (tree, _) = try forest()
        _ = try await tree.names("t")
        tree.store.forgetRequests()
        for directory in ["30", "21", "09", "12", "15", "18"] { _ = try await tree.names("t/\(directory)") }
        #expect(tree.store.count(.list) == 6)
    }

    @Test(.rule("visible.remote")) func listingAgainWithinTtlCostsNothingEvenAfterARemount() async throws {
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

    @Test(.rule("close.clean")) func readingASmallFileAfterListingCostsOneGetAndThenNothing() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        #expect(try await tree.load("d/file1") == Array("content 1".utf8))
        #expect(tree.store.requests.map(\.operation) == [.get])
        #expect(try await tree.load("d/file1") == Array("content 1".utf8))
        #expect(tree.store.requests.count == 1)
    }

    @Test(.rule("rename.replace")) func renamingAFileCostsOneRequestWhereTheStoreRenames() async throws {
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

    @Test(.rule("statfs")) func whatIsUsedIsAskedForOnceWithinTtl() async throws {
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

    @Test(.rule("close.remote", "create.new")) func writingANewFileCostsOnePutAndReadingItBackNothing() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        try await tree.store("d/new", Array("hello".utf8))
        #expect(tree.store.requests.map(\.operation) == [.put])
        #expect(try await tree.load("d/new") == Array("hello".utf8))
        #expect(tree.store.requests.count == 1)
        #expect(tree.store.content("d/new") == Array("hello".utf8))
    }

    @Test(.rule("attr.set", "attr.stored", "attr.mtime")) func attributesSetBeforeCloseTravelInThePut() async throws {
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

    @Test(.rule("close.remote")) func aBigFileGoesUpInPartsAndComesDownInRanges() async throws {
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

    @Test(.rule("rename.replace")) func renamingAFileCostsOneCopyAndOneDelete() async throws {
        let tree = try tree(objects: 3)
        _ = try await tree.names("d")
        tree.store.forgetRequests()
        try await tree.rename("d/file0", to: "d/renamed")
        #expect(tree.store.requests.map(\.operation) == [.copy, .delete])
        #expect(try await tree.load("d/renamed") == Array("content 0".utf8))
    }

    @Test(.rule("rename.pending")) func renamingAFileThatIsNotCommittedCostsNothing() async throws {
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
