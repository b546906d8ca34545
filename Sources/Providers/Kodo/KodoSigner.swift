package import Basics
import Digests
package import HTTP
package import ObjectStorage

/// The three kinds of tokens that Kodo takes, all of them HMAC-SHA1 (Kodo API, security). A value; any thread.
package struct KodoSigner: Sendable {
    package let accessKey: String
    private let secretKey: [UInt8]

    package init(_ credentials: Credentials) {
        accessKey = credentials.accessKeyID
        secretKey = Array(credentials.secretKey.revealed.utf8)
    }

    /// `<access key>:<signature>`
    package func sign(_ data: [UInt8]) -> String {
        "\(accessKey):\(Base64.encode(HMAC.sha1(data, key: secretKey), alphabet: .urlSafe))"
    }

    /// The `Authorization` of a management request, version 2 (Kodo API, management token): covers method, target as it is
    /// sent, host, content type, the `X-Qiniu-` headers, and the body of forms and JSON.
    package func managementToken(
        _ method: HTTPMethod, host: String, target: String, headers: HTTPHeaders, body: [UInt8]
    ) -> String {
        let type = headers["Content-Type"] ?? ""
        var text = "\(method.rawValue) \(target)\nHost: \(host)\n"
        if !type.isEmpty { text += "Content-Type: \(type)\n" }
        let extra = headers.fields.filter { $0.name.lowercased().hasPrefix("x-qiniu-") }
            .map { "\(Self.canonical($0.name)): \($0.value)\n" }
        text += extra.sorted().joined() + "\n"
        let coversBody = type == Self.form || type == "application/json"
        return "Qiniu \(sign(Array(text.utf8) + (coversBody ? body : [])))"
    }

    /// The content type that the SDKs send when there is no body, also with GET.
    package static let form = "application/x-www-form-urlencoded"

    /// A token for what `policy`, a JSON document, allows (Kodo API, upload policy).
    package func uploadToken(policy: [UInt8]) -> String {
        let encoded = Base64.encode(policy, alphabet: .urlSafe)
        return "\(sign(Array(encoded.utf8))):\(encoded)"
    }

    /// `url`, percent-encoded as it will be sent, with the token that makes it valid until `deadline` (Kodo API, download
    /// token).
    package func download(_ url: String, until deadline: Timestamp) -> String {
        let dated = "\(url)\(url.contains("?") ? "&" : "?")e=\(deadline.seconds)"
        return "\(dated)&token=\(sign(Array(dated.utf8)))"
    }

    /// `x-qiniu-date` as `X-Qiniu-Date`.
    private static func canonical(_ name: String) -> String {
        name.split(separator: "-", omittingEmptySubsequences: false)
            .map { $0.prefix(1).uppercased() + $0.dropFirst().lowercased() }.joined(separator: "-")
    }
}

/// What an upload token allows; set as far as pailfs needs it (Kodo API, upload policy).
struct KodoPutPolicy: Encodable, Sendable {
    let scope: String
    /// Seconds since 1970; checked when the upload ends.
    var deadline: Int64 = 0
    var insertOnly: Int?
    var fileType: Int?
    /// -1 keeps the type of the request, whatever the name or the bytes suggest; 1 ignores it.
    var detectMime: Int?
    var mimeLimit: String?
    var callbackUrl: String?
    var callbackHost: String?
    var callbackBody: String?
    var callbackBodyType: String?
}

/// The encoding of object names in paths.
enum KodoEntry {
    static func encode(_ bucket: String, _ key: ObjectKey) -> String {
        Base64.encode(Array(bucket.utf8) + [UInt8(ascii: ":")] + key.bytes.bytes, alphabet: .urlSafe)
    }

    static func encode(_ text: String) -> String { Base64.encode(Array(text.utf8), alphabet: .urlSafe) }
}
