import Basics
import ObjectStorage
import Providers
import TestSupport
import Testing

/// Which keys each store takes by the naming rules in its documentation.
@Suite struct KeyRulesTests {
    private let latin = ByteString([0x66, 0xe9])
    private let control = ByteString([0x66, 0x1a])
    private let backslash: ByteString = "\\f"
    private let later: ByteString = "d/\\f"

    private func refused(_ capabilities: Capabilities) -> [ByteString] {
        [latin, control, backslash, later].filter { !capabilities.keyRules.allows($0) }
    }

    @Test(.rule("name.bytes")) func eachStoreRefusesItsOwn() {
        #expect(refused(FamilyProfile.generic.capabilities) == [])
        #expect(refused(FamilyProfile.oss.capabilities) == [latin, backslash])
        #expect(refused(FamilyProfile.cos.capabilities) == [control, backslash])
        #expect(refused(KodoStore.limits) == [latin])
        for profile in [SwiftProfile.swift, .cssp] { #expect(refused(profile.capabilities) == [latin]) }
    }

    /// Nothing begins with a name in a mount of what is below a prefix.
    @Test func theFirstByteIsThePrefixs() {
        let whole = MemoryStore(capabilities: FamilyProfile.oss.capabilities)
        #expect(refused(PrefixedStore(whole, prefix: "below/").capabilities) == [latin])
    }
}
