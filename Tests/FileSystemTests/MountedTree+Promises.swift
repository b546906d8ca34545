import Basics
import ObjectStorage
import TestSupport
import Testing

/// Of a mount that stores in the background.
extension MountedTree {
    /// The store is away for whoever writes.
    func refuseWrites() {
        store.fault = { operation, key in
            guard [.put, .createUpload, .uploadPart, .completeUpload].contains(operation) else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
    }

    func waitUntil(_ what: String, _ condition: () -> Bool) async throws {
        for _ in 0..<5000 where !condition() {
            // What failed is tried again after a while.
            time.advance(by: .milliseconds(100))
            try await Task.sleep(for: .milliseconds(1))
        }
        try #require(condition(), "\(what)")
    }

    func expectStored(_ key: ObjectKey, _ content: [UInt8]) async throws {
        try await waitUntil("\(key) is stored") { store.info(key)?.version.size == Int64(content.count) }
        #expect(store.content(key) == content)
    }
}
