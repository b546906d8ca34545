import Foundation
import TestSupport
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

        @Test(.timeLimit(.minutes(5)), .rule("xattr.metadata"))
        func aContainerHasMetadataAndReaders() async throws {
            try await Provider.cssp.withWorld { world in
                func acl(_ arguments: String...) async throws -> Outcome {
                    try await world.pailfs(["acl"] + arguments + ["-o", world.options([])])
                }
                try await world.mount()
                try await world.sh(
                    """
                    setfattr -n user.meta.Color -v red .; setfattr -n user.meta.size -v 1 .
                    test "$(getfattr --only-values -n user.meta.color .)" = red
                    if getfattr -n user.meta.none . 2>$T/none; then exit 1; fi; grep -q 'No such attribute' $T/none
                    setfattr -x user.meta.size .
                    if setfattr -x user.meta.size . 2>$T/none; then exit 1; fi; grep -q 'No such attribute' $T/none
                    if setfattr -n user.meta.long -v $(printf 'x%.0s' {1..300}) . 2>$T/long; then exit 1; fi
                    grep -q 'Argument list too long' $T/long
                    """)
                #expect(try await acl("set", "cssp://pail", "--readers", ".r:*").succeeded)
                #expect(try await acl("get", world.mountpoint).output == "readers .r:*\n")
                let shown = try await stat("cssp://pail", in: world)
                #expect(shown.output == "objects: 0\nbytes: 0\nreaders: .r:*\nmetadata color: red\n", "\(shown)")
                #expect(try await acl("set", "cssp://pail", "--readers", "").succeeded)
                #expect(try await acl("get", "cssp://pail").output.isEmpty)
                let writers = try await acl("set", "cssp://pail", "--writers", "*:*")
                #expect(writers.status == 1 && writers.errors.contains("who may write"), "\(writers)")
                let object = try await acl("set", "cssp://pail/file", "--readers", ".r:*")
                #expect(object.status == 1 && object.errors.contains("is not one; leave them out"), "\(object)")
                #expect(try await acl("set", "cssp://pail").status != 0)
                try await world.unmount()
            }
            try await withStore { world, _ in
                let outcome = try await world.pailfs(["acl", "get", "s3://pail", "-o", world.options([])])
                #expect(outcome.status == 1 && outcome.errors.contains("names no object"), "\(outcome)")
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
