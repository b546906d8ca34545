import Basics
import FoundationEssentials
import HTTP
import ObjectStorage

/// A small HTTP service that issues credentials: of a cloud's machine, a container's host, or a token service.
///
/// A service of this machine (`isLocal`) is never called through a proxy, and with a short timeout.
struct CredentialService: Sendable {
    let engine: HTTPEngine
    /// The service's name in messages.
    let name: String
    var isLocal = true

    /// The services' answer in JSON, with the member names of all providers.
    private struct Answer: Decodable {
        var code: String?
        var message: String?
        var id: String?
        var amazonSecret: String?
        var alibabaSecret: String?
        var tencentID: String?
        var tencentSecret: String?
        var securityToken: String?
        var token: String?
        var expiration: String?
        /// Seconds since 1970.
        var expiredTime: Int64?
        var credentials: Box?
        var cloudCredential: Box?
        var response: Box?

        enum CodingKeys: String, CodingKey {
            case code = "Code"
            case message = "Message"
            case id = "AccessKeyId"
            case amazonSecret = "SecretAccessKey"
            case alibabaSecret = "AccessKeySecret"
            case tencentID = "TmpSecretId"
            case tencentSecret = "TmpSecretKey"
            case securityToken = "SecurityToken"
            case token = "Token"
            case expiration = "Expiration"
            case expiredTime = "ExpiredTime"
            case credentials = "Credentials"
            case cloudCredential = "CloudCredential"
            case response = "Response"
        }

        /// A class, as a struct cannot contain itself.
        final class Box: Decodable {
            let answer: Answer
            init(from decoder: any Decoder) throws { answer = try Answer(from: decoder) }
        }
    }

    /// The body of a successful answer.
    func ask(
        _ method: HTTPMethod = .get, _ url: String, _ headers: HTTPHeaders = HTTPHeaders(), form: String? = nil
    ) async throws(ObjectStoreError) -> [UInt8] {
        let slashes = url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        let place = try FamilyEndpoint.Place(slashes.prefix(3).joined(separator: "/"))
        var headers = headers
        if form != nil, headers["Content-Type"] == nil {
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        }
        let origin = HTTPOrigin(isSecure: place.isSecure, host: place.host, port: place.port)
        var request = HTTPRequest(
            method, origin, target: "/" + (slashes.count > 3 ? String(slashes[3]) : ""), headers: headers)
        request.avoidsProxy = isLocal
        request.stallTimeout = isLocal ? .seconds(2) : .seconds(15)
        let response: HTTPResponse
        do { response = try await engine.execute(request, body: form.map { MemorySource(Array($0.utf8)) }) } catch {
            throw FamilyErrors.error(error, .checkAccess, nil)
        }
        guard response.isSuccess else {
            let text = String(decoding: response.body.prefix(300), as: UTF8.self)
            let isFault = response.status >= 500 || [408, 429].contains(response.status)
            throw ObjectStoreError(
                isFault ? .serverFault : response.status == 404 ? .notFound : .credentialsRejected, .checkAccess,
                status: response.status, code: "CredentialService",
                message: "\(name) answered \(response.status): \(text)")
        }
        return response.body
    }

    func text(
        _ method: HTTPMethod = .get, _ url: String, _ headers: HTTPHeaders = HTTPHeaders()
    ) async throws(ObjectStoreError) -> String {
        String(decoding: try await ask(method, url, headers), as: UTF8.self).trimmed
    }

    /// Credentials from a document with any provider's member names.
    func credentials(_ body: [UInt8]) throws(ObjectStoreError) -> Credentials {
        guard let whole = try? JSONDecoder().decode(Answer.self, from: Data(body)) else {
            throw unusable("is not valid JSON")
        }
        let outer = whole.response?.answer ?? whole
        let inner = outer.credentials?.answer ?? outer.cloudCredential?.answer ?? outer
        if let code = whole.code, code != "Success" { throw unusable("says \(code): \(whole.message ?? "")") }
        guard let id = inner.id ?? inner.tencentID, !id.isEmpty,
            let secret = inner.amazonSecret ?? inner.alibabaSecret ?? inner.tencentSecret
        else { throw unusable("has no pair of keys") }
        let end =
            (inner.expiredTime ?? outer.expiredTime).map { Timestamp(seconds: $0) }
            ?? (inner.expiration ?? outer.expiration).flatMap { Timestamp(iso8601: $0) }
        let token = (inner.securityToken ?? inner.token).flatMap { $0.isEmpty ? nil : Secret($0) }
        return Credentials(accessKeyID: id, secretKey: Secret(secret), sessionToken: token, expires: end)
    }

    func unusable(_ reason: String) -> ObjectStoreError {
        ObjectStoreError(
            .malformedAnswer, .checkAccess, code: "CredentialService", message: "the answer of \(name) \(reason)")
    }

    /// The result of `ask` for a service that may not exist: nil when it does not.
    static func ifThere(
        _ ask: () async throws(ObjectStoreError) -> Credentials?
    ) async throws(ObjectStoreError) -> Credentials? {
        do throws(ObjectStoreError) { return try await ask() } catch {
            switch error.kind {
            case .unreachable, .timedOut, .interrupted, .notFound, .credentialsRejected: return nil
            default: throw error
            }
        }
    }
}
