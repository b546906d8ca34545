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
}
