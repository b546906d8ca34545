import Testing

@testable import FuseBridge

/// The causes that a message names when the kernel denies a mount, and the lines that permit it.
@Suite struct MountPrivilegesTests {
    private static let wholeMap = "         0          0 4294967295\n"

    @Test(
        arguments: [
            ("CapEff:\t000001ffffffffff", true), ("CapEff:\t0000000000200000", true),
            ("CapEff:\t00000000a80425fb", false),
            ("CapEff:\t0000000000000000", false), ("Name:\tpailfs", true),
        ])
    func theCapabilityIsReadFromTheStatus(_ line: String, _ hasIt: Bool) {
        #expect(MountPrivileges.hasSystemAdmin("Name:\tpailfs\n\(line)\nSeccomp:\t0\n") == hasIt)
    }

    @Test(
        arguments: [
            (
                "docker-default (enforce)\n", "Seccomp:\t0\n", wholeMap, "the AppArmor profile docker-default",
                "apparmor=unconfined"
            ),
            ("", "Seccomp:\t2\n", wholeMap, "a seccomp filter", "seccomp=unconfined"),
            ("unconfined\n", "Seccomp:\t0\n", "0 1000 1\n", "this user namespace", "unshare --user --mount"),
        ])
    func eachCauseIsNamedWithItsRemedy(
        _ profile: String, _ status: String, _ map: String, _ cause: String, _ remedy: String
    ) throws {
        let text = try #require(MountPrivileges.denial(profile: profile, status: status, userMap: map))
        #expect(text.contains(cause) && text.contains(remedy) && text.contains("(a pod)"))
        #expect(text.split(separator: "; ").count == 1, "one cause")
    }

    @Test(arguments: ["unconfined\n", "", "docker-default (complain)\n", "\0"])
    func withoutAKnownCauseThereIsNoAdvice(_ profile: String) {
        #expect(MountPrivileges.denial(profile: profile, status: "Seccomp:\t0\n", userMap: Self.wholeMap) == nil)
    }
}
