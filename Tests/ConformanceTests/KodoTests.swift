import Basics
import Digests
import Emulator
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What Kodo does in ways of its own, and what the store makes of it.
@Suite struct KodoTests {
    private static let key = ObjectKey("dir/ü b")
    private static let bytes = Promise.content(6 << 20)

    private func withKodo(
        _ change: (inout EmulatorOptions) -> Void = { _ in },
        _ body: (KodoStore, EmulatorServer, Server) async throws -> Void
    ) async throws {
        try await withEmulator(.kodo, change: change) { emulator, server in
            try await body(try #require(try server.store() as? KodoStore), emulator, server)
        }
    }

    private func read(_ store: any ObjectStore, _ key: ObjectKey = key) async throws(ObjectStoreError) -> [UInt8] {
        let sink = CollectingSink()
        _ = try await store.get(GetRequest(key), into: sink)
        return sink.bytes
    }

    /// An upload whose parts are 5 MiB and what is left, ready to be completed.
    private func begin(
        _ store: any ObjectStore, user: [String: String] = [:]
    ) async throws(ObjectStoreError) -> (UploadID, [UploadedPart]) {
        let upload = try await store.createUpload(PutRequest(Self.key, metadata: ObjectMetadata(user: user)))
        var parts: [UploadedPart] = []
        for (index, range) in [0..<(5 << 20), (5 << 20)..<Self.bytes.count].enumerated() {
            parts.append(
                try await store.uploadPart(
                    PartRequest(Self.key, upload, number: index + 1), body: MemorySource(Array(Self.bytes[range]))))
        }
        return (upload, parts)
    }

    @Test func aWholeReadOfPartsIsComparedWithTheirHash() async throws {
        try await withKodo { store, emulator, _ in
            let (upload, parts) = try await begin(store)
            let answer = try await store.completeUpload(Self.key, upload, parts: parts, condition: nil)
            #expect(QETag.dependsOnParts(answer.etag.text))
            #expect(try await read(store) == Self.bytes)
            emulator.setFaults([try FaultSpec(parsing: "op=get,kind=alter")])
            #expect(await failure { try await read(store) } == .integrity)
        }
    }

    @Test func theSameBytesOfSomebodyElseAreNoSuccess() async throws {
        try await withKodo { store, _, _ in
            func put(_ author: String) async throws(ObjectStoreError) {
                let metadata = ObjectMetadata(user: ["author": author])
                _ = try await store.put(
                    PutRequest(Self.key, metadata: metadata, condition: .absent), body: MemorySource([]))
            }
            try await put("one")
            #expect(await failure { try await put("two") } == .preconditionFailed)
            // Ours again, after an answer that was lost.
            try await put("one")
            #expect(try await store.head(Self.key, condition: nil).metadata.user == ["author": "one"])
        }
        try await withKodo { store, _, _ in
            for (author, kind) in [("one", nil), ("two", .preconditionFailed)] as [(String, ObjectStoreError.Kind?)] {
                let (upload, parts) = try await begin(store, user: ["author": author])
                let outcome = await failure {
                    try await store.completeUpload(Self.key, upload, parts: parts, condition: .absent)
                }
                #expect(outcome == kind)
            }
        }
    }

    @Test func anUploadWhoseEndWasNotAnsweredIsRecognised() async throws {
        try await withKodo { store, emulator, _ in
            let (upload, parts) = try await begin(store, user: ["k": "v"])
            emulator.setFaults([try FaultSpec(parsing: "op=completeMultipartUpload,count=1,kind=lost-reply")])
            func complete() async throws(ObjectStoreError) -> PutAnswer {
                try await store.completeUpload(Self.key, upload, parts: parts, condition: nil)
            }
            #expect(await failure { try await complete() } == .interrupted)
            let answer = try await complete()
            #expect(try await store.head(Self.key, condition: nil).version.etag == answer.etag)
            // Another store knows nothing of the parts, and so cannot tell.
            #expect(await failure { try await complete() } == .noSuchUpload)
        }
    }

    @Test func anUploadGoesOnInAnotherProcess() async throws {
        try await withKodo { store, _, server in
            let (upload, parts) = try await begin(store, user: ["k": "v"])
            let other = try server.store()
            #expect(try await other.listParts(Self.key, upload) == parts)
            _ = try await other.completeUpload(Self.key, upload, parts: parts, condition: .absent)
            #expect(try await other.head(Self.key, condition: nil).metadata.user == ["k": "v"])
            #expect(try await read(other) == Self.bytes)
        }
    }

    @Test func metadataThatIsTakenAwayStaysAway() async throws {
        try await withKodo { store, _, _ in
            var metadata = ObjectMetadata(contentType: "text/a", user: ["keep": "1", "drop": "2", "change": "3"])
            (metadata.cacheControl, metadata.contentEncoding) = ("no-cache", "br")
            let etag = try await store.put(PutRequest(Self.key, metadata: metadata), body: MemorySource([1])).etag
            let new = ObjectMetadata(contentType: "text/b", user: ["keep": "1", "change": "4 %25", "add": "5"])
            let before = try await store.head(Self.key, condition: nil).version
            let answer = try await store.updateMetadata(Self.key, to: new, ifMatch: etag)
            let info = try await store.head(Self.key, condition: nil)
            #expect(info.metadata == new && info.version == before && answer.etag == etag)
            let got = try await store.get(GetRequest(Self.key), into: CollectingSink())
            #expect(got.info.metadata == new)
            _ = try await store.updateMetadata(Self.key, to: metadata, ifMatch: etag)
            #expect(try await store.head(Self.key, condition: nil).metadata == metadata)
        }
    }

    @Test(arguments: [
        ["": "x"], [String(repeating: "n", count: 41): "x"], ["a b": "x"], ["k": String(repeating: "v", count: 1024)],
    ]) func metadataThatKodoRefusesIsRefusedBefore(user: [String: String]) async throws {
        try await withKodo { store, _, _ in
            let put = await failure {
                try await store.put(
                    PutRequest(Self.key, metadata: ObjectMetadata(user: user)), body: MemorySource([]))
            }
            #expect(put == (user["k"] == nil ? .invalidRequest : .metadataTooLarge))
            #expect(await failure { try await store.head(Self.key, condition: nil) } == .notFound)
        }
    }

    @Test func classesAreSetChangedAndCopied() async throws {
        try await withKodo { store, _, _ in
            _ = try await store.put(PutRequest(Self.key, storageClass: "LINE"), body: MemorySource([1]))
            #expect(try await store.head(Self.key, condition: nil).storageClass == "LINE")
            #expect(try await store.list(ListRequest()).objects.map(\.storageClass) == ["LINE"])
            let copy = ObjectKey("copy")
            _ = try await store.copy(CopyRequest(CopySource(Self.key), to: copy, storageClass: "GLACIER_IR"))
            #expect(try await store.head(copy, condition: nil).storageClass == "GLACIER_IR")
            let etag = try await store.setStorageClass(of: copy, to: "STANDARD", ifMatch: nil).etag
            #expect(try await store.head(copy, condition: nil).storageClass == nil)
            let stale = await failure { try await store.setStorageClass(of: copy, to: "LINE", ifMatch: ETag("other")) }
            #expect(stale == .preconditionFailed)
            _ = try await store.setStorageClass(of: copy, to: "LINE", ifMatch: etag)
            let unknown = await failure { try await store.setStorageClass(of: copy, to: "COLD", ifMatch: nil) }
            #expect(unknown == .invalidRequest)
        }
    }

    @Test func archivedObjectsAreReadAfterTheyAreRestored() async throws {
        try await withKodo({ $0.restoreDelay = .seconds(3600) }) { store, _, _ in
            _ = try await store.put(PutRequest(Self.key, storageClass: "GLACIER"), body: MemorySource([1, 2]))
            #expect(await failure { try await read(store) } == .archived(restoring: false))
            #expect(await failure { try await store.restore(Self.key, RestoreRequest(days: 8)) } == .invalidRequest)
            for _ in 0..<2 { try await store.restore(Self.key, RestoreRequest(days: 1)) }
            #expect(await failure { try await read(store) } == .archived(restoring: true))
            #expect(try await store.head(Self.key, condition: nil).restore == .ongoing)
        }
        try await withKodo({ $0.restoreDelay = .zero }) { store, _, _ in
            _ = try await store.put(PutRequest(Self.key, storageClass: "DEEP_ARCHIVE"), body: MemorySource([1, 2]))
            try await store.restore(Self.key, RestoreRequest())
            #expect(try await store.head(Self.key, condition: nil).restore == .restored(until: nil))
            #expect(try await read(store) == [1, 2])
        }
    }

    @Test func otherDialectsSeeTheSameObjects() async throws {
        try await withKodo { store, emulator, server in
            var other = Server(port: try #require(emulator.port(of: "s3")))
            other.dialect = .s3
            let s3 = try other.store()
            let (upload, parts) = try await begin(s3)
            _ = try await s3.completeUpload(Self.key, upload, parts: parts, condition: nil)
            #expect(try await read(store) == Self.bytes)
            let listed = try #require(try await store.list(ListRequest()).objects.first)
            #expect(listed.version == (try await store.head(Self.key, condition: nil).version))
            let metadata = ObjectMetadata(contentType: "text/a", user: ["k": "v"])
            _ = try await store.put(PutRequest(Self.key, metadata: metadata), body: MemorySource([1, 2]))
            let info = try await s3.get(GetRequest(Self.key), into: CollectingSink()).info
            #expect(info.metadata == metadata && info.version.size == 2)
            _ = try await store.move(CopyRequest(CopySource(Self.key), to: ObjectKey("moved")))
            #expect(try await read(s3, ObjectKey("moved")) == [1, 2])
            #expect(await failure { try await s3.head(Self.key, condition: nil) } == .notFound)
        }
    }

    @Test func aMoveLeavesTheTargetWhenNothingMayBeThere() async throws {
        try await withKodo { store, _, _ in
            let to = ObjectKey("to")
            _ = try await store.put(PutRequest(Self.key), body: MemorySource([1]))
            _ = try await store.put(PutRequest(to), body: MemorySource([2]))
            let request = CopyRequest(CopySource(Self.key), to: to, condition: .absent)
            #expect(await failure { try await store.move(request) } == .preconditionFailed)
            #expect(try await read(store, to) == [2])
            #expect(try await read(store) == [1])
            _ = try await store.move(CopyRequest(CopySource(to), to: to))
            #expect(try await read(store, to) == [2])
        }
    }

    @Test func aClockThatIsYearsOffIsCorrected() async throws {
        try await withKodo { _, _, server in
            let store = try server.store(time: ManualTime())
            _ = try await store.put(PutRequest(Self.key), body: MemorySource([1]))
            #expect(try await read(store) == [1])
            #expect(try await store.head(Self.key, condition: nil).version.size == 1)
            let reader = try server.store(time: ManualTime())
            #expect(try await read(reader) == [1])
        }
    }

    @Test func theBucketsOfAnAccountAreListed() async throws {
        try await withKodo({ $0.buckets = ["conformance", "another"] }) { _, _, server in
            var settings = KodoClient.Settings()
            settings.endpoint = server.endpoint
            let credentials = Credentials(accessKeyID: server.accessKey, secretKey: Secret(server.secret))
            let account = try KodoBuckets(
                settings, credentials: FixedCredentials(credentials), engine: server.engine, time: SystemTime())
            #expect(try await account.buckets().map(\.name) == ["another", "conformance"])
        }
    }

    @Test func longListingsAreWhole() async throws {
        try await withKodo { store, _, _ in
            let keys = (0..<1200).map { ObjectKey("n/\($0 / 10)/\($0)") }
            await withTaskGroup { group in
                for start in stride(from: 0, to: keys.count, by: 150) {
                    group.addTask {
                        for key in keys[start..<(start + 150)] {
                            _ = try? await store.put(PutRequest(key), body: MemorySource([1]))
                        }
                    }
                }
            }
            let first = try await store.list(ListRequest())
            let second = try await store.list(ListRequest(cursor: first.next))
            #expect(first.objects.count == 1000 && second.next == nil)
            #expect((first.objects + second.objects).map(\.key) == keys.sorted())
            let failures = try await store.deleteMany(Array(keys.prefix(1000)))
            #expect(failures.isEmpty)
            #expect(try await store.list(ListRequest()).objects.count == 200)
        }
    }
}
