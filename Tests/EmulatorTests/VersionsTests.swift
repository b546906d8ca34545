import Basics
import Emulator
import Foundation
import TestSupport
import Testing

/// Versions in the storage; requests for them are the SDK programs' beside this file.
@Suite struct VersionsTests {
    private let stored = Result { try TestLibrary() }
    private let now = Timestamp(seconds: 9)

    private func versioned() throws -> TestLibrary {
        let library = try stored.get()
        try library.bucket.setVersioning(.enabled)
        return library
    }

    private func versions(_ bucket: Bucket) -> [String] {
        bucket.listVersions(ListingRequest(limit: 1000), afterVersion: nil).listing.items.map { item in
            guard case .entry(let key, let version) = item else { return "" }
            let kind = version.object.isDeleteMarker ? "marker" : version.object.record.etag
            return "\(key) \(kind)\(version.isLatest ? " latest" : "")"
        }
    }

    @Test func aDeletionWithoutAVersionLeavesTheBytes() throws {
        let bucket = try versioned().bucket
        let id = try bucket.store("k", "one").versionID
        #expect(try bucket.delete("k") != nil)
        #expect(throws: StorageError.noSuchKey) { try bucket.object("k") }
        #expect(versions(bucket) == ["k marker latest", "k one"])
        #expect(bucket.version(id, of: "k")?.record.etag == "one")
        #expect(try bucket.delete("k") == nil, "there was no object any more")
    }

    @Test func aMoveLeavesAMarkerBehind() throws {
        let bucket = try versioned().bucket
        let source = try bucket.store("from", "one")
        let content = try bucket.duplicate(source.content, range: 0..<3)
        _ = try bucket.move(source, to: .test("to", size: 3, etag: "one"), content: content, if: WriteCondition())
        #expect(versions(bucket) == ["from marker latest", "from one", "to one latest"])
    }

    @Test func aConditionLooksAtTheLatestVersion() throws {
        let bucket = try versioned().bucket
        var condition = WriteCondition()
        condition.mustBeAbsent = true
        try bucket.store("k", "one")
        #expect(throws: StorageError.conditionFailed) { try bucket.store("k", "two", if: condition) }
        try bucket.delete("k")
        try bucket.store("k", "three", if: condition)
        #expect(versions(bucket) == ["k three latest", "k marker", "k one"])
    }

    /// A process that dies between the rename of the new record and the removal of the old leaves both.
    @Test func ofTwoRecordsOfAVersionTheNewerIsRead() throws {
        let library = try versioned()
        let bucket = try library.bucket
        let first = try bucket.store("k", "one")
        try bucket.store("k", "two")
        let records = library.directory.path("bucket/objects")
        let before = Set(try FileManager.default.contentsOfDirectory(atPath: records))
        let kept = library.directory.path("kept")
        try FileManager.default.copyItem(atPath: records, toPath: kept)
        _ = try bucket.update(first) { $0.etag = "changed" }
        let after = Set(try FileManager.default.contentsOfDirectory(atPath: records))
        let gone = try #require(before.subtracting(after).first)
        try FileManager.default.copyItem(atPath: "\(kept)/\(gone)", toPath: "\(records)/\(gone)")
        try library.open()
        #expect(versions(try library.bucket) == ["k two latest", "k changed"])
        #expect(Set(try FileManager.default.contentsOfDirectory(atPath: records)) == after)
    }

    @Test func theBytesOfADeletedVersionAreRemoved() throws {
        let library = try versioned()
        let bucket = try library.bucket
        let id = try bucket.store("k", "one").versionID
        try bucket.store("k", "two")
        #expect(try library.contentFiles == 2)
        let removal = try bucket.remove("k", version: id, now: now)
        #expect(removal.versionID == id && !removal.isMarker)
        #expect(try library.contentFiles == 1)
    }

    @Test func aBucketWithoutVersioningKeepsOneOfAKey() throws {
        let library = try stored.get()
        let bucket = try library.bucket
        try bucket.store("k", "one")
        try bucket.store("k", "two")
        #expect(versions(bucket) == ["k two latest"])
        #expect(try bucket.remove("k", version: nil, now: now).versionID == nil)
        #expect(versions(bucket).isEmpty)
        #expect(try library.contentFiles == 0)
    }
}
