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
    private let released = Semaphore()
    private let scriptEnded = Semaphore()
    private var invalidator: KernelInvalidator { tree.invalidator }

    init() throws { tree = try MountedTree() }

    private func release() {
        tree.fileSystem.state.withLock { $0.isReleased = true }
        released.signal()
    }

    /// Runs a shell script in the mount, and returns when the file system holds one of its calls: until `release`.
    private func holdUp(_ script: String) {
        let path = tree.path
        startThread(name: "held") { [scriptEnded] in
            _ = shell("bash", "-c", "cd $1; \(script)", "sh", path)
            scriptEnded.signal()
        }
        // Were what the test waits for not to end, neither would the test. No machine is as slow as that.
        startThread(name: "end") { [fileSystem = tree.fileSystem, released] in
            if !released.wait(for: .seconds(600)) { fileSystem.state.withLock { $0.isReleased = true } }
        }
        while tree.fileSystem.state.withLock({ $0.held == 0 && !$0.isReleased }) { usleep(10_000) }
    }

    /// After `release`: the mount is in use as long as the script is.
    private func unmount() throws {
        scriptEnded.wait()
        _ = try tree.unmount()
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
            try? await invalidator.awaitInvalidation(of: held)
            isHeard.store(true, ordering: .releasing)
        }
        invalidator.invalidate(other)
        try await invalidator.awaitInvalidation(of: other)
        let isOver = isHeard.load(ordering: .acquiring)
        #expect(!isOver, "its pages are locked")
        #expect(!isReleased)
        release()
        await waiter.value
        try unmount()
    }

    @Test func aCallInOneDirectoryKeepsNothingFromBeingSaidAboutNamesInAnother() async throws {
        #expect(shell("bash", "-c", "cd $1; mkdir d; echo x >d/x; echo x >other", "sh", tree.path).status == 0)
        let directory = try number(of: "d")
        holdUp("mkdir d/stuck")
        invalidator.invalidate("x", in: directory)
        invalidator.invalidate("other", in: .root)
        try await invalidator.awaitInvalidation(of: .root, namesIn: .root)
        #expect(!isReleased)
        release()
        try await invalidator.awaitInvalidation(of: directory, namesIn: directory)
        try unmount()
    }

    @Test func whoIsCancelledWaitsNoLonger() async throws {
        #expect(shell("bash", "-c", "cd $1; echo x >held", "sh", tree.path).status == 0)
        let held = try number(of: "held")
        holdUp("cat held")
        invalidator.invalidate(held)
        // Cancelled before it waits, and while it does.
        for pause in [Duration.zero, .milliseconds(100)] {
            let waiter = Task { [invalidator] in try await invalidator.awaitInvalidation(of: held) }
            try await Task.sleep(for: pause)
            waiter.cancel()
            await #expect(throws: CancellationError.self) { try await waiter.value }
        }
        #expect(!isReleased)
        release()
        try await invalidator.awaitInvalidation(of: held)
        try unmount()
    }

    @Test func whatIsSaidOfManyIsAllHeard() async throws {
        let script = "cd $1; for i in {1..200}; do echo x >$i; done; cat * >/dev/null"
        #expect(shell("bash", "-c", script, "sh", tree.path).status == 0)
        let numbers = try #require(tree.fileSystem.state.withLock { $0.nodes[.root]?.children.values.map { $0 } })
        #expect(numbers.count == 200)
        for number in numbers { invalidator.invalidate(number) }
        for number in numbers { try await invalidator.awaitInvalidation(of: number) }
        // Told while the lanes are left, and with nobody to hear it any more.
        for number in numbers { invalidator.invalidate(number) }
        _ = try tree.unmount()
        try await invalidator.awaitInvalidation(of: numbers[0])
    }
}
