import Basics

/// Where a request points: the bucket from the path or the host, the key from the rest of the path.
struct RequestTarget {
    var bucket = ""
    var key = ByteString("")
    /// The bucket, when the host names it.
    var hostBucket: String?
    var hasValidPath = true

    /// The first labels of a host below one of `domains` are a bucket; `bucketInHost` finds it in the provider's own
    /// hosts, which it gets in small letters and without a port.
    init(_ request: ServerRequest, domains: [String], bucketInHost: (Substring) -> String?) {
        var path = Substring(request.path).dropFirst()
        if request.hasHeader("host") {
            let name = request.hostName
            let domain = domains.first { name.hasSuffix(".\($0)") }
            hostBucket = domain.map { String(name.dropLast($0.count + 1)) } ?? bucketInHost(name)
        }
        if let hostBucket {
            bucket = hostBucket
        } else {
            let mark = path.utf8.firstIndex(of: UInt8(ascii: "/"))
            bucket = PercentEncoding.decode(mark.map { path[..<$0] } ?? path).map { ByteString($0).description } ?? ""
            path = mark.map { path[path.utf8.index(after: $0)...] } ?? ""
        }
        guard let decoded = PercentEncoding.decode(path) else {
            hasValidPath = false
            return
        }
        key = ByteString(decoded)
    }
}

extension ServerRequest {
    /// The `Host` header in small letters and without its port; empty without the header.
    var hostName: Substring {
        let name = Substring(header("host")?.lowercased() ?? "")
        guard let port = name.lastIndex(of: ":"), name[port...].dropFirst().allSatisfy(\.isNumber) else { return name }
        return name[..<port]
    }
}
