import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// chmod or setxattr of a file that a program begins to write meanwhile (open(2) with O_TRUNC is not kept out by the kernel's
/// inode lock, nor are pages written through a mapping).
@Suite(.timeLimit(.minutes(2))) struct HeadersRaceTests {
    enum Act: String, CaseIterable, CustomTestStringConvertible {
        case chmod, setxattr, setxattrOfAnOpenFile
        var testDescription: String { rawValue }
    }

    private static func result<Value: Sendable>(_ outcome: Outcome<Value>) async -> FileSystemError? {
        if case .failure(let error) = await outcome.value() { error } else { nil }
    }

    /// `parts`: the ETag of an object made of parts is another one once its headers were changed by a copy, as at S3.
    @Test(arguments: Act.allCases, [false, true])
    func bothAreStored(act: Act, parts: Bool) async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, partSize: 64 << 10)
        try await tree.store("f", [UInt8](repeating: 1, count: parts ? 300_000 : 300))
        try await tree.remount()
        let ino = try await tree.find("f").ino
        let reader =
            act == .setxattrOfAnOpenFile
            ? try await tree.open("f", OpenFlags(reads: true, writes: false)) : nil
        let system = tree.system
        let changing = tree.store.hold(.updateMetadata, beforeReply: true)
        let change = tree.pool.start { () async -> FileSystemError? in
            switch act {
            case .chmod:
                var change = AttributeChange()
                change.mode = 0o600
                return await Self.result(system.setAttributes(ino, to: change, handle: nil))
            case .setxattr, .setxattrOfAnOpenFile:
                return await Self.result(
                    system.setExtendedAttribute("user.colour", of: ino, to: "blue", mode: .createOrReplace))
            }
        }
        await changing.waitForArrivals()
        let open = tree.pool.start { () async -> HandleID? in
            let outcome = system.open(ino, flags: OpenFlags(reads: false, writes: true, truncate: true))
            return try? await outcome.value().get().handle
        }
        try await Task.sleep(for: .milliseconds(200))
        changing.open()
        #expect(await change.value == nil)
        let handle = try #require(await open.value)
        #expect(try await tree.find("f").size == 0)
        try await tree.write((ino, handle), Array("new".utf8), at: 0)
        try await tree.close((ino, handle))
        if let reader { try await tree.close(reader) }
        #expect(tree.store.keys == ["f"])
        #expect(tree.store.content("f") == Array("new".utf8))
        try await tree.remount()
        if act == .chmod {
            #expect(try await tree.find("f").mode & 0o777 == 0o600)
            #expect(tree.store.info("f")?.metadata.user["mode"] == String(0o100600))
        } else {
            #expect(try await tree.run(tree.system.extendedAttribute("user.colour", of: ino)) == "blue")
        }
    }
}
