import Basics
import Emulator
import Foundation
import Synchronization
import TestSupport
import Testing

/// A library in a directory of its own.
final class TestLibrary {
    let directory: TemporaryDirectory
    private(set) var library: ObjectLibrary?

    init() throws {
        directory = try TemporaryDirectory()
        try open()
        try library?.createBucket("bucket", region: "us-east-1", now: Timestamp(seconds: 1))
    }

    func open() throws {
        library = nil
        library = try ObjectLibrary(directory: directory.path)
    }

    var bucket: Bucket {
        get throws { try #require(try library?.bucket("bucket")) }
    }

    var contentFiles: Int {
        get throws { try FileManager.default.contentsOfDirectory(atPath: directory.path("bucket/content")).count }
    }
}

extension Bucket {
    @discardableResult
    func store(
        _ key: ByteString, _ bytes: String, if condition: WriteCondition = WriteCondition()
    ) throws -> StoredObject {
        let content = try newContent(of: bytes)
        return try put(.test(key, size: content.size, etag: bytes), content: content, if: condition)
    }

    @discardableResult
    func delete(
        _ key: ByteString, if condition: WriteCondition = WriteCondition()
    ) throws(StorageError) -> StoredObject? {
        try delete(key, now: Timestamp(seconds: 9), if: condition)
    }

    func newContent(of bytes: String) throws -> Content {
        let writer = newContent()
        try writer.write(Array(bytes.utf8))
        return try writer.finish()
    }

