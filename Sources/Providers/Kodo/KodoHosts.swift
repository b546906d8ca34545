import FoundationEssentials
import HTTP
import ObjectStorage

/// Kodo's services (Kodo, storage regions and their hosts).
enum KodoService: Sendable, Hashable {
    /// Buckets and regions.
    case uc
    /// Uploads.
    case up
    /// Operations on objects.
    case rs
    /// Listings.
    case rsf
}

/// The hosts of the services of one bucket.
struct KodoHosts: Sendable, Hashable {
    var up: [HTTPOrigin]
    var rs: [HTTPOrigin]
    var rsf: [HTTPOrigin]
    var io: [HTTPOrigin]
    /// The bucket's own domains at the origin, behind no cache.
    var download: [HTTPOrigin] = []
    /// How long the answer is valid, in seconds.
    var lifetime: Int64 = 86400

    func origins(_ service: KodoService) -> [HTTPOrigin] {
        switch service {
        case .uc: []
        case .up: up
        case .rs: rs
        case .rsf: rsf
        }
    }

    /// The hosts derived from a region's name.
    static func of(region: String, isSecure: Bool) -> KodoHosts {
        func host(_ name: String) -> HTTPOrigin { HTTPOrigin(isSecure: isSecure, host: name) }
        return KodoHosts(
            up: [host("up-\(region).qiniup.com"), host("upload-\(region).qiniup.com")],
            rs: [host("rs-\(region).qiniuapi.com")], rsf: [host("rsf-\(region).qiniuapi.com")],
            io: [host("iovip-\(region).qiniuio.com")], lifetime: .max)
    }

    /// The hosts that return regions, in order.
    static func central(isSecure: Bool) -> [HTTPOrigin] {
        ["uc.qiniuapi.com", "kodo-config.qiniuapi.com", "uc.qbox.me"].map { HTTPOrigin(isSecure: isSecure, host: $0) }
    }
}

extension KodoHosts {
    /// The answer of `/v4/query`; several `hosts` are regions in order of preference, the first one the bucket's.
    private struct Answer: Decodable {
        struct Service: Decodable {
            let domains: [String]?
            let old: [String]?
        }

        struct Region: Decodable {
            let ttl: Int64?
            let up: Service?
            let rs: Service?
            let rsf: Service?
            let io: Service?
            let ioSource: Service?

            enum CodingKeys: String, CodingKey {
                case ttl, up, rs, rsf, io
                case ioSource = "io_src"
            }
        }

        let hosts: [Region]
    }

    /// nil when the document is invalid, or lacks a service.
    init?(json: [UInt8], isSecure: Bool) {
        guard let region = (try? JSONDecoder().decode(Answer.self, from: Data(json)))?.hosts.first else { return nil }
        func origins(_ service: Answer.Service?) -> [HTTPOrigin] {
            ((service?.domains ?? []) + (service?.old ?? [])).compactMap {
                HTTPOrigin(authority: $0, isSecure: isSecure)
            }
        }
        self.init(
            up: origins(region.up), rs: origins(region.rs), rsf: origins(region.rsf), io: origins(region.io),
            download: origins(region.ioSource), lifetime: max(60, region.ttl ?? 86400))
        guard !up.isEmpty, !rs.isEmpty, !rsf.isEmpty else { return nil }
    }
}

extension HTTPOrigin {
    /// `host[:port]`, or the same behind `http://` or `https://`, which then decides; nil when it is neither.
    init?(authority text: String, isSecure: Bool) {
        var (isSecure, rest) = (isSecure, Substring(text))
        for (scheme, secures) in [("https://", true), ("http://", false)] where rest.lowercased().hasPrefix(scheme) {
            (isSecure, rest) = (secures, rest.dropFirst(scheme.count))
        }
        while rest.hasSuffix("/") { rest = rest.dropLast() }
        var port: Int?
        if let colon = rest.lastIndex(of: ":"), !rest[colon...].contains("]") {
            port = Int(rest[rest.index(after: colon)...])
            guard let port, (1...65535).contains(port) else { return nil }
            rest = rest[..<colon]
        }
        let isName = rest.utf8.allSatisfy { byte in
            byte > 32 && byte < 127 && !"/@?#%\\".utf8.contains(byte)
        }
        guard !rest.isEmpty, isName else { return nil }
        self.init(isSecure: isSecure, host: String(rest), port: port)
    }
}
