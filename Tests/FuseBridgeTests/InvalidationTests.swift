import Basics
import FileSystem
import Foundation
import FuseBridge
import Metadata
import Synchronization
import Testing

/// What waits in the kernel for one file, or for one directory, keeps nothing from being said about others.
@Suite struct InvalidationTests {
    private let tree: MountedTree
    private var invalidator: KernelInvalidator { tree.invalidator }

    init() throws { tree = try MountedTree() }

    private func release() { tree.fileSystem.state.withLock { $0.isReleased = true } }

    /// Runs a shell script in the mount, and returns when the file system holds one of its calls.
    private func holdUp(_ script: String) {
        let path = tree.path
        startThread(name: "held") { _ = shell("bash", "-c", "cd $1; \(script)", "sh", path) }
        for _ in 0..<1000 where tree.fileSystem.state.withLock({ $0.held }) == 0 { usleep(10_000) }
        // Were what the test waits for not to end, neither would the test.
        startThread(name: "end") { [fileSystem = tree.fileSystem] in
            sleep(20)
            fileSystem.state.withLock { $0.isReleased = true }
        }
    }

    private var isReleased: Bool { tree.fileSystem.state.withLock { $0.isReleased } }

    private func number(of name: ByteString) throws -> InodeNumber {
        try #require(tree.fileSystem.state.withLock { $0.nodes[.root]?.children[name] })
    }

    @Test func aReadOfOneFileKeepsNothingFromBeingSaidAboutAnother() async throws {
        #expect(shell("bash", "-c", "cd $1; echo x >held; echo x >other", "sh", tree.path).status == 0)
        let (held, other) = (try number(of: "held"), try number(of: "other"))
        holdUp("cat held")
        invalidator.invalidate(held)
        let isHeard = Atomic(false)
        let waiter = Task { [invalidator] in
            try? await invalidator.settle(held)
            isHeard.store(true, ordering: .releasing)
        }
        invalidator.invalidate(other)
        try await invalidator.settle(other)
        let isOver = isHeard.load(ordering: .acquiring)
        #expect(!isOver, "its pages are locked")
        #expect(!isReleased)
        release()
        await waiter.value
        _ = try tree.unmount()
    }

    @Test func aCallInOneDirectoryKeepsNothingFromBeingSaidAboutNamesInAnother() async throws {
        #expect(shell("bash", "-c", "cd $1; mkdir d; echo x >d/x; echo x >other", "sh", tree.path).status == 0)
        let directory = try number(of: "d")
        holdUp("mkdir d/stuck")
        invalidator.invalidate("x", in: directory)
        invalidator.invalidate("other", in: .root)
        try await invalidator.settle(.root, namesIn: .root)
        #expect(!isReleased)
        release()
        try await invalidator.settle(directory, namesIn: directory)
        _ = try tree.unmount()
    }

    @Test func whoIsCancelledWaitsNoLonger() async throws {
        #expect(shell("bash", "-c", "cd $1; echo x >held", "sh", tree.path).status == 0)
        let held = try number(of: "held")
        holdUp("cat held")
        invalidator.invalidate(held)
        let waiter = Task { [invalidator] in try await invalidator.settle(held) }
        waiter.cancel()
        await #expect(throws: CancellationError.self) { try await waiter.value }
        #expect(!isReleased)
        release()
        try await invalidator.settle(held)
        _ = try tree.unmount()
    }

    @Test func whatIsSaidOfManyIsAllHeard() async throws {
        let script = "cd $1; for i in {1..200}; do echo x >$i; done; cat * >/dev/null"
        #expect(shell("bash", "-c", script, "sh", tree.path).status == 0)
        let numbers = try #require(tree.fileSystem.state.withLock { $0.nodes[.root]?.children.values.map { $0 } })
        #expect(numbers.count == 200)
        for number in numbers { invalidator.invalidate(number) }
        for number in numbers { try await invalidator.settle(number) }
        // Told while the lanes are left, and with nobody to hear it any more.
        for number in numbers { invalidator.invalidate(number) }
        _ = try tree.unmount()
        try await invalidator.settle(numbers[0])
    }
}
