import Basics
import Foundation
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// OpenStack Swift as Debian packages it, on loopback ports and in a directory of its own: a proxy with TempAuth, and one
/// server each for accounts, containers and objects (swift.md section 16).
enum RealSwift {
    private static let programs = ["account", "container", "object", "proxy"].map { "/usr/bin/swift-\($0)-server" }
    static var isInstalled: Bool { programs.allSatisfy { FileManager.default.isExecutableFile(atPath: $0) } }

    /// Ends the servers by their process IDs when its own input ends: also when this process dies.
    private static let keeper = """
        for name in account container object proxy; do
            "swift-$name-server" "$ETC/$name-server.conf" -v </dev/null >>"$LOG" 2>&1 & servers="$servers $!"
        done
        read -r _
        kill -KILL $servers
        """

    @Sendable static func run(_ body: Against.Body) async throws {
        let directory = try TemporaryDirectory()
        let ports = try Seaweed.unusedPorts(4)
        try configure(directory, ports)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.environment = [
            "ETC": directory.path("etc"), "LOG": directory.path("log"), "HOME": directory.path,
            "PATH": "/usr/bin:/bin", "PYTHONPATH": directory.path("etc"), "servers": "",
        ]
        process.currentDirectoryURL = URL(fileURLWithPath: directory.path)
        process.arguments = ["-c", keeper]
        let input = Pipe()
        process.standardInput = input
        try process.run()
        let result: Result<Void, any Error>
        do {
            var server = Server(port: ports[3], dialect: .swift)
            (server.accessKey, server.secret) = ("test:tester", "testing")
            try await awaitReadiness(of: server, log: directory.path("log"))
            result = .success(try await body(Fixture(store: try server.store(), server: server)))
        } catch { result = .failure(error) }
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        try result.get()
    }

    /// Makes the container, and returns when an object can be stored in it.
    private static func awaitReadiness(of server: Server, log: String) async throws {
        let login = TempAuthLogin(
            url: "\(server.endpoint)/auth/v1.0", user: server.accessKey, key: Secret(server.secret))
        let store = try server.store()
        let time = SystemTime()
        for _ in 0..<900 {
            if let token = try? await login.token(server.engine, time), let address = StorageAddress(token.storageURL) {
                let headers = HTTPHeaders([
                    ("X-Auth-Token", token.token.revealed), ("X-Container-Meta-Temp-URL-Key", temporaryURLKey),
                ])
                let request = HTTPRequest(
                    .put, address.origin, target: address.path(server.bucket, nil), headers: headers)
                let answer = try? await server.engine.execute(request)
                if let answer, answer.isSuccess,
                    await failure({ try await store.put(PutRequest("ready"), body: MemorySource([1])) }) == nil
                {
                    try await store.delete("ready", ifMatch: nil)
                    return
                }
            }
            try await time.sleep(for: .milliseconds(200))
        }
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        Issue.record("Swift did not become ready: \(text.suffix(2000))")
        throw CancellationError()
    }

    static let temporaryURLKey = "key of URLs"

    // MARK: Its configuration

    private static func configure(_ directory: TemporaryDirectory, _ ports: [Int]) throws {
        for path in ["etc", "node/d1"] {
            try FileManager.default.createDirectory(
                atPath: directory.path(path), withIntermediateDirectories: true)
        }
        var files = [
            "swift.conf": "[swift-hash]\nswift_hash_path_suffix = t1\nswift_hash_path_prefix = t2\n",
            "memory_cache.py": cache, "rings.py": rings,
        ]
        let common = """
            [DEFAULT]
            bind_ip = 127.0.0.1
            user = \(NSUserName())
            swift_dir = \(directory.path("etc"))
            devices = \(directory.path("node"))
            mount_check = false
            workers = 0
            disable_fallocate = true
            """
        for (name, port) in zip(["account", "container", "object"], ports) {
            files["\(name)-server.conf"] = """
                \(common)
                bind_port = \(port)
                [pipeline:main]
                pipeline = \(name)-server
                [app:\(name)-server]
                use = egg:swift#\(name)
                """
        }
        files["proxy-server.conf"] = "\(common)\nbind_port = \(ports[3])\n\(proxy)"
        for (name, text) in files {
            try text.write(toFile: directory.path("etc/\(name)"), atomically: true, encoding: .utf8)
        }
        let builder = Process()
        builder.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        builder.arguments = [directory.path("etc/rings.py"), directory.path("etc")] + ports[..<3].map { "\($0)" }
        try builder.run()
        builder.waitUntilExit()
        try #require(builder.terminationStatus == 0, "the rings cannot be made")
    }

    /// Rings of one device in one zone, each part on it.
    private static let rings = """
        import array, os, sys
        from swift.common.ring import RingData
        for name, port in zip(("account", "container", "object"), sys.argv[2:]):
            device = {"id": 0, "region": 1, "zone": 1, "weight": 1.0, "device": "d1", "meta": "",
                      "ip": "127.0.0.1", "port": int(port),
                      "replication_ip": "127.0.0.1", "replication_port": int(port)}
            ring = RingData([array.array("H", [0] * 16)], [device], 28)
            ring.save(os.path.join(sys.argv[1], name + ".ring.gz"))
        """

    /// What memcached would do for the one proxy process: tokens live here.
    private static let cache = """
        import json, time
        class Cache:
            def __init__(self):
                self.values = {}
            def get(self, key, raise_on_error=False):
                value, end = self.values.get(key, (None, 0))
                return None if end and end < time.time() else json.loads(value) if value else None
            def set(self, key, value, serialize=True, time=0, min_compress_len=0, raise_on_error=False):
                self.values[key] = (json.dumps(value), time and self.now() + time)
            def now(self):
                return time.time()
            def incr(self, key, delta=1, time=0):
                value = max(0, (self.get(key) or 0) + int(delta))
                self.set(key, value, time=time)
                return value
            def decr(self, key, delta=1, time=0):
                return self.incr(key, -int(delta), time)
            def delete(self, key, server_key=None):
                self.values.pop(key, None)
            def set_multi(self, mapping, server_key=None, serialize=True, time=0, min_compress_len=0):
                for key, value in mapping.items():
                    self.set(key, value, time=time)
            def get_multi(self, keys, server_key=None):
                return [self.get(key) for key in keys]
        def filter_factory(conf, **local):
            cache = Cache()
            def make(app):
                def serve(env, start_response):
                    env["swift.cache"] = cache
                    return app(env, start_response)
                return serve
            return make
        """

    private static let proxy: String = {
        let plain = [
            "catch_errors", "gatekeeper", "healthcheck", "listing_formats", "bulk", "tempurl", "copy", "slo", "dlo",
            "symlink",
        ]
        return """
            [pipeline:main]
            pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk tempurl tempauth copy slo dlo \
            symlink proxy-server
            [app:proxy-server]
            use = egg:swift#proxy
            account_autocreate = true
            [filter:cache]
            paste.filter_factory = memory_cache:filter_factory
            [filter:tempauth]
            use = egg:swift#tempauth
            user_test_tester = testing .admin

            """ + plain.map { "[filter:\($0)]\nuse = egg:swift#\($0)\n" }.joined()
    }()
}
