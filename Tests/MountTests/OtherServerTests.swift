import Foundation
import Glibc
import TestSupport
import Testing

extension RealMounts {
    /// Servers that are not pailstore.
    @Suite struct OtherServers {
        /// SeaweedFS, whose objects are compared with boto3.
        @Test(.timeLimit(.minutes(5)))
        func aTreeGoesThroughAMountOfARealServer() async throws {
            try await withSeaweed { world in
                // This server drops the metadata of `dir/` markers: what a directory was given lasts as long as the mount knows it.
                try await world.mount(["ttl=1h"])
                try await world.sh(
                    """
                    git config --global user.name Tester
                    git config --global user.email tester@example.com
                    make_tree $T/tree
                    cp -a $T/tree tree
                    same $T/tree tree
                    rsync -a $T/tree/ synced/
                    test -z "$(rsync -ai $T/tree/ synced/)"
                    git init -q -b main repository
                    cp -a $T/tree/. repository/
                    git -C repository add -A
                    git -C repository commit -q -m Everything
                    git -C repository fsck --strict
                    head -c 30000000 /dev/urandom >$T/big
                    cp $T/big big
                    printf changed | dd of=big bs=1 seek=9000000 conv=notrunc status=none
                    printf changed | dd of=$T/big bs=1 seek=9000000 conv=notrunc status=none
                    mv tree/deep tree/moved
                    mv $T/tree/deep $T/tree/moved
                    rm -r synced
                    """, deadline: .seconds(180))
                try await world.unmount()
                try await world.outside("compare", world.scratch.path("tree"), "tree/")
                // So modes of directories are not compared.
                try await world.mount(["attrs=exact"], cache: "another")
                try await world.sh(
                    """
                    diff -r --no-dereference $T/tree tree
                    cmp $T/big big
                    diff <(manifest $T/tree | grep -v ' d ') <(manifest tree | grep -v ' d ')
                    git -C repository fsck --strict
                    test -z "$(git -C repository status --porcelain)"
                    test ! -e synced
                    """)
            }
        }

        /// rclone serve s3 drops metadata of uploads in parts, tells another ETag at their completion than HEAD does, and keeps
        /// `directory/` as a file.
        @Test(.timeLimit(.minutes(5)), arguments: ["remote", "local"])
        func filesGoThroughAMountOfRclone(durable: String) async throws {
            try await withRclone { world in
                try await world.mount(["durable=\(durable)"])
                try await world.sh(
                    """
                    for turn in 1 2 3; do for name in a b c; do echo $turn >>$name; done; done
                    head -c 30000000 /dev/urandom >$T/big
                    cp $T/big big
                    printf changed | dd of=big bs=1 seek=9000000 conv=notrunc status=none
                    printf changed | dd of=$T/big bs=1 seek=9000000 conv=notrunc status=none
                    mv big large
                    mv a d
                    rm b
                    ! mkdir directory
                    cmp $T/big large
                    test "$(echo *)" = "c d large"
                    """, deadline: .seconds(120))
                #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                // A server that answers is not away, whatever it answers.
                let log = try String(contentsOfFile: world.logPath, encoding: .utf8)
                #expect(!log.contains("the store does not answer"), "\(log)")
                try await world.unmount()
                try await world.mount(cache: "another")
                try await world.sh(
                    "cmp $T/big large; test \"$(cat d | tr '\\n' ' ')\" = '1 2 3 '; test \"$(echo *)\" = 'c d large'")
            }
        }

        private func withRclone(_ body: (World) async throws -> Void) async throws {
            let scratch = try Scratch()
            defer { scratch.remove() }
            let port = unusedPorts(1)[0]
            let server = try Child(
                [
                    Programs.rclone, "serve", "s3", "--addr", "127.0.0.1:\(port)", "--auth-key", "tester,tester-secret",
                    try scratch.makeDirectory("served"),
                ],
                environment: scratch.environment(), directory: scratch.directory, scratch: scratch)
            let bucket = Bucket(
                endpoint: "http://127.0.0.1:\(port)", name: "pail", accessKey: "tester", secretKey: "tester-secret")
            try await serve(bucket, by: server, in: scratch, body)
        }

        /// A SeaweedFS on loopback ports nobody uses, with one bucket.
        private func withSeaweed(_ body: (World) async throws -> Void) async throws {
            let scratch = try Scratch()
            defer { scratch.remove() }
            let identities = """
                {"identities": [{"name": "tester", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                 "credentials": [{"accessKey": "tester", "secretKey": "tester-secret"}]}]}
                """
            try identities.write(toFile: scratch.path("s3.json"), atomically: true, encoding: .utf8)
            let ports = unusedPorts(8)
            let names = ["master", "volume", "filer", "s3"].flatMap { ["-\($0).port", "-\($0).port.grpc"] }
            let server = try Child(
                [
                    Programs.weed, "server", "-dir=\(try scratch.makeDirectory("weed"))", "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1", "-s3", "-s3.config=\(scratch.path("s3.json"))", "-s3.port.iceberg=0",
                    "-s3.port.lance=0", "-master.telemetry=false", "-volume.max=30", "-master.volumeSizeLimitMB=256",
                ] + zip(names, ports).map { "\($0)=\($1)" },
                environment: scratch.environment(), directory: scratch.directory, scratch: scratch)
            let bucket = Bucket(
                endpoint: "http://127.0.0.1:\(ports[6])", name: "pail", accessKey: "tester",
                secretKey: "tester-secret")
            try await serve(bucket, by: server, in: scratch, body)
        }

        /// Runs `body` beside a server, and ends both.
        private func serve(
            _ bucket: Bucket, by server: Child, in scratch: Scratch, _ body: (World) async throws -> Void
        ) async throws {
            let world = try World(scratch: scratch, bucket: bucket)
            let result: Result<Void, any Error>
            do {
                try await world.outside("create")
                result = .success(try await body(world))
            } catch {
                result = .failure(error)
            }
            await world.finish()
            server.send(SIGKILL)  // on SIGTERM SeaweedFS waits for clients that are gone
            _ = await server.wait(deadline: .seconds(30))
            try result.get()
        }
    }
}
