import Basics
package import ObjectStorage

/// Where S3's users keep their credentials, asked in botocore's order after our own variables (s3.md section 7).
package struct S3Credentials: Sendable {
    /// What was found, and where, for messages.
    package struct Found: Sendable {
        package let credentials: Credentials
        package let origin: String
    }

    private let environment: [String: String]
    private let profile: String?
    private let bucket: String
    /// The text of a file; nil when there is none that can be read.
    private let text: @Sendable (String) -> String?

    /// `profile` is the section of the AWS files; nil takes `AWS_PROFILE` or `default`.
    package init(
        environment: [String: String], profile: String?, bucket: String,
        text: @escaping @Sendable (String) -> String? = S3Credentials.readText
    ) {
        (self.environment, self.profile, self.bucket, self.text) = (environment, profile, bucket, text)
    }

    /// The first source that has a whole pair; nil when none has: requests are anonymous then.
    package func find() -> Found? {
        let prefixes = ["PAILFS", "AWS"]
        // A named profile is a choice; variables of the shell are only there.
        if profile == nil {
            for prefix in prefixes { if let found = fromEnvironment(prefix) { return found } }
        } else if let found = fromEnvironment("PAILFS") {
            return found
        }
        return fromAWSFiles() ?? fromPasswordFile()
    }

    /// The region that the environment or the profile names.
    package var region: String? {
        for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
            if let region = environment[name], !region.isEmpty { return region }
        }
        return section(of: configFile, named: isDefault ? ["default"] : ["profile \(section)", section])?["region"]
    }

    /// The endpoint that the environment or the profile names.
    package var endpoint: String? {
        for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] {
            if let endpoint = environment[name], !endpoint.isEmpty { return endpoint }
        }
        return section(of: configFile, named: isDefault ? ["default"] : ["profile \(section)", section])?[
            "endpoint_url"]
    }

    private var section: String { profile ?? environment["AWS_PROFILE"] ?? "default" }
    private var isDefault: Bool { section == "default" }
    private var home: String? { environment["HOME"] }

    private var configFile: String? { environment["AWS_CONFIG_FILE"] ?? home.map { $0 + "/.aws/config" } }

    private func fromEnvironment(_ prefix: String) -> Found? {
        guard let id = environment["\(prefix)_ACCESS_KEY_ID"], !id.isEmpty,
            let secret = environment["\(prefix)_SECRET_ACCESS_KEY"], !secret.isEmpty
        else { return nil }
        let token = environment["\(prefix)_SESSION_TOKEN"].flatMap { $0.isEmpty ? nil : Secret($0) }
        return Found(
            credentials: Credentials(accessKeyID: id, secretKey: Secret(secret), sessionToken: token),
            origin: "\(prefix)_ACCESS_KEY_ID")
    }

    private func fromAWSFiles() -> Found? {
        let file = environment["AWS_SHARED_CREDENTIALS_FILE"] ?? home.map { $0 + "/.aws/credentials" }
        let places = [(file, [section]), (configFile, isDefault ? ["default"] : ["profile \(section)"])]
        for (file, names) in places {
            guard let values = self.section(of: file, named: names), let id = values["aws_access_key_id"],
                let secret = values["aws_secret_access_key"]
            else { continue }
            return Found(
                credentials: Credentials(
                    accessKeyID: id, secretKey: Secret(secret),
                    sessionToken: values["aws_session_token"].map { Secret($0) }), origin: file ?? "")
        }
        return nil
    }

    /// s3fs's file: `ID:SECRET` or `bucket:ID:SECRET` a line.
    private func fromPasswordFile() -> Found? {
        for path in [home.map { $0 + "/.passwd-s3fs" }, "/etc/passwd-s3fs"].compactMap(\.self) {
            guard let text = text(path) else { continue }
            var general: Credentials?
            for line in text.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
                let parts = line.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
                if parts.count == 2 {
                    general = Credentials(accessKeyID: parts[0], secretKey: Secret(parts[1]))
                } else if parts.count == 3, parts[0] == bucket {
                    return Found(
                        credentials: Credentials(accessKeyID: parts[1], secretKey: Secret(parts[2])), origin: path)
                }
            }
            if let general { return Found(credentials: general, origin: path) }
        }
        return nil
    }

    private func section(of file: String?, named names: [String]) -> [String: String]? {
        guard let file, let text = text(file) else { return nil }
        let sections = Self.sections(text)
        return names.lazy.compactMap { sections[$0] }.first
    }

    /// The AWS files' INI: sections, `name = value`, whole-line comments; an indented line belongs to the value before it
    /// and is not needed here.
    static func sections(_ text: String) -> [String: [String: String]] {
        var sections: [String: [String: String]] = [:]
        var current: String?
        for line in text.split(whereSeparator: \.isNewline) {
            guard let first = line.first, !first.isWhitespace, first != "#", first != ";" else { continue }
            if first == "[", let end = line.firstIndex(of: "]") {
                let name = line[line.index(after: line.startIndex)..<end]
                current = name.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            } else if let current, let equals = line.firstIndex(of: "=") {
                let name = line[..<equals].split(whereSeparator: \.isWhitespace).joined()
                let value = line[line.index(after: equals)...].drop(while: \.isWhitespace)
                let end = value.lastIndex { !$0.isWhitespace }.map { value.index(after: $0) } ?? value.startIndex
                sections[current, default: [:]][name.lowercased()] = String(value[..<end])
            }
        }
        return sections
    }

    /// Reads a small file, following symlinks in its directory only.
    package static func readText(_ path: String) -> String? {
        guard let file = try? File(path), let bytes = try? file.read(0..<min(file.size, 1 << 20)) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }
}
