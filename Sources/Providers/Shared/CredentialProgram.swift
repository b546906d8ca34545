import Basics
import FoundationEssentials
import ObjectStorage

/// A program of the user that prints credentials: `credential_process` of Amazon's files, `process_command` of `aliyun`.
struct CredentialProgram: Sendable {
    let command: String
    /// The setting that names it, and its profile, for messages.
    let setting: String
    let environment: [String: String]
    private static let limit = Duration.seconds(60)

    /// Runs the program and returns its standard output.
    ///
    /// Throws: when it cannot be run, fails, or takes longer than a minute.
    func output() async throws(ObjectStoreError) -> [UInt8] {
        guard let words = CommandWords.split(command), let program = words.first else {
            throw CredentialProblem.unusable("the \(setting) is empty or has a quote without its end; correct it")
        }
        switch await ProgramRun.run(words, environment: environment, limit: Self.limit) {
        case .success(let outcome) where outcome.status == 0: return outcome.output
        case .success(let outcome):
            let lines = String(decoding: outcome.errors, as: UTF8.self).split(whereSeparator: \.isNewline)
            let told = lines.last.map { ": \($0.prefix(200))" } ?? ""
            throw CredentialProblem.unusable(
                "\(program), the \(setting), ended with status \(outcome.status)\(told); run it to see why")
        case .failure(.notStarted(let errno)):
            throw CredentialProblem.unusable(
                "\(program), the \(setting), cannot be started: \(FileError(errno: errno, operation: "exec", path: program)); "
                    + "write its whole path")
        case .failure(.tooLong):
            throw ObjectStoreError(
                .timedOut, .checkAccess, code: "UnusableCredentials",
                message: "\(program), the \(setting), ran for a minute and was ended; run it to see why")
        }
    }

    /// The document that Amazon's tools expect from the program.
    private struct Answer: Decodable {
        var version: Int?
        var id: String
        var secret: String
        var token: String?
        var expiration: String?

        enum CodingKeys: String, CodingKey {
            case version = "Version"
            case id = "AccessKeyId"
            case secret = "SecretAccessKey"
            case token = "SessionToken"
            case expiration = "Expiration"
        }
    }

    func credentials() async throws(ObjectStoreError) -> Credentials {
        let output = try await output()
        guard let answer = try? JSONDecoder().decode(Answer.self, from: Data(output)), answer.version == 1 else {
            throw CredentialProblem.unusable(
                "the \(setting) does not print version 1 of the document of credential_process; correct it")
        }
        return Credentials(
            accessKeyID: answer.id, secretKey: Secret(answer.secret), sessionToken: answer.token.map { Secret($0) },
            expires: answer.expiration.flatMap { Timestamp(iso8601: $0) })
    }
}