    func text(_ key: ByteString) throws -> String {
        let object = try object(key)
        var bytes: [UInt8] = []
        try object.content.forEachPiece(of: 0..<object.record.size, pieceSize: 3) { (piece) throws(StorageError) in
            bytes += piece
        } onError: {
            $0
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension ObjectRecord {
    static func test(_ key: ByteString, size: Int64, etag: String = "") -> ObjectRecord {
        ObjectRecord(
            key: key, size: size, etag: etag, modified: Timestamp(seconds: 5, nanoseconds: 7),
            description: ObjectDescription(), segments: [])
    }
}

@Suite struct BucketTests {
    static let oddKeys: [ByteString] = [
        "a", "a/b", "a//b", "/", "..", "../../etc/passwd", ".", "a/", "b%2F", "ü", "new-", "line\nbreak", " ",
        ByteString([0, 255, 254, 128]), ByteString([UInt8](repeating: 0x78, count: 1024)),
    ]

    @Test func anyKeyIsStoredAndFoundAgainAfterReopening() throws {
        let test = try TestLibrary()
        for key in Self.oddKeys { try test.bucket.store(key, "bytes of \(key.count)") }
        try test.open()
        for key in Self.oddKeys { #expect(try test.bucket.text(key) == "bytes of \(key.count)") }
        let listed = try test.bucket.list(ListingRequest(limit: 1000)).items.map(\.name)
        #expect(listed == Self.oddKeys.sorted())
    }

    @Test func aRecordKeepsEverythingAcrossReopening() throws {
        let test = try TestLibrary()
        var record = ObjectRecord.test("key\n%", size: 0, etag: "tag-2")
        record.description.headers = [Field("content-type", "text/plain; x=\"ü %\n\"")]
        record.description.metadata = [Field("mode", "0644"), Field("empty", "")]
        record.description.tags = [Field("t", "a b"), Field("", "")]
        record.description.storageClass = .archive
        record.description.access = AccessControl(grants: [
            .init(grantee: .group(uri: "http://x/y"), permission: "READ"),
            .init(grantee: .email("a@b"), permission: "WRITE"), .init(grantee: .user(id: "u"), permission: "READ"),
        ])
        record.description.access.isInherited = true
        record.description.encryption = .keyService(mode: "aws:kms", keyID: "arn:x y")
        record.checksum = StoredChecksum(algorithm: .crc32c, digest: [1, 2, 3, 4], composedOf: 2)
        record.crc64 = .max
        record.restoration = Restoration(ready: Timestamp(seconds: 9), expires: Timestamp(seconds: 10))
        record.parts = [
            PartRecord(
                number: 3, size: 7, md5: [9, 8], modified: Timestamp(seconds: 4),
                checksum: StoredChecksum(algorithm: .crc32c, digest: [5], composedOf: nil), segments: []),
            PartRecord(number: 4, size: 8, md5: [7], modified: .epoch, crc64: 5),
        ]
        let content = try test.bucket.newContent().finish()
        _ = try test.bucket.put(record, content: content)
        try test.open()
        #expect(try test.bucket.object("key\n%").record == record)
    }

    @Test(arguments: [
        ObjectKind.normal, .appendable(isSealed: false), .appendable(isSealed: true), .symlink(target: "a b/\u{fc}"),
    ])
    func theKindOfAnObjectSurvivesReopening(kind: ObjectKind) throws {
        let test = try TestLibrary()
        var record = ObjectRecord.test("k", size: 0)
        record.kind = kind
        _ = try test.bucket.put(record, content: try test.bucket.newContent().finish())
        try test.open()
        #expect(try test.bucket.object("k").record.kind == kind)
    }

    @Test func appendingKeepsWhatWasThereAndRefusesAnOldObject() throws {
        let test = try TestLibrary()
        let first = try test.bucket.store("k", "one,")
        let tail = try test.bucket.newContent(of: "two")
        let second = try test.bucket.append(tail, to: first, as: .test("k", size: 7))
        #expect(try test.bucket.text("k") == "one,two")
        let late = try test.bucket.newContent(of: "three")
        #expect(throws: StorageError.conditionFailed) {
            try test.bucket.append(late, to: first, as: .test("k", size: 9))
        }
        #expect(try test.bucket.object("k") === second)
        try test.open()
        #expect(try test.bucket.text("k") == "one,two")
        #expect(try test.contentFiles == 2)
    }

    @Test func theCRCOfAnObjectIsComputedWhereNoDialectDid() throws {
        let test = try TestLibrary()
        // The check value of CRC-64/XZ, and that of nothing.
        #expect(try test.bucket.store("k", "123456789").crc64() == 11_051_210_869_376_104_954)
        #expect(try test.bucket.store("k", "").crc64() == 0)
    }

    @Test func aReplacedObjectStaysReadableWhileSomebodyHoldsIt() throws {
        let test = try TestLibrary()
        var old: StoredObject? = try test.bucket.store("k", "old")
        try test.bucket.store("k", "new")
        let bytes = try #require(try old.map { try $0.content.open($0.content.segments[0]).read(0..<3) })
        #expect(bytes == Array("old".utf8))
        #expect(try test.contentFiles == 2)
        old = nil
        #expect(try test.contentFiles == 1)
    }

    @Test func whatADeadProcessLeftIsSwept() throws {
        let test = try TestLibrary()
        try test.bucket.store("k", "kept")
        for path in ["content/stray", "objects/new-1", "uploads/half/new-upload"] {
            let url = URL(filePath: test.directory.path("bucket/\(path)"))
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data("x".utf8).write(to: url)
        }
        try test.open()
        #expect(try test.contentFiles == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: test.directory.path("bucket/objects")).count == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: test.directory.path("bucket/uploads")).isEmpty)
        #expect(try test.bucket.text("k") == "kept")
    }

    @Test func aDamagedRecordIsReportedAndNothingIsSwept() throws {
        let test = try TestLibrary()
        try test.bucket.store("k", "bytes")
        let objects = test.directory.path("bucket/objects")
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: objects).first)
        let text = try Data(contentsOf: URL(filePath: "\(objects)/\(name)"))
        try text.dropLast(10).write(to: URL(filePath: "\(objects)/\(name)"))
        try test.open()
        #expect(throws: StorageError.noSuchKey) { try test.bucket.object("k") }
        #expect(try test.contentFiles == 1)
    }

    @Test func conditionsAreDecidedTogetherWithTheWrite() throws {
        let test = try TestLibrary()
        var absent = WriteCondition()
        absent.mustBeAbsent = true
        var match = WriteCondition()
        match.etags = ["one"]
        #expect(throws: StorageError.noSuchKey) { try test.bucket.store("k", "two", if: match) }
        try test.bucket.store("k", "one", if: absent)
        #expect(throws: StorageError.conditionFailed) { try test.bucket.store("k", "two", if: absent) }
        try test.bucket.store("k", "two", if: match)
        #expect(throws: StorageError.conditionFailed) { try test.bucket.delete("k", if: match) }
        #expect(try test.contentFiles == 1)
    }

    @Test func racingWritersEndOnDiskAsInMemory() async throws {
        let test = try TestLibrary()
        let bucket = try test.bucket
        let wins = await withTaskGroup(of: Int.self) { group in
            for writer in 0..<16 {
                group.addTask {
                    var wins = 0
                    for round in 0..<50 {
                        _ = try? bucket.store("shared", "\(writer)-\(round)")
                        var absent = WriteCondition()
                        absent.mustBeAbsent = true
                        if (try? bucket.store(ByteString("once\(round)"), "\(writer)", if: absent)) != nil { wins += 1 }
                        if round % 7 == 0 { _ = try? bucket.delete("shared") }
                    }
                    return wins
                }
            }
            return await group.reduce(0, +)
        }
        #expect(wins == 50)
        try bucket.store("shared", "last")
        let before = try (0..<50).map { try bucket.text(ByteString("once\($0)")) }
        try test.open()
        #expect(try test.bucket.text("shared") == "last")
        #expect(try (0..<50).map { try test.bucket.text(ByteString("once\($0)")) } == before)
        #expect(try test.contentFiles == 51)
    }

    @Test func oneProcessServesADirectory() throws {
        let test = try TestLibrary()
        let path = test.directory.path
        #expect(throws: StorageError.directoryInUse(path)) { try ObjectLibrary(directory: path) }
    }

    @Test func bucketsComeAndGo() throws {
        let test = try TestLibrary()
        let library = try #require(test.library)
        #expect(throws: StorageError.bucketExists) { try library.createBucket("bucket", region: "", now: .epoch) }
        try test.bucket.store("k", "x")
        #expect(throws: StorageError.bucketNotEmpty) { try library.deleteBucket("bucket") }
        try test.bucket.delete("k")
        try library.deleteBucket("bucket")
        #expect(throws: StorageError.noSuchBucket) { try library.bucket("bucket") }
        for name in [
            "ab", "Upper", "under_score", "-a-", "a..b", "1.2.3.4", "", "..", String(repeating: "a", count: 64),
        ] {
            #expect(!ObjectLibrary.isBucketName(name), "\(name)")
        }
        for name in ["abc", "a.b-c", "123", String(repeating: "a", count: 63)] {
            #expect(ObjectLibrary.isBucketName(name), "\(name)")
        }
    }
}

@Suite struct UploadTests {
    private func begin(_ bucket: Bucket, _ key: ByteString = "k") throws -> Upload {
        try bucket.beginUpload(
            UploadRecord(
                key: key, initiated: Timestamp(seconds: 3), description: ObjectDescription(), checksumAlgorithm: nil,
                wantsFullChecksum: false))
    }

