import Basics
import ObjectStorage
import TestSupport
import Testing

@testable import pailfs

@Suite struct CopyEngineTests {
    /// Without this, the last one to be stored would win unnoticed, and large ones would abort each other's upload.
    @Test func aSecondSourceOfTheSameNameIsRefused() async throws {
        let rig = try CopyRig()
        try rig.write("one/x", [1])
        try rig.write("one/big", CopyRig.bytes(2 * CopyRig.partSize))
        try rig.makeDirectory("one/none")
        try rig.write("two/x", [2])
        try rig.write("two/big", CopyRig.bytes(2 * CopyRig.partSize, seed: 2))
        try rig.write("two/y", [2])
        try rig.makeDirectory("two/none")
        try await rig.upload("one", "two", to: "p", journal: try rig.journal())
        #expect(rig.failed == [rig.path("two/big"), rig.path("two/x")])
        #expect(rig.tally.failures.allSatisfy { $0.reason.contains("same name at the destination") })
        #expect(rig.store.keys == ["p/big", "p/none/", "p/x", "p/y"])
        #expect(rig.store.content("p/x") == [1] && rig.store.content("p/big") == rig.content("one/big"))
    }

    @Test func asManyFilesAreCopiedAtATimeAsTheCommandSays() async throws {
        let rig = try CopyRig()
        for number in 0..<9 { try rig.write("t/\(number)", [1]) }
        rig.jobs = 3
        let gate = rig.store.hold(.put)
        async let opened: Void = {
            await gate.waitForArrivals(3)
            gate.open()
        }()
        try await rig.upload("t", to: "p")
        await opened
        #expect(rig.store.mostInFlight(.put) == 3 && rig.store.keys.count == 9)
    }
}
