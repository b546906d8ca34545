import Basics
import Digests
import ObjectStorage
import Testing

@testable import Providers

@Suite struct KodoCredentialsTests {
    private static func sources(
        _ environment: [String: String], profile: String? = nil, files: [String: String] = [:]
    ) -> KodoCredentials {
        KodoCredentials(environment: environment.merging(["HOME": "/home/me"]) { $1 }, profile: profile) { files[$0] }
    }

    private static let file = """
        # of the SDKs
        [default]
        access_key = "FILE-ID"
        secret_key = 'FILE # SECRET'   # not in it
        disable_secure_protocol = true

        [other]
        access_key="OTHER-ID"
        secret_key = "OTHER-SECRET"
        bucket_url = "uc.example.com, uc2.example.com"
        """
    private static let own = ["PAILFS_ACCESS_KEY_ID": "OWN-ID", "PAILFS_SECRET_ACCESS_KEY": "OWN"]
    private static let shell = ["QINIU_ACCESS_KEY": "SHELL-ID", "QINIU_SECRET_KEY": "SHELL"]
    private static let files = ["/home/me/.qiniu/config.toml": file, "/elsewhere": file]
    private static let qshell = [
        "/home/me/.qshell/account.json":
            "work:AKEXAMPLE0123456789abcdefghijklmnopqrstu:"
            + "1UsLlyX38B0Bum4P9KyR0PdoabqWy8plVT5Qnwy625oqzMHeyntu8Nq2Oug6UkWC\n"
    ]

    @Test func ourVariablesComeFirstThenTheSDKsThenTheFile() throws {
        func id(_ sources: KodoCredentials) throws -> String? { try sources.find()?.credentials.accessKeyID }
        #expect(try id(Self.sources(Self.own.merging(Self.shell) { $1 }, files: Self.files)) == "OWN-ID")
        #expect(try id(Self.sources(Self.shell, files: Self.files)) == "SHELL-ID")
        #expect(try id(Self.sources([:], files: Self.files)) == "FILE-ID")
        #expect(try id(Self.sources(["QINIU_PROFILE": "other"], files: Self.files)) == "OTHER-ID")
        #expect(try id(Self.sources(["QINIU_CONFIG_FILE": "/elsewhere"], files: Self.files)) == "FILE-ID")
        #expect(try id(Self.sources(Self.shell, profile: "other", files: Self.files)) == "OTHER-ID")
        #expect(throws: ObjectStoreError.self) { try id(Self.sources(["QINIU_ACCESS_KEY": "half"], files: [:])) }
    }

    @Test func theFileSaysMoreThanKeys() throws {
        let found = Self.sources([:], files: Self.files)
        #expect(try found.find()?.credentials.secretKey.revealed == "FILE # SECRET")
        #expect(found.isSecure == false && found.endpoint == nil && found.signsTime)
        let other = Self.sources(["DISABLE_QINIU_TIMESTAMP_SIGNATURE": "true"], profile: "other", files: Self.files)
        #expect(other.isSecure && other.endpoint == "uc.example.com" && !other.signsTime)
        let variables = ["QINIU_BUCKET_URL": "a.example.com,b.example.com", "DISABLE_QINIU_SECURE_PROTOCOL": "1"]
        let told = Self.sources(variables, files: Self.files)
        #expect(told.endpoint == "a.example.com" && !told.isSecure)
    }

    @Test func qshellIsReadOnlyWhenItIsNamed() throws {
        #expect(try Self.sources([:], files: Self.qshell).find() == nil)
        let found = try Self.sources(Self.shell, profile: "qshell", files: Self.qshell).find()
        #expect(found?.credentials.accessKeyID == "AKEXAMPLE0123456789abcdefghijklmnopqrstu")
        #expect(found?.credentials.secretKey.revealed == "SKEXAMPLE0123456789abcdefghijklmnopqrstu")
    }