    private func add(_ number: Int, _ text: String, to upload: Upload, in bucket: Bucket) throws {
        let writer = bucket.newContent()
        try writer.write(Array(text.utf8))
        let content = try writer.finish()
        let part = PartRecord(
            number: number, size: content.size, md5: [UInt8(number)], modified: .epoch, checksum: nil, segments: [])
        try upload.put(part, content: content, sync: false)
    }

    private func complete(_ upload: Upload, _ numbers: [Int], in bucket: Bucket, smallest: Int64 = 0) throws {
        let chosen = numbers.map { ChosenPart(number: $0, etag: "0\($0)") }
        let parts = try bucket.parts(of: upload, chosen, smallestPart: smallest)
        let size = parts.reduce(0) { $0 + $1.size }
        _ = try bucket.complete(upload, parts: parts, as: .test(upload.record.key, size: size, etag: "e"), if: .init())
    }

    @Test func partsJoinWithoutCopyingAndUnusedOnesGo() throws {
        let test = try TestLibrary()
        let upload = try begin(test.bucket)
        for (number, text) in [(1, "one"), (2, "two"), (5, "five"), (9, "nine")] {
            try add(number, text, to: upload, in: test.bucket)
        }
        try add(2, "TWO", to: upload, in: test.bucket)
        try complete(upload, [1, 2, 9], in: test.bucket)
        #expect(try test.bucket.text("k") == "oneTWOnine")
        #expect(try test.contentFiles == 3)
        #expect(throws: StorageError.noSuchUpload) { try test.bucket.upload(upload.id, of: "k") }
        #expect(throws: StorageError.noSuchUpload) { try add(1, "late", to: upload, in: test.bucket) }
        try test.open()
        #expect(try test.bucket.text("k") == "oneTWOnine")
        try test.bucket.delete("k")
        #expect(try test.contentFiles == 0)
    }

