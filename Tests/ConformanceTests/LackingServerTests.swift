import Basics
import Emulator
import ObjectStorage
import Providers
import TestSupport
import Testing

/// Servers that speak S3 and lack an operation: each lack is learned once, and another way leads to the same end.
@Suite(.timeLimit(.minutes(5))) struct LackingServerTests {
    private static let metadata = ObjectMetadata(contentType: "text/plain", user: ["mode": "0600"])
    private static let large = Promise.content(20_000_000)

    private func withFaults(
        _ faults: String..., body: (any ObjectStore, EmulatorServer) async throws -> Void
    ) async throws {
        try await withEmulator { emulator, server in
            let store = try server.store()
            for (key, bytes) in [("small", [1, 2, 3]), ("large", Self.large), ("directory/", [])] {
                let request = PutRequest(ObjectKey(ByteString(key)), metadata: Self.metadata)
                _ = try await store.put(request, body: MemorySource(bytes))
            }
            emulator.setFaults(try faults.map { try FaultSpec(parsing: $0) })
            try await body(store, emulator)
        }
    }

    private func bytes(_ key: ObjectKey, _ store: any ObjectStore) async throws -> [UInt8] {
        let sink = CollectingSink()
        _ = try await store.get(GetRequest(key), into: sink)
        return sink.bytes
    }

    @Test(arguments: [501, 405, 403]) func refusedCopiesAreMadeByReadingAndWriting(status: Int) async throws {
        try await withFaults("kind=refuse:CopyObject:\(status)") { store, emulator in
            for (source, expected) in [("small", [1, 2, 3]), ("large", Self.large)] as [(ObjectKey, [UInt8])] {
                let etag = try await store.head(source, condition: nil).version.etag
                let answer = try await store.copy(CopyRequest(CopySource(source, ifMatch: etag), to: "copy"))
                let info = try await store.head("copy", condition: nil)
                #expect(info.version.etag == answer.etag && info.metadata.user == ["mode": "0600"])
                #expect(try await bytes("copy", store) == expected)
            }
            _ = try await store.updateMetadata("small", to: ObjectMetadata(user: ["mode": "0644"]), ifMatch: nil)
            #expect(try await store.head("small", condition: nil).metadata.user == ["mode": "0644"])
            #expect(store.capabilities.quirks == [.copiesRefused])
            // Learned: the request is not sent again.
            emulator.setFaults([try FaultSpec(parsing: "kind=refuse:CopyObject:500")])
            _ = try await store.copy(CopyRequest(CopySource("small"), to: "copy"))
        }
    }

    @Test func aCopyOfWhatIsMissingOrForbiddenIsStillRefused() async throws {
        try await withFaults("kind=refuse:CopyObject:403", "op=GetObject,key=small,kind=status:403") { store, _ in
            let missing = await failure { try await store.copy(CopyRequest(CopySource("missing"), to: "copy")) }
            #expect(missing == .notFound)
            let forbidden = await failure { try await store.copy(CopyRequest(CopySource("small"), to: "copy")) }
            #expect(forbidden == .accessDenied)
            #expect(store.capabilities.quirks.isEmpty)
        }
    }

    /// versitygw answers 400 DirectoryObjectContainsDataPayload.
    @Test func theObjectOfADirectoryIsPutWhereItsCopyIsRefused() async throws {
        try await withFaults("op=CopyObject,key=*/,kind=status:400") { store, _ in
            _ = try await store.copy(CopyRequest(CopySource("directory/"), to: "renamed/"))
            #expect(try await store.head("renamed/", condition: nil).metadata.user == ["mode": "0600"])
            _ = try await store.updateMetadata("directory/", to: ObjectMetadata(user: ["mode": "0755"]), ifMatch: nil)
            #expect(try await store.head("directory/", condition: nil).metadata.user == ["mode": "0755"])
            #expect(store.capabilities.quirks == [.markerCopiesRefused])
            _ = try await store.copy(CopyRequest(CopySource("small"), to: "copy"))
        }
    }

    @Test(arguments: [501, 403]) func refusedPartCopiesAreMadeByReadingAndWriting(status: Int) async throws {
        try await withFaults("kind=refuse:UploadPartCopy:\(status)") { store, _ in
            let upload = try await store.createUpload(PutRequest("copy"))
            let part = try await store.uploadPartCopy(
                PartRequest("copy", upload, number: 1), from: CopySource("large"), range: 0..<10_000_000)
            _ = try await store.completeUpload("copy", upload, parts: [part], condition: nil)
            #expect(try await bytes("copy", store) == Array(Self.large[..<10_000_000]))
            #expect(!store.capabilities.partCopy && store.capabilities.quirks == [.partCopiesRefused])
        }
    }

    @Test func aServerWithoutUploadsInPartsTakesCopiesWhole() async throws {
        try await withFaults("kind=refuse:CreateMultipartUpload:501", "kind=refuse:CopyObject:501") { store, _ in
            _ = try await store.copy(CopyRequest(CopySource("large"), to: "copy"))
            #expect(try await bytes("copy", store) == Self.large)
            #expect(store.capabilities.mostParts == 1)
            #expect(store.capabilities.quirks == [.copiesRefused, .uploadsRefused])
            #expect(await failure { try await store.createUpload(PutRequest("new")) } == .notSupported)
        }
    }

    /// From a listing, or where that is refused from a GET of one byte.
    @Test(arguments: ["op=none,kind=hang", "kind=refuse:ListObjectsV2:403"])
    func theLengthThatAHEADLacksIsFound(fault: String) async throws {
        try await withFaults("kind=head-without-length", fault) { store, _ in
            let small = try await store.head("small", condition: nil)
            let empty = try await store.head("directory/", condition: nil)
            #expect(small.version.size == 3 && empty.version.size == 0)
            #expect(await failure { try await store.head("missing", condition: nil) } == .notFound)
            #expect(store.capabilities.quirks == [.lengthsMissing])
        }
    }

    @Test func theLengthThatAHEADOfSwiftLacksIsFound() async throws {
        try await withEmulator(.cssp) { emulator, server in
            let store = try server.store()
            _ = try await store.put(PutRequest("small"), body: MemorySource([1, 2, 3]))
            _ = try await store.put(PutRequest("empty"), body: MemorySource([]))
            emulator.setFaults([try FaultSpec(parsing: "kind=head-without-length")])
            #expect(try await store.head("small", condition: nil).version.size == 3)
            #expect(try await store.head("empty", condition: nil).version.size == 0)
        }
    }

    @Test func anETagThatIsNoMD5IsNotComparedWithBytes() async throws {
        try await withEmulator { emulator, server in
            emulator.setFaults([try FaultSpec(parsing: "kind=opaque-etag")])
            let store = try server.store()
            let info = try await store.put(PutRequest("new"), body: MemorySource([1, 2]))
            #expect(try await store.head("new", condition: nil).version.etag == info.etag)
            #expect(try await store.head("new", condition: nil).checksum == nil)
            #expect(try await bytes("new", store) == [1, 2])
            #expect(store.capabilities.quirks == [.opaqueETags])
        }
    }

    /// Another object shows that the ETag of the first need not be its MD5.
    @Test func anETagThatIsNoMD5IsFoundOutByReading() async throws {
        try await withEmulator { emulator, server in
            emulator.setFaults([try FaultSpec(parsing: "kind=opaque-etag")])
            let writer = try server.store()
            for key in ["a", "b"] as [ObjectKey] {
                _ = try await writer.put(PutRequest(key), body: MemorySource(Array(key.description.utf8)))
            }
            let store = try server.store()
            #expect(try await bytes("a", store) == Array("a".utf8))
            #expect(store.capabilities.quirks == [.opaqueETags])
        }
    }

    /// Where another object has the MD5 that its ETag says, the one that has not is damaged.
    @Test func anETagThatDiffersAmongMD5sIsDamage() async throws {
        try await withEmulator { emulator, server in
            let writer = try server.store()
            for key in ["a", "b"] as [ObjectKey] {
                _ = try await writer.put(PutRequest(key), body: MemorySource(Array(key.description.utf8)))
            }
            emulator.setFaults([try FaultSpec(parsing: "op=GetObject,key=a,kind=alter")])
            let store = try server.store()
            #expect(await failure { try await store.get(GetRequest("a"), into: CollectingSink()) } == .integrity)
            #expect(store.capabilities.quirks.isEmpty)
        }
    }

    @Test func aPartsETagThatIsNoMD5IsNotComparedWithBytes() async throws {
        try await withFaults("kind=opaque-etag") { store, _ in
            let upload = try await store.createUpload(PutRequest("new"))
            let part = try await store.uploadPart(PartRequest("new", upload, number: 1), body: MemorySource([1, 2]))
            _ = try await store.completeUpload("new", upload, parts: [part], condition: nil)
            #expect(try await bytes("new", store) == [1, 2])
            #expect(store.capabilities.quirks == [.opaqueETags])
            #expect(try await store.listUploads(prefix: "").isEmpty)
        }
    }
}
