import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Modes, times and targets as other tools have stored them.
@Suite struct StoredModeTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let text: String
        let mode: UInt16
        var testDescription: String { text }
    }

    /// A FIFO, a device and a socket of s3fs have decimal modes, too.
    static let rows = [
        Row(text: "33188", mode: 0o644), Row(text: "4516", mode: 0o644), Row(text: "8612", mode: 0o644),
        Row(text: "25008", mode: 0o660), Row(text: "49645", mode: 0o755), Row(text: "100644", mode: 0o644),
        Row(text: "0100755", mode: 0o755), Row(text: "0755", mode: 0o755), Row(text: "40755", mode: 0o755),
        Row(text: "35309", mode: 0o4755), Row(text: "420", mode: 0o644),
    ]

    @Test(arguments: rows) func aModeIsReadAsItWasMeant(row: Row) {
        var attributes = Attributes(kind: .file, mtime: .epoch)
        AttributeCodec.decode(ObjectMetadata(user: ["mode": row.text]), into: &attributes)
        #expect(attributes.mode == row.mode)
    }

    struct Time: Sendable, CustomTestStringConvertible {
        let text: String
        let seconds: Int64
        var nanoseconds: Int32 = 0
        var testDescription: String { text }
    }

    static let times = [
        Time(text: "1500000000", seconds: 1_500_000_000),
        Time(text: "1500000000.25", seconds: 1_500_000_000, nanoseconds: 250_000_000),
        Time(text: "0.000000001", seconds: 0, nanoseconds: 1), Time(text: "-2", seconds: -2),
        Time(text: "-0.5", seconds: -1, nanoseconds: 500_000_000),
        Time(text: "-1.250000000", seconds: -2, nanoseconds: 750_000_000),
        // Years that have more than 32 bits.
        Time(text: "9223372036854775807.999999999", seconds: 67_768_036_191_590_399),
        Time(text: "9223372036854775807", seconds: 67_768_036_191_590_399),
        Time(text: "-9223372036854775808.5", seconds: -67_768_040_609_654_400),
        Time(text: "-9223372036854775808", seconds: -67_768_040_609_654_400),
    ]

    @Test(.rule("attr.mtime"), arguments: times) func aTimeIsReadAsItWasMeant(time: Time) {
        var attributes = Attributes(kind: .file, mtime: .epoch)
        AttributeCodec.decode(ObjectMetadata(user: ["mtime": time.text]), into: &attributes)
        #expect(attributes.mtime == Timestamp(seconds: time.seconds, nanoseconds: time.nanoseconds))
        let stored = AttributeCodec.encode(attributes, over: ObjectMetadata())
        var again = Attributes(kind: .file, mtime: .epoch)
        AttributeCodec.decode(stored, into: &again)
        #expect(again.mtime == attributes.mtime, "\(stored.user)")
    }

    @Test(.rule("attr.mtime")) func aTimeThatNoDateShowsIsSetToTheNearest() async throws {
        let tree = try MountedTree()
        try await tree.store("f", [1])
        let ino = try await tree.find("f").ino
        var change = AttributeChange()
        change.modified = Timestamp(seconds: .max)
        change.accessed = Timestamp(seconds: .min)
        let status = try await tree.run(tree.system.setAttributes(ino, to: change, handle: nil)).status
        #expect(status.modified.seconds == 67_768_036_191_590_399)
        #expect(status.accessed.seconds == -67_768_040_609_654_400)
    }

    @Test func aLinkWhoseBodyHoldsANulByteHasNoTarget() async throws {
        let tree = try MountedTree()
        tree.store.setObject("l.rclonelink", Array("a\0b".utf8))
        let failure = await #expect(throws: MountedTree.Failure.self) { try await tree.readLink("l") }
        #expect(failure?.kind == .inputOutput)
    }
}
