import Glibc
import TestSupport
import Testing

@testable import Basics

@Suite struct UserNameSpaceTests {
    private static let machine = UserNameSpace(map: "         0          0 4294967295\n", overflow: 65534)
    /// As `unshare -Ur` makes it.
    private static let alone = UserNameSpace(map: "         0       1000          1\n", overflow: 65534)
    /// As podman makes it: the overflow number is that of a user, too.
    private static let podman = UserNameSpace(map: "0 1000 1\n1 100000 65536\n", overflow: 65534)

    @Test func theMachineKnowsAllOfItsUsers() {
        #expect(!Self.machine.isPartial && !Self.machine.mayBeUnmapped(65534) && !Self.machine.isUnmapped(65534))
        #expect(!UserNameSpace(map: "", overflow: 65534).isUnmapped(0), "nothing is said of a number below it")
    }

    @Test func theOverflowNumberIsThatOfUsersWithoutOne() {
        #expect(Self.alone.isPartial && Self.alone.mayBeUnmapped(65534) && Self.alone.isUnmapped(65534))
        #expect(!Self.alone.mayBeUnmapped(0) && !Self.alone.isUnmapped(0))
        #expect(!Self.alone.isUnmapped(1000), "a number that stat(2) cannot report")
        #expect(UserNameSpace(map: "0 1000 1", overflow: 99).isUnmapped(99))
    }

    @Test func theOverflowNumberMayBeThatOfAUserAsWell() {
        #expect(Self.podman.isPartial && Self.podman.mayBeUnmapped(65534) && !Self.podman.isUnmapped(65534))
    }

    @Test(.enabled(if: geteuid() == 0, "giving a file to another user takes root"))
    func whatUsersOutsideOwnIsTrustedWhereNotEveryUserMayWrite() throws {
        let directory = try TemporaryDirectory()
        let (place, path) = (directory.path("place"), directory.path("place/file"))
        #expect(mkdir(place, 0o755) == 0)
        try File.writeAtomically([1], to: path)
        #expect(chown(path, 65534, 65534) == 0)
        let status = try #require(try LocalFileStatus(of: path))
        #expect(!status.isTrusted(at: path, Self.machine))
        #expect(status.isTrusted(at: path, Self.alone))
        #expect(!status.isTrusted(at: path, Self.podman), "root may do what the owner may")
        #expect(chmod(place, 0o1777) == 0)
        #expect(!status.isTrusted(at: path, Self.alone), "in /tmp it may be any user's")
        #expect(chown(path, 1234, 1234) == 0)
        let other = try #require(try LocalFileStatus(of: path))
        #expect(!other.isTrusted(at: path, Self.alone))
        #expect(other.isTrusted(by: 1234, at: path, Self.alone))
    }
}
