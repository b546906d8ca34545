import TestSupport
import Testing

/// A store to mount, with the server that tests have for it.
enum Provider: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case s3, oss, cos, kodo, cssp, swift

    var testDescription: String { rawValue }

    /// Those that pailstore serves.
    static let ofPailstore: [Provider] = [.s3, .oss, .cos, .kodo, .cssp]

    /// Runs `body` in a world of its own whose bucket this provider serves, and leaves nothing of it.
    func withWorld(_ body: (World) async throws -> Void) async throws {
        switch self {
        case .swift: try await withSwift(body)
        case .s3, .oss, .cos, .kodo, .cssp: try await withPailstore { world, _ in try await body(world) }
        }
    }

    /// The same with the pailstore that serves it.
    func withPailstore(
        arguments: [String] = [], prefix: String = "", _ body: (World, Store) async throws -> Void
    ) async throws {
        try await withStore(bucket: bucketName, arguments: arguments) { world, store in
            var bucket = Bucket(of: store)
            bucket.prefix = prefix
            bucket.scheme = rawValue
            bucket.endpoint = try #require(store.endpoints[rawValue])
            bucket.options = options
            try await withWorld(scratch: world.scratch, bucket) { try await body($0, store) }
        }
    }

    /// pailstore's name of the request that reads an object.
    var nameOfGet: String {
        switch self {
        case .s3, .oss, .cos: "GetObject"
        case .kodo: "get"
        case .cssp, .swift: "getObject"
        }
    }

    /// COS's end with the account's number.
    private var bucketName: String { self == .cos ? "pail-1250000000" : "pail" }

    /// What a mount has to be told besides the endpoint.
    private var options: [String] {
        switch self {
        case .s3, .oss: ["region=us-east-1", "path-style"]
        case .cos: ["region=ap-guangzhou"]
        case .kodo, .cssp, .swift: []
        }
    }

    private func withWorld(
        scratch: Scratch, _ bucket: Bucket, _ body: (World) async throws -> Void
    ) async throws {
        let world = try World(scratch: scratch, bucket: bucket)
        let result: Result<Void, any Error>
        do { result = .success(try await body(world)) } catch { result = .failure(error) }
        await world.finish()
        try result.get()
    }

    /// A real one, with a container.
    private func withSwift(_ body: (World) async throws -> Void) async throws {
        try #require(OpenStackSwift.isInstalled, "OpenStack Swift is not installed; scripts/setup test installs it")
        let scratch = try Scratch()
        defer { scratch.remove() }
        let server = try OpenStackSwift(in: try scratch.makeDirectory("swift"))
        defer { server.stop() }
        try await server.waitUntilListening()
        var bucket = Bucket(
            endpoint: server.authURL, name: "pail", accessKey: OpenStackSwift.user, secretKey: OpenStackSwift.key)
        (bucket.scheme, bucket.options) = ("swift", [])
        bucket.variables = [
            "ST_AUTH": server.authURL, "ST_USER": OpenStackSwift.user, "ST_KEY": OpenStackSwift.key,
        ]
        try await withWorld(scratch: scratch, bucket) { world in
            try await world.outside("create", deadline: .seconds(90))
            try await body(world)
        }
    }
}
