import Basics
package import ObjectStorage

/// The file of the option credentials-file: credentials in one form for every store.
///
/// A line is `NAME=value` with a variable that the environment could have, or `ID:SECRET` or `bucket:ID:SECRET` as s3fs has them.
/// `#` and `;` begin comments. A file may serve several stores. It is read again at every search for credentials, so that a
/// replaced file is used while the bucket is mounted. No message shows a line of it.
package struct CredentialsFile: Sendable {
    /// The variables it sets, among them credentials for `scheme`.
    package let variables: [String: String]

    /// Prefixes of each store's variables.
    private static let beginnings: [BucketURL.Scheme: [String]] = [
        .s3: ["AWS_"], .oss: ["OSS_", "OSSUTIL_", "ALIBABA_CLOUD_"],
        .cos: ["TENCENTCLOUD_", "COS_", "COSACCESSKEYID", "COSSECRETACCESSKEY", "TCCLI_", "TKE_"],
        .kodo: ["QINIU_", "DISABLE_QINIU_"], .cssp: ["CSSP_"], .swift: ["OS_", "ST_", "RCLONE_CONFIG"],
    ]
    private static let own: Set<String> = [
        "PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY", "PAILFS_SESSION_TOKEN", "PAILFS_TEMP_URL_KEY",
    ]
    /// Parts of the names of variables for credentials, unlike those for a region or an endpoint.
    private static let ofIdentity = [
        "KEY", "SECRET", "PROFILE", "TOKEN", "FILE", "ROLE", "URI", "USER", "CONFIG", "METADATA",
    ]

    /// Reads the file. Throws, with the remedy, when it cannot be used, or when other users can read or write it.
    package init(_ path: String, for scheme: BucketURL.Scheme, bucket: String) throws(ObjectStoreError) {
        let (bytes, status): ([UInt8], LocalFileStatus)
        do throws(FileError) {
            let file = try File(path, followsLinks: true)
            (status, bytes) = (try LocalFileStatus(of: file), try file.read(0..<min(file.size, 1 << 20)))
        } catch { throw Self.unusable(path, "\(error); check the option") }
        guard status.isTrusted(at: File.resolved(path) ?? path) else {
            throw Self.unusable(path, "it belongs to another user; copy it")
        }
        // Files of root may be for a group that runs mounts.
        guard status.permissions & (status.owner == 0 ? 0o027 : 0o077) == 0 else {
            throw Self.unusable(path, "other users can read or write it; run chmod 600 \(path)")
        }
        try self.init(parsing: String(decoding: bytes, as: UTF8.self), path: path, for: scheme, bucket: bucket)
    }

    package init(
        parsing text: String, path: String, for scheme: BucketURL.Scheme, bucket: String
    ) throws(ObjectStoreError) {
        var variables: [String: String] = [:]
        var passwords: [Substring] = []
        let text = text.hasPrefix("\u{FEFF}") ? text.dropFirst() : text[...]
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        for (index, line) in lines.enumerated() {
            let line = line.drop(while: \.isWhitespace)
            guard let first = line.first, first != "#", first != ";" else { continue }
            if let (name, value) = Self.variable(line) {
                guard Self.isKnown(name) else {
                    throw Self.unusable(
                        path, "line \(index + 1): \(name) is not a variable for credentials; remove the line")
                }
                variables[name] = value
            } else if scheme != .swift, (1...2).contains(line.count(where: { $0 == ":" })) {
                passwords.append(line)
            } else {
                throw Self.unusable(path, "line \(index + 1): it is neither NAME=value nor ID:SECRET; correct it")
            }
        }
        if !passwords.isEmpty,
            let pair = CredentialFiles.password(passwords.joined(separator: "\n"), bucket: bucket),
            variables["PAILFS_ACCESS_KEY_ID"] == nil
        {
            variables["PAILFS_ACCESS_KEY_ID"] = pair.id.trimmed
            variables["PAILFS_SECRET_ACCESS_KEY"] = pair.secret.trimmed
        }
        guard variables.keys.contains(where: { Self.isOfIdentity($0, scheme) }) else {
            throw Self.unusable(
                path,
                "it has no credentials for \(scheme.rawValue)://\(bucket); write PAILFS_ACCESS_KEY_ID=id and "
                    + "PAILFS_SECRET_ACCESS_KEY=secret")
        }
        self.variables = variables
    }

    /// The environment with all its credential variables replaced by the file's.
    package func applied(to environment: [String: String]) -> [String: String] {
        environment.filter { !Self.isKnown($0.key) }.merging(variables) { $1 }
    }

    private static func isKnown(_ name: String) -> Bool {
        own.contains(name) || beginnings.values.contains { $0.contains { name.hasPrefix($0) } }
    }

    private static func isOfIdentity(_ name: String, _ scheme: BucketURL.Scheme) -> Bool {
        if own.contains(name) { return true }
        guard let beginning = beginnings[scheme]?.first(where: { name.hasPrefix($0) }) else { return false }
        let rest = name.dropFirst(beginning.count)
        return rest.isEmpty || rest == "CLOUD" || ofIdentity.contains { rest.contains($0) }
    }

    /// `NAME=value`, as a shell or a service manager reads it: `export` in front and quotes around the value are dropped.
    private static func variable(_ line: Substring) -> (name: String, value: String)? {
        let line = line.hasPrefix("export ") ? line.dropFirst(7).drop(while: \.isWhitespace) : line
        guard let equals = line.firstIndex(of: "=") else { return nil }
        let name = line[..<equals]
        let isName =
            name.first?.isNumber == false
            && name.utf8.allSatisfy { (65...90).contains($0) || (48...57).contains($0) || $0 == UInt8(ascii: "_") }
        guard isName else { return nil }
        var value = line[line.index(after: equals)...].trimmed
        if value.count >= 2, let quote = value.first, quote == "\"" || quote == "'", value.last == quote {
            value = String(value.dropFirst().dropLast())
        }
        return (String(name), value)
    }

    private static func unusable(_ path: String, _ reason: String) -> ObjectStoreError {
        CredentialProblem.unusable("the credentials-file \(path): \(reason)")
    }
}
