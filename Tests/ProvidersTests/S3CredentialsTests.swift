import ObjectStorage
import Providers
import Testing

@Suite struct S3CredentialsTests {
    private func find(
        _ environment: [String: String] = [:], profile: String? = nil, files: [String: String] = [:]
    ) -> S3Credentials {
        var environment = environment
        environment["HOME"] = "/h"
        return S3Credentials(environment: environment, profile: profile, bucket: "b") { files[$0] }
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

    @Test func ourVariablesComeBeforeAmazons() {
        let ours = ["PAILFS_ACCESS_KEY_ID": "P", "PAILFS_SECRET_ACCESS_KEY": "s"]
        let theirs = ["AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"]
        #expect(find(ours.merging(theirs) { $1 }).find()?.credentials.accessKeyID == "P")
        let found = find(theirs).find()?.credentials
        #expect(found?.accessKeyID == "A")
        #expect(found?.sessionToken?.revealed == "t")
    }

    @Test func halfAPairIsNone() {
        #expect(find(["AWS_ACCESS_KEY_ID": "A"]).find() == nil)
        #expect(find(["AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": ""]).find() == nil)
    }

    @Test func profilesAreFoundInTheCredentialsFile() {
        let files = ["/h/.aws/credentials": awsFile]
        #expect(find(files: files).find()?.credentials.secretKey.revealed == "ds==")
        #expect(find(["AWS_PROFILE": "work"], files: files).find()?.credentials.accessKeyID == "W")
        #expect(find(profile: "work", files: files).find()?.credentials.sessionToken?.revealed == "wt")
        #expect(find(profile: "absent", files: files).find() == nil)
    }

    @Test func aNamedProfileBeatsVariablesOfTheShell() {
        let variables = ["AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s"]
        let found = find(variables, profile: "work", files: ["/h/.aws/credentials": awsFile]).find()
        #expect(found?.credentials.accessKeyID == "W")
    }

    @Test func theConfigurationFileTellsRegionAndEndpoint() {
        let text = "[default]\nregion = eu-west-1\n[profile work]\nregion=us-west-2\nendpoint_url = http://e\n"
        let files = ["/h/.aws/config": text]
        #expect(find(files: files).region == "eu-west-1")
        #expect(find(profile: "work", files: files).region == "us-west-2")
        #expect(find(profile: "work", files: files).endpoint == "http://e")
        #expect(find(["AWS_REGION": "x"], files: files).region == "x")
    }

    @Test func s3fsPasswordsAreFoundByBucket() {
        let text = "# c\nA:as\nother:O:os\nb:B:bs\n"
        let found = find(files: ["/h/.passwd-s3fs": text]).find()
        #expect(found?.credentials.accessKeyID == "B")
        #expect(found?.origin == "/h/.passwd-s3fs")
        #expect(find(files: ["/etc/passwd-s3fs": "A:as"]).find()?.credentials.accessKeyID == "A")
    }
}
