import Basics
import ObjectStorage
import Providers
import Settings

/// Which store requests go to where the option endpoint does not say it: what the environment or a file of the provider's
/// tools tells. Two stores must never share a cache directory, or files that wait in it go to the wrong one.
struct FoundStore: Sendable, Hashable {
    /// nil when nothing tells, or the option does.
    var endpoint: String?
    /// Whose the bucket is, where its name alone does not tell.
    var account: String?

    /// The variable in which the processes of a mount find what was found when it was mounted.
    static let keptVariable = "PAILFS_KEPT_STORE"

    /// What `kept` made.
    init(kept: String) {
        let texts = kept.split(separator: " ", omittingEmptySubsequences: false).map { field in
            PercentEncoding.decode(field).map { String(decoding: $0, as: UTF8.self) } ?? ""
        }
        if let first = texts.first, !first.isEmpty { endpoint = first }
        if texts.count > 1, !texts[1].isEmpty { account = texts[1] }
    }

    /// For `keptVariable`.
    var kept: String { PercentEncoding.encode(endpoint ?? "") + " " + PercentEncoding.encode(account ?? "") }

    /// Asks nobody but the environment and files. Fails when those cannot be understood.
    init(of request: MountRequest) throws(ObjectStoreError) {
        let (settings, bucket) = (request.settings, request.bucket ?? "")
        let isTold = settings.endpoint != nil
        switch request.scheme {
        case .s3:
            let sources = try request.s3Credentials()
            endpoint = isTold ? nil : sources.endpoint
        case .oss:
            let sources = try request.ossCredentials()
            endpoint = isTold ? nil : sources.endpoint
        case .cos:
            let sources = try request.cosCredentials()
            endpoint = isTold ? nil : sources.endpoint
            // A name gets the account's number where it has none.
            let isWhole = COSEndpointRules.bucket(bucket, appID: sources.appID) == bucket
            account = isWhole || request.bucket == nil ? nil : sources.appID
        case .kodo:
            let sources = try request.kodoCredentials()
            endpoint = isTold ? nil : sources.endpoint
        case .cssp: endpoint = try isTold ? nil : request.csspCredentials().endpoint
        case .swift:
            guard let found = try request.swiftCredentials().find() else { return }
            // Named by the option alone, as ever.
            if isTold, settings.authURL == nil, found.origin == "PAILFS_ACCESS_KEY_ID" { return }
            (endpoint, account) = Self.place(of: found.login)
        }
    }

    /// Containers are an account's own.
    private static func place(of login: SwiftCredentials.Login) -> (endpoint: String?, account: String?) {
        switch login {
        // The account is part of it.
        case .token(let token): (token.storageURL, nil)
        case .tempAuth(let login): (login.url, String(login.user.prefix { $0 != ":" }))
        case .keystone(let login):
            (login.url, [account(of: login.method), login.region].compactMap(\.self).joined(separator: "@"))
        }
    }

    private static func account(of method: KeystoneLogin.Method) -> String {
        switch method {
        case .password(let user, _, let project): text(of: project ?? user)
        case .token(_, let project): project.map { text(of: $0) } ?? ""
        // Each belongs to one project.
        case .applicationCredential(let id, _): id
        case .namedApplicationCredential(let name, let user, _): "\(text(of: user))/\(name)"
        }
    }

    private static func text(of named: KeystoneLogin.Named) -> String {
        if let id = named.id { return id }
        return [named.domainID ?? named.domainName, named.name].compactMap(\.self).joined(separator: "/")
    }
}

extension MountRequest {
    /// As it was when it was mounted, for the mount's own processes and who asks them; nil for others.
    var keptStore: FoundStore? { environment[FoundStore.keptVariable].map { FoundStore(kept: $0) } }

    func foundStore() throws(ObjectStoreError) -> FoundStore {
        if let keptStore { return keptStore }
        return try FoundStore(of: self)
    }
}
