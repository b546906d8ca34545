import Basics
import NIOCore
import TestSupport
import Testing

@testable import Emulator

/// Whatever a client sends, or a disk has kept: it is understood or refused, and nothing traps.
@Suite struct FuzzTests {
    @Test func documentsOfClients() {
        let seeds = [
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;e&quot;</ETag></Part></CompleteMultipartUpload>",
            "<?xml version=\"1.0\"?><Delete xmlns=\"x\"><Object><Key>a&#x20;b</Key></Object><Quiet>true</Quiet></Delete>",
            "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><MaxAgeSeconds>5</MaxAgeSeconds></CORSRule>"
                + "</CORSConfiguration>",
        ]
        Fuzzer("documents of clients", seeds: seeds, words: ["<a>", "</a>", "<!DOCTYPE", "<![CDATA[", "&#"]).run {
            bytes in
            _ = XMLReader.parse(bytes)
        }
    }

    @Test func framedBodies() {
        let seeds = [
            "5;chunk-signature=abc\r\nhello\r\n0;chunk-signature=def\r\n\r\n",
            "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
        ]
        Fuzzer("framed bodies", seeds: seeds, words: ["\r\n", "ffffffffffffffff", "7fffffffffffffff", ";"]).run {
            bytes in
            var decoder = AWSChunkedDecoder()
            for half in [bytes.prefix(bytes.count / 2), bytes.suffix(bytes.count - bytes.count / 2)] {
                decoder.feed(ByteBuffer(bytes: half))
                while try decoder.next() != nil {}
            }
        }
    }

    @Test func forms() {
        let form =
            "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na\r\n--b\r\n"
            + "Content-Disposition: form-data; name=\"file\"; filename*=UTF-8''x%20y\r\nContent-Type: a/b\r\n\r\nhello\r\n--b--\r\n"
        let seeds = [form, "multipart/form-data; boundary=b", "multipart/form-data; boundary=\"a b\""]
        Fuzzer("forms", seeds: seeds, words: ["\r\n--b", "--b--", "\r\n\r\n", "name=", "\""]).run { bytes in
            _ = FormDataReader(contentType: String(decoding: bytes, as: UTF8.self))
            guard var reader = FormDataReader(contentType: seeds[1]) else { return }
            for half in [bytes.prefix(bytes.count / 2), bytes.suffix(bytes.count - bytes.count / 2)] {
                reader.feed(ByteBuffer(bytes: half))
                while let event = try reader.next(), event != .end {}
            }
        }
    }

    @Test func recordsOfObjects() {
        let seeds = [
            """
            pailstore-object 1
            key a%20b
            size 12
            etag e
            modified 1700000000 5
            header Content-Type a/b
            meta mode 33188
            tag k v
            class STANDARD
            grant READ group g
            customer-key m
            checksum CRC32 00000000 2
            crc64 5
            restore-ready 1700000000 0
            restore-ordered 1700000000 0
            segment f 0 5
            segment f 5 7
            part 1 5 00000000000000000000000000000000 1700000000 0
            segment f 0 5
            end

            """
        ]
        let words = ["\nsegment f 9223372036854775807 1", " 9223372036854775807", "\npart ", "%", "%4", " "]
        Fuzzer("records of objects", seeds: seeds, words: words).run { bytes in
            for text in [bytes, bytes + Array("\nend\n".utf8)] {
                guard let record = ObjectRecord(text: text) else { continue }
                #expect(ObjectRecord(text: record.text)?.key == record.key)
                _ = PartRecord.read(RecordReader(text)?.lines ?? [])
            }
        }
    }
}
