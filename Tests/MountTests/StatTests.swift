import Foundation
import Testing

extension RealMounts {
    /// `pailfs stat`: what the store says, without a mount.
    @Suite struct Stat {
        private func stat(_ url: String, in world: World) async throws -> Outcome {
            try await world.pailfs(["stat", url, "-o", world.options([])])
        }

        @Test(.timeLimit(.minutes(5)))
        func anObjectIsShownWithItsHeaders() async throws {
            try await withStore { world, _ in
                try "content".write(toFile: world.scratch.path("file"), atomically: true, encoding: .utf8)
                try await world.outside("put", "some/key", world.scratch.path("file"))
                let outcome = try await stat("s3://pail/some/key", in: world)
                #expect(outcome.succeeded, "\(outcome)")
                let lines = outcome.output.split(separator: "\n")
                for line in ["key: some/key", "bytes: 7", "etag: 9a0364b9e99bb480dd25e1f0284c8555"] {
                    #expect(lines.contains(line[...]), "\(outcome)")
                }
                let missing = try await stat("s3://pail/other", in: world)
                #expect(missing.status == 1)
                #expect(missing.errors.contains("no object of this key"), "\(missing)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aBucketIsShownWithWhatItHoldsWhereTheStoreCounts() async throws {
            try await Provider.cssp.withWorld { world in
                try "content".write(toFile: world.scratch.path("file"), atomically: true, encoding: .utf8)
                for key in ["a", "b"] { try await world.outside("put", key, world.scratch.path("file")) }
                let outcome = try await stat("cssp://pail", in: world)
                #expect(outcome.output == "objects: 2\nbytes: 14\n", "\(outcome)")
            }
            try await withStore { world, _ in
                let outcome = try await stat("s3://pail", in: world)
                #expect(outcome.status == 1)
                #expect(outcome.errors.contains("object counts of a bucket"), "\(outcome)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func anAccountIsShownWithItsBuckets() async throws {
            for provider in [Provider.s3, .oss, .cos, .kodo] {
                try await provider.withWorld { world in
                    let outcome = try await stat("\(provider.rawValue)://", in: world)
                    #expect(outcome.output == "bucket: \(world.bucket.name)\n", "\(provider): \(outcome)")
                }
            }
        }

        /// Every bucket of an account is a directory of its mount.
        @Test(.timeLimit(.minutes(5)))
        func anAccountIsMountedWithItsBuckets() async throws {
            for provider in [Provider.s3, .oss, .cos, .kodo] {
                try await provider.withWorld { world in
                    let name = world.bucket.name
                    let account = try World(scratch: world.scratch, bucket: world.bucket.account)
                    try await account.mount()
                    try await account.sh(
                        """
                        test "$(ls)" = \(name)
                        mkdir \(name)/d; printf hello >\(name)/d/file; mv \(name)/d \(name)/e
                        refuses mkdir new
                        refuses rmdir \(name)
                        """)
                    try await account.unmount()
                    #expect(try await world.outside("get", "e/file") == "hello", "\(provider)")
                }
            }
        }
    }
}

extension Bucket {
    /// All of its account's.
    var account: Bucket {
        var account = self
        account.wholeAccount = true
        return account
    }
}
