package import Basics
import Digests
package import HTTP
package import ObjectStorage

/// The parts of a request that a signature covers, in every form that a signer may need.
package struct SignedRequest: Sendable {
    /// How a request describes its body to the store.
    package enum Payload: Sendable, Hashable {
        case sha256([UInt8])
        case unsigned

        static let empty = Payload.sha256(SHA256.of([UInt8]()))

        var text: String {
            switch self {
            case .sha256(let digest): Hex.encode(digest)
            case .unsigned: "UNSIGNED-PAYLOAD"
            }
        }
    }

    package var method: HTTPMethod
    /// Host and port as the Host header has them.
    package var host: String
    /// As sent, percent-encoded, without the query.
    package var path: String
    /// nil for requests to the service.
    package var bucket: String?
    package var key: ObjectKey?
    package var query: [QueryItem]
    package var payload: Payload
    package var region: String
    /// The server's clock.
    package var time: Timestamp

    package init(
        _ method: HTTPMethod, host: String, path: String, bucket: String?, key: ObjectKey?, query: [QueryItem] = [],
        payload: Payload = .unsigned, region: String, at time: Timestamp
    ) {
        (self.method, self.host, self.path, self.bucket, self.key) = (method, host, path, bucket, key)
        (self.query, self.payload, self.region, self.time) = (query, payload, region, time)
    }

    /// `/bucket/key` in bytes, independent of the addressing: the resource of Alibaba's signatures.
    var resource: ByteString {
        guard let bucket else { return "/" }
        return ByteString("/\(bucket)/") + (key?.bytes ?? "")
    }
}

/// How a provider's requests are signed. Values or leaves: called on any thread, never waits.
package protocol RequestSigner: Sendable {
    /// Whether the digest of the body is signed, where it is known.
    var coversBody: Bool { get }
    /// Whether a request cannot be signed before the bucket's region is known.
    var needsRegion: Bool { get }
    /// Adds the signature. All other headers are in `headers` already, `Host` included.
    func sign(_ headers: inout HTTPHeaders, _ request: SignedRequest, with credentials: Credentials)
    /// The longest lifetime of a presigned URL; nil without a limit. The store answers 400 to longer ones.
    var longestLifetime: Duration? { get }
    /// The whole query of a URL that carries its signature.
    func presign(_ request: SignedRequest, with credentials: Credentials, lifetime: Duration) -> [QueryItem]
}

extension RequestSigner {
    package var longestLifetime: Duration? { nil }
}

/// One parameter of a query, percent-encoded. Ordered by encoded name, then value, as signatures want it.
package struct QueryItem: Sendable, Hashable, Comparable {
    package let name: String
    package let value: String

    /// Encodes name and value.
    package init(_ name: String, _ value: String = "") {
        self.init(name, ByteString(value))
    }

    package init(_ name: String, _ value: ByteString) {
        self.name = PercentEncoding.encode(name)
        self.value = PercentEncoding.encode(value)
    }

    /// Has `=` also without a value.
    package var text: String { "\(name)=\(value)" }

    package static func < (left: QueryItem, right: QueryItem) -> Bool {
        if left.name != right.name { return left.name.utf8.lexicographicallyPrecedes(right.name.utf8) }
        return left.value.utf8.lexicographicallyPrecedes(right.value.utf8)
    }
}
