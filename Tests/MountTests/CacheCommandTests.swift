import Foundation
import TestSupport
import Testing

/// What `pailfs cache info --json` prints, as far as the tests look.
private struct CacheDocument: Decodable {
    struct Cache: Decodable {
        struct Unsent: Decodable {
            let files: Int
        }
        let directory: String
        let mountpoint: String?
        let cleanBytes: Int64
        let stagedBytes: Int64
        let unsent: Unsent?
    }
    let caches: [Cache]
}

extension RealMounts {
    /// `pailfs cache` and `pailfs warm`, with the bucket mounted and without.
    @Suite struct Caches {
        private func info(_ world: World, _ place: String) async throws -> CacheDocument.Cache {
            let outcome = try await pailfs(world, "cache", "info", "--json", place)
            return try #require(
                try JSONDecoder().decode(CacheDocument.self, from: Data(outcome.output.utf8)).caches.first)
        }

        /// Runs a command that has to succeed; with the mount's options where a URL asks for them.
        @discardableResult
        private func pailfs(_ world: World, _ arguments: String...) async throws -> Outcome {
            let outcome = try await world.pailfs(arguments + ["-o", world.options([])])
            guard outcome.succeeded else { throw ChildFailed(command: "pailfs \(arguments)", outcome: outcome) }
            return outcome
        }

        @Test(.timeLimit(.minutes(5)))
        func whatWasWarmedIsReadWithoutTheStoreAndWhatWasPrunedIsNot() async throws {
            try await withMount { world, store in
                world.expectsErrorsInLog = true
                try await world.sh(
                    """
                    mkdir -p dir/deep
                    for n in $(seq 30); do head -c 10000 /dev/urandom >dir/deep/$n; done
                    head -c 30000000 /dev/urandom >dir/big
                    mkdir $T/copy; cp -r dir $T/copy
                    """)
                try await pailfs(world, "cache", "prune", world.mountpoint)
                #expect(try await info(world, world.mountpoint).cleanBytes == 0)
                let warm = try await pailfs(world, "warm", world.mountpoint + "/dir")
                #expect(warm.output == "31 files, 28.8MiB\n" && warm.errors == "")
                let full = try await info(world, world.mountpoint)
                #expect(full.cleanBytes >= 30_300_000 && full.mountpoint == world.mountpoint)
                try await store.setFaults("op=GetObject,kind=status:403")
                try await world.sh("diff -r dir $T/copy/dir")
                try await pailfs(world, "cache", "prune", "--to", "64K", world.mountpoint)
                #expect(try await info(world, world.mountpoint).cleanBytes <= 64 << 10)
                // What the store refuses is named, and the rest is read.
                try await store.setFaults("op=GetObject,key=dir/big,kind=status:403")
                let refused = try await world.pailfs(["warm", world.mountpoint])
                #expect(refused.status == 1 && refused.output.hasPrefix("30 files"), "\(refused)")
                #expect(refused.errors.contains("not read: \(world.mountpoint)/dir/big: "), "\(refused)")
                #expect(refused.errors.contains("403"), "the store's own word: \(refused)")
                try await store.setFaults()

                // The same without a mount.
                try await world.unmount()
                try await pailfs(world, "cache", "prune", "--to", "20M", world.bucket.url)
                let some = try await info(world, world.bucket.url)
                #expect((1...20 << 20).contains(some.cleanBytes) && some.mountpoint == nil)
                try await pailfs(world, "cache", "prune", "--all")
                #expect(try await info(world, some.directory).cleanBytes == 0)
                let again = try await pailfs(world, "warm", world.bucket.url, "--below", "dir/d")
                #expect(again.output == "30 files, 292.9KiB\n", "\(again)")
                try await world.mount()
                try await store.setFaults("op=GetObject,kind=status:403")
                try await world.sh("diff -r dir/deep $T/copy/dir/deep; ! cat dir/big >$T/big 2>&1")
            }
        }

        @Test(.rule("space.bound"), .timeLimit(.minutes(5)))
        func pruningLeavesWhatTheBucketDoesNotHave() async throws {
            try await withMount("durable=local", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await store.setFaults("op=PutObject,kind=status:503")
                try await world.sh("head -c 100000 /dev/urandom >file; cp file $T/expected")
                try await pailfs(world, "cache", "prune", world.mountpoint)
                #expect(try await info(world, world.mountpoint).unsent?.files == 1)
                world.killMount()
                _ = try? await world.unmount()
                try await pailfs(world, "cache", "prune", world.bucket.url)
                let left = try await info(world, world.bucket.url)
                #expect(left.unsent?.files == 1 && left.stagedBytes >= 100_000, "\(left)")
                try await store.setFaults()
                try await world.mount()
                let flush = try await world.pailfs(["flush", "--wait", world.mountpoint])
                #expect(flush.succeeded, "\(flush)")
                try await world.sh("cmp file $T/expected")
                try await pailfs(world, "cache", "prune", world.mountpoint)
                try await world.sh("cmp file $T/expected")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func whatCannotBeIsRefusedInASentence() async throws {
            try await withStore { world, _ in
                let options = ["-o", world.options([])]
                let mistakes: [(arguments: [String], words: String)] = [
                    (["cache", "info", world.scratch.directory], "is not in a mount of pailfs"),
                    (["cache", "info", world.bucket.url], "nothing of \(world.bucket.url) is cached"),
                    (["cache", "prune", "--all", "--to", "much"], "--to cannot be \"much\""),
                    (["warm", world.scratch.path("nowhere")], "nowhere does not exist"),
                    (["warm", "s3://no-such-bucket"], "no-such-bucket"),
                    (["warm", "s3://"], "names no bucket"),
                    (["warm", world.bucket.url, "--below", "nothing"], "no key starts with this prefix"),
                ]
                for (arguments, words) in mistakes {
                    let outcome = try await world.pailfs(arguments + options)
                    #expect(outcome.status == 1 && outcome.errors.contains(words), "\(arguments): \(outcome)")
                }
            }
        }
    }
}
