/// Where a mount serves its figures: for this machine alone, unless other machines are named.
package enum MetricsPlace: Sendable, Hashable {
    /// A socket with this path in the file system.
    case socket(path: String)
    /// A port of an address that other machines cannot reach.
    case loopback(address: String, port: UInt16)
    /// A port of all addresses of this machine.
    case everywhere(port: UInt16)

    /// A path, which has a slash, or `127.0.0.1:9464`, `[::1]:9464`, `localhost:9464`, `all:9464`; nil for anything else.
    init?(_ text: String) {
        if text.contains("/") {
            guard !text.hasSuffix("/"), !text.utf8.contains(0) else { return nil }
            self = .socket(path: text)
            return
        }
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
            return nil
        }
        let host = text[..<colon]
        switch host {
        case "[::1]": self = .loopback(address: "::1", port: port)
        case "all": self = .everywhere(port: port)
        case "localhost": self = .loopback(address: "127.0.0.1", port: port)
        default:
            let parts = host.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 4, parts[0] == "127", parts.allSatisfy({ UInt8($0).map { "\($0)" } == String($0) })
            else {
                return nil
            }
            self = .loopback(address: String(host), port: port)
        }
    }
}

extension MetricsPlace: CustomStringConvertible {
    package var description: String {
        switch self {
        case .socket(let path): path
        case .everywhere(let port): "all:\(port)"
        case .loopback(let address, let port): address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
        }
    }
}
