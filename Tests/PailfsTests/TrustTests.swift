import Basics
import Foundation
import TestSupport
import Testing

@testable import pailfs

@Suite struct TrustTests {
    @Test func rootDoesNotMakeAStoreFromWhatAUsersMountSays() throws {
        try MountPlace.requireOwner(1000, user: 1000, of: "/mnt")
        try MountPlace.requireOwner(nil, user: 1000, of: "/mnt")
        let error = #expect(throws: CommandError.self) { try MountPlace.requireOwner(1000, user: 0, of: "/mnt") }
        #expect(error?.message.contains("sudo -u '#1000' pailfs") == true)
    }

    @Test func recordsInADirectoryThatOthersMayChangeAreNotBelieved() throws {
        let directory = try TemporaryDirectory()
        let (path, link) = (directory.path("pailfs"), directory.path("link"))
        #expect(!MountRecord.isTrusted(path), "it is not there")
        #expect(mkdir(path, 0o700) == 0 && symlink(path, link) == 0)
        #expect(MountRecord.isTrusted(path))
        #expect(!MountRecord.isTrusted(link))
        #expect(MountRecord.isTrusted(path, for: geteuid() + 1) == (geteuid() == 0), "root's are everybody's")
        #expect(chmod(path, 0o777) == 0)
        #expect(!MountRecord.isTrusted(path))
        guard geteuid() == 0 else { return }
        #expect(chmod(path, 0o700) == 0 && chown(path, 65534, 65534) == 0)
        #expect(!MountRecord.isTrusted(path))
        #expect(MountRecord.isTrusted(path, for: 65534))
    }

    @Test func aCacheBelowWhatOthersMayChangeIsNamed() throws {
        let directory = try TemporaryDirectory()
        let (shared, cache) = (directory.path("shared"), directory.path("shared/cache"))
        #expect(mkdir(shared, 0o700) == 0 && mkdir(cache, 0o700) == 0)
        #expect(LocalDirectories.exposed(cache) == nil)
        #expect(chmod(shared, 0o777) == 0)
        #expect(LocalDirectories.exposed(cache)?.hasSuffix("any user can replace files in \(shared)") == true)
        #expect(chmod(shared, 0o1777) == 0)
        #expect(LocalDirectories.exposed(cache) == nil, "as in /tmp")
        guard geteuid() == 0 else { return }
        #expect(chmod(shared, 0o755) == 0 && chown(shared, 65534, 65534) == 0)
        #expect(LocalDirectories.exposed(cache)?.contains("user 65534") == true)
        #expect(LocalDirectories.exposed(cache, to: 65534) == nil)
        let container = UserNameSpace(map: "0 1000 1", overflow: 65534)
        #expect(LocalDirectories.exposed(cache, in: container) == nil, "a user outside, as the machine's root")
        #expect(chmod(shared, 0o777) == 0)
        #expect(LocalDirectories.exposed(cache, in: container)?.contains("any user") == true)
    }

    @Test func recordsAreLookedForInEverySessionOfTheUser() {
        let ours = MountRecord.directories(of: geteuid())
        #expect(ours.first == MountRecord.directory)
        #expect(ours.contains("/run/user/\(geteuid())/pailfs") && ours.contains("/tmp/pailfs-\(geteuid())"))
        #expect(Set(ours).count == ours.count)
    }
}
