import Basics
import Commits
import ObjectStorage
import Staging
import Synchronization
import TestSupport
import Testing

private let part = 64 << 10

extension Rig {
    /// Waits until the store has been asked `count` times.
    func waitFor(_ operation: ObjectStoreError.Operation, _ count: Int) async throws {
        try await waitUntil("the store was asked") { store.count(operation) >= count }
        try #require(store.count(operation) == count)
    }

    /// Writes as a program does: forward, in small pieces.
    func stream(_ content: [UInt8], to key: ObjectKey = "file") throws {
        for start in stride(from: 0, to: content.count, by: 4096) {
            try write(Array(content[start..<min(content.count, start + 4096)]), at: start, to: key)
        }
    }
}

@Suite("A file's commit")
struct FileCommitTests {
    @Test("sends a file of up to one part with one put", arguments: [0, 1, part])
    func onePut(size: Int) async throws {
        let rig = try Rig()
        let content = Rig.bytes(size)
        try rig.stream(content)
        let version = try await rig.land(if: .absent)
        #expect(rig.store.content("file") == content)
        #expect(rig.store.requests.map(\.operation) == [.put])
        #expect(version.etag == rig.store.info("file")?.version.etag)
        #expect(version.size == Int64(size))
        #expect(rig.store.info("file")?.metadata.user["pailfs-commit"] != nil)
        #expect(rig.uploads.used == 0)
    }

