import Basics
import Testing

@testable import FuseBridge

/// What can be learnt of a mount that another process has made.
@Suite struct HandedConnectionTests {
    private static let table = MountTable(
        text: """
            41 27 0:38 / /other rw - fuse.pailfs s3://b rw,user_id=0,group_id=0,default_permissions
            42 27 0:39 / /mnt rw - fuse handed rw,user_id=1000,group_id=0,default_permissions,allow_other
            43 27 0:39 /below /bound rw - fuse handed rw,user_id=1000,group_id=0,default_permissions,allow_other

            """)

    @Test func theKernelNamesItsConnection() {
        let info = "pos:\t0\nflags:\t02100002\nmnt_id:\t24\nino:\t90\nfuse_connection:\t39\n"
        let mounts = HandedConnection.mounts(of: .init(info), in: Self.table)
        #expect(mounts.map(\.mountpoint) == ["/mnt", "/bound"])
        #expect(mounts.map(\.checksPermissions) == [true, true])
    }

    @Test(arguments: ["pos:\t0\nflags:\t02100002\n", "fuse_connection:", "fuse_connection:\t7\n", ""])
    func anUnnamedConnectionAndOneOfAnotherNamespaceHaveNone(_ info: String) {
        #expect(HandedConnection.mounts(of: .init(info), in: Self.table).isEmpty)
    }

    @Test func optionsOfTheMountAreRead() {
        let table = MountTable(text: "42 27 0:39 / /mnt rw - fuse handed rw,user_id=0,group_id=0,allow_other\n")
        #expect(table.entries.map(\.checksPermissions) == [false])
    }

    @Test func onlyNamesStandForSuchAMount() {
        for name in ["/dev/fd/3", "/dev/fd/x", "fuse-socket:/run/socket"] { #expect(HandedConnection.isName(name)) }
        for path in ["/mnt", "/dev/fd", "fuse-socket:relative", "/mnt/fuse-socket:/x", ""] {
            #expect(!HandedConnection.isName(path))
        }
        #expect(HandedConnection.number(in: "/dev/fd/12") == 12)
        for text in ["/dev/fd/", "/dev/fd/-1", "/dev/fd/1/x", "/dev/fd/99999999999", "/dev/fdx/1", "3"] {
            #expect(HandedConnection.number(in: text) == nil)
        }
    }
}
