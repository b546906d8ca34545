import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// Modes and targets as other tools have stored them.
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

    @Test func aLinkWhoseBodyHoldsANulByteHasNoTarget() async throws {
        let tree = try MountedTree()
        tree.store.setObject("l.rclonelink", Array("a\0b".utf8))
        let failure = await #expect(throws: MountedTree.Failure.self) { try await tree.readLink("l") }
        #expect(failure?.kind == .inputOutput)
    }
}
