import Basics
import Digests
import Foundation
import HTTP
import ObjectStorage
import Providers
import Synchronization
import TestSupport
import Testing

/// Uploads as segments and a manifest: what is where, what is checked before it shows, and what is deleted when.
@Suite(.timeLimit(.minutes(5))) struct SwiftUploadTests {
    /// Objects by path below the account, enough of a server for uploads.
    private final class Objects: Sendable {
        struct Object {
            var headers: [(String, String)]
            var body: [UInt8]
        }

        let all = Mutex<[String: Object]>([:])
        private let acts = Mutex(0)

        var paths: [String] { all.withLock { $0.keys.sorted() } }

        func isFirstAct() -> Bool {
            acts.withLock { acts in
                acts += 1
                return acts == 1
            }
        }

        func answer(_ request: LocalRequest) -> LocalAnswer {
            let path = String(request.path.dropFirst("/v1/AUTH_test/".count))
            if request.method == "POST" { return bulk(request) }
            if !path.contains("/") { return request.method == "PUT" ? LocalAnswer(201) : list(path, request.query) }
            return all.withLock { all in
                switch request.method {
                case "PUT":
                    var headers = request.headers.filter { name, _ in
                        name.lowercased().hasPrefix("x-object-m") || name.lowercased() == "content-type"
                    }
                    var etag = Hex.encode(MD5.of(request.body))
                    if request.query.hasPrefix("multipart-manifest=put") {
                        let elements = try? JSONSerialization.jsonObject(with: Data(request.body)) as? [[String: Any]]
                        let tags = (elements ?? []).map { $0["etag"] as? String ?? "" }
                        for (element, tag) in zip(elements ?? [], tags) {
                            let segment = (element["path"] as? String).flatMap { all[String($0.dropFirst())] }
                            guard let segment, Hex.encode(MD5.of(segment.body)) == tag else {
                                return LocalAnswer(400, body: "{\"Errors\": [[\"/x\", \"Etag Mismatch\"]]}")
                            }
                        }
                        etag = "\"\(Hex.encode(MD5.of(tags.joined())))\""
                        headers.append(("X-Static-Large-Object", "True"))
                    }
                    all[path] = Object(headers: headers + [("Etag", etag)], body: request.body)
                    return LocalAnswer(201, [("Etag", etag)])
                case "DELETE": return LocalAnswer(all.removeValue(forKey: path) == nil ? 404 : 204)
                default:
                    guard let object = all[path] else { return LocalAnswer(404) }
                    return Self.read(object, request, all)
                }
            }
        }

        private static func read(
            _ object: Object, _ request: LocalRequest, _ all: [String: Object]
        ) -> LocalAnswer {
            if request.query == "multipart-manifest=get" {
                let text = String(decoding: object.body, as: UTF8.self).replacing("\"path\"", with: "\"name\"")
                return LocalAnswer(200, object.headers, body: text)
            }
            guard let prefix = object.headers.first(where: { $0.0 == "X-Object-Manifest" })?.1 else {
                return LocalAnswer(200, object.headers, bytes: object.body)
            }
            let parts = all.filter { $0.key.hasPrefix(prefix) }.sorted { $0.key < $1.key }.map(\.value.body)
            let etag = Hex.encode(MD5.of(parts.map { Hex.encode(MD5.of($0)) }.joined()))
            let headers = object.headers.filter { $0.0 != "Etag" } + [("Etag", "\"\(etag)\"")]
            return LocalAnswer(200, headers, bytes: parts.flatMap(\.self))
        }

        private func list(_ container: String, _ query: String) -> LocalAnswer {
            let items = Dictionary(
                query.split(separator: "&").map { item in
                    let halves = item.split(separator: "=", omittingEmptySubsequences: false).map(String.init)
                    return (halves[0], halves[1].removingPercentEncoding ?? "")
                }, uniquingKeysWith: { first, _ in first })
            let entries = all.withLock { all in
                all.sorted { $0.key < $1.key }.compactMap { path, object -> [String: Any]? in
                    guard path.hasPrefix(container + "/") else { return nil }
                    let name = String(path.dropFirst(container.count + 1))
                    guard name.hasPrefix(items["prefix"] ?? ""), name > items["marker"] ?? "" else { return nil }
                    return [
                        "name": name, "bytes": object.body.count, "hash": Hex.encode(MD5.of(object.body)),
                        "last_modified": "2023-11-14T22:13:20.000000",
                    ]
                }
            }
            let text = try? JSONSerialization.data(withJSONObject: entries)
            return LocalAnswer(200, bytes: Array(text ?? Data()))
        }

        private func bulk(_ request: LocalRequest) -> LocalAnswer {
            for line in String(decoding: request.body, as: UTF8.self).split(separator: "\n") {
                all.withLock { _ = $0.removeValue(forKey: String(line)) }
            }
            return LocalAnswer(200, body: "{\"Response Status\": \"200 OK\", \"Response Body\": \"\", \"Errors\": []}")
        }
    }

    private static func fixture(_ profile: SwiftProfile) throws -> (SwiftFixture, Objects) {
        let objects = Objects()
        return (
            try SwiftFixture(
                profile: profile, { $0.smallestPart = 1 }, answer: { _, request in objects.answer(request) }),
            objects
        )
    }

    private static func upload(
        _ texts: [String], to key: ObjectKey, in store: SwiftStore
    ) async throws(ObjectStoreError) -> (id: UploadID, parts: [UploadedPart]) {
        let id = try await store.createUpload(PutRequest(key, metadata: ObjectMetadata(user: ["mode": "1"])))
        var parts: [UploadedPart] = []
        for (index, text) in texts.enumerated() {
            let part = PartRequest(key, id, number: index * 3 + 1)
            parts.append(try await store.uploadPart(part, body: MemorySource(Array(text.utf8))))
        }
        return (id, parts)
    }

    private static let profiles = [SwiftProfile.swift, .cssp]

    private static func area(_ profile: SwiftProfile) -> String {
        profile == .swift ? "c_segments/.pailfs/" : "c/.cssp-parts/"
    }

    /// The container of segments is made with the policy of the container, or without one where that is not told.
    @Test(arguments: ["silver", nil]) func segmentsLieWhereTheObjectsDo(policy: String?) async throws {
        let isMade = Atomic(false)
        let fixture = try SwiftFixture { _, request in
            switch (request.method, request.path.hasSuffix("/c"), request.path.hasSuffix("/c_segments")) {
            case ("HEAD", true, _):
                return policy.map { LocalAnswer(204, [("X-Storage-Policy", $0)]) } ?? LocalAnswer(403)
            case ("PUT", _, true):
                isMade.store(true, ordering: .relaxed)
                return LocalAnswer(201)
            default: return isMade.load(ordering: .relaxed) ? LocalAnswer.stored(request) : LocalAnswer(404)
            }
        }
        _ = try await fixture.store.createUpload(PutRequest("k"))
        let made = try #require(fixture.requests.first { $0.method == "PUT" && $0.path.hasSuffix("/c_segments") })
        #expect(made.headers.first { $0.0.lowercased() == "x-storage-policy" }?.1 == policy)
        #expect(fixture.requests.count == 4)
    }

    /// The vector of the Swift documentation, static large objects.
    @Test(arguments: profiles) func partsBecomeOneObject(profile: SwiftProfile) async throws {
        let (fixture, objects) = try Self.fixture(profile)
        let store = fixture.store
        let (id, parts) = try await Self.upload(["hello", "world"], to: "dir/big", in: store)
        let area = Self.area(profile)
        let segments = ["\(area)\(id)/00000001", "\(area)\(id)/00000004"]
        #expect(Set(objects.paths) == Set(segments + ["\(area)uploads/dir/big/\(id)"]))
        #expect(try await store.listParts("dir/big", id) == parts)
        #expect(try await store.listUploads(prefix: "dir/").map(\.upload) == [id])
        let answer = try await store.completeUpload("dir/big", id, parts: parts, condition: nil)
        #expect(answer.etag.text == "ae802c1f58f394d46485b7da18c56e9b")
        #expect(Set(objects.paths) == Set(segments + ["c/dir/big"]))
        let info = try await store.head("dir/big", condition: nil)
        #expect(info.metadata.user == ["mode": "1"])
        #expect(info.version.etag == answer.etag)
        #expect(try await store.listUploads(prefix: "").isEmpty)
    }

    /// A process that ended between the change of an object and the removal of its parts leaves them, without a marker.
    @Test(arguments: profiles) func partsOfNoObjectAreListedWhereObjectsTellTheirParts(
        profile: SwiftProfile
    ) async throws {
        let (fixture, objects) = try Self.fixture(profile)
        let store = fixture.store
        let (live, parts) = try await Self.upload(["hello", "world"], to: "live", in: store)
        _ = try await store.completeUpload("live", live, parts: parts, condition: nil)
        let (left, _) = try await Self.upload(["hello"], to: "gone", in: store)
        objects.all.withLock { _ = $0.removeValue(forKey: "\(Self.area(profile))uploads/gone/\(left)") }
        let listed = try await store.listUploads(prefix: "")
        #expect(listed.map(\.upload.text) == (profile == .cssp ? [".cssp-parts/\(left)/"] : []))
        for upload in listed { try await store.abortUpload(upload.key, upload.upload) }
        #expect(objects.paths.contains("c/live"))
        #expect(objects.paths.filter { $0.contains("\(live)") }.count == 2)
        #expect(objects.paths.filter { $0.contains("\(left)") }.count == (profile == .cssp ? 0 : 1))
    }

    @Test(arguments: profiles) func segmentsGoWithTheirObject(profile: SwiftProfile) async throws {
        let (fixture, objects) = try Self.fixture(profile)
        let store = fixture.store
        for act in 0..<3 {
            let (id, parts) = try await Self.upload(["hello", "world"], to: "big", in: store)
            _ = try await store.completeUpload("big", id, parts: parts, condition: nil)
            #expect(objects.paths.count == 3)
            switch act {
            case 0: try await store.delete("big", ifMatch: nil)
            case 1: _ = try await store.put(PutRequest("big"), body: MemorySource([1]))
            default: #expect(try await store.deleteMany(["big"]).isEmpty)
            }
            #expect(objects.paths == (act == 1 ? ["c/big"] : []))
        }
    }

    /// The first request is carried out, and its answer is lost: the next try does not find the large object any more.
    @Test(arguments: profiles) func segmentsGoWithTheirObjectWhenAnAnswerIsLost(profile: SwiftProfile) async throws {
        for method in ["DELETE", "PUT"] {
            let objects = Objects()
            let fixture = try SwiftFixture(
                profile: profile, { $0.smallestPart = 1 },
                answer: { _, request in
                    let answer = objects.answer(request)
                    let isLarge = request.query.hasPrefix("multipart-manifest") || request["x-object-manifest"] != nil
                    let isAct = request.method == method && request.path.hasSuffix("c/big") && !isLarge
                    return isAct && objects.isFirstAct() ? LocalAnswer(503) : answer
                })
            let store = fixture.store
            let (id, parts) = try await Self.upload(["hello", "world"], to: "big", in: store)
            _ = try await store.completeUpload("big", id, parts: parts, condition: nil)
            #expect(objects.paths.count == 3)
            for attempt in 0..<2 {
                let error = await fixture.error { store throws(ObjectStoreError) in
                    if method == "PUT" {
                        _ = try await store.put(PutRequest("big"), body: MemorySource([1]))
                    } else {
                        try await store.delete("big", ifMatch: nil)
                    }
                }
                #expect((error == nil) == (attempt == 1))
            }
            #expect(objects.paths == (method == "PUT" ? ["c/big"] : []))
        }
    }

    @Test(arguments: profiles) func anUploadReplacesAnother(profile: SwiftProfile) async throws {
        let (fixture, objects) = try Self.fixture(profile)
        let store = fixture.store
        let first = try await Self.upload(["hello"], to: "big", in: store)
        _ = try await store.completeUpload("big", first.id, parts: first.parts, condition: nil)
        let second = try await Self.upload(["world"], to: "big", in: store)
        _ = try await store.completeUpload("big", second.id, parts: second.parts, condition: nil)
        #expect(Set(objects.paths) == ["c/big", "\(Self.area(profile))\(second.id)/00000001"])
    }

    /// The answer to a completion was lost, so it comes twice.
    @Test(arguments: profiles) func aRepeatedCompletionKeepsItsSegments(profile: SwiftProfile) async throws {
        let (fixture, objects) = try Self.fixture(profile)
        let (id, parts) = try await Self.upload(["hello"], to: "big", in: fixture.store)
        _ = try await fixture.store.completeUpload("big", id, parts: parts, condition: nil)
        objects.all.withLock { $0["\(Self.area(profile))uploads/big/\(id)"] = Objects.Object(headers: [], body: []) }
        let again = try await fixture.store.completeUpload("big", id, parts: parts, condition: nil)
        #expect(try await fixture.store.head("big", condition: nil).version.etag == again.etag)
        #expect(Set(objects.paths) == ["c/big", "\(Self.area(profile))\(id)/00000001"])
    }

    @Test(arguments: profiles) func anAbortLeavesWhatHasBecomeAnObject(profile: SwiftProfile) async throws {
        let (fixture, objects) = try Self.fixture(profile)
        let (id, parts) = try await Self.upload(["hello"], to: "big", in: fixture.store)
        _ = try await fixture.store.completeUpload("big", id, parts: parts, condition: nil)
        objects.all.withLock { $0["\(Self.area(profile))uploads/big/\(id)"] = Objects.Object(headers: [], body: []) }
        try await fixture.store.abortUpload("big", id)
        #expect(Set(objects.paths) == ["c/big", "\(Self.area(profile))\(id)/00000001"])
        let other = try await Self.upload(["hello"], to: "other", in: fixture.store)
        try await fixture.store.abortUpload("other", other.id)
        #expect(objects.paths.count == 2)
    }

    @Test(arguments: profiles) func aSegmentThatIsAnotherIsRejected(profile: SwiftProfile) async throws {
        let (fixture, objects) = try Self.fixture(profile)
        let (id, parts) = try await Self.upload(["hello", "world"], to: "big", in: fixture.store)
        objects.all.withLock { $0["\(Self.area(profile))\(id)/00000004"] = Objects.Object(headers: [], body: [1]) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.completeUpload("big", id, parts: parts, condition: nil)
        }
        #expect(error?.kind == .partRejected)
        #expect(!objects.paths.contains("c/big"))
    }

    /// By prefix, whatever is there would be content.
    @Test func aPartThatIsNotWantedIsNoContent() async throws {
        let (fixture, objects) = try Self.fixture(.cssp)
        let (id, parts) = try await Self.upload(["hello", "beautiful", "world"], to: "big", in: fixture.store)
        let done = Task {
            try await fixture.store.completeUpload("big", id, parts: [parts[0], parts[2]], condition: nil)
        }
        // The listing is asked again after what is too much was deleted.
        await fixture.time.waitForSleepers()
        fixture.time.advance(by: .seconds(1))
        let answer = try await done.value
        #expect(answer.etag.text == "ae802c1f58f394d46485b7da18c56e9b")
        #expect(objects.paths.count == 3)
    }

    @Test func anUploadOfAnotherProcessGoesOn() async throws {
        let (fixture, objects) = try Self.fixture(.swift)
        let (id, parts) = try await Self.upload(["hello"], to: "big", in: fixture.store)
        let other = try SwiftFixture {
            $0.smallestPart = 1
        } answer: { _, request in
            objects.answer(request)
        }
        #expect(try await other.store.listParts("big", id) == parts)
        let second = try await other.store.uploadPart(
            PartRequest("big", id, number: 2), body: MemorySource(Array("world".utf8)))
        _ = try await other.store.completeUpload("big", id, parts: parts + [second], condition: .absent)
        #expect(try await other.store.head("big", condition: nil).metadata.user == ["mode": "1"])
        // The first process knows the upload still; its segments belong to an object now.
        #expect(objects.paths.count == 3)
    }

    @Test func segmentsOfOtherToolsAreLeftAlone() async throws {
        let (fixture, objects) = try Self.fixture(.swift)
        let manifest = "[{\"path\": \"/c_segments/big/slo/1/2/00000000\", \"etag\": \"x\"}]"
        objects.all.withLock {
            $0["c_segments/big/slo/1/2/00000000"] = Objects.Object(headers: [], body: [1])
            $0["c/big"] = Objects.Object(
                headers: [("X-Static-Large-Object", "True"), ("Etag", "\"e\"")], body: Array(manifest.utf8))
        }
        try await fixture.store.delete("big", ifMatch: nil)
        #expect(objects.paths == ["c_segments/big/slo/1/2/00000000"])
    }
}
