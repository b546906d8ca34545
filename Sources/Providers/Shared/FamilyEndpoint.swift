import Basics
import HTTP
import ObjectStorage

/// The address of a bucket's requests: origin, base path, and whether the bucket is in the host, in the path, or in neither.
struct FamilyEndpoint: Sendable, Hashable {
    let origin: HTTPOrigin
    /// Path before the bucket, without a slash at its end; usually empty.
    let basePath: String
    /// nil for the service itself.
    let bucket: String?
    let addressing: FamilyProfile.Addressing

    /// `endpoint` is a URL or a bare host; nil is the provider's host for the region. The error gives the remedy.
    init(
        _ endpoint: String?, bucket: String?, region: String?, addressing: FamilyProfile.Addressing?,
        profile: FamilyProfile
    ) throws(ObjectStoreError) {
        let rules = profile.endpoints
        guard
            let text = endpoint ?? region.map({ rules.host(region: $0) }) ?? (bucket == nil ? rules.everyRegion : nil)
        else {
            throw ObjectStoreError(
                .invalidRequest, .checkAccess, code: "NoEndpoint",
                message: "\(profile.name) needs the bucket's region; set region= or endpoint=")
        }
        let place = try Place(text)
        var host = place.host
        guard let bucket else {
            (self.bucket, self.addressing, basePath) = (nil, .customDomain, place.path)
            origin = HTTPOrigin(isSecure: place.isSecure, host: host, port: place.port)
            return
        }
        // Consoles show endpoints with the bucket in front.
        if profile.endpoints.owns(host), host.hasPrefix("\(bucket).") { host.removeFirst(bucket.count + 1) }
        self.bucket = bucket
        // Or with the bucket in the path.
        var path = place.path
        let inPath = "/" + PercentEncoding.encode(bucket)
        let isInPath = addressing != .virtualHost && path.hasSuffix(inPath)
        if isInPath { path.removeLast(inPath.count) }
        if let addressing = isInPath ? .path : addressing {
            self.addressing = addressing
        } else if Self.isAddress(host) {
            self.addressing = .path
        } else {
            let usual = profile.endpoints.addressing(at: host) ?? profile.addressing
            let fits = usual == .customDomain || Self.fitsHostName(bucket, isSecure: place.isSecure)
            self.addressing = fits ? usual : .path
        }
        basePath = path
        origin = HTTPOrigin(
            isSecure: place.isSecure, host: self.addressing == .virtualHost ? "\(bucket).\(host)" : host,
            port: place.port)
    }

    /// The path of a request: base, bucket for path addressing, and the key encoded once.
    func path(_ key: ObjectKey?) -> String {
        var path = basePath
        if addressing == .path, let bucket { path += "/" + PercentEncoding.encode(bucket) }
        if let key { return path + "/" + PercentEncoding.encode(key.bytes, keepingSlash: true) }
        return addressing == .path ? path : path + "/"
    }

    /// The host that an endpoint names; empty when it names none.
    static func host(of endpoint: String) -> String { (try? Place(endpoint))?.host ?? "" }

    /// Whether a host is this machine itself: by name, or as 127.x.y.z in numbers.
    static func isThisMachine(_ host: String) -> Bool {
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        return host == "localhost" || labels.count == 4 && labels[0] == "127" && labels.allSatisfy { UInt8($0) != nil }
    }

    /// Whether an answer's text is a valid region: it becomes a part of a host's name, and must be nothing else.
    static func isRegion(_ text: String) -> Bool {
        1...63 ~= text.utf8.count
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// The endpoint with another region in its host: the last occurrence is replaced, as labels in front may contain it too.
    static func moved(_ endpoint: String, from region: String, to other: String) -> String {
        guard let place = endpoint.range(of: host(of: endpoint)) else { return endpoint }
        let host = String(endpoint[place].reversed())
        guard let label = host.range(of: String(region.reversed())) else { return endpoint }
        let tail = String(host[..<label.lowerBound].reversed())
        let head = String(host[label.upperBound...].reversed())
        return "\(endpoint[..<place.lowerBound])\(head)\(other)\(tail)\(endpoint[place.upperBound...])"
    }

    private static func isAddress(_ host: String) -> Bool {
        host.hasPrefix("[") || host == "localhost" || host.split(separator: ".").allSatisfy { UInt8($0) != nil }
    }

    /// Whether the bucket can be in the host: names that no wildcard certificate covers go into the path.
    private static func fitsHostName(_ bucket: String, isSecure: Bool) -> Bool {
        bucket.utf8.allSatisfy {
            (97...122).contains($0) || (48...57).contains($0) || $0 == 45 || ($0 == 46 && !isSecure)
        } && (3...63).contains(bucket.utf8.count)
    }

    /// The parts of an endpoint.
    struct Place {
        var isSecure = true
        var host: String
        var port: Int?
        /// Percent-encoded, with a slash in front, or empty.
        var path: String

        init(_ endpoint: String) throws(ObjectStoreError) {
            var text = endpoint
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
            host = authority
            if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
                host = String(authority[..<colon])
                port = Int(authority[authority.index(after: colon)...])
                guard let port, (1...65535).contains(port) else {
                    throw Self.bad(text, "the port is not a number below 65536")
                }
            }
            guard !host.isEmpty, host.utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != 64 && $0 != 63 && $0 != 35 })
            else { throw Self.bad(text, "it has no host") }
            path = parts.count == 2 ? String(parts[1]) : ""
            while path.hasSuffix("/") { path.removeLast() }
            if !path.isEmpty { path = "/" + PercentEncoding.encode(path, keepingSlash: true) }
        }

        private static func bad(_ endpoint: String, _ reason: String) -> ObjectStoreError {
            ObjectStoreError(
                .invalidRequest, .checkAccess, code: "InvalidEndpoint",
                message: "the endpoint \(endpoint) cannot be used: \(reason)")
        }
    }
}

extension String {
    /// The first occurrence of `text`.
    func range(of text: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
