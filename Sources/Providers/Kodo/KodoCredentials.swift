import Basics
package import ObjectStorage

/// The places of the keys and settings of Kodo's users, read in this order after pailfs's own variables (qshell's
/// documentation).
package struct KodoCredentials: Sendable {
    /// The profile with the keys of qshell's current account: they are used only when it is named.
    package static let qshell = "qshell"

    private let environment: [String: String]
    private let profile: String?
    /// The text of a file; nil when it cannot be read.
    private let text: @Sendable (String) -> String?

    /// `profile` is a section of the SDKs' file, or `qshell`; nil takes `QINIU_PROFILE` or `default`.
    package init(
        environment: [String: String], profile: String?,
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        (self.environment, self.profile, self.text) = (environment, profile, text)
    }

    /// The first keys that a source has; nil when none has.
    ///
    /// Throws: for half a pair, and for a profile that does not exist.
    package func find() throws(ObjectStoreError) -> FoundCredentials? {
        let variables = CredentialVariables(environment: environment)
        if let found = try variables.pair("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY") { return found }
        // A named profile is deliberate; the shell's variables may be set by chance.
        if profile == nil, let found = try variables.pair("QINIU_ACCESS_KEY", "QINIU_SECRET_KEY") { return found }
        return profile == Self.qshell ? try fromQshell() : try fromFile()
    }

    /// The first host that returns regions, where the user has set another than Qiniu's.
    package var endpoint: String? {
        let list = variable("QINIU_BUCKET_URL") ?? section["bucket_url"] ?? qshellSettings?.endpoint
        return list?.split(separator: ",").first.map { $0.filter { $0 != " " } }
    }

    /// Whether https:// is used for hosts that are named without a scheme.
    package var isSecure: Bool {
        if let disabled = variable("DISABLE_QINIU_SECURE_PROTOCOL") ?? section["disable_secure_protocol"] {
            return !Self.isTrue(disabled)
        }
        return qshellSettings?.isSecure ?? true
    }

    /// Whether the time is signed too.
    package var signsTime: Bool { !Self.isTrue(variable("DISABLE_QINIU_TIMESTAMP_SIGNATURE")) }

    private static func isTrue(_ text: String?) -> Bool {
        ["true", "1", "yes", "y"].contains(text?.lowercased() ?? "")
    }

    private func variable(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }

    // MARK: The SDKs' file

    private var file: String? { variable("QINIU_CONFIG_FILE") ?? variable("HOME").map { $0 + "/.qiniu/config.toml" } }

    private var section: [String: String] {
        guard profile != Self.qshell, let file, let text = text(file) else { return [:] }
        return Self.sections(text)[profile ?? variable("QINIU_PROFILE") ?? "default"] ?? [:]
    }

    /// The files that are searched for keys, for messages.
    package var files: [String] { profile == Self.qshell ? [] : [file].compactMap(\.self) }

    private func fromFile() throws(ObjectStoreError) -> FoundCredentials? {
        let section = section
        let place = file ?? "config.toml"
        let keys = [section["access_key"] ?? "", section["secret_key"] ?? ""]
        if keys.allSatisfy({ !$0.isEmpty }) {
            return FoundCredentials(Credentials(accessKeyID: keys[0], secretKey: Secret(keys[1])), place)
        }
        let named = profile ?? variable("QINIU_PROFILE")
        guard keys.contains(where: { !$0.isEmpty }) || named != nil && !section.isEmpty else {
            guard let named else { return nil }
            throw CredentialProblem.noProfile(named, in: "\(place); for the account of qshell set profile=qshell")
        }
        throw CredentialProblem.incomplete(
            "the profile \(named ?? "default") of \(place) lacks access_key or secret_key; write both")
    }

    /// Tables of TOML with strings, numbers and booleans on one line, as the SDKs write them.
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

    /// The text between quotes, or else up to a comment.
    private static func value(_ text: Substring) -> String {
        let text = text.drop(while: \.isWhitespace)
        if let quote = text.first, quote == "\"" || quote == "'" {
            return String(text.dropFirst().prefix { $0 != quote })
        }
        return text.prefix { $0 != "#" }.filter { !$0.isWhitespace }
    }

    // MARK: qshell

    private var qshellPath: String { (variable("HOME") ?? "") + "/.qshell.json" }

    private var qshellSettings: QshellSettings? {
        profile == Self.qshell ? text(qshellPath).flatMap { QshellSettings($0) } : nil
    }

    private func fromQshell() throws(ObjectStoreError) -> FoundCredentials? {
        let path = (variable("HOME") ?? "") + "/.qshell/account.json"
        guard let text = text(path) else {
            throw CredentialProblem.noProfile(
                Self.qshell, in: "\(path), which cannot be read; run qshell account first")
        }
        guard let account = QshellAccount(text) else {
            throw CredentialProblem.unusable("\(path) is not a file of qshell; run qshell account to write it")
        }
        if let read = self.text(qshellPath), QshellSettings(read) == nil {
            throw CredentialProblem.unusable("\(qshellPath) is not a file of qshell's settings; correct or remove it")
        }
        if variable("QINIU_BUCKET_URL") == nil, qshellSettings?.lacksEndpoint == true {
            throw CredentialProblem.unusable(
                "\(qshellPath) names hosts but not hosts.uc, from which pailfs gets the others; add hosts.uc")
        }
        return FoundCredentials(
            Credentials(accessKeyID: account.accessKey, secretKey: Secret(account.secretKey)), path)
    }
}