    @Test("sends a bigger file in parts, most of them before the commit")
    func streams() async throws {
        let rig = try Rig()
        let content = Rig.bytes(5 * part + 100)
        try rig.stream(content)
        try await rig.waitFor(.uploadPart, 5)
        #expect(rig.store.count(.createUpload) == 1)
        try await rig.land(if: .absent)
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.uploadPart) == 6)
        #expect(rig.store.requests.count == 8)
        #expect(rig.store.mostInFlight(.uploadPart) <= 4)
    }

    @Test("sends a part again whose bytes changed after it was sent, once")
    func rewrites() async throws {
        let rig = try Rig()
        var content = Rig.bytes(4 * part + 100)
        try rig.stream(content)
        try await rig.waitFor(.uploadPart, 4)
        for byte in 0..<3 {
            content[part + byte] ^= 255
            try rig.write([content[part + byte]], at: part + byte)
        }
        try await rig.land()
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.uploadPart) == 6)
    }

    @Test("sends a part again whose bytes changed while it was sent")
    func changesInFlight() async throws {
        let rig = try Rig()
        let gate = rig.store.hold(.uploadPart, beforeReply: true)
        var content = Rig.bytes(2 * part + 100)
        try rig.stream(content)
        await gate.waitForArrivals(2)
        content[7] ^= 255
        // Not through `noteWrite`: the staged file tells.
        try rig.staged.write([content[7]].span.bytes, at: 7)
        gate.open()
        try await rig.land()
        #expect(rig.store.content("file") == content)
    }

    @Test("uploads the part that changed in a big object and copies the others together")
    func smallChange() async throws {
        var content = Rig.bytes(10 * part + 100)
        let rig = try Rig(base: "file", content: content) { $0.copySize = Int64(5 * part) }
        let base = try #require(rig.store.info("file")).version.etag
        for offset in 5 * part + 10..<5 * part + 13 {
            content[offset] ^= 255
            try rig.write([content[offset]], at: offset)
        }
        try await rig.land(if: .match(base))
        #expect(rig.store.content("file") == content)
        let copies = rig.store.requests(.uploadPartCopy)
        #expect(copies.compactMap(\.range?.length).sorted() == [4 * part + 100, 5 * part].map { Int64($0) })
        #expect(copies.allSatisfy { $0.source == CopySource("file", ifMatch: base) })
        #expect(rig.store.requests(.uploadPart).compactMap(\.bytes) == [Int64(part)])
        // The bytes around the three that changed, in front and behind.
        #expect(rig.store.requests(.get).compactMap(\.range?.length).reduce(0, +) == Int64(part - 3))
    }

    @Test("leaves no part number out where the store wants them all")
    func noPartGaps() async throws {
        var content = Rig.bytes(9 * part + 100)
        let store = MemoryStore(capabilities: Rig.capabilities { $0.partGaps = false })
        let rig = try Rig(store, base: "file", content: content)
        content[5 * part] ^= 255
        try rig.write([content[5 * part]], at: 5 * part)
        try await rig.land()
        #expect(store.content("file") == content)
        #expect(store.requests(.uploadPart).compactMap(\.bytes) == [Int64(part)])
        #expect(store.count(.uploadPartCopy) == 9)
    }

    @Test("fills and uploads where the store cannot copy parts")
    func noPartCopy() async throws {
        var content = Rig.bytes(3 * part + 100)
        let store = MemoryStore(capabilities: Rig.capabilities { $0.partCopy = false })
        let rig = try Rig(store, base: "file", content: content)
        content[part] ^= 255
        try rig.write([content[part]], at: part)
        try await rig.land()
        #expect(store.content("file") == content)
        #expect(store.count(.uploadPartCopy) == 0)
        #expect(store.count(.uploadPart) == 4)
    }

    @Test("keeps to equal parts and begins anew when the file outgrows them")
    func equalParts() async throws {
        let store = MemoryStore(
            capabilities: Rig.capabilities {
                $0.equalParts = true
                $0.mostParts = 4
            })
        let rig = try Rig(store)
        let content = Rig.bytes(6 * part + 100)
        try rig.stream(content)
        try await rig.land()
        #expect(store.content("file") == content)
        #expect(store.uploadsInProgress.isEmpty)
    }

    @Test("reaches the largest object with the parts a store allows")
    func layouts() {
        for mostParts in [2, 3, 100, 10_000] {
            var capabilities = Capabilities()
            capabilities.mostParts = mostParts
            capabilities.largestObject = min(5 << 40, Int64(mostParts) * capabilities.largestPart)
            let layout = PartLayout(
                partSize: 8 << 20, size: capabilities.largestObject, capabilities: capabilities)
            #expect(layout.capacity >= capabilities.largestObject)
            #expect(layout.range(of: 0).lowerBound == 0)
            for index in 1..<mostParts {
                #expect(layout.range(of: index).lowerBound == layout.range(of: index - 1).upperBound)
                #expect(layout.index(at: layout.range(of: index).lowerBound) == index)
            }
            #expect(layout.range(of: mostParts - 1).upperBound >= capabilities.largestObject)
        }
    }

    /// S3; OSS and COS; Swift; Kodo.
    @Test(
        "begins with small parts, however large the largest object is",
        arguments: [
            (10_000, 5 << 30, 5 << 40), (10_000, 5 << 30, 10_000 * (5 << 30)), (1000, 5 << 30, 1000 * (5 << 30)),
            (10_000, 1 << 30, 5 << 40),
        ] as [(Int, Int64, Int64)])
    func firstParts(mostParts: Int, largestPart: Int64, largestObject: Int64) {
        var capabilities = Capabilities()
        (capabilities.mostParts, capabilities.largestPart) = (mostParts, largestPart)
        capabilities.largestObject = largestObject
        let layout = PartLayout(partSize: 8 << 20, size: 0, capabilities: capabilities)
        #expect(layout.range(of: 0).length == 8 << 20)
        #expect(layout.range(of: layout.index(at: 2 << 30)).length <= 64 << 20)
        #expect(layout.capacity >= 2 << 40)
    }

    @Test("starts over under another key, and aborts what it began")
    func keyChange() async throws {
        let rig = try Rig()
        let content = Rig.bytes(3 * part + 100)
        try rig.stream(content, to: "before")
        try await rig.waitFor(.uploadPart, 3)
        try await rig.land("after")
        #expect(rig.store.content("after") == content)
        #expect(rig.store.keys == ["after"])
        #expect(rig.store.uploadsInProgress.isEmpty)
    }

    @Test("sends to the key the file has got, though the writer knew the one before")
    func movedWhileItIsWritten() async throws {
        let rig = try Rig()
        let content = Rig.bytes(3 * part)
        try rig.stream(Array(content[..<4096]))
        rig.commit.moved(to: "other")
        try rig.stream(content)
        try await rig.waitFor(.uploadPart, 3)
        try await rig.land("other", if: .absent)
        #expect(rig.store.content("other") == content)
        #expect(rig.store.count(.createUpload) == 1)
    }

    @Test("uses one put for what was a long file and is cut")
    func cut() async throws {
        let rig = try Rig()
        let content = Rig.bytes(3 * part)
        try rig.stream(content)
        try rig.truncate(to: 10)
        try await rig.land()
        #expect(rig.store.content("file") == Array(content[..<10]))
        #expect(rig.store.uploadsInProgress.isEmpty)
        #expect(rig.store.count(.completeUpload) == 0)
    }

    @Test("stores headers that changed while parts were sent, but not the time that writing took", .rule("attr.mtime"))
    func headers() async throws {
        for (mtime, updates) in [("1030.5", 0), ("900", 1), ("5000", 1)] {
            let rig = try Rig()
            let content = Rig.bytes(2 * part + 1)
            try rig.stream(content)
            try await rig.waitFor(.uploadPart, 2)
            rig.metadata.user["mtime"] = mtime
            let version = try await rig.land(if: .absent)
            #expect(rig.store.count(.updateMetadata) == updates)
            #expect(rig.store.info("file")?.version.etag == version.etag)
            #expect(rig.store.info("file")?.metadata.user["mtime"] == (updates == 0 ? "1000" : mtime))
            #expect(rig.store.content("file") == content)
        }
    }

    @Test("gives the headers at the end of the upload where the store takes them then")
    func headersAtCompletion() async throws {
        let store = MemoryStore(capabilities: Rig.capabilities { $0.headersAtCompletion = true })
        let rig = try Rig(store)
        let content = Rig.bytes(4 * part + 1)
        try rig.stream(content)
        try await rig.waitFor(.uploadPart, 4)
        (rig.metadata.user["mtime"], rig.metadata.user["mode"]) = ("1000.5", "33152")
        let version = try await rig.land(if: .absent)
        let info = try #require(store.info("file"))
        #expect(info.version.etag == version.etag)
        #expect(info.metadata.user["mtime"] == "1000.5" && info.metadata.user["mode"] == "33152")
        #expect(store.content("file") == content)
        #expect(store.count(.uploadPart) == 5)
        #expect(store.count(.updateMetadata) + store.count(.copy) + store.count(.uploadPartCopy) == 0)
    }

    @Test(
        "stores other headers by copying parts where one request cannot, and sends nothing twice",
        arguments: [true, false])
    func headersOfBigObjects(canUpdate: Bool) async throws {
        let store = MemoryStore(
            capabilities: Rig.capabilities {
                $0.metadataUpdate = canUpdate ? .copy : .none
                $0.largestCopy = Int64(2 * part)
            })
        let rig = try Rig(store)
        let content = Rig.bytes(4 * part + 1)
        try rig.stream(content)
        try await rig.waitFor(.uploadPart, 4)
        rig.metadata.user["mtime"] = "900"
        let version = try await rig.land(if: .absent)
        #expect(store.content("file") == content)
        #expect(store.info("file")?.version.etag == version.etag)
        #expect(store.info("file")?.metadata.user["mtime"] == "900")
        #expect(store.count(.uploadPart) == 5)
        #expect(store.requests(.uploadPartCopy).compactMap(\.range?.length).reduce(0, +) == Int64(content.count))
        #expect(store.count(.updateMetadata) == 0)
        #expect(store.uploadsInProgress.isEmpty)
    }

    @Test("copies untouched parts that are bigger than those it copies together")
    func bigPartCopies() async throws {
        var content = Rig.bytes(3 * part)
        let rig = try Rig(base: "file", content: content) { $0.copySize = Int64(part / 2) }
        content[part] ^= 255
        try rig.write([content[part]], at: part)
        try await rig.land()
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.uploadPartCopy) == 2)
        #expect(rig.store.count(.uploadPart) == 1)
    }

    @Test("copies no part of a source that has only the size of the smallest part")
    func smallSource() async throws {
        let store = MemoryStore(capabilities: Rig.capabilities { $0.smallestPart = Int64(part) })
        var content = Rig.bytes(part)
        let rig = try Rig(store, base: "file", content: content)
        try rig.write([1], at: part)
        content.append(1)
        try await rig.land()
        #expect(store.content("file") == content)
        #expect(store.count(.uploadPartCopy) == 0)
    }

    @Test("sends behind the writer again what is written anew after a cut", arguments: [true, false])
    func streamsAfterCut(takesSurplus: Bool) async throws {
        let rig = try Rig(MemoryStore(capabilities: Rig.capabilities { $0.surplusParts = takesSurplus }))
        try rig.stream(Rig.bytes(3 * part + 1))
        try await rig.waitFor(.uploadPart, 3)
        try rig.truncate(to: 0)
        let content = Rig.bytes(3 * part + 1, seed: 2)
        try rig.stream(content)
        try await rig.waitFor(.uploadPart, 6)
        try await rig.land()
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.createUpload) == 1)
    }

    /// As Ceph does.
    @Test("begins another upload for a file that was cut where the store wants each part named that it has")
    func cutInParts() async throws {
        for takesSurplus in [true, false] {
            let store = MemoryStore(capabilities: Rig.capabilities { $0.surplusParts = takesSurplus })
            let rig = try Rig(store)
            let content = Rig.bytes(5 * part + 1)
            try rig.stream(content)
            try await rig.waitFor(.uploadPart, 5)
            try rig.truncate(to: 3 * part + 10)
            try await rig.land()
            #expect(store.content("file") == Array(content[..<(3 * part + 10)]))
            #expect(store.count(.createUpload) == (takesSurplus ? 1 : 2))
            #expect(store.count(.completeUpload) == 1)
            #expect(store.uploadsInProgress.isEmpty)
        }
    }

    @Test("lets nothing leave the disk for an upload that has parts behind the end of the file")
    func reliefAfterCut() async throws {
        let rig = try Rig(MemoryStore(capabilities: Rig.capabilities { $0.surplusParts = false }))
        func relief() async throws -> FileCommit.Relief {
            try await waitUntil("the commit need not be waited for") { rig.commit.relief != .wait }
            return rig.commit.relief
        }
        let content = Rig.bytes(4 * part + 1)
        try rig.stream(content)
        try await rig.waitFor(.uploadPart, 4)
        #expect(try await relief() == .drop)
        try rig.truncate(to: 2 * part + 1)
        #expect(try await relief() == .commit)
        // The numbers of the parts that were too many are used again.
        let more = Rig.bytes(2 * part, seed: 2)
        try rig.write(more, at: 2 * part + 1)
        #expect(try await relief() == .drop)
        try await rig.land()
        #expect(rig.store.content("file") == Array(content[..<(2 * part + 1)]) + more)
        #expect(rig.store.count(.createUpload) == 1)
    }

    @Test("copies no part together with others whose number the store has")
    func copiesKeepTheirNumbers() async throws {
        var content = Rig.bytes(8 * part)
        let store = MemoryStore(capabilities: Rig.capabilities { $0.surplusParts = false })
        let rig = try Rig(store, base: "file", content: content) { $0.copySize = Int64(4 * part) }
        let base = try #require(store.info("file")).version.etag
        func change(_ index: Int) throws {
            content[index * part] ^= 255
            try rig.write([content[index * part]], at: index * part)
        }
        try change(0)
        store.fault = { operation, _ in operation == .uploadPart ? Rig.error(.unreachable, operation) : nil }
        await #expect(throws: CommitError.self) { try await rig.land(if: .match(base)) }
        try await rig.waitFor(.uploadPartCopy, 2)
        store.fault = nil
        try change(1)
        try change(6)
        try await rig.land(if: .match(base))
        #expect(store.content("file") == content)
        #expect(store.count(.createUpload) == 1)
        #expect(store.count(.completeUpload) == 1)
    }

    @Test("abandoned, leaves no upload, sends nothing more and keeps the bytes readable")
    func abandon() async throws {
        let rig = try Rig()
        let gate = rig.store.hold(.uploadPart)
        let content = Rig.bytes(3 * part)
        try rig.stream(content)
        await gate.waitForArrivals()
        await rig.commit.abandon()
        #expect(rig.store.uploadsInProgress.isEmpty)
        let requests = rig.store.requests.count
        try rig.write(Rig.bytes(4 * part), at: 3 * part)
        await #expect(throws: CommitError.cancelled) { try await rig.land() }
        #expect(rig.store.requests.count == requests)
        let source = rig.staged.source(0..<Int64(3 * part))
        #expect(try source.collect() == content)
    }
}
