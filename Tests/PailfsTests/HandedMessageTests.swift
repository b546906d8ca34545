import Testing

@testable import pailfs

/// The message that comes with the descriptor of a mount.
@Suite struct HandedMessageTests {
    private func message(_ text: String) throws(CommandError) -> HandedMessage { try HandedMessage(Array(text.utf8)) }

    @Test func itHasBucketOptionsAndVariables() throws {
        let text = #"{"bucketName":"b","args":["--region","r","-o","ro,ttl=1s","-olog=x","-f"],"env":["A=1","B="]}"#
        let read = try message(text)
        #expect(
            read
                == HandedMessage(
                    bucketName: "b", args: ["--region", "r", "-o", "ro,ttl=1s", "-olog=x", "-f"], env: ["A=1", "B="]))
        #expect(try read.options() == ["region=r", "ro,ttl=1s", "log=x"])
    }

    @Test(arguments: ["{}", #"{"args":null,"env":null,"bucketName":null}"#])
    func absentFieldsAndNullAreEmpty(_ text: String) throws {
        #expect(try message(text) == HandedMessage(bucketName: nil, args: [], env: []))
    }

    @Test(
        arguments: [
            (#"{"bucketName":"b","fd":3}"#, "unknown field fd"), (#"{"bucketName":7}"#, "its field bucketName"),
            (#"{"args":["a",1]}"#, "its field args"), (#"{"env":{}}"#, "its field env"),
            (#"{"env":["=1"]}"#, "which is not NAME=VALUE"), ("[]", "not a JSON object"), ("", "not a JSON object"),
        ])
    func anythingElseIsRefused(_ text: String, _ reason: String) {
        let error = #expect(throws: CommandError.self) { try message(text) }
        #expect(error?.message.contains(reason) == true)
    }

    /// A secret must not be part of a message.
    @Test func aWrongVariableIsNamedWithoutItsValue() {
        let error = #expect(throws: CommandError.self) { try message(#"{"env":["=secret"]}"#) }
        #expect(error?.message.contains("secret") == false)
    }

    @Test(
        arguments: [
            ("b", nil, "s3://b"), ("oss://b/p", nil, "oss://b/p"), (nil, "s3://b/p", "s3://b/p"),
            ("b", "cos://b/p", "cos://b/p"),
            ("", "s3://b", "s3://b"), ("s3://b/", "s3://b/", "s3://b/"),
        ] as [(String?, String?, String)])
    func theBucketIsThatOfTheMessageOrOfTheCommandLine(_ named: String?, _ given: String?, _ url: String) throws {
        #expect(try HandedMessage(bucketName: named, args: [], env: []).url(given: given) == url)
    }

    @Test(arguments: [(nil, nil), ("", nil), ("other", "s3://b"), ("s3://b/p", "s3://b")] as [(String?, String?)])
    func twoBucketsAndNoneAreRefused(_ named: String?, _ given: String?) {
        #expect(throws: CommandError.self) {
            try HandedMessage(bucketName: named, args: [], env: []).url(given: given)
        }
    }

    @Test(arguments: [["word"], ["--no-such=1"], ["--version"], ["-o"], ["--region"]])
    func argsThatAreNoOptionsAreRefused(_ args: [String]) {
        #expect(throws: CommandError.self) { try HandedMessage(bucketName: "b", args: args, env: []).options() }
    }
}
