import Basics
import HTTP
import ObjectStorage

/// Where a bucket's requests go: origin, base path, and whether the bucket is in the host or in the path.
struct S3Endpoint: Sendable, Hashable {
    let origin: HTTPOrigin
    /// Path before the bucket, without a slash at its end; usually empty.
    let basePath: String
    let bucket: String
    let addressing: S3Profile.Addressing

    /// `endpoint` is a URL or a bare host; nil is Amazon's of the region. Throws with the remedy in the message.
    init(
        _ endpoint: String?, bucket: String, region: String, addressing: S3Profile.Addressing?, profile: S3Profile
    ) throws(ObjectStoreError) {
        var text = endpoint ?? "https://s3.\(region).amazonaws.com\(region.hasPrefix("cn-") ? ".cn" : "")"
        var isSecure = true
        if let end = text.range(of: "://") {
            let scheme = text[..<end.lowerBound].lowercased()
            guard scheme == "http" || scheme == "https" else {
                throw Self.bad(text, "it starts with \(scheme)://, not http:// or https://")
            }
            isSecure = scheme == "https"
            text = String(text[end.upperBound...])
        }
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        let authority = parts.first.map(String.init) ?? ""
        var host = authority
        var port: Int?
        if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
            host = String(authority[..<colon])
            port = Int(authority[authority.index(after: colon)...])
            guard let port, (1...65535).contains(port) else {
                throw Self.bad(text, "the port is no number below 65536")
            }
        }
        guard !host.isEmpty, host.utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != 64 && $0 != 63 && $0 != 35 }) else {
            throw Self.bad(text, "it names no host")
        }
        var path = parts.count == 2 ? String(parts[1]) : ""
        while path.hasSuffix("/") { path.removeLast() }
        self.bucket = bucket
        basePath = path.isEmpty ? "" : "/" + PercentEncoding.encode(path, keepingSlash: true)
        self.addressing =
            addressing ?? (Self.needsPath(host, bucket, isSecure: isSecure) ? .path : profile.addressing)
        origin = HTTPOrigin(
            isSecure: isSecure, host: self.addressing == .virtualHost ? "\(bucket).\(host)" : host, port: port)
    }

    /// The path on the wire: base, bucket where it belongs there, and the key encoded once.
    func path(_ key: ObjectKey?) -> String {
        var path = basePath
        if addressing == .path { path += "/" + PercentEncoding.encode(bucket) }
        if let key { return path + "/" + PercentEncoding.encode(key.bytes, keepingSlash: true) }
        return addressing == .path ? path : path + "/"
    }

    /// Addresses and names that no wildcard certificate covers take the bucket in the path.
    private static func needsPath(_ host: String, _ bucket: String, isSecure: Bool) -> Bool {
        let isAddress = host.hasPrefix("[") || host.split(separator: ".").allSatisfy { UInt8($0) != nil }
        let isPlain = bucket.utf8.allSatisfy {
            (97...122).contains($0) || (48...57).contains($0) || $0 == 45 || ($0 == 46 && !isSecure)
        }
        return isAddress || host == "localhost" || !isPlain || bucket.utf8.count < 3 || bucket.utf8.count > 63
    }

    /// The region that an Amazon host names: `s3.eu-west-1.amazonaws.com`, `s3-eu-west-1...`, with or without `dualstack.`.
    static func region(ofHost host: String) -> String? {
        guard let end = host.range(of: ".amazonaws.com") else { return nil }
        let labels = host[..<end.lowerBound].split(separator: ".").map(String.init)
        guard let last = labels.last else { return nil }
        if last.hasPrefix("s3-"), last != "s3-fips", last != "s3-accelerate" { return String(last.dropFirst(3)) }
        guard labels.dropLast().contains(where: { $0 == "s3" || $0 == "s3-fips" || $0 == "dualstack" }) else {
            return nil
        }
        return last == "dualstack" ? nil : last
    }

    private static func bad(_ endpoint: String, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(
            .invalidRequest, .checkAccess, code: "InvalidEndpoint",
            message: "the endpoint \(endpoint) cannot be used: \(reason)")
    }
}

extension String {
    /// The first place where `text` stands.
    fileprivate func range(of text: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
