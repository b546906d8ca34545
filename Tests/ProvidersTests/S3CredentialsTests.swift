import Basics
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

@Suite struct S3CredentialsTests {
    private func sources(
        _ environment: [String: String] = [:], profile: String? = nil, files: [String: String] = [:]
    ) -> S3Credentials {
        var environment = environment
        environment["HOME"] = "/h"
        environment["AWS_EC2_METADATA_DISABLED"] = "true"
        return S3Credentials(environment: environment, profile: profile, bucket: "b") { files[$0] }
    }

    private func find(
        _ environment: [String: String] = [:], profile: String? = nil, files: [String: String] = [:]
    ) async throws -> FoundCredentials? {
        try await sources(environment, profile: profile, files: files).find(HTTPEngine(), ManualTime())
    }

    private let awsFile = """
        # comment
        [default]
        aws_access_key_id = D
        aws_secret_access_key=ds==
          nested = ignored
        [ work ]
        aws_access_key_id=W
        aws_secret_access_key = ws
        aws_session_token = wt
        """

    @Test func ourVariablesComeBeforeAmazons() async throws {
        let ours = ["PAILFS_ACCESS_KEY_ID": "P", "PAILFS_SECRET_ACCESS_KEY": "s"]
        let theirs = ["AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"]
        #expect(try await find(ours.merging(theirs) { $1 })?.credentials.accessKeyID == "P")
        let found = try await find(theirs)?.credentials
        #expect(found?.accessKeyID == "A")
        #expect(found?.sessionToken?.revealed == "t")
    }

    @Test(arguments: [
        ["AWS_ACCESS_KEY_ID": "A"], ["AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": ""],
        ["AWS_SECRET_ACCESS_KEY": "s"],
    ])
    func halfAPairIsNotPassedOver(_ environment: [String: String]) async throws {
        let error = await #expect(throws: ObjectStoreError.self) {
            try await find(environment, files: ["/h/.aws/credentials": awsFile])
        }
        #expect(error?.message.contains("is set and") == true)
    }

    @Test func profilesAreFoundInTheCredentialsFile() async throws {
        let files = ["/h/.aws/credentials": awsFile]
        #expect(try await find(files: files)?.credentials.secretKey.revealed == "ds==")
        #expect(try await find(["AWS_PROFILE": "work"], files: files)?.credentials.accessKeyID == "W")
        #expect(try await find(profile: "work", files: files)?.credentials.sessionToken?.revealed == "wt")
    }

    @Test(arguments: ["profile", "AWS_PROFILE"]) func aProfileThatIsNowhereIsNamed(way: String) async throws {
        let error = await #expect(throws: ObjectStoreError.self) {
            try await find(
                way == "profile" ? [:] : [way: "absent"], profile: way == "profile" ? "absent" : nil,
                files: ["/h/.aws/credentials": awsFile, "/etc/passwd-s3fs": "A:as"])
        }
        #expect(error?.message.contains("the profile absent is not in") == true)
    }

    @Test func aNamedProfileBeatsVariablesOfTheShell() async throws {
        let variables = ["AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s"]
        let found = try await find(variables, profile: "work", files: ["/h/.aws/credentials": awsFile])
        #expect(found?.credentials.accessKeyID == "W")
    }

    @Test func theConfigurationFileTellsRegionAndEndpoint() {
        let text = """
            [default]
            region = eu-west-1
            [profile work]
            region=us-west-2
            endpoint_url = http://e
            [profile "two words"]
            services = own
            ca_bundle = ~/ca.pem
            s3 =
              addressing_style = path
            [services own]
            s3 =
              endpoint_url = http://s3.own
            sts =
              endpoint_url = http://sts.own
            """
        let files = ["/h/.aws/config": text]
        #expect(sources(files: files).region == "eu-west-1")
        #expect(sources(profile: "work", files: files).region == "us-west-2")
        #expect(sources(profile: "work", files: files).endpoint == "http://e")
        #expect(sources(["AWS_REGION": "x"], files: files).region == "x")
        let own = sources(profile: "two words", files: files)
        #expect(own.endpoint == "http://s3.own" && own.addressing == .path && own.authorities?.path == "/h/ca.pem")
        #expect(sources(["AWS_CA_BUNDLE": "/x"], files: files).authorities?.path == "/x")
        let special = ["AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"]
        #expect(sources(special, files: files).endpoint == "https://s3-fips.dualstack.eu-west-1.amazonaws.com")
        let ignoring = ["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"]
        #expect(sources(ignoring, profile: "work", files: files).endpoint == nil)
    }

    @Test func s3fsPasswordsAreFoundByBucket() async throws {
        let text = "# c\nA:as\nother:O:os\nb:B:bs\n"
        let found = try await find(files: ["/h/.passwd-s3fs": text])
        #expect(found?.credentials.accessKeyID == "B")
        #expect(found?.origin == "/h/.passwd-s3fs")
        #expect(try await find(files: ["/etc/passwd-s3fs": "A:as"])?.credentials.accessKeyID == "A")
    }
}
