import Basics
import ObjectStorage
import Providers
import Settings

extension StoreMaker {
    /// OpenStack Swift, which issues tokens.
    func swift() throws(ObjectStoreError) -> Provider {
        // An error shows here before the first request; each login reads the credentials again.
        _ = try login()
        let authenticator = TokenAuthenticator(time: time) { [self] () async throws(ObjectStoreError) in
            try await login().token(engine, time: time)
        }
        let key = try request.credentialEnvironment()["PAILFS_TEMP_URL_KEY"].flatMap { $0.isEmpty ? nil : Secret($0) }
        let open: AccountStore.Opener = { [self] (entry) throws(ObjectStoreError) in
            var container = SwiftStore.Settings(container: entry.name)
            container.temporaryURLKey = key
            container.verifiesChecksums = settings.checksums == .verify
            container.headers = settings.headers.map { ($0.name, $0.value) }
            return SwiftStore(container, authenticator: authenticator, engine: engine, time: time)
        }
        var provider = Provider(
            capabilities: SwiftProfile.swift.capabilities,
            directory: SwiftAccount(authenticator: authenticator, engine: engine, time: time), open: open)
        (provider.bucketNames.isRestricted, provider.bucketNames.length) = (false, 1...256)
        return provider
    }

    private func login() throws(ObjectStoreError) -> SwiftCredentials.Found {
        if let found = try request.swiftCredentials().find() { return found }
        throw ObjectStoreError(
            .credentialsRejected, .checkAccess, code: "NoCredentials",
            message:
                "the login URL and the credentials are missing; set OS_AUTH_URL and the other OS_ variables, ST_AUTH, ST_USER and ST_KEY, or "
                + "auth-url with PAILFS_ACCESS_KEY_ID and PAILFS_SECRET_ACCESS_KEY")
    }

    /// iFlytek's open storage: the same protocol, but every request is signed, and there is no account around a container.
    func cssp() throws(ObjectStoreError) -> Provider {
        let sources = try request.csspCredentials()
        let credentials = credentials()
        let open: AccountStore.Opener = { [self] (entry) throws(ObjectStoreError) in
            var container = SwiftStore.Settings(container: entry.name)
            container.profile = .cssp
            container.verifiesChecksums = settings.checksums == .verify
            container.headers = settings.headers.map { ($0.name, $0.value) }
            let address = try sources.address(of: entry.name, endpoint: endpoint(nil))
            return SwiftStore(
                container, authenticator: CSSPAuthenticator(address, credentials: credentials, time: time),
                engine: engine, time: time)
        }
        return Provider(capabilities: SwiftProfile.cssp.capabilities, directory: nil, open: open)
    }
}
