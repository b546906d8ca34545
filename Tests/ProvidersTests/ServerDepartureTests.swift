import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import Synchronization
import TestSupport
import Testing

/// Servers that depart from the protocol: what one of them says is believed where it was seen to hold and seen to refuse.
@Suite(.timeLimit(.minutes(5))) struct ServerDepartureTests {
    /// One object, and how this server treats the conditions of its writes.
    private final class Server: Sendable {
        enum Conduct: Sendable { case honest, unquoted, ignoring, refusing }

        private let etag = Mutex<String?>("one")
        private let conduct: Conduct

        var current: String? { etag.withLock { $0 } }

        init(_ conduct: Conduct, etag first: String? = "one") {
            self.conduct = conduct
            etag.withLock { $0 = first }
        }

        func answer(_ request: LocalRequest) -> LocalAnswer {
            let current = etag.withLock { $0 }
            if request.method == "HEAD" {
                return current.map { LocalAnswer(200, [("ETag", "\"\($0)\""), ("Content-Length", "1")]) }
                    ?? LocalAnswer(404)
            }
            guard request.method == "PUT", holds(request, current) else { return .error(412, "PreconditionFailed") }
            // Of what this server answers only its own MD5 could be compared.
            let made = Hex.encode(MD5.of(request.body))
            etag.withLock { $0 = made }
            return LocalAnswer(200, [("ETag", "\"\(made)\"")])
        }

        private func holds(_ request: LocalRequest, _ current: String?) -> Bool {
            let (match, absent) = (request["if-match"], request["if-none-match"] != nil)
            switch conduct {
            case .ignoring: return true
            case .refusing: return match == nil && !absent
            case .honest: return (match == nil || match == current.map { "\"\($0)\"" }) && !(absent && current != nil)
            case .unquoted: return (match == nil || match == current) && !(absent && current != nil)
            }
        }
    }

    private final class Quirks: Sendable {
        private let met = Mutex<[StoreQuirk]>([])
        var list: [StoreQuirk] { met.withLock { $0 } }
        func add(_ quirk: StoreQuirk) { met.withLock { $0.append(quirk) } }
    }

    private func meet(_ server: Server) throws -> (fixture: FamilyFixture, quirks: Quirks) {
        let quirks = Quirks()
        let fixture = try FamilyFixture(profile: .generic) {
            $0.onQuirk = { quirk in quirks.add(quirk) }
        } answer: { _, request in
            server.answer(request)
        }
        return (fixture, quirks)
    }

    private func put(
        _ fixture: FamilyFixture, _ condition: WriteCondition, _ text: String = "x"
    ) async throws(ObjectStoreError) -> ETag {
        try await fixture.store.put(PutRequest("k", condition: condition), body: MemorySource(Array(text.utf8))).etag
    }

    @Test func aRightETagThatIsRefusedInQuotesIsSentWithoutFromThenOn() async throws {
        let (fixture, quirks) = try meet(Server(.unquoted))
        let made = try await put(fixture, .match(ETag("one")))
        // The refusal, the HEAD that contradicts it, the wrong ETag that is refused, and the right one.
        #expect(fixture.requests.map(\.method) == ["PUT", "HEAD", "PUT", "PUT"])
        #expect(fixture.requests.last?["if-match"] == "one")
        #expect(quirks.list == [.ifMatchUnquoted])
        #expect(fixture.store.capabilities.quirks == [.ifMatchUnquoted])
        #expect(fixture.store.capabilities.putIfMatch)
        let before = fixture.requests.count
        _ = try await put(fixture, .match(made), "y")
        #expect(fixture.requests.count == before + 1)
        #expect(quirks.list.count == 1)
    }

    @Test func aWrongETagIsRefusedWhateverTheSpelling() async throws {
        let server = Server(.unquoted)
        let (fixture, _) = try meet(server)
        _ = try await put(fixture, .match(ETag("one")))
        for etag in ["one", "other"] {
            let error = await fixture.error { _ throws(ObjectStoreError) in
                _ = try await put(fixture, .match(ETag(etag)), "theirs")
            }
            #expect(error?.kind == .preconditionFailed)
        }
        #expect(server.current == Hex.encode(MD5.of(Array("x".utf8))))
    }

    @Test func aTrueRefusalIsNotDoubted() async throws {
        let (fixture, quirks) = try meet(Server(.honest))
        let error = await fixture.error { _ throws(ObjectStoreError) in
            _ = try await put(fixture, .match(ETag("older")))
        }
        #expect(error?.kind == .preconditionFailed)
        #expect(fixture.requests.map(\.method) == ["PUT", "HEAD"])
        #expect(quirks.list.isEmpty)
        let absent = await fixture.error { _ throws(ObjectStoreError) in _ = try await put(fixture, .absent) }
        #expect(absent?.kind == .preconditionFailed)
        #expect(quirks.list.isEmpty)
    }

    @Test func whereNoSpellingWorksAHeadStandsInAndStillRefuses() async throws {
        let server = Server(.refusing)
        let (fixture, quirks) = try meet(server)
        let made = try await put(fixture, .match(ETag("one")))
        #expect(quirks.list == [.ifMatchUnheeded])
        #expect(!fixture.store.capabilities.putIfMatch)
        let before = fixture.requests.count
        _ = try await put(fixture, .match(made), "y")
        #expect(fixture.requests.dropFirst(before).map(\.method) == ["HEAD", "PUT"])
        let error = await fixture.error { _ throws(ObjectStoreError) in _ = try await put(fixture, .match(made)) }
        #expect(error?.kind == .preconditionFailed)
    }

    @Test func aServerThatRefusesWhatIsNotThereIsLookedAtInstead() async throws {
        let server = Server(.refusing, etag: nil)
        let (fixture, quirks) = try meet(server)
        _ = try await put(fixture, .absent)
        #expect(quirks.list == [.ifNoneMatchUnheeded])
        let error = await fixture.error { _ throws(ObjectStoreError) in _ = try await put(fixture, .absent) }
        #expect(error?.kind == .preconditionFailed)
    }

    // MARK: Markers

    /// An empty file of another client is seen beside the marker, and is gone when the marker has been deleted.
    @Test func anotherClientsEmptyFileThatGoesIsNotTakenForTheMarker() async throws {
        let looks = Mutex(0)
        let quirks = Quirks()
        let fixture = try FamilyFixture(profile: .generic) {
            $0.onQuirk = { quirk in quirks.add(quirk) }
        } answer: { _, request in
            let answer = [("ETag", "\"\(Hex.encode(MD5.of([])))\""), ("Content-Length", "0")]
            guard request.method == "HEAD" else { return LocalAnswer(200, Array(answer.prefix(1))) }
            let isFirst = looks.withLock { count in
                defer { count += 1 }
                return count == 0
            }
            return isFirst ? LocalAnswer(200, answer) : LocalAnswer(404)
        }
        _ = try await fixture.store.put(PutRequest("d/", condition: nil), body: MemorySource([]))
        #expect(fixture.requests.map(\.method) == ["PUT", "HEAD", "DELETE", "HEAD", "PUT", "HEAD"])
        #expect(fixture.store.capabilities.markers)
        #expect(quirks.list.isEmpty)
        _ = try await fixture.store.put(PutRequest("e/", condition: nil), body: MemorySource([]))
        #expect(fixture.requests.count == 7)
    }

    // MARK: ETags of answers

    private static let completed = "<CompleteMultipartUploadResult><ETag>\"%\"</ETag></CompleteMultipartUploadResult>"

    private func complete(_ fixture: FamilyFixture) async -> ObjectStoreError? {
        await fixture.error { store throws(ObjectStoreError) in
            let part = UploadedPart(number: 1, etag: ETag("p"), size: 5)
            _ = try await store.completeUpload("k", UploadID("u"), parts: [part], condition: nil)
        }
    }

    @Test func theETagOfTheFirstCompletionIsComparedAndThenBelieved() async throws {
        let fixture = try FamilyFixture(profile: .generic) { _, request in
            request.method == "HEAD"
                ? LocalAnswer(200, [("ETag", "\"same\""), ("Content-Length", "5")])
                : LocalAnswer(200, body: Self.completed.replacing("%", with: "same"))
        }
        for _ in 0..<2 { #expect(await complete(fixture) == nil) }
        #expect(fixture.requests.map(\.method) == ["POST", "HEAD", "POST"])
    }

    @Test func aCompletionWithAnotherETagThanTheObjectHasIsNotTold() async throws {
        let fixture = try FamilyFixture(profile: .generic) { _, request in
            request.method == "HEAD"
                ? LocalAnswer(200, [("ETag", "\"real\""), ("Content-Length", "5")])
                : LocalAnswer(200, body: Self.completed.replacing("%", with: "told"))
        }
        for _ in 0..<2 {
            let error = await complete(fixture)
            #expect(error?.isOfUntoldVersion == true, "\(String(describing: error))")
        }
        #expect(fixture.store.capabilities.quirks == [.completionETag])
        #expect(fixture.requests.map(\.method) == ["POST", "HEAD", "POST"])
    }

    @Test func anETagOfAPutThatTheObjectDoesNotHaveIsReplacedByItsOwn() async throws {
        let fixture = try FamilyFixture(profile: .generic) { _, request in
            request.method == "HEAD"
                ? LocalAnswer(200, [("ETag", "\"real\""), ("Content-Length", "1"), ("x-amz-meta-commit", "c")])
                : LocalAnswer(200, [("ETag", "\"told\"")])
        }
        let request = PutRequest("k", metadata: ObjectMetadata(user: ["commit": "c"]))
        let answer = try await fixture.store.put(request, body: MemorySource([1]))
        #expect(answer.etag == ETag("real"))
        #expect(fixture.store.capabilities.quirks == [.putETag])
    }

    // MARK: Keys and headers

    @Test func aMarkerThatBecomesAFileIsTakenBackAndRefused() async throws {
        let file = Mutex(false)
        let fixture = try FamilyFixture(profile: .generic) { _, request in
            switch request.method {
            case "PUT":
                file.withLock { $0 = true }
                return LocalAnswer(200, [("ETag", "\"d41d8cd98f00b204e9800998ecf8427e\"")])
            case "DELETE":
                file.withLock { $0 = false }
                return LocalAnswer(204)
            default:
                let isThere = file.withLock { $0 }
                return isThere ? LocalAnswer(200, [("ETag", "\"d\""), ("Content-Length", "0")]) : LocalAnswer(404)
            }
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("d/"), body: MemorySource([]))
        }
        #expect(error?.kind == .notSupported)
        let isThere = file.withLock { $0 }
        #expect(!isThere, "the file must go")
        #expect(!fixture.store.capabilities.markers)
    }

    @Test func aKeyWithALineBreakThatIsLostIsRefusedFromThenOn() async throws {
        let fixture = try FamilyFixture(profile: .generic) { _, request in
            request.method == "PUT"
                ? LocalAnswer(200, [("ETag", "\"c4ca4238a0b923820dcc509a6f75849b\"")])
                : LocalAnswer(request.method == "HEAD" ? 404 : 204)
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("a\nb"), body: MemorySource(Array("1".utf8)))
        }
        #expect(error?.kind == .keyRefused)
        #expect(!fixture.store.capabilities.keyRules.allows("a\nb"))
        #expect(fixture.store.capabilities.keyRules.allows("a b"))
    }

    @Test func aMetadataLimitOfTheServerIsLearned() async throws {
        let fixture = try FamilyFixture(profile: .generic) { _, _ in
            .error(500, "InternalError", "<Reason>Metadata value longer than 256: x-object-meta-a</Reason>")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k"), body: MemorySource([]))
        }
        #expect(error?.kind == .metadataTooLarge)
        #expect(error?.isRetryable == false)
        #expect(fixture.store.capabilities.longestMetadataValue == 256)
    }
}
