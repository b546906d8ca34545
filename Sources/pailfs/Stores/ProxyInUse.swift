import Basics
import Settings

/// The proxy between this machine and a store, as the option or libcurl's variables name it.
struct ProxyInUse: Sendable {
    /// The proxy's URL, without a user and password.
    let text: String
    /// The option or variable that sets it.
    let origin: String

    /// nil where there is no proxy, or one of a variable whose exceptions may apply.
    init?(_ request: MountRequest) {
        if let proxy = request.settings.proxy {
            (text, origin) = (proxy, "the option proxy")
            return
        }
        let isSecure = request.settings.endpoint.map { $0.lowercased().hasPrefix("https") } ?? true
        // libcurl(3): HTTP_PROXY in capitals could come from a request to a CGI program.
        let names = isSecure ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy"]
        let found = (names + ["all_proxy", "ALL_PROXY"]).lazy.compactMap { name in
            request.environment[name].flatMap { $0.isEmpty ? nil : (name, $0) }
        }.first
        guard let (name, value) = found else { return nil }
        let start = value.firstRange(of: "://").map { String(value[..<$0.upperBound]) } ?? ""
        let rest = value.dropFirst(start.count)
        text = start + (rest.lastIndex(of: "@").map { String(rest[rest.index(after: $0)...]) } ?? String(rest))
        origin = "the variable \(name)"
    }

    /// Whether libcurl's message is about the proxy: it names the host that libcurl connects to.
    func isNamed(in message: String) -> Bool {
        let rest = text.firstRange(of: "://").map { text[$0.upperBound...] } ?? text[...]
        let host = rest.prefix { $0 != "/" && $0 != ":" }
        return message.contains("resolve proxy") || message.contains("to \(host) port")
            || message.contains("to \(host):")
    }
}
