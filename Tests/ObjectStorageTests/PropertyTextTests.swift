import ObjectStorage
import Testing

/// Access control lists and requests to restore, as people write them.
@Suite struct PropertyTextTests {
    @Test(arguments: [
        AccessControl(canned: "public-read"),
        AccessControl(grants: [.init(.user(id: "a=b:c"), "READ")]),
        AccessControl(grants: [
            .init(.group(uri: "http://acs.amazonaws.com/groups/global/AllUsers"), "READ_ACP"),
            .init(.email("a@b"), "FULL_CONTROL"),
        ]),
    ])
    func aListIsWhatItsTextSays(_ access: AccessControl) {
        #expect(AccessControl(text: access.text) == access)
        #expect(AccessControl(text: access.text + "\n") == access)
    }

    @Test(arguments: ["", "\n", "a b", "a\nb", "user:a", "user:=READ", "user:a=", "who:a=READ", "user:a=READ\nprivate"])
    func whatIsNoListIsNone(_ text: String) { #expect(AccessControl(text: text) == nil) }

    @Test(arguments: [("3", RestoreRequest(days: 3)), ("10 Bulk", RestoreRequest(days: 10, tier: "Bulk"))])
    func aRequestToRestoreIsDaysAndATier(text: String, request: RestoreRequest) {
        #expect(RestoreRequest(text: text) == request)
    }

    @Test(arguments: ["", "0", "-1", "x", "Bulk 3", "1 Bulk now", "1 \u{7}"])
    func whatIsNoRequestIsNone(_ text: String) { #expect(RestoreRequest(text: text) == nil) }
}
