import Basics
import ObjectStorage
import Providers
import Settings

extension StoreMaker {
    /// OpenStack Swift, which gives out tokens.
    func swift() throws(ObjectStoreError) -> Provider {
        let sources = SwiftCredentials(
            environment: request.environment, profile: settings.profile,
            endpoint: settings.authURL ?? settings.endpoint, region: settings.region, text: text)
        guard let found = try sources.find() else {
            throw ObjectStoreError(
                .credentialsRejected, .checkAccess, code: "NoCredentials",
                message:
                    "the login URL and the credentials are missing; set OS_AUTH_URL and the other OS_ variables, ST_AUTH, ST_USER and ST_KEY, or "
                    + "auth-url with PAILFS_ACCESS_KEY_ID and PAILFS_SECRET_ACCESS_KEY")
        }
        let authenticator = found.authenticator(engine, time: time)
        let key = request.environment["PAILFS_TEMP_URL_KEY"].flatMap { $0.isEmpty ? nil : Secret($0) }
        let open: AccountStore.Opener = { [self] (entry) throws(ObjectStoreError) in
            var container = SwiftStore.Settings(container: entry.name)
            container.temporaryURLKey = key
            container.verifiesChecksums = settings.checksums == .verify
            container.headers = settings.headers.map { ($0.name, $0.value) }
            return SwiftStore(container, authenticator: authenticator, engine: engine, time: time)
        }
        return Provider(
            capabilities: SwiftProfile.swift.capabilities,
            directory: SwiftAccount(authenticator: authenticator, engine: engine, time: time), open: open)
    }

    /// iFlytek's open storage: the same protocol, but every request is signed, and a container stands alone.
    func cssp() throws(ObjectStoreError) -> Provider {
        let sources = CSSPCredentials(environment: request.environment)
        let credentials = FixedCredentials(sources.find()?.credentials)
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
