import HTTP
import ObjectStorage
import Providers
import Settings

/// The user's settings for the provider's tools, as far as they concern a mount.
extension MountRequest {
    /// The settings that have no effect here and that no option of the mount replaces.
    var unreadSettings: [ToolSetting.Unread] {
        let given = Set(sources.options.map(\.name))
        let found = ToolSetting.unread(in: toolSettings, of: scheme, options: given)
        return found.filter { $0.name != "HTTP_PROXY" || misses(proxy: $0.name) }
    }

    /// Whether requests would go through the proxy of a variable that libcurl does not read.
    private func misses(proxy name: String) -> Bool {
        guard let place = settings.endpoint?.lowercased(), place.hasPrefix("http://") else { return false }
        let isHere = ["127.", "localhost", "[::1]"].contains { place.dropFirst(7).hasPrefix($0) }
        return !isHere && ProxyInUse(self) == nil
    }

    /// A source that cannot be read is left out: the search for credentials reports the reason.
    private var toolSettings: [ToolSetting.Source] {
        switch scheme {
        case .s3: (try? s3Credentials())?.toolSettings ?? []
        case .oss: (try? ossCredentials())?.toolSettings ?? []
        case .cos: (try? cosCredentials())?.toolSettings ?? []
        case .swift: (try? swiftCredentials())?.toolSettings ?? []
        case .kodo, .cssp: [ToolSetting.Source(.variable, "", environment)]
        }
    }

    /// The certificate that this machine presents to servers which ask for one.
    var clientCertificate: ClientCertificate? {
        if let file = settings.clientCertificate { return ClientCertificate(file: file, keyFile: settings.clientKey) }
        guard scheme == .swift, var found = (try? swiftCredentials())?.clientCertificate else { return nil }
        found.file = Self.absolute(found.file, in: directory)
        found.keyFile = found.keyFile.map { Self.absolute($0, in: directory) }
        return found
    }
}
