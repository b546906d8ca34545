import Foundation

/// OpenStack Swift as Debian packages it, on loopback ports and in a directory of its own: a proxy with TempAuth, and one
/// server each for accounts, containers and objects (swift.md section 16).
///
/// The servers end with `stop`, and with this process however that ends.
package final class OpenStackSwift: Sendable {
    private static let programs = ["account", "container", "object", "proxy"].map { "/usr/bin/swift-\($0)-server" }
    package static var isInstalled: Bool {
        programs.allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// Who may do everything in the account `test`.
    package static let user = "test:tester"
    package static let key = "testing"
    /// A user of the same account without a role: the access control lists of containers say what that user may do.
    package static let narrowUser = "test:narrow"
    package static let narrowKey = "narrow"

    package let port: Int
    private let ports: [Int]
    private let logPath: String
    private let process: Process
    private let input: Pipe

    package var endpoint: String { "http://127.0.0.1:\(port)" }
    /// Where to log in (TempAuth).
    package var authURL: String { endpoint + "/auth/v1.0" }
    /// What the servers have said, for messages.
    package var log: String { (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? "" }

    /// Ends the servers by their process IDs when its own input ends.
    private static let keeper = """
        for name in account container object proxy; do
            "swift-$name-server" "$ETC/$name-server.conf" -v </dev/null >>"$LOG" 2>&1 & servers="$servers $!"
        done
        read -r _
        kill -KILL $servers
        """

    /// Starts the servers with everything they have in `directory`; they answer some seconds later.
    package init(in directory: String) throws {
        ports = unusedPorts(4)
        port = ports[3]
        logPath = directory + "/log"
        try Self.configure(directory, ports)
        process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.environment = [
            "ETC": directory + "/etc", "LOG": logPath, "HOME": directory, "PATH": "/usr/bin:/bin",
            "PYTHONPATH": directory + "/etc", "servers": "",
        ]
        process.currentDirectoryURL = URL(fileURLWithPath: directory)
        process.arguments = ["-c", Self.keeper]
        input = Pipe()
        // A mount that a test starts meanwhile must not hold the servers' end back.
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        process.standardInput = input
        try process.run()
    }

    /// Returns when all four servers accept connections: a proxy that is up before the others answers 503.
    package func waitUntilListening() async throws {
        for _ in 0..<1800 {
            if ports.allSatisfy(isListening(on:)) { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw NotListening(log: String(log.suffix(2000)))
    }

    package struct NotListening: Error {
        let log: String
    }

    package func stop() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    // MARK: Its configuration

    private static func configure(_ directory: String, _ ports: [Int]) throws {
        for path in ["etc", "node/d1"] {
            try FileManager.default.createDirectory(
                atPath: "\(directory)/\(path)", withIntermediateDirectories: true)
        }
        var files = [
            "swift.conf": "[swift-hash]\nswift_hash_path_suffix = t1\nswift_hash_path_prefix = t2\n",
            "memory_cache.py": cache, "rings.py": rings,
        ]
        let common = """
            [DEFAULT]
            bind_ip = 127.0.0.1
            user = \(NSUserName())
            swift_dir = \(directory)/etc
            devices = \(directory)/node
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
            try text.write(toFile: "\(directory)/etc/\(name)", atomically: true, encoding: .utf8)
        }
        let builder = Process()
        builder.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        builder.arguments = ["\(directory)/etc/rings.py", "\(directory)/etc"] + ports[..<3].map { "\($0)" }
        try builder.run()
        builder.waitUntilExit()
        guard builder.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
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
            conn_timeout = 20
            node_timeout = 60
            error_suppression_limit = 1000000
            [filter:cache]
            paste.filter_factory = memory_cache:filter_factory
            [filter:tempauth]
            use = egg:swift#tempauth
            user_test_tester = testing .admin
            user_test_narrow = narrow

            """ + plain.map { "[filter:\($0)]\nuse = egg:swift#\($0)\n" }.joined()
    }()
}
