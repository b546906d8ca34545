import Basics
import HTTP
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import Providers

/// A server that means harm: every call ends, soon and with an error, and takes no more than its share of memory.
@Suite struct HostileServerTests {
    /// One answer, written as it likes once the request's head is in.
    struct Harm: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let answer: @Sendable (LocalConnection) -> Void

        init(_ name: String, _ answer: @escaping @Sendable (LocalConnection) -> Void) {
            (testDescription, self.answer) = (name, answer)
        }

        /// A whole head, and a body.
        init(_ name: String, _ head: String, _ body: String = "") {
            self.init(name) { $0.write("HTTP/1.1 \(head)\r\n\r\n\(body)") }
        }
    }

    private static let page = "<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>"

    private static func entry(_ key: String, size: String = "5", date: String = "2023-11-14T22:13:20.000Z") -> String {
        "<Contents><Key>\(key)</Key><LastModified>\(date)</LastModified><ETag>\"e\"</ETag><Size>\(size)</Size></Contents>"
    }

    private static func listing(_ name: String, _ content: String) -> Harm {
        let body = page + content + "</ListBucketResult>"
        return Harm(name, "200 OK\r\nContent-Length: \(body.utf8.count)", body)
    }

    static let bad: [Harm] = [
        Harm("a listing without end") { connection in
            connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            let piece = String(repeating: entry("key"), count: 500)
            let chunk = "\(String(piece.utf8.count, radix: 16))\r\n\(piece)\r\n"
            while connection.write(chunk) {}
        },
        listing("a listing as deep as it is long", String(repeating: "<Contents>", count: 200_000)),
        listing("a document type", "<!DOCTYPE x [<!ENTITY a \"aaaa\">]>\(entry("&a;"))"),
        Harm(
            "a compressed listing", "200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20",
            String(repeating: "\u{1f}", count: 20)),
        Harm("a head without end") { connection in
            connection.write("HTTP/1.1 200 OK\r\n")
            while connection.write("X-Header: \(String(repeating: "x", count: 10_000))\r\n") {}
        },
        Harm("a line of a head without end") { connection in
            connection.write("HTTP/1.1 200 OK\r\nX: ")
            while connection.write(String(repeating: "x", count: 100_000)) {}
        },
        Harm("a length below nothing", "200 OK\r\nContent-Length: -1", page),
        Harm("two lengths", "200 OK\r\nContent-Length: 5\r\nContent-Length: 500", page),
        Harm("a length past every file", "200 OK\r\nContent-Length: 99999999999999999999", page),
        Harm("a chunk that is no number", "200 OK\r\nTransfer-Encoding: chunked", "zz\r\n\(page)"),
        Harm("another protocol") { $0.write("SSH-2.0-OpenSSH_9\r\n") },
        Harm("nothing at all") { _ in },
        Harm("a way to plain text elsewhere", "301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0"),
        Harm("a way to a file", "307 Moved\r\nLocation: file:///etc/passwd\r\nContent-Length: 0"),
        Harm("a status that is none", "999 What\r\nContent-Length: 0"),
        Harm("informal answers and no other") { connection in
            for _ in 0..<1000 where connection.write("HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n") {}
        },
    ]

    private func withStore(
        _ harm: Harm, _ body: (FamilyStore) async throws -> Void
    ) async throws {
        let server = LocalServer(serving: { connection in
            guard connection.readRequest() != nil else { return }
            harm.answer(connection)
        })
        var settings = FamilyStore.Settings(bucket: "bucket", .generic)
        settings.endpoint = "http://127.0.0.1:\(server.port)"
        var options = HTTPOptions(userAgent: "pailfs-test")
        options.proxy = ""
        options.stallTimeout = .seconds(5)
        let credentials = Credentials(accessKeyID: "ID", secretKey: Secret("SECRET"))
        let store = try FamilyStore(
            settings, credentials: FixedCredentials(credentials), engine: HTTPEngine(options), time: SystemTime())
        defer { withExtendedLifetime(server) {} }
        try await body(store)
    }

    @Test(.timeLimit(.minutes(5)), arguments: bad)
    func aBadAnswerToAListingIsAnError(harm: Harm) async throws {
        try await withStore(harm) { store in
            await #expect(throws: ObjectStoreError.self) { _ = try await store.list(ListRequest()) }
        }
    }

    /// One object must not keep the others from being listed, nor the bucket from being mounted.
    @Test(arguments: ["-5", "99999999999999999999", "5e1"])
    func anObjectOfNoLengthIsLeftOut(size: String) async throws {
        try await withStore(Self.listing("sizes", Self.entry("bad", size: size) + Self.entry("good"))) { store in
            let keys = try await store.list(ListRequest()).objects.map(\.key)
            #expect(keys == ["good"])
        }
    }

    @Test func anObjectOfNoLengthIsLeftOutOfJSON() throws {
        let lengths = ["-5", "99999999999999999999", "5e30", "\"5\"", "null"]
        let kodo = lengths.map { "{\"key\":\"bad\",\"hash\":\"h\",\"fsize\":\($0)}" }
        let good = "{\"key\":\"good\",\"hash\":\"h\",\"fsize\":7}"
        let list = KodoDocuments.decode(
            KodoDocuments.List.self,
            Array("{\"items\":[\(kodo.joined(separator: ",")),\(good)]}".utf8))
        let sizes = list?.items?.map { $0.version?.size }
        #expect(sizes == [nil, nil, nil, nil, 0, 7])
        let swift = lengths.map { "{\"name\":\"bad\",\"hash\":\"h\",\"bytes\":\($0)}" }
        let entries = SwiftDocuments.entries(
            Array("[\(swift.joined(separator: ",")),{\"name\":\"good\",\"bytes\":7}]".utf8))
        let found = entries?.map(\.length)
        #expect(found == [nil, nil, nil, nil, 0, 7])
    }

    static let certain = bad.filter {
        ["a listing without end", "a listing as deep as it is long", "a document type"].contains($0.testDescription)
    }

    @Test(.timeLimit(.minutes(5)), arguments: certain)
    func anAnswerThatIsWrongForCertainIsNotAskedForAgain(harm: Harm) async throws {
        try await withStore(harm) { store in
            do throws(ObjectStoreError) {
                _ = try await store.list(ListRequest())
                Issue.record("the answer was taken")
            } catch { #expect(!error.isRetryable) }
        }
    }

    @Test func anAnswerThatBrokeOffIsAskedForAgain() async throws {
        let body = Self.page + "<Contents>"
        try await withStore(Harm("cut", "200 OK\r\nContent-Length: \(body.utf8.count)", body)) { store in
            do throws(ObjectStoreError) {
                _ = try await store.list(ListRequest())
                Issue.record("the answer was taken")
            } catch { #expect(error.isRetryable) }
        }
    }

    /// A sink that counts.
    private final class Count: ByteSink {
        let bytes = Mutex(0)
        func receive(_ bytes: RawSpan) { self.bytes.withLock { $0 += bytes.byteCount } }
        func restart() { bytes.withLock { $0 = 0 } }
    }

    static let object = "ETag: \"e\"\r\nLast-Modified: Tue, 14 Nov 2023 22:13:20 GMT"

    static let badBodies: [Harm] = [
        Harm(
            "more bytes than were requested",
            "206 Partial\r\n\(object)\r\nContent-Range: bytes 0-99/100\r\nContent-Length: 100",
            String(repeating: "x", count: 100)),
        Harm(
            "less than it says", "206 Partial\r\n\(object)\r\nContent-Range: bytes 0-9/100\r\nContent-Length: 5",
            "xxxxx"),
        Harm("a body without end") { connection in
            connection.write(
                "HTTP/1.1 206 Partial\r\n\(object)\r\nContent-Range: bytes 0-9/100\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            while connection.write("186A0\r\n" + String(repeating: "x", count: 100_000) + "\r\n") {}
        },
        Harm(
            "a range that turns around",
            "206 Partial\r\n\(object)\r\nContent-Range: bytes 9-0/100\r\nContent-Length: 10",
            "0123456789"),
        Harm(
            "a range past every file",
            "206 Partial\r\n\(object)\r\nContent-Range: bytes 0-9/99999999999999999999\r\nContent-Length: 10",
            "0123456789"),
        Harm(
            "compressed bytes",
            "206 Partial\r\n\(object)\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-9/10\r\nContent-Length: 4",
            "xxxx"),
    ]

    @Test(.timeLimit(.minutes(5)), arguments: badBodies)
    func aBadBodyIsAnErrorAndNothingPastTheRangeIsTaken(harm: Harm) async throws {
        try await withStore(harm) { store in
            let sink = Count()
            await #expect(throws: ObjectStoreError.self) {
                _ = try await store.get(GetRequest("k", range: 0..<10), into: sink)
            }
            #expect(sink.bytes.withLock { $0 } <= 10)
        }
    }

    @Test func oddKeysComeThroughAsTheyAre() async throws {
        let body =
            Self.page + "<EncodingType>url</EncodingType>"
            + ["%00", "a%0Ab", "..", "%2F%2F", "%FF%FE", "b"].map { Self.entry($0, date: "not a date") }.joined()
            + "</ListBucketResult>"
        try await withStore(Harm("odd keys", "200 OK\r\nContent-Length: \(body.utf8.count)", body)) { store in
            let keys = try? await store.list(ListRequest()).objects.map(\.key.bytes.bytes)
            // Refused for its dates, or read byte by byte.
            #expect(
                keys == nil || keys == [[0], Array("a\nb".utf8), Array("..".utf8), Array("//".utf8), [255, 254], [98]])
        }
    }

    /// Heads and bodies changed at random: understood or refused, within the time that the store may be silent.
    @Test(.timeLimit(.minutes(5)))
    func answersChangedAtRandomAreUnderstoodOrRefused() async throws {
        let seed =
            "HTTP/1.1 206 Partial\r\n\(Self.object)\r\nContent-Range: bytes 0-9/10\r\nx-amz-meta-mode: 644\r\n"
            + "Content-Length: 10\r\n\r\n0123456789"
        let answers = Mutex<[[UInt8]]>([])
        Fuzzer("answers of a server", seeds: [seed], words: ["Content-Length: ", "bytes ", "HTTP/1.1 ", "chunked"]).run(
            200
        ) {
            bytes in
            // Made ahead: what is sent must not depend on who connects when. A minute's worth would be too much to keep.
            answers.withLock { if $0.count < 20_000 { $0.append(bytes) } }
        }
        let total = answers.withLock { $0.count }
        let harm = Harm("changed") { connection in
            connection.write(answers.withLock { $0.popLast() } ?? [])
        }
        try await withStore(harm) { store in
            for _ in 0..<min(total, 2000) {
                let sink = Count()
                let answer = try? await store.get(GetRequest("k", range: 0..<10), into: sink)
                #expect(sink.bytes.withLock { $0 } <= 10)
                if let answer { #expect(answer.range.length == Int64(sink.bytes.withLock { $0 })) }
            }
        }
    }
}
