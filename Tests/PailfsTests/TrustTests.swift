import Testing

@testable import pailfs

@Suite struct TrustTests {
    @Test func rootDoesNotMakeAStoreFromWhatAUsersMountSays() throws {
        try MountPlace.requireOwner(1000, user: 1000, of: "/mnt")
        try MountPlace.requireOwner(nil, user: 1000, of: "/mnt")
        let error = #expect(throws: CommandError.self) { try MountPlace.requireOwner(1000, user: 0, of: "/mnt") }
        #expect(error?.message.contains("sudo -u '#1000' pailfs") == true)
    }
}
