import Basics
import Metadata
import TestSupport
import Testing

@testable import FileSystem

/// `pailfs refresh`: the next use asks the store.
@Suite struct RefreshTests {
    /// No directory above the top one has a name by which the kernel could forget the absent names, whichever process told them.
    @Test func theKernelAlwaysAsksForNamesThatTheTopDirectoryDoesNotHave() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        #expect(try await tree.names("") == ["d"])
        #expect(try await tree.run(tree.system.lookup("f", in: .root)).entryTimeout == .zero)
        let below = try await tree.run(tree.system.lookup("f", in: tree.find("d").ino))
        #expect(below.entryTimeout > .zero)
        tree.store.setObject("f", [1])
        try await tree.system.refreshEverywhere(.root)
        #expect(try await tree.find("f").size == 1)
    }
}
