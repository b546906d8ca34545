import Basics
import Foundation
import Journaling
import TestSupport
import Testing

@Suite struct CacheDirectoryLockTests {
    let temporary: TemporaryDirectory
    var directory: String { temporary.path("cache/bucket") }

    init() throws { temporary = try TemporaryDirectory() }

    func refusal(_ directory: String) throws -> JournalingError {
        try #require(
            throws: JournalingError.self,
            performing: { try CacheDirectoryLock(directory: directory, pid: 2, mountpoint: "/two") })
    }

    @Test func theDirectoryIsMadeForItsOwnerAlone() throws {
        let lock = try CacheDirectoryLock(directory: directory, pid: 1, mountpoint: "/one")
        #expect(try LocalFileStatus(of: lock.directory)?.permissions == 0o700)
        #expect(try LocalFileStatus(of: lock.directory + "/lock")?.permissions == 0o600)
    }

    @Test func theSecondIsToldWhoHoldsIt() throws {
        let lock = try CacheDirectoryLock(directory: directory, pid: 4711, mountpoint: "/mnt/a b\nc")
        let error = try refusal(directory)
        #expect(error == .held(directory: directory, pid: 4711, mountpoint: "/mnt/a b\nc"))
        #expect(error.description.contains("process 4711, mounted on /mnt/a b"))
        withExtendedLifetime(lock) {}
    }

    @Test func aHolderThatSaidNothingYetIsUnknown() throws {
        try Directory.create(directory)
        let file = try File(directory + "/lock", .readWrite, create: .ifMissing)
        #expect(try file.tryLock())
        #expect(try refusal(directory) == .held(directory: directory, pid: nil, mountpoint: nil))
    }

    @Test func theEndOfTheHolderFreesIt() throws {
        do { _ = try CacheDirectoryLock(directory: directory, pid: 1, mountpoint: "/a/long/mountpoint") }
        let lock = try CacheDirectoryLock(directory: directory, pid: 2, mountpoint: "/b")
        #expect(try File(directory + "/lock").read(0..<99) == Array("2\n/b\n".utf8))
        withExtendedLifetime(lock) {}
    }

    @Test func aDeadProcessHoldsNothing() throws {
        try Directory.create(directory)
        let child = Process()
        child.executableURL = URL(fileURLWithPath: "/bin/sh")
        child.arguments = ["-c", "exec 9>\"$0\"; flock -n 9 && echo 99999 >&9; kill -9 $$", directory + "/lock"]
        try child.run()
        child.waitUntilExit()
        _ = try CacheDirectoryLock(directory: directory, pid: 1, mountpoint: "/one")
    }

    @Test func anotherLivingProcessHoldsIt() throws {
        try Directory.create(directory)
        let (child, said, stop) = (Process(), Pipe(), Pipe())
        child.executableURL = URL(fileURLWithPath: "/bin/sh")
        child.arguments = [
            "-c", "exec 9>\"$0\"; flock -n 9 && printf '77\\n/x\\n' >&9; echo ready; read line", directory + "/lock",
        ]
        (child.standardOutput, child.standardInput) = (said, stop)
        try child.run()
        #expect(said.fileHandleForReading.readData(ofLength: 6) == Data("ready\n".utf8))
        #expect(try refusal(directory) == .held(directory: directory, pid: 77, mountpoint: "/x"))
        try stop.fileHandleForWriting.close()
        child.waitUntilExit()
        _ = try CacheDirectoryLock(directory: directory, pid: 1, mountpoint: "/one")
    }

    @Test func aSymbolicLinkIsRefused() throws {
        try Directory.create(temporary.path("real"))
        try FileManager.default.createSymbolicLink(
            atPath: temporary.path("link"), withDestinationPath: temporary.path("real"))
        #expect(try refusal(temporary.path("link")) == .notADirectory(directory: temporary.path("link")))
        #expect(try Directory.names(in: temporary.path("real")) == [])
    }

    @Test func aFileInItsPlaceIsRefused() throws {
        try File.writeAtomically([1], to: temporary.path("f"))
        #expect(try refusal(temporary.path("f")) == .notADirectory(directory: temporary.path("f")))
    }

    @Test func aWiderModeIsNarrowed() throws {
        try Directory.create(directory)
        try Directory.setPermissions(0o755, of: directory)
        _ = try CacheDirectoryLock(directory: directory, pid: 1, mountpoint: "/one")
        #expect(try LocalFileStatus(of: directory)?.permissions == 0o700)
    }

    @Test(.enabled(if: LocalFileStatus.ourUser == 0, "only root can make a directory of another user"))
    func aDirectoryOfAnotherUserIsRefused() throws {
        try Directory.create(directory)
        try FileManager.default.setAttributes([.ownerAccountID: 65534], ofItemAtPath: directory)
        let error = try refusal(directory)
        #expect(error == .foreign(directory: directory, owner: 65534))
        #expect(error.description.contains("user 65534"))
    }
}
