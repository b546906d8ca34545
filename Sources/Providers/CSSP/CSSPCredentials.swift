package import ObjectStorage

/// How users of iFlytek's open storage say who they are and where their container is (cssp.md section 13).
package struct CSSPCredentials: Sendable {
    private let environment: [String: String]

    package init(environment: [String: String]) { self.environment = environment }

    /// Our own pair, or the provider's; nil without one: public containers answer anonymous requests.
    package func find() -> (credentials: Credentials, origin: String)? {
        for (id, secret) in [
            ("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY"), ("CSSP_ACCESS_KEY_ID", "CSSP_ACCESS_KEY_SECRET"),
        ] {
            guard let key = value(id), let secret = value(secret) else { continue }
            return (Credentials(accessKeyID: key, secretKey: Secret(secret)), id)
        }
        return nil
    }

    /// The URL that the environment names.
    package var endpoint: String? { value("CSSP_URL") }

    /// Where the account of `container` is. `endpoint` is a container's URL as the console shows it, or the same without
    /// the container; nil takes `CSSP_URL`. Throws with the remedy.
    package func address(of container: String, endpoint: String?) throws(ObjectStoreError) -> StorageAddress {
        guard var url = endpoint ?? self.endpoint else {
            throw Self.unusable("the URL of the container \(container) is not set; set endpoint or CSSP_URL to it")
        }
        while url.hasSuffix("/") { url.removeLast() }
        if !url.contains("://") { url = "http://" + url }
        guard let whole = StorageAddress(url) else {
            throw Self.unusable("\(url) is not a URL; write http://account.region.openstorage.cn/container")
        }
        if whole.basePath.isEmpty { return whole }
        guard url.hasSuffix("/\(container)"),
            let account = StorageAddress(String(url.dropLast(container.utf8.count + 1)))
        else { throw Self.unusable("\(url) is the URL of another container than \(container)") }
        return account
    }

    private func value(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }

    private static func unusable(_ reason: String) -> ObjectStoreError {
        ObjectStoreError(.invalidRequest, .checkAccess, code: "InvalidEndpoint", message: reason)
    }
}
