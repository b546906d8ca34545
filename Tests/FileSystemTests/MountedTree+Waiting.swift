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

    /// Advances the time by `pace` after each check, so that failed requests are retried.
    func waitUntil(
        _ what: String, each pace: Duration = .milliseconds(100), sourceLocation: SourceLocation = #_sourceLocation,
        _ condition: () async throws -> Bool
    ) async throws {
        try await TestSupport.waitUntil(what, { time.advance(by: pace) }, sourceLocation: sourceLocation, condition)
    }

    func expectStored(_ key: ObjectKey, _ content: [UInt8]) async throws {
        try await waitUntil("\(key) is stored") { store.info(key)?.version.size == Int64(content.count) }
        #expect(store.content(key) == content)
    }
}
