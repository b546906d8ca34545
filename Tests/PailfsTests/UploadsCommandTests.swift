import Basics
import Testing

@testable import pailfs

@Suite struct UploadsCommandTests {
    @Test(arguments: [
        ("photos", true), ("photos/a", true), ("photos/", true), ("photos-2025/big.tar", false), ("photo", false),
    ])
    func aPrefixMeansWhatIsBelowIt(key: String, isMeant: Bool) {
        #expect(UploadsCommand.isMeant(ByteString(key), by: "photos") == isMeant)
        #expect(UploadsCommand.isMeant(ByteString(key), by: ""))
    }

    @Test func aSlashLeavesTheKeyItselfOut() {
        #expect(UploadsCommand.isMeant("photos/a", by: "photos/"))
        #expect(!UploadsCommand.isMeant("photos", by: "photos/"))
    }
}
