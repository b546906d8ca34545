import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// Copies from one bucket to another.
    @Suite struct BucketCopies {
        /// pailstore's buckets of a test: the world's own, and another one.
        private func withBuckets(
            _ provider: Provider, _ body: (_ world: World, _ other: World, _ store: Store) async throws -> Void
        ) async throws {
            let name = provider == .cos ? "other-1250000000" : "other"
            try await provider.withPailstore(arguments: ["--bucket", name]) { world, store in
                var bucket = world.bucket
                bucket.name = name
                let other = try World(scratch: world.scratch, bucket: bucket)
                try await body(world, other, store)
                await other.finish()
            }
        }

        private func put(_ text: String, at key: String, in world: World) async throws {
            let path = world.scratch.path("file")
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            try await world.outside("put", key, path)
        }

        private func copy(_ source: String, _ destination: String, in world: World) async throws -> Outcome {
            try await world.pailfs(["cp", source, destination, "-o", world.options([])])
        }

        @Test(.timeLimit(.minutes(5)), arguments: Provider.ofPailstore)
        func theStoreCopiesAndNoBytePassesHere(_ provider: Provider) async throws {
            try await withBuckets(provider) { world, other, store in
                try await put("content", at: "a", in: world)
                try await store.setFaults("op=\(provider.nameOfGet),kind=status:403")
                let copied = try await copy("\(world.bucket.url)/a", "\(other.bucket.url)/d/", in: world)
                #expect(copied.succeeded, "\(copied)")
                let again = try await world.pailfs(
                    ["cp", "-n", "\(world.bucket.url)/a", "\(other.bucket.url)/d/a", "-o", world.options([])])
                #expect(again.status == 1 && again.errors.contains("already exists"), "\(again)")
                try await store.setFaults()
                #expect(try await other.outside("get", "d/a") == "content")
                #expect(try await world.outside("keys") == "a\n")
                let missing = try await copy("\(world.bucket.url)/none", "\(other.bucket.url)/d/", in: world)
                #expect(missing.status == 1 && missing.errors.contains("none"), "\(missing)")
            }
        }

        /// Buckets of two regions, or of two accounts.
        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos])
        func whereItRefusesTheBytesPassThroughHere(_ provider: Provider) async throws {
            try await withBuckets(provider) { world, other, store in
                try await put(String(repeating: "0123456789", count: 2_000_000), at: "a", in: world)
                try await store.setFaults("op=CopyObject,kind=status:403", "op=UploadPartCopy,kind=status:403")
                let copied = try await copy("\(world.bucket.url)/a", "\(other.bucket.url)/b", in: world)
                #expect(copied.succeeded, "\(copied)")
                try await store.setFaults()
                #expect(try await other.outside("get", "b").utf8.count == 20_000_000)
            }
        }

        /// Each URL has its options in the configuration.
        @Test(.timeLimit(.minutes(5))) func theBytesPassFromOneProviderToAnother() async throws {
            try await withBuckets(.s3) { world, other, store in
                let config = """
                    region = us-east-1
                    path-style
                    log = \(world.scratch.path("log"))
                    [s3://]
                    endpoint = \(world.bucket.endpoint)
                    [oss://]
                    endpoint = \(try #require(store.endpoints["oss"]))
                    """
                try config.write(toFile: world.scratch.path("config"), atomically: true, encoding: .utf8)
                try await world.mount()
                try await world.sh(
                    "echo content >a; chmod 640 a; head -c 20000000 /dev/urandom >big; sha256sum <big >$T/sum")
                try await world.unmount()
                try await world.sh(
                    """
                    export PAILFS_CONFIG=$T/config
                    '\(Programs.pailfs)' cp s3://pail/a oss://other/b
                    '\(Programs.pailfs)' cp --header 'Content-Type: text/x-test' s3://pail/big oss://other/
                    '\(Programs.pailfs)' stat oss://other/big | grep -q text/x-test
                    """)
                #expect(try await other.outside("get", "b") == "content\n")
                try await other.mount(["attrs=exact"], cache: "other cache")
                try await other.sh("test $(stat -c %a b) = 640; sha256sum <big | cmp - $T/sum")
                try await other.unmount()
            }
        }

        /// Every bucket of the account is a directory: a program's copy between them is a copy at the store.
        @Test(.rule("copy.range"), .timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo])
        func aProgramCopiesBetweenBucketsOfAnAccount(_ provider: Provider) async throws {
            try await withBuckets(provider) { world, other, store in
                try await put("content", at: "a", in: world)
                var bucket = world.bucket
                bucket.wholeAccount = true
                let account = try World(scratch: world.scratch, bucket: bucket)
                try await account.mount()
                try await account.sh("ls \(world.bucket.name) \(other.bucket.name)")
                try await store.setFaults("op=\(provider.nameOfGet),kind=status:403")
                try await account.python(
                    """
                    import os
                    source = os.open("\(world.bucket.name)/a", os.O_RDONLY)
                    target = os.open("\(other.bucket.name)/b", os.O_WRONLY | os.O_CREAT)
                    assert os.copy_file_range(source, target, 7) == 7
                    os.close(target)
                    """)
                try await store.setFaults()
                try await account.unmount()
                #expect(try await other.outside("get", "b") == "content")
            }
        }
    }
}
