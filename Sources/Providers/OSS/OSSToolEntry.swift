import FoundationEssentials
import ObjectStorage

/// What a file of the provider's own tools says of one profile (oss.md section 7).
struct OSSToolEntry: Sendable, Hashable {
    enum Mode: Sendable, Hashable {
        /// The pair as it is, with its token when it has one.
        case keys
        /// The pair asks the token service for the role's.
        case role
        /// The machine has a role.
        case machine
    }

    var mode = Mode.keys
    var credentials: Credentials?
    var roleARN: String?
    /// The machine's role; nil takes whichever it has.
    var machineRole: String?
    var region: String?
    var endpoint: String?

    /// `~/.ossutilconfig` of either version; nil when it says nothing of the profile.
    init?(ossutil text: String, profile: String?, bucket: String) {
        var sections: [String: [String: String]] = [:]
        for (name, values) in CredentialFiles.sections(text) {
            let pairs = values.filter { !$0.value.isEmpty }.map { (Self.plain($0.key), $0.value) }
            sections[name.lowercased()] = Dictionary(pairs) { $1 }
        }
        let name = profile.map { $0 == "default" ? "default" : "profile \($0.lowercased())" }
        guard let values = name.map({ sections[$0] }) ?? sections["credentials"] ?? sections["default"] else {
            return nil
        }
        fill(
            mode: values["mode"], id: values["accesskeyid"] ?? values["accesskey"],
            secret: values["accesskeysecret"], token: values["ststoken"] ?? values["securitytoken"],
            role: values["ramrolearn"] ?? values["rolearn"], machineRole: values["ecsrolename"])
        // Buckets of their own: version 1 names endpoint and CNAME each in a section.
        let own = sections["buckets \(bucket)"]
        let key = Self.plain(bucket)
        endpoint =
            sections["bucket-cname"]?[key] ?? sections["bucket-endpoint"]?[key] ?? own?["endpoint"]
            ?? values["endpoint"]
        region = own?["region"] ?? values["region"]
    }

    /// `~/.aliyun/config.json`; nil when it has no such profile.
    init?(aliyun text: String, profile: String?) {
        guard let file = try? JSONDecoder().decode(File.self, from: Data(text.utf8)) else { return nil }
        let wanted = profile ?? file.current ?? "default"
        guard let entry = file.profiles.first(where: { $0.name == wanted }) else { return nil }
        fill(
            mode: entry.mode, id: entry.id, secret: entry.secret, token: entry.token, role: entry.roleARN,
            machineRole: entry.machineRole)
        region = entry.region.flatMap { $0.isEmpty ? nil : $0 }
    }

    private struct File: Decodable {
        var current: String?
        var profiles: [Profile]
    }

    private struct Profile: Decodable {
        var name: String
        var mode: String?
        var id: String?
        var secret: String?
        var token: String?
        var roleARN: String?
        var machineRole: String?
        var region: String?

        enum CodingKeys: String, CodingKey {
            case name, mode
            case id = "access_key_id"
            case secret = "access_key_secret"
            case token = "sts_token"
            case roleARN = "ram_role_arn"
            case machineRole = "ram_role_name"
            case region = "region_id"
        }
    }

    private mutating func fill(
        mode: String?, id: String?, secret: String?, token: String?, role: String?, machineRole: String?
    ) {
        func stated(_ text: String?) -> String? { text.flatMap { $0.isEmpty ? nil : $0 } }
        if let id = stated(id), let secret = stated(secret) {
            credentials = Credentials(
                accessKeyID: id, secretKey: Secret(secret), sessionToken: stated(token).map { Secret($0) })
        }
        (roleARN, self.machineRole) = (stated(role), stated(machineRole))
        switch mode?.lowercased() {
        case "ramrolearn": self.mode = .role
        case "ecsramrole": self.mode = .machine
        default: break
        }
    }

    /// Names are equal whether written `access-key-id`, `access_key_id` or `accessKeyID`.
    private static func plain(_ name: String) -> String { name.lowercased().filter { $0 != "-" && $0 != "_" } }
}