    @Test(arguments: [
        (#"{"hosts": {"uc": ["uc.example.com", "uc2.example.com"]}, "use_https": false}"#, "uc.example.com", false),
        (
            #"{"hosts": {"uc": "http://uc.example.com:8080", "rs": ["rs.example.com"]}}"#, "http://uc.example.com:8080",
            true
        ),
        (#"{"use_https": "false", "log": {"log_level": "debug"}}"#, nil, false), ("{}", nil, true),
    ])
    func theServersOfQshellAreUsedWithItsKeys(settings: String, endpoint: String?, isSecure: Bool) throws {
        let files = Self.qshell.merging(["/home/me/.qshell.json": settings]) { $1 }
        let found = Self.sources([:], profile: "qshell", files: files)
        #expect(found.endpoint == endpoint && found.isSecure == isSecure)
        #expect(try found.find() != nil)
        let others = Self.sources(Self.shell, files: files)
        #expect(others.endpoint == nil && others.isSecure, "the keys are not qshell's")
        let told = Self.sources(["QINIU_BUCKET_URL": "own.example.com"], profile: "qshell", files: files)
        #expect(told.endpoint == "own.example.com")
    }

    /// pailfs asks one server for the others: settings that it cannot use are refused by name.
    @Test(arguments: [
        (#"{"hosts": {"up": ["up.example.com"]}}"#, "add hosts.uc"), ("{\"hosts\": ", "correct or remove it"),
        (#"{"use_https": []}"#, "correct or remove it"),
    ])
    func settingsOfQshellThatCannotBeUsedAreRefused(settings: String, words: String) throws {
        let files = Self.qshell.merging(["/home/me/.qshell.json": settings]) { $1 }
        let error = #expect(throws: ObjectStoreError.self) {
            try Self.sources([:], profile: "qshell", files: files).find()
        }
        #expect(error?.message.contains("/home/me/.qshell.json") == true, "\(error?.message ?? "")")
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    @Test func aServerThatIsNamedMakesThoseOfQshellUnnecessary() throws {
        let settings = ["/home/me/.qshell.json": #"{"hosts": {"up": ["up.example.com"]}}"#]
        let files = Self.qshell.merging(settings) { $1 }
        let found = Self.sources(["QINIU_BUCKET_URL": "own.example.com"], profile: "qshell", files: files)
        #expect(try found.find() != nil)
    }

    @Test(arguments: [
        ("absent", [:], "the profile absent is not in"), ("qshell", [:], "account.json, which cannot be read"),
        ("qshell", ["/home/me/.qshell/account.json": "x"], "is not a file of qshell"),
        ("half", ["/home/me/.qiniu/config.toml": "[half]\naccess_key = \"A\"\n"], "lacks access_key or secret_key"),
    ])
    func aProfileThatCannotBeUsedIsNamed(profile: String, files: [String: String], words: String) {
        let error = #expect(throws: ObjectStoreError.self) {
            try Self.sources(Self.shell, profile: profile, files: files).find()
        }
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    @Test(arguments: ["", "a:b", "name::x", "name:AK:!", "name:AK:AAAA", "name:AK:AAAAAAAAAAAAAAAAAAAAAA=="])
    func whatIsNoAccountIsNone(text: String) { #expect(QshellAccount(text) == nil) }

    /// FIPS 197, appendix B and C.1.
    @Test(arguments: [
        (
            "2b7e151628aed2a6abf7158809cf4f3c", "3925841d02dc09fbdc118597196a0b32",
            "3243f6a8885a308d313198a2e0370734"
        ),
        (
            "000102030405060708090a0b0c0d0e0f", "69c4e0d86a7b0430d8cdb78070b4c55a",
            "00112233445566778899aabbccddeeff"
        ),
    ]) func blocksAreDecipheredAsPublished(key: String, block: String, plain: String) throws {
        let cipher = try #require(Hex.decode(key).flatMap { AES128(key: $0) })
        let bytes = try #require(Hex.decode(block))
        #expect(Hex.encode(cipher.decrypt(block: bytes)) == plain)
    }
}
