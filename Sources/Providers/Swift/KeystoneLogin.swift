import Basics
import FoundationEssentials
package import HTTP
package import ObjectStorage

/// The login of OpenStack's identity service, version 3 (OpenStack Identity API 3).
package struct KeystoneLogin: Sendable {
    /// A name in a domain, or an id without one.
    package struct Named: Sendable, Hashable {
        package var id: String?
        package var name: String?
        package var domainID: String?
        package var domainName: String?

        package init(id: String? = nil, name: String? = nil, domainID: String? = nil, domainName: String? = nil) {
            (self.id, self.name, self.domainID, self.domainName) = (id, name, domainID, domainName)
        }
    }

    package enum Method: Sendable {
        /// Without a project the user's default project is used.
        case password(user: Named, password: Secret, project: Named?)
        /// A token of an earlier login, exchanged for one of the project.
        case token(Secret, project: Named?)
        /// It belongs to a project.
        case applicationCredential(id: String, secret: Secret)
        /// By name, with its user.
        case namedApplicationCredential(name: String, user: Named, secret: Secret)
    }

    /// With or without `/v3` at its end.
    package var url: String
    package var method: Method
    /// nil takes the first region that has the service.
    package var region: String?
    /// The kind of the service's address: `public`, `internal`, `admin`.
    package var interface = "public"
    package var serviceType = "object-store"
    /// The account's address, where it is not the catalog's.
    package var storageURL: String?

    package init(url: String, method: Method) { (self.url, self.method) = (url, method) }

    package func token(_ engine: HTTPEngine) async throws(ObjectStoreError) -> SwiftToken {
        guard let body = try? JSONEncoder().encode(request) else {
            throw ObjectStoreError(
                .invalidRequest, .checkAccess, code: "Login", message: "the login request cannot be written as JSON")
        }
        let headers = HTTPHeaders([("Content-Type", "application/json"), ("Accept", "application/json")])
        return try token(await LoginRequest.send(.post, tokensURL, headers: headers, body: Array(body), engine))
    }

    /// The token in the answer to a login.
    func token(_ response: HTTPResponse) throws(ObjectStoreError) -> SwiftToken {
        guard let token = response.headers["X-Subject-Token"] else {
            throw LoginRequest.malformed(response, tokensURL, "no X-Subject-Token")
        }
        guard let answer = try? JSONDecoder().decode(Answer.self, from: Data(response.body)) else {
            throw LoginRequest.malformed(response, tokensURL, "a token document that is not valid")
        }
        var address = storageURL
        if address == nil { address = try offeredURL(answer.token.catalog ?? []) }
        return SwiftToken(
            storageURL: address ?? "", token: Secret(token),
            expires: answer.token.expires.flatMap { Timestamp(iso8601: $0) })
    }

    private var tokensURL: String {
        var base = url[...]
        while base.hasSuffix("/") { base = base.dropLast() }
        if base.hasSuffix("/auth/tokens") { return String(base) }
        return base + (base.hasSuffix("/v3") ? "" : "/v3") + "/auth/tokens"
    }

    private func offeredURL(_ catalog: [Answer.Service]) throws(ObjectStoreError) -> String {
        let endpoints = catalog.filter { $0.type == serviceType }.flatMap { $0.endpoints ?? [] }
        let offered = endpoints.filter { $0.interface == interface }
        let match = offered.first { region == nil || $0.region == region || $0.regionID == region }
        if let match { return match.url }
        let regions = Set(offered.compactMap { $0.regionID ?? $0.region }).sorted().joined(separator: ", ")
        let reason =
            offered.isEmpty
            ? "the catalog of this login has no \(interface) endpoint of \(serviceType); set a project (OS_PROJECT_NAME)"
            : "\(serviceType) is not in the region \(region ?? ""), only in \(regions); set the region"
        var error = ObjectStoreError(.wrongRegion, .checkAccess, code: "Catalog", message: reason)
        error.direction = .named
        throw error
    }

    // MARK: Documents

    private struct Answer: Decodable {
        struct Token: Decodable {
            var expires: String?
            var catalog: [Service]?
            enum CodingKeys: String, CodingKey {
                case expires = "expires_at"
                case catalog
            }
        }

        struct Service: Decodable {
            var type: String
            var endpoints: [Endpoint]?
        }

        struct Endpoint: Decodable {
            var interface: String
            var url: String
            var region: String?
            var regionID: String?
            enum CodingKeys: String, CodingKey {
                case interface, url, region
                case regionID = "region_id"
            }
        }

        var token: Token
    }

    /// A string, or others by name: the parts of a login document.
    private indirect enum Document: Encodable {
        case text(String)
        case list([String])
        case object([String: Document])

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .list(let list): try container.encode(list)
            case .object(let members): try container.encode(members)
            }
        }
    }

    private var request: Document {
        var identity: [String: Document] = [:]
        var scope: Named?
        switch method {
        case .password(let user, let password, let project):
            var members = Self.members(user)
            members["password"] = .text(password.revealed)
            identity["methods"] = .list(["password"])
            identity["password"] = .object(["user": .object(members)])
            scope = project
        case .token(let token, let project):
            identity["methods"] = .list(["token"])
            identity["token"] = .object(["id": .text(token.revealed)])
            scope = project
        case .applicationCredential(let id, let secret):
            identity["methods"] = .list(["application_credential"])
            identity["application_credential"] = .object(["id": .text(id), "secret": .text(secret.revealed)])
        case .namedApplicationCredential(let name, let user, let secret):
            identity["methods"] = .list(["application_credential"])
            identity["application_credential"] = .object([
                "name": .text(name), "user": .object(Self.members(user)), "secret": .text(secret.revealed),
            ])
        }
        var auth: [String: Document] = ["identity": .object(identity)]
        if let scope { auth["scope"] = .object(["project": .object(Self.members(scope))]) }
        return .object(["auth": .object(auth)])
    }

    private static func members(_ named: Named) -> [String: Document] {
        if let id = named.id { return ["id": .text(id)] }
        var domain: [String: Document] = ["id": .text("default")]
        if let id = named.domainID {
            domain = ["id": .text(id)]
        } else if let name = named.domainName {
            domain = ["name": .text(name)]
        }
        return ["name": .text(named.name ?? ""), "domain": .object(domain)]
    }
}
