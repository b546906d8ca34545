import Basics
import ObjectStorage
import Providers
import Settings

/// The store that requests go to where the option endpoint is not set, from the environment or a file of the provider's tools.
/// Two stores must never share a cache directory, or unstored files in it go to the wrong one.
struct FoundStore: Sendable, Hashable {
    /// nil when no source names one, or the option does.
    var endpoint: String?
    /// The account of the bucket, where the bucket's name alone does not identify it.
    var account: String?

    /// The variable that gives the processes of a mount the store that was found when it was mounted.
    static let keptVariable = "PAILFS_KEPT_STORE"

    /// Parses the value of `kept`.
    init(kept: String) {
        let texts = kept.split(separator: " ", omittingEmptySubsequences: false).map { field in
            PercentEncoding.decode(field).map { String(decoding: $0, as: UTF8.self) } ?? ""
        }
        if let first = texts.first, !first.isEmpty { endpoint = first }
        if texts.count > 1, !texts[1].isEmpty { account = texts[1] }
    }

    /// The value for `keptVariable`.
    var kept: String { PercentEncoding.encode(endpoint ?? "") + " " + PercentEncoding.encode(account ?? "") }

    /// Reads the environment and files only. Throws when those cannot be parsed.
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
            // A bucket name without the account's number gets it.
            let isWhole = COSEndpointRules.bucket(bucket, appID: sources.appID) == bucket
            account = isWhole || request.bucket == nil ? nil : sources.appID
        case .kodo:
            let sources = try request.kodoCredentials()
            endpoint = isTold ? nil : sources.endpoint
        case .cssp: endpoint = try isTold ? nil : request.csspCredentials().endpoint
        case .swift:
            guard let found = try request.swiftCredentials().find() else { return }
            // The option alone identifies the store, as in earlier versions.
            if isTold, settings.authURL == nil, found.origin == "PAILFS_ACCESS_KEY_ID" { return }
            (endpoint, account) = Self.place(of: found.login)
        }
    }

    /// The endpoint and account of a login: each account has its own containers.
    private static func place(of login: SwiftCredentials.Login) -> (endpoint: String?, account: String?) {
        switch login {
        // The storage URL contains the account.
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
    /// The store of the time of the mount, for the mount's own processes and for commands on it; nil for others.
    var keptStore: FoundStore? { environment[FoundStore.keptVariable].map { FoundStore(kept: $0) } }

    func foundStore() throws(ObjectStoreError) -> FoundStore {
        if let keptStore { return keptStore }
        return try FoundStore(of: self)
    }
}
