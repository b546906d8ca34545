import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// SEMANTICS section 7: while the store is away what is known goes on; it is not away because it cannot serve one object.
@Suite(.timeLimit(.minutes(2))) struct OutageTests {
    @Test(arguments: [ObjectStoreError.Kind.serverFault, .throttled])
    func oneObjectThatCannotBeServedIsNoOutage(kind: ObjectStoreError.Kind) async throws {
        let tree = try MountedTree(ttl: .seconds(1))
        tree.store.setObject("bad/one", [1])
        tree.store.setObject("good/old", [1])
        #expect(try await tree.find("bad/one").size == 1)
        #expect(try await tree.names("good") == ["old"])
        tree.time.advance(by: .seconds(5))
        tree.store.setObject("good/new", [1, 2])
        tree.store.fault = { operation, key in
            key == "bad/one"
                ? ObjectStoreError(kind, operation, key: key, status: 503, message: "not this one") : nil
        }
        await #expect(throws: MountedTree.Failure.self) { try await tree.find("bad/one") }
        #expect(try await tree.find("good/new").size == 2)
    }

    @Test(.rule("away.read")) func aStoreThatCannotServeAnythingIsAway() async throws {
        let tree = try MountedTree(ttl: .seconds(1))
        tree.store.setObject("good/old", [1])
        #expect(try await tree.names("good") == ["old"])
        tree.time.advance(by: .seconds(5))
        tree.store.fault = { operation, key in
            ObjectStoreError(.serverFault, operation, key: key, status: 503, message: "maintenance")
        }
        #expect(try await tree.find("good/old").size == 1)
        #expect(try await tree.names("good") == ["old"])
    }

    /// One file shows that the store is away; the others are not tried, and nothing is lost.
    @Test(.rule("away.end", "crash.acknowledged"), arguments: [MountPolicy.Durability.remote, .local])
    func theEndOfAMountGivesOneVerdictForAllFiles(durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(durability: durability)
        _ = try await tree.names("")
        let names = (100..<160).map { "f\($0)" }
        tree.store.fault = { operation, key in
            ObjectStoreError(.timedOut, operation, key: key, message: "no answer")
        }
        for name in names {
            do { try await tree.store(name, Array(name.utf8)) } catch { #expect(durability == .remote) }
        }
        tree.store.forgetRequests()
        let unstored = await tree.system.shutDown()
        #expect(unstored.count == (durability == .local ? names.count : unstored.count))
        #expect(unstored.allSatisfy { $0.reason.contains("no answer") }, "\(unstored)")
        #expect(tree.store.requests.count <= 10, "\(tree.store.requests.count)")
        tree.store.fault = nil
        guard durability == .local else { return }
        try await tree.mountAgain()
        for name in names { try await tree.waitUntil(name) { tree.store.content(ObjectKey(name)) == Array(name.utf8) } }
    }

    /// What was known of an outage may be older than the store's return.
    @Test(.rule("away.end")) func aStoreThatIsBackAtTheEndGetsTheFiles() async throws {
        let tree = try MountedTree(durability: .local)
        _ = try await tree.names("")
        tree.store.fault = { operation, key in
            ObjectStoreError(.timedOut, operation, key: key, message: "no answer")
        }
        try await tree.store("f", [1])
        await #expect(throws: MountedTree.Failure.self) { try await tree.makeDirectory("d") }
        tree.store.fault = nil
        #expect(await tree.system.shutDown().isEmpty)
        #expect(tree.store.content("f") == [1])
    }

    /// The kernel repeats a read ahead that failed for the page that a program waits for.
    @Test(.rule("deadline")) func aReadThatWasNotAnsweredIsNotRepeatedAtOnce() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", [1, 2, 3])
        let file = try await tree.open("f", OpenFlags(reads: true, writes: false))
        tree.store.fault = { [time = tree.time] operation, key in
            guard operation == .get else { return nil }
            time.advance(by: .seconds(40))
            return ObjectStoreError(.timedOut, operation, key: key, message: "no answer")
        }
        await #expect(throws: MountedTree.Failure.self) { _ = try await tree.read(file, at: 0, count: 3) }
        let requests = tree.store.count(.get)
        await #expect(throws: MountedTree.Failure(kind: .timedOut, reason: "")) {
            _ = try await tree.read(file, at: 0, count: 3)
        }
        #expect(tree.store.count(.get) == requests)
        tree.store.fault = nil
        tree.time.advance(by: .seconds(2))
        #expect(try await tree.read(file, at: 0, count: 3) == [1, 2, 3])
        try await tree.close(file)
    }
}