    @Test func anUploadGoesOnAfterReopening() throws {
        let test = try TestLibrary()
        let upload = try begin(test.bucket, "später/\u{1}")
        try add(1, "first", to: upload, in: test.bucket)
        try add(1, "again", to: upload, in: test.bucket)
        try test.open()
        let found = try test.bucket.upload(upload.id, of: "später/\u{1}")
        #expect(found.record == upload.record)
        try add(2, "more", to: found, in: test.bucket)
        try complete(found, [1, 2], in: test.bucket)
        #expect(try test.bucket.text("später/\u{1}") == "againmore")
    }

    @Test func aCompletedUploadWhoseEndIsMissingLosesNothing() throws {
        let test = try TestLibrary()
        let upload = try begin(test.bucket)
        try add(1, "bytes", to: upload, in: test.bucket)
        let uploads = URL(filePath: test.directory.path("bucket/uploads"))
        let aside = URL(filePath: test.directory.path("aside"))
        try FileManager.default.copyItem(at: uploads, to: aside)
        try complete(upload, [1], in: test.bucket)
        try FileManager.default.removeItem(at: uploads)
        try FileManager.default.moveItem(at: aside, to: uploads)
        try test.open()
        #expect(throws: StorageError.noSuchUpload) { try test.bucket.upload(upload.id, of: "k") }
        #expect(try test.bucket.text("k") == "bytes")
        try test.open()
        #expect(try test.bucket.text("k") == "bytes")
    }

    @Test func refusalsLeaveTheUploadOpen() throws {
        let test = try TestLibrary()
        let upload = try begin(test.bucket)
        try add(1, "small", to: upload, in: test.bucket)
        try add(2, "last", to: upload, in: test.bucket)
        let small = StorageError.partTooSmall(number: 1, size: 5, smallest: 6, etag: "01")
        #expect(throws: small) { try complete(upload, [1, 2], in: test.bucket, smallest: 6) }
        #expect(throws: StorageError.partOrder) { try complete(upload, [2, 1], in: test.bucket) }
        #expect(throws: StorageError.invalidPart(number: 3)) { try complete(upload, [3], in: test.bucket) }
        try complete(upload, [1, 2], in: test.bucket, smallest: 5)
        let other = try begin(test.bucket)
        try add(1, "gone", to: other, in: test.bucket)
        try test.bucket.abort(other)
        #expect(throws: StorageError.noSuchUpload) { try test.bucket.abort(other) }
        #expect(try test.contentFiles == 2)
    }

    @Test func aConditionIsRefusedWhoseKeyChangedSinceTheUploadBegan() throws {
        let test = try TestLibrary()
        var absent = WriteCondition()
        absent.mustBeAbsent = true
        var same = WriteCondition()
        same.etags = ["new"]
        func complete(_ upload: Upload, if condition: WriteCondition) throws {
            let parts = try test.bucket.parts(of: upload, [ChosenPart(number: 1, etag: nil)], smallestPart: 0)
            _ = try test.bucket.complete(
                upload, parts: parts, as: .test("k", size: 5, etag: "e"), if: condition, refusesOvertaken: true)
        }
        try test.bucket.store("k", "old")
        let first = try begin(test.bucket)
        try add(1, "bytes", to: first, in: test.bucket)
        try test.bucket.delete("k")
        #expect(throws: StorageError.overtaken) { try complete(first, if: absent) }
        try test.bucket.store("k", "new")
        #expect(throws: StorageError.conditionFailed) { try complete(first, if: absent) }
        #expect(throws: StorageError.overtaken) { try complete(first, if: same) }
        let second = try begin(test.bucket)
        try add(1, "other", to: second, in: test.bucket)
        try complete(second, if: same)
        #expect(try test.bucket.text("k") == "other")
        try complete(first, if: WriteCondition())
        #expect(try test.bucket.text("k") == "bytes")
    }

    @Test func copiesShareTheirBytesOnDiskAndOutliveTheirSource() throws {
        let test = try TestLibrary()
        let source = try test.bucket.store("s", "0123456789")
        let copy = try test.bucket.duplicate(source.content, range: 2..<5)
        _ = try test.bucket.put(.test("c", size: 3, etag: "c"), content: copy)
        try test.bucket.delete("s")
        #expect(try test.bucket.text("c") == "234")
        try test.open()
        #expect(try test.bucket.text("c") == "234")
    }
}
