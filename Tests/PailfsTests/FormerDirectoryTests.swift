import Basics
import Foundation
import Journaling
import TestSupport
import Testing

@testable import pailfs

/// The one directory of earlier versions is taken over by the two of today.
@Suite struct FormerDirectoryTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// With XDG_CACHE_HOME and XDG_STATE_HOME below `directory`, or the state at `state`.
    private func request(state: String? = nil) throws -> MountRequest {
        try MountRequest(
            url: "s3://pail", mountpoint: "/mnt", options: state.map { ["state-dir=\($0)"] } ?? [],
            environment: [
                "PAILFS_CONFIG": "", "HOME": directory.path, "XDG_CACHE_HOME": directory.path("cache"),
                "XDG_STATE_HOME": directory.path("state"),
            ])
    }

    /// What an earlier version left in the place of the cache.
    private func leave(_ request: MountRequest) throws -> DirectoryPair {
        let place = try DirectoryPair(of: request)
        let former = place.cache
        for name in ["/blocks", "/staging/orphans"] { try Directory.create(former + name) }
        let journal = try Journal(path: former + "/journal.db")
        journal.close()
        for name in [
            "lock", "meta.db", "meta.db-wal", "blocks.db", "blocks/1", "staging/7", "staging/7.map", "changes",
        ] {
            try File("\(former)/\(name)", .readWrite, create: .ifMissing).write(Array(name.utf8), at: 0)
        }
        let staged = try File("\(former)/staging/7", .readWrite)
        try staged.truncate(to: 1 << 20)
        try staged.setTimes(accessed: Timestamp(seconds: 3), modified: Timestamp(seconds: 5))
        return place
    }

    private func text(_ path: String) -> String? {
        (try? File(path).read(atMost: 64)).map { String(decoding: $0, as: UTF8.self) }
    }

    private func expectTaken(_ place: DirectoryPair, isCacheKept: Bool = true) throws {
        #expect(Journal.exists(at: place.journal) && !Journal.exists(at: place.cache + "/journal.db"))
        #expect(text(place.state + "/changes") == "changes")
        let staged = try File(place.staging + "/7")
        #expect(try staged.size == 1 << 20 && staged.allocated < 1 << 20, "with its holes")
        #expect(try staged.times.modified == Timestamp(seconds: 5))
        #expect(text(place.staging + "/7.map") == "staging/7.map")
        #expect(try Directory.names(in: place.staging).contains("orphans"))
        #expect(access(place.cache + "/staging", F_OK) != 0)
        guard isCacheKept else { return }
        for name in ["meta.db", "meta.db-wal", "blocks.db", "blocks/1"] {
            #expect(text("\(place.cache)/\(name)") == name)
            #expect(access("\(place.state)/\(name)", F_OK) != 0)
        }
    }

    @Test func onOneDiskAllIsMoved() throws {
        let request = try request()
        let place = try leave(request)
        #expect(try DirectoryPair.found(for: request).state == place.cache, "as long as no mount has taken it over")
        for former in try FormerDirectory.all(of: request, place) { try former.takeOver() }
        try expectTaken(place)
        #expect(try DirectoryPair.found(for: request) == place)
        #expect(try FormerDirectory.all(of: request, place).isEmpty)
    }

    private static let otherDisk = "/dev/shm"
    private static let hasOtherDisk: Bool = {
        let devices = [otherDisk, NSTemporaryDirectory()].map {
            ((try? LocalFileStatus(of: $0)) ?? nil)?.identity.device
        }
        return devices[0] != nil && devices[0] != devices[1] && access(otherDisk, W_OK) == 0
    }()

    @Test(.enabled(if: hasOtherDisk, "needs a second file system"))
    func acrossDisksTheStateIsCopied() throws {
        let other = "\(Self.otherDisk)/pailfs-\(UUID())"
        defer { Directory.removeTree(other) }
        let request = try request(state: other)
        let place = try leave(request)
        // What a copy that was interrupted has left counts for nothing.
        try Directory.create(place.state + ".new/staging")
        for former in try FormerDirectory.all(of: request, place) { try former.takeOver() }
        try expectTaken(place)
        #expect(try Directory.names(in: other).count == 1)
    }

    @Test(.enabled(if: hasOtherDisk, "needs a second file system"))
    func aMoveThatWasInterruptedAfterTheCopyIsCompleted() throws {
        let other = "\(Self.otherDisk)/pailfs-\(UUID())"
        defer { Directory.removeTree(other) }
        let request = try request(state: other)
        let place = try leave(request)
        let kept = directory.path("kept")
        try FileManager.default.copyItem(atPath: place.cache, toPath: kept)
        for former in try FormerDirectory.all(of: request, place) { try former.takeOver() }
        // As it was before anything was removed.
        try FileManager.default.removeItem(atPath: place.cache)
        try FileManager.default.moveItem(atPath: kept, toPath: place.cache)
        try File.writeAtomically(Array(place.cache.utf8), to: place.state + "/former")
        for former in try FormerDirectory.all(of: request, place) { try former.takeOver() }
        try expectTaken(place)
    }

    @Test func aJournalOfItsOwnIsNotReplaced() throws {
        let request = try request()
        let place = try leave(request)
        try Directory.create(place.state)
        try Journal(path: place.journal).close()
        for former in try FormerDirectory.all(of: request, place) { try former.takeOver() }
        #expect(Journal.exists(at: place.cache + "/journal.db"), "the mount warns if it has files")
        #expect(access(place.cache + "/staging/7", F_OK) == 0)
    }

    @Test func eachDirectoryLeadsToTheOther() throws {
        let request = try request()
        let place = try DirectoryPair(of: request)
        try Directory.create(place.state)
        try Directory.create(place.cache)
        try place.nameEachOther()
        try Journal(path: place.journal).close()
        #expect(DirectoryPair(existing: place.state) == place && DirectoryPair(existing: place.cache) == place)
        #expect(DirectoryPair(existing: directory.path) == DirectoryPair(state: directory.path, cache: directory.path))
    }
}
