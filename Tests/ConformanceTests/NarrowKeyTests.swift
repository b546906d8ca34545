import Basics
import Emulator
import ObjectStorage
import Providers
import TestSupport
import Testing

/// Credentials that reach less than the bucket, at each store that pailstore serves.
@Suite(.timeLimit(.minutes(5))) struct NarrowKeyTests {
    static let dialects: [Dialect] = [.s3, .oss, .cos, .kodo, .cssp]

    private func withFaults(
        _ dialect: Dialect, _ faults: String..., body: (any ObjectStore) async throws -> Void
    ) async throws {
        try await withEmulator(dialect) { emulator, server in
            let store = try server.store()
            for key in ["data/object", "other/object"] {
                _ = try await store.put(PutRequest(ObjectKey(ByteString(key))), body: MemorySource([1, 2, 3]))
            }
            emulator.setFaults(try faults.map { try FaultSpec(parsing: $0) })
            try await body(store)
        }
    }

    @Test(arguments: dialects) func aStoreBelowAPrefixAsksForNothingElse(_ dialect: Dialect) async throws {
        try await withFaults(dialect, "kind=prefix:data/") { whole in
            #expect(await failure { try await whole.checkAccess() } == .accessDenied)
            #expect(await failure { try await whole.list(ListRequest()) } == .accessDenied)
            let store = PrefixedStore(whole, prefix: "data/")
            try await store.checkAccess()
            try await store.checkAccess(below: "directory/")
            #expect(try await store.list(ListRequest()).objects.map(\.key) == ["object"])
            _ = try await store.put(PutRequest("new", condition: .absent), body: MemorySource([1]))
            #expect(try await store.head("new", condition: nil).version.size == 1)
            _ = try await store.copy(CopyRequest(CopySource("new"), to: "copy"))
            // CSSP keeps parts beside the objects of the container, whose permissions are whole.
            if dialect == .cssp { return }
            let upload = try await store.createUpload(PutRequest("parts"))
            let part = try await store.uploadPart(PartRequest("parts", upload, number: 1), body: MemorySource([1, 2]))
            _ = try await store.completeUpload("parts", upload, parts: [part], condition: nil)
            let sink = CollectingSink()
            _ = try await store.get(GetRequest("parts"), into: sink)
            #expect(sink.bytes == [1, 2])
            #expect(await failure { try await store.head("missing", condition: nil) } == .notFound)
            #expect(try await store.deleteMany(["new", "copy"]).isEmpty)
            try await store.delete("parts", ifMatch: nil)
            #expect(try await store.list(ListRequest()).objects.map(\.key) == ["object"])
        }
    }

    @Test(arguments: dialects) func aListingDecidesWhatA403Means(_ dialect: Dialect) async throws {
        try await withFaults(dialect, "kind=403-for-404") { store in
            #expect(await failure { try await store.head("data/missing", condition: nil) } == .notFound)
            #expect(
                await failure { try await store.get(GetRequest("data/missing"), into: CollectingSink()) } == .notFound)
            _ = try await store.put(PutRequest("data/new", condition: .absent), body: MemorySource([1]))
            try await store.delete("data/new", ifMatch: nil)
            #expect(await failure { try await store.head("data/new", condition: nil) } == .notFound)
        }
        let names: [Dialect: String] = [.kodo: "stat", .cssp: "headObject"]
        let head = names[dialect] ?? "HeadObject"
        try await withFaults(dialect, "op=\(head),key=data/object,kind=status:403") { store in
            #expect(await failure { try await store.head("data/object", condition: nil) } == .accessDenied)
        }
    }

    /// Nothing shows whether there is an object.
    @Test(arguments: dialects) func a403StandsWhereListingsAreRefused(_ dialect: Dialect) async throws {
        let names: [Dialect: String] = [.cos: "GetBucket", .kodo: "list", .cssp: "listObjects", .oss: "ListObjects"]
        let faults = [names[dialect] ?? "ListObjectsV2", "ListObjectsV2"].map { "kind=refuse:\($0):403" }
        try await withFaults(dialect, faults[0], faults[1], "kind=403-for-404") { store in
            #expect(await failure { try await store.head("data/missing", condition: nil) } == .accessDenied)
        }
    }

    /// CSSP compares no condition, so pailfs has to know what a refused HEAD means.
    @Test(arguments: dialects) func objectsAreMadeWhereMissingOnesAreHidden(_ dialect: Dialect) async throws {
        let lists = ["ListObjectsV2", "ListObjects", "GetBucket", "list", "listObjects"]
        let faults = lists.map { "kind=refuse:\($0):403" } + ["kind=403-for-404"]
        try await withEmulator(dialect) { emulator, server in
            let store = try server.store()
            _ = try await store.put(PutRequest("old"), body: MemorySource([1, 2, 3]))
            emulator.setFaults(try faults.map { try FaultSpec(parsing: $0) })
            let new = try server.store()
            _ = try await new.put(PutRequest("data/new", condition: .absent), body: MemorySource([1]))
            _ = try await new.put(PutRequest("data/other"), body: MemorySource([1, 2]))
            #expect(try await new.head("data/other", condition: nil).version.size == 2)
            let taken = await failure {
                try await new.put(PutRequest("old", condition: .absent), body: MemorySource([9]))
            }
            #expect(taken == .preconditionFailed)
            emulator.setFaults([])
            let keys = try await store.list(ListRequest()).objects.map(\.key)
            #expect(keys == ["data/new", "data/other", "old"], "nothing else is left")
        }
    }

    /// An object that the credentials may not read is not replaced.
    @Test func aRefusedHeadOfCSSPIsNoMissingObject() async throws {
        try await withFaults(.cssp, "kind=refuse:listObjects:403", "kind=refuse:headObject:403") { store in
            for _ in 0..<2 {
                let put = PutRequest("data/object", condition: .absent)
                #expect(await failure { try await store.put(put, body: MemorySource([9])) } == .accessDenied)
            }
            let sink = CollectingSink()
            _ = try await store.get(GetRequest("data/object"), into: sink)
            #expect(sink.bytes == [1, 2, 3])
        }
    }

    /// CSSP deletes none together.
    @Test(arguments: dialects.filter { $0 != .cssp }) func manyObjectsAreDeletedOneByOneWhereTheStoreRefusesMore(
        _ dialect: Dialect
    ) async throws {
        let names: [Dialect: String] = [
            .oss: "DeleteMultipleObjects", .cos: "DeleteMultipleObjects", .kodo: "batch",
        ]
        for status in [501, 405, 403] {
            try await withFaults(dialect, "kind=refuse:\(names[dialect] ?? "DeleteObjects"):\(status)") { store in
                #expect(store.capabilities.deleteBatch > 1)
                for _ in 0..<2 {
                    let keys: [ObjectKey] = ["data/a", "data/b", "data/c"]
                    for key in keys { _ = try await store.put(PutRequest(key), body: MemorySource([1])) }
                    #expect(try await store.deleteMany(keys).isEmpty)
                    #expect(try await store.list(ListRequest(prefix: "data/")).objects.map(\.key) == ["data/object"])
                    #expect(store.capabilities.deleteBatch == 1)
                    #expect(store.capabilities.quirks == [.singleDeletes])
                }
            }
        }
    }
}
