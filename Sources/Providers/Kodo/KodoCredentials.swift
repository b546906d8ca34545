import Basics
package import ObjectStorage

/// Where Kodo's users keep their keys and settings, asked in this order after our own variables (kodo.md section 15).
package struct KodoCredentials: Sendable {
    /// What was found, and where, for messages.
    package struct Found: Sendable {
        package let credentials: Credentials
        package let origin: String
    }

    /// The profile whose keys are those of qshell's current account: they are taken only when it is named.
    package static let qshell = "qshell"

    private let environment: [String: String]
    private let profile: String?
    /// The text of a file; nil when there is none that can be read.
    private let text: @Sendable (String) -> String?

    /// `profile` is a section of the SDKs' file, or `qshell`; nil takes `QINIU_PROFILE` or `default`.
    package init(
        environment: [String: String], profile: String?,
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        (self.environment, self.profile, self.text) = (environment, profile, text)
    }

    /// The first source that has a whole pair; nil when none has.
    package func find() -> Found? {
        if let found = pair("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY") { return found }
        // A named profile is a choice; variables of the shell are only there.
        guard let profile else {
            return pair("QINIU_ACCESS_KEY", "QINIU_SECRET_KEY") ?? fromFile()
        }
        return profile == Self.qshell ? fromQshell() : fromFile()
    }

    /// The first of the hosts that are asked for regions, where the user has others than Qiniu's.
    package var endpoint: String? {
        let list = variable("QINIU_BUCKET_URL") ?? section["bucket_url"]
        return list?.split(separator: ",").first.map { $0.filter { $0 != " " } }
    }

    /// Whether hosts named without a scheme are asked over https://.
    package var isSecure: Bool {
        !Self.isTrue(variable("DISABLE_QINIU_SECURE_PROTOCOL") ?? section["disable_secure_protocol"])
    }

    /// Whether the time is signed too.
    package var signsTime: Bool { !Self.isTrue(variable("DISABLE_QINIU_TIMESTAMP_SIGNATURE")) }

    private static func isTrue(_ text: String?) -> Bool {
        ["true", "1", "yes", "y"].contains(text?.lowercased() ?? "")
    }

    private func variable(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }

    private func pair(_ key: String, _ secret: String) -> Found? {
        guard let id = variable(key), let secret = variable(secret) else { return nil }
        return Found(credentials: Credentials(accessKeyID: id, secretKey: Secret(secret)), origin: key)
    }

    // MARK: The SDKs' file

    private var file: String? { variable("QINIU_CONFIG_FILE") ?? variable("HOME").map { $0 + "/.qiniu/config.toml" } }

    private var section: [String: String] {
        guard profile != Self.qshell, let file, let text = text(file) else { return [:] }
        return Self.sections(text)[profile ?? variable("QINIU_PROFILE") ?? "default"] ?? [:]
    }

    private func fromFile() -> Found? {
        let section = section
        guard let id = section["access_key"], let secret = section["secret_key"], !id.isEmpty, !secret.isEmpty else {
            return nil
        }
        return Found(
            credentials: Credentials(accessKeyID: id, secretKey: Secret(secret)), origin: file ?? "config.toml")
    }

    /// Tables of TOML with strings, numbers and truth values on one line: what the SDKs write.
    static func sections(_ text: String) -> [String: [String: String]] {
        var sections: [String: [String: String]] = [:]
        var current = ""
        for line in text.split(whereSeparator: \.isNewline) {
            let line = line.drop(while: \.isWhitespace)
            if line.first == "[", let end = line.firstIndex(of: "]") {
                current = value(line[line.index(after: line.startIndex)..<end])
            } else if line.first != "#", let equals = line.firstIndex(of: "=") {
                let name = line[..<equals].filter { !$0.isWhitespace && $0 != "\"" }
                sections[current, default: [:]][name] = value(line[line.index(after: equals)...])
            }
        }
        return sections
    }

    /// What is between quotes, or all up to a comment.
    private static func value(_ text: Substring) -> String {
        let text = text.drop(while: \.isWhitespace)
        if let quote = text.first, quote == "\"" || quote == "'" {
            return String(text.dropFirst().prefix { $0 != quote })
        }
        return text.prefix { $0 != "#" }.filter { !$0.isWhitespace }
    }

    // MARK: qshell

    private func fromQshell() -> Found? {
        guard let path = variable("HOME").map({ $0 + "/.qshell/account.json" }), let text = text(path),
            let account = QshellAccount(text)
        else { return nil }
        return Found(
            credentials: Credentials(accessKeyID: account.accessKey, secretKey: Secret(account.secretKey)), origin: path
        )
    }
}
