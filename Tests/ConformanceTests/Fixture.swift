import Basics
import HTTP
import ObjectStorage
import Providers
import Testing

/// A store that the promises are put to, and what its server does otherwise than S3. A suite's trait makes it and ends
/// what it started.
struct Fixture: Sendable {
    let store: any ObjectStore
    var differences = Differences()
    /// nil where no server is behind the store.
    var server: Server?

    @TaskLocal static var current: Fixture?
}

/// A running server, and how to sign in.
struct Server: Sendable {
    let port: Int
    /// What is spoken at the port.
    var dialect = Dialect.s3
    var bucket = "conformance"
    var accessKey = "tester"
    var secret = "tester-secret"
    let engine = HTTPEngine()

    var origin: HTTPOrigin { HTTPOrigin(isSecure: false, host: "127.0.0.1", port: port) }
    var endpoint: String { origin.description }

    /// The dialect's store at this server, in the ways a test wants it otherwise.
    func store(
        bucket: String? = nil, secret: String? = nil, region: String? = nil, time: any TimeSource = SystemTime()
    ) throws -> any ObjectStore {
        try dialect.makeStore(wish(bucket: bucket, secret: secret, region: region, time: time))
    }

    /// Who vouches for requests of a test's own to a Swift-shaped store.
    func authenticator() throws -> any SwiftAuthenticator { try dialect.authenticator(wish()) }

    private func wish(
        bucket: String? = nil, secret: String? = nil, region: String? = nil, time: any TimeSource = SystemTime()
    ) -> Dialect.Wish {
        let credentials = Credentials(accessKeyID: accessKey, secretKey: Secret(secret ?? self.secret))
        return Dialect.Wish(
            server: self, bucket: bucket ?? self.bucket, credentials: FixedCredentials(credentials), region: region,
            time: time)
    }
}

/// What a server does otherwise than S3. Every field is checked, so a difference that goes away is noticed as well.
struct Differences: Sendable {
    enum Fate: Sendable, Hashable {
        /// The store answers with an error of this kind.
        case refused(ObjectStoreError.Kind)
        /// The store keeps the object under another key.
        case becomes(ByteString)
    }

    /// Keys the store does not keep as they are.
    var keys: [ByteString: Fate] = [:]
    var keepsHeadersOfMarkers = true
    var copiesMarkers = true
    /// Otherwise `a/b` comes where the directory `a` does, before `a!`; each level is in order.
    var listsInByteOrder = true
    /// Otherwise a part sent twice is listed twice, in any order.
    var forgetsReplacedParts = true
    /// Otherwise keys of uploads are listed as percent-encoded, but their `+` is none of the encoding.
    var encodesPlusInUploads = true
    /// Otherwise a part is copied only where it is a whole segment of a large object.
    var copiesRanges = true
    /// Otherwise a copy of a large object has segments, and the source's ETag.
    var copiesBecomePlain = true
    /// Otherwise the ETag of a large object is made of what its manifest says of the segments.
    var checksManifests = true
    /// Otherwise a range of a large object by prefix is followed by one byte more than is promised, which the next request of the
    /// connection takes for its answer.
    var endsRangesByPrefix = true
}

/// Runs a suite with a fixture that is made before its first test and ended after its last.
struct Against: SuiteTrait, TestScoping {
    typealias Body = @Sendable (Fixture) async throws -> Void
    let run: @Sendable (Body) async throws -> Void

    @concurrent func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
    ) async throws {
        try await run { fixture in
            try await Fixture.$current.withValue(fixture) { try await function() }
        }
    }
}

extension Trait where Self == Against {
    static func against(_ run: @escaping @Sendable (Against.Body) async throws -> Void) -> Self { Against(run: run) }
}
