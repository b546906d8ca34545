import Basics
import Emulator
import ObjectStorage
import Providers
import TestSupport
import Testing

/// Servers whose ETags look like an MD5 and are none, as of buckets that encrypt and of gateways: sound uploads and reads succeed,
/// and damaged ones do not.
@Suite(.timeLimit(.minutes(5))) struct OpaqueETagTests {
    static let dialects: [Dialect] = [.s3, .oss, .cos, .kodo, .cssp]

    private func bytes(_ key: ObjectKey, _ store: any ObjectStore) async throws -> [UInt8] {
        let sink = CollectingSink()
        _ = try await store.get(GetRequest(key), into: sink)
        return sink.bytes
    }

    private func withOpaqueETags(
        _ dialect: Dialect, _ body: (EmulatorServer, Server) async throws -> Void
    ) async throws {
        try await withEmulator(dialect) { emulator, server in
            emulator.setFaults([try FaultSpec(parsing: "kind=opaque-etag")])
            try await body(emulator, server)
        }
    }

    @Test(arguments: dialects) func soundUploadsSucceed(_ dialect: Dialect) async throws {
        try await withOpaqueETags(dialect) { _, server in
            let store = try server.store()
            for (key, content) in [("one", [1, 2]), ("two", []), ("three", [3])] as [(ObjectKey, [UInt8])] {
                let answer = try await store.put(PutRequest(key), body: MemorySource(content))
                #expect(try await store.head(key, condition: nil).version.etag == answer.etag)
                #expect(try await bytes(key, store) == content)
            }
            _ = try await store.copy(CopyRequest(CopySource("one"), to: "copy"))
            #expect(try await bytes("copy", store) == [1, 2])
        }
    }

    @Test(arguments: dialects) func soundUploadsInPartsSucceed(_ dialect: Dialect) async throws {
        try await withOpaqueETags(dialect) { _, server in
            let store = try server.store()
            let upload = try await store.createUpload(PutRequest("large"))
            let part = try await store.uploadPart(
                PartRequest("large", upload, number: 1), body: MemorySource([1, 2, 3]))
            #expect(try await store.listParts("large", upload).map(\.etag) == [part.etag])
            let answer = try await store.completeUpload("large", upload, parts: [part], condition: nil)
            let info = try await store.head("large", condition: nil)
            #expect(info.version.etag == answer.etag && info.version.size == 3)
            #expect(try await bytes("large", store) == [1, 2, 3])
            #expect(try await store.checksums(of: "large", info.version).allSatisfy { $0.size == 3 })
            guard store.capabilities.listUploads else { return }
            #expect(try await store.listUploads(prefix: "").isEmpty)
        }
    }

    /// By a process that has written nothing.
    @Test(arguments: dialects) func soundReadsSucceed(_ dialect: Dialect) async throws {
        try await withOpaqueETags(dialect) { _, server in
            let writer = try server.store()
            for key in ["a", "b"] as [ObjectKey] {
                _ = try await writer.put(PutRequest(key), body: MemorySource(Array(key.description.utf8)))
            }
            let store = try server.store()
            #expect(try await bytes("a", store) == Array("a".utf8))
            #expect(try await bytes("b", store) == Array("b".utf8))
        }
    }

    @Test(arguments: dialects) func damageIsStillSeen(_ dialect: Dialect) async throws {
        try await withEmulator(dialect) { emulator, server in
            let store = try server.store()
            for key in ["a", "b"] as [ObjectKey] {
                _ = try await store.put(PutRequest(key), body: MemorySource(Array(key.description.utf8)))
            }
            let names: [Dialect: String] = [.kodo: "get", .cssp: "getObject"]
            emulator.setFaults([try FaultSpec(parsing: "op=\(names[dialect] ?? "GetObject"),key=a,kind=alter")])
            let reader = try server.store()
            #expect(await failure { try await reader.get(GetRequest("a"), into: CollectingSink()) } == .integrity)
            #expect(try await bytes("b", reader) == Array("b".utf8))
            #expect(reader.capabilities.quirks.isEmpty)
        }
    }
}
