import Basics
import Glibc
import ObjectStorage
import Providers
import Settings

/// The file of trusted certificates: the option's, or what the variables and files of the provider's tools name.
extension MountRequest {
    struct Authorities: Sendable {
        var path: String
        /// What names it, for messages.
        var origin: String
    }

    /// nil trusts what this machine trusts. The variables of curl(1) and of OpenSSL come last, for every store.
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
        // Their SDKs ask through a library that has this variable.
        case .oss, .cos, .kodo: return variable("REQUESTS_CA_BUNDLE")
        case .cssp: return nil
        }
    }

    private var ofAnyTool: Authorities? { variable("CURL_CA_BUNDLE") ?? variable("SSL_CERT_FILE") }

    private func variable(_ name: String) -> Authorities? {
        environment[name].flatMap { $0.isEmpty ? nil : Authorities(path: $0, origin: name) }
    }

    /// Throws when it cannot be read: with the system's certificates the mount would trust other servers than was asked for.
    func requireReadableAuthorities() throws(CommandError) {
        guard let authorities else { return }
        var reason = access(authorities.path, R_OK) == 0 ? nil : String(cString: strerror(errno))
        if reason == nil, (try? LocalFileStatus(of: authorities.path))?.kind == .directory {
            reason = "it is a directory"
        }
        guard let reason else { return }
        let origin = authorities.origin
        throw CommandError(
            "the \(origin) \(authorities.path) cannot be read: \(reason); set \(origin) to a file of certificates (PEM)"
        )
    }
}
