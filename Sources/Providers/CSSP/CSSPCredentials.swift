package import ObjectStorage

/// The credentials and the container's endpoint of users of iFlytek's open storage (documentation of the CSSP SDKs).
package struct CSSPCredentials: Sendable {
    private let environment: [String: String]
    private let profile: String?

    package init(environment: [String: String], profile: String? = nil) {
        (self.environment, self.profile) = (environment, profile)
    }

    /// pailfs's own pair, or the provider's; nil without one: public containers answer anonymous requests.
    ///
    /// Throws: for half a pair, and for a profile: no tool of this provider has profiles.
    package func find() throws(ObjectStoreError) -> FoundCredentials? {
        let variables = CredentialVariables(environment: environment)
        if let found = try variables.pair("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY") { return found }
        if let profile {
            throw CredentialProblem.unusable(
                "CSSP has no profiles, and \(profile) is set; set credentials-file instead")
        }
        return try variables.pair("CSSP_ACCESS_KEY_ID", "CSSP_ACCESS_KEY_SECRET")
    }

    /// The URL in the environment.
    package var endpoint: String? { value("CSSP_URL") }

    /// The address of `container`'s account. `endpoint` is a container's URL as the console shows it, or the same without the
    /// container; nil takes `CSSP_URL`. The error gives the remedy.
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
