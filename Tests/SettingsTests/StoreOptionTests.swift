import ObjectStorage
import Settings
import Testing

/// Options that some stores cannot honour, where leaving them out in silence could cost data, secrets or money.
struct StoreOptionTests {
    static let encrypted = ["sse=AES256", "sse-key=id", "sse-context=e30=", "sse-customer-key-file=/key"]
    static let ofTheFamily = encrypted + ["acl=private", "traffic-limit=819200", "redirects=follow"]

    private func check(
        _ url: String, _ list: String = "", environment: [String: String] = [:], file text: String = ""
    ) throws {
        let url = try BucketURL(parsing: url)
        let file = try ConfigFile(parsing: text, path: "config")
        let sources = OptionSources(
            files: [("config", file.entries(for: url))], optionLists: [list], environment: environment)
        _ = try MountSettings(sources.options)
        try sources.requireHonoured(by: url.scheme)
    }

    private func complaint(
        _ url: String, _ list: String = "", environment: [String: String] = [:], file text: String = ""
    ) -> String? {
        let error = #expect(throws: SettingsError.self) {
            try check(url, list, environment: environment, file: text)
        }
        return error?.description
    }

    @Test(arguments: ["kodo", "cssp", "swift"], ofTheFamily)
    func whatOnlyTheFamilyHasIsRefusedElsewhere(scheme: String, option: String) {
        let text = complaint("\(scheme)://bucket", option)
        let name = option.prefix { $0 != "=" }
        #expect(text?.hasPrefix("the option \(name) is for ") == true)
        #expect(text?.hasSuffix("; leave it out") == true)
        #expect(text?.lowercased().contains("not for \(scheme);") == true)
    }

    @Test func aStorageClassIsRefusedWhereThereAreNone() throws {
        for scheme in ["cssp", "swift"] { _ = complaint("\(scheme)://", "storage-class=COLD") }
        for scheme in ["s3", "oss", "cos", "kodo"] { try check("\(scheme)://bucket", "storage-class=COLD") }
    }

    @Test func theFamilyTakesWhatItHas() throws {
        for option in Self.ofTheFamily where !option.hasPrefix("traffic-limit") { try check("s3://bucket", option) }
        for option in Self.ofTheFamily { try check("cos://bucket", option) }
        for option in ["sse=KMS", "sse-key=id", "acl=private", "traffic-limit=819200", "redirects=follow"] {
            try check("oss://bucket", option)
        }
        for option in ["sse-context=e30=", "sse-customer-key-file=/key"] { _ = complaint("oss://bucket", option) }
        _ = complaint("s3://bucket", "traffic-limit=819200")
    }

    @Test func whatEveryStoreDoesAnywayIsNoMistake() throws {
        for scheme in ["kodo", "cssp", "swift"] { try check("\(scheme)://bucket", "redirects=refuse,ttl=5") }
    }

    @Test func theLastValueCounts() throws {
        try check("swift://bucket", "redirects=follow,redirects=refuse")
        _ = complaint("swift://bucket", "redirects=refuse,redirects=follow")
    }

    @Test func aComplaintNamesWhereTheValueIs() {
        #expect(
            complaint("swift://bucket", "sse=AES256")
                == "the option sse is for S3, OSS and COS, not for Swift; leave it out")
        #expect(
            complaint("cssp://bucket", environment: ["PAILFS_SSE": "AES256"])
                == "the option PAILFS_SSE is for S3, OSS and COS, not for CSSP; leave it out")
        let told = "the option sse is for S3, OSS and COS, not for Kodo; leave it out, or move it below [s3://]"
        #expect(complaint("kodo://bucket", file: "# for all\nsse = AES256") == "config:2: \(told)")
        #expect(complaint("kodo://bucket", file: "[kodo://]\nsse = AES256") == "config:2: \(told)")
    }

    @Test func whatAFileHasForOtherStoresHarmsNobody() throws {
        try check("swift://bucket", file: "[s3://]\nsse = AES256\nstorage-class = COLD")
    }

    @Test func aStorageClassForEveryMountIsLeftOut() throws {
        try check("swift://bucket", file: "storage-class = COLD")
        _ = complaint("swift://bucket", file: "[swift://bucket]\nstorage-class = COLD")
        _ = complaint("swift://bucket", environment: ["PAILFS_STORAGE_CLASS": "COLD"], file: "storage-class = COLD")
    }
}
