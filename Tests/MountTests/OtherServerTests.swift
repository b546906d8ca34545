import Foundation
import Glibc
import TestSupport
import Testing

extension RealMounts {
    /// The same work on a server that is not ours: SeaweedFS, checked from outside with boto3.
    @Suite struct OtherServers {
        @Test(.timeLimit(.minutes(5)))
        func aTreeGoesThroughAMountOfARealServer() async throws {
            try await withSeaweed { world in
                try await world.mount()
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
                // This server drops the metadata of `dir/` markers, so modes of directories are not compared.
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
            let world = try World(scratch: scratch, bucket: bucket)
            let result: Result<Void, any Error>
            do {
                try await world.outside("create")
                result = .success(try await body(world))
            } catch {
                result = .failure(error)
            }
            await world.finish()
            server.send(SIGKILL)  // on SIGTERM this server waits for clients that are gone
            _ = await server.wait(deadline: .seconds(30))
            try result.get()
        }
    }
}
