import Basics
import Glibc
import HTTP
import ObjectStorage
import Providers
import Settings

/// The file of trusted certificates: that of the option, or that of the variables and files of the provider's tools.
extension MountRequest {
    struct Authorities: Sendable {
        var path: String
        /// The option or variable that names the file, for messages.
        var origin: String
    }

    /// nil uses the certificates of this machine. The variables of Python's requests, curl(1) and OpenSSL come last, for every
    /// store.
    var authorities: Authorities? {
        if let file = settings.caFile { return Authorities(path: file, origin: "ca-file") }
        let found = ofTheTools ?? ofAnyTool
        return found.map { Authorities(path: Self.absolute($0.path, in: directory), origin: $0.origin) }
    }

    private var ofTheTools: Authorities? {
        switch scheme {
        case .s3:
            let found = (try? s3Credentials())?.authorities
            return found.map { Authorities(path: $0.path, origin: $0.origin) }
        case .swift:
            let found = (try? swiftCredentials())?.authorities
            return found.map { Authorities(path: $0.path, origin: $0.origin) }
        case .oss:
            let found = (try? ossCredentials())?.authorities
            return found.map { Authorities(path: $0.path, origin: $0.origin) }
        case .cos, .kodo, .cssp: return nil
        }
    }

    /// The library of the Python SDKs reads the first two in this order.
    private var ofAnyTool: Authorities? {
        variable("REQUESTS_CA_BUNDLE") ?? variable("CURL_CA_BUNDLE") ?? variable("SSL_CERT_FILE")
    }

    private func variable(_ name: String) -> Authorities? {
        environment[name].flatMap { $0.isEmpty ? nil : Authorities(path: $0, origin: name) }
    }

    /// Throws when the file cannot be read: with the system's certificates the mount would trust other servers than the user
    /// wants.
    func requireReadableAuthorities() throws(CommandError) {
        try Self.requireReadable(authorities)
        guard let own = clientCertificate else { return }
        let isOfVariables = settings.profile == nil && variable("OS_CERT") != nil
        let names =
            settings.clientCertificate != nil
            ? ("client-cert", "client-key")
            : isOfVariables ? ("OS_CERT", "OS_KEY") : ("cert of the cloud", "key of the cloud")
        try Self.requireReadable(Authorities(path: own.file, origin: names.0))
        try Self.requireReadable(own.keyFile.map { Authorities(path: $0, origin: names.1) })
    }

    private static func requireReadable(_ file: Authorities?) throws(CommandError) {
        guard let file else { return }
        var reason = access(file.path, R_OK) == 0 ? nil : String(cString: strerror(errno))
        if reason == nil, (try? LocalFileStatus(of: file.path))?.kind == .directory { reason = "it is a directory" }
        guard let reason else { return }
        let origin = file.origin
        throw CommandError("the \(origin) \(file.path) cannot be read: \(reason); set \(origin) to a PEM file")
    }
}
