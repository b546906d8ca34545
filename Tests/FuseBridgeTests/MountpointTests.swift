import Basics
import Foundation
import FuseBridge
import Testing

struct MountpointTests {
    @Test func tableReadsEscapedLines() throws {
        let text: ByteString = """
            22 27 0:20 / /proc rw,nosuid - proc proc rw
            36 35 0:55 / /mnt/a\\040b\\134c rw,noatime shared:1 master:2 - fuse.pailfs s3://buck\\011et rw,user_id=0
            37 35 0:56 / /mnt/a\\040b\\134c rw - tmpfs tmpfs rw
            broken line

            """
        let table = MountTable(text: text)
        #expect(table.entries.count == 3)
        #expect(table.entries[1].mountpoint == "/mnt/a b\\c")
        #expect(table.entries[1].source == "s3://buck\tet")
        #expect(table.entries[1].device == "0:55")
        #expect(table.entry(at: "/mnt/a b\\c")?.type == "tmpfs")
        #expect(table.entry(at: "/mnt") == nil)
    }

    @Test func missingAndPlainFilesAreRefusedWithTheRemedy() throws {
        let missing = NSTemporaryDirectory() + "missing-\(UUID().uuidString)"
        #expect(throws: FuseError("the mountpoint \(missing) does not exist; create it with mkdir")) {
            try Mountpoint(missing)
        }
        try "x".write(toFile: missing, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: missing) }
        let mountpoint = try Mountpoint(missing)
        #expect(throws: FuseError("\(mountpoint.path) is not a directory; name a directory to mount on")) {
            try mountpoint.prepare(allowOther: false)
        }
        #expect(throws: FuseError.self) { try Mountpoint("") }
        let proc = try Mountpoint("/proc")
        #expect(throws: FuseError("/proc is already a mountpoint (of proc); unmount it first or use another directory"))
        {
            try proc.prepare(allowOther: false)
        }
    }

    @Test func symlinksAreResolved() throws {
        let folder = NSTemporaryDirectory() + "links-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder + "/real", withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: "real")
        #expect(try Mountpoint(folder + "/link").path == Mountpoint(folder + "/real").path)
    }
}
