import Basics
import Metadata
import Synchronization
import TestSupport
import Testing

@testable import FileSystem

/// `pailfs refresh`: the next use asks the store.
@Suite struct RefreshTests {
    private final class Notifier: KernelNotifier {
        let names = Mutex<Set<LookupKey>>([])

        func invalidate(_ ino: InodeNumber) {}
        func invalidateAttributes(of ino: InodeNumber) {}
        func invalidate(_ name: ByteString, in parent: InodeNumber) {
            names.withLock { _ = $0.insert(LookupKey(parent: parent, name: name)) }
        }
        func awaitInvalidation(of ino: InodeNumber) async throws(CancellationError) {}
        func awaitInvalidation(of ino: InodeNumber, namesIn parent: InodeNumber) async throws(CancellationError) {}
    }

    /// No directory above the top one has a name that could be invalidated in its place.
    @Test func theKernelAsksAgainForNamesThatTheTopDirectoryDidNotHave() async throws {
        let tree = try MountedTree()
        let notifier = Notifier()
        tree.system.attach(notifier)
        #expect(try await tree.names("") == [])
        #expect(try await tree.run(tree.system.lookup("f", in: .root)).status == nil)
        tree.store.setObject("f", [1])
        try await tree.system.refreshEverywhere(.root)
        #expect(notifier.names.withLock { $0.contains(LookupKey(parent: .root, name: "f")) })
        #expect(try await tree.find("f").size == 1)
    }
}
