import Basics
import NIOCore
import Testing

@testable import Emulator

@Suite struct FormDataTests {
    private static let type = "multipart/form-data; boundary=\"x-y\""

    /// The parts of `body` with their bytes, fed in pieces of `size`.
    private static func parts(
        _ body: [UInt8], size: Int
    ) throws -> (parts: [(part: FormDataReader.Part, bytes: [UInt8])], isEnded: Bool) {
        var reader = try #require(FormDataReader(contentType: type))
        var parts: [(part: FormDataReader.Part, bytes: [UInt8])] = []
        for start in stride(from: 0, to: body.count, by: size) {
            reader.feed(ByteBuffer(bytes: body[start..<min(body.count, start + size)]))
            while let event = try reader.next() {
                switch event {
                case .part(let part): parts.append((part, []))
                case .data(let data): parts[parts.count - 1].bytes += data.readableBytesView
                case .partEnd: continue
                case .end: return (parts, true)
                }
            }
        }
        return (parts, false)
    }

    @Test(arguments: [1, 2, 3, 7, 64, 100_000]) func partsComeBackWhateverTheBytesAre(size: Int) throws {
        let file = Array("\r\n--x-\r\n--x-z\r\r\n\n--x-y".utf8) + Array(0...255) + [13, 10, 13]
        var body = Array("preamble\r\n--x-y\r\nContent-Disposition: form-data; name=\"a;b\"\r\n\r\nvalue\r\n".utf8)
        body += Array("--x-y\r\ncontent-disposition: form-data; name=empty\r\n\r\n\r\n--x-y\r\n".utf8)
        body += Array(
            "Content-Disposition: form-data; name=\"file\"; filename=\"a\\\"b.txt\"\r\nContent-Type: text/a\r\n\r\n"
                .utf8)
        body += file + Array("\r\n--x-y--\r\nepilogue".utf8)
        let read = try Self.parts(body, size: size)
        #expect(read.isEnded)
        #expect(read.parts.map(\.part.name) == ["a;b", "empty", "file"])
        #expect(read.parts.map(\.bytes) == [Array("value".utf8), [], file])
        #expect(read.parts[2].part == .init(name: "file", fileName: "a\"b.txt", contentType: "text/a"))
    }

    @Test func namesOfFilesMayBeEncoded() throws {
        let body =
            "--x-y\r\nContent-Disposition: form-data; name=\"file\"; filename*=utf-8''n%C3%A4me\r\n\r\n1\r\n--x-y--\r\n"
        #expect(try Self.parts(Array(body.utf8), size: 10).parts[0].part.fileName == "näme")
    }

    @Test(arguments: [
        "", "--x-y", "--x-y\r\nContent-Disposition: form-data; name=a\r\n\r\nvalue",
        "--x-y\r\nContent-Disposition: form-data; name=a\r\n\r\nvalue\r\n--x-y\r\n",
    ]) func aFormThatBreaksOffDoesNotEnd(body: String) throws {
        #expect(try Self.parts(Array(body.utf8), size: 8).isEnded == false)
    }

    @Test(arguments: ["--x-yz\r\n", "--x-y\r\n" + String(repeating: "h", count: 20_000)])
    func aBrokenFormIsRefused(body: String) {
        #expect(throws: KodoError.self) { try Self.parts(Array(body.utf8), size: 5000) }
    }

    @Test(arguments: ["text/plain", "multipart/form-data", "multipart/form-data; boundary=\"\""])
    func aTypeWithoutBoundaryIsNoForm(type: String) {
        #expect(FormDataReader(contentType: type) == nil)
    }

    @Test func templatesAreFilled() {
        let values: [String: JSONValue] = ["key": "a\"b", "fsize": 5]
        let template = KodoTemplate(text: #"{"q":"\"x-$(key)","k":$(key),"n":$(fsize),"s":"$(fsize)","none":$(no)}"#)
        let filled = #"{"q":"\"x-a\"b","k":"a\"b","n":5,"s":"5","none":null}"#
        #expect(template.json { values[$0] } == filled)
        #expect(KodoTemplate(text: "p/$(key)-$(no)$").plain { values[$0] } == "p/a\"b-$")
    }
}
