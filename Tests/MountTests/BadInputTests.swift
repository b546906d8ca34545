import Foundation
import Testing

extension RealMounts {
    /// What cannot be mounted is refused with one sentence that names the thing and the remedy, and leaves nothing.
    @Suite struct BadInput {
        /// One way to get it wrong, and words its sentence must have.
        struct Mistake: CustomTestStringConvertible, Sendable {
            let testDescription: String
            let words: [String]
            var bucketURL: String?
            var options: [String] = []
            var environment: [String: String] = [:]
            var mountpoint: String?

            static let all = [
                Mistake(
                    testDescription: "unknown access key", words: ["PAILFS_ACCESS_KEY_ID"],
                    environment: ["PAILFS_ACCESS_KEY_ID": "nobody"]),
                Mistake(
                    testDescription: "wrong secret key", words: ["PAILFS_SECRET_ACCESS_KEY"],
                    environment: ["PAILFS_SECRET_ACCESS_KEY": "wrong"]),
                Mistake(testDescription: "no such bucket", words: ["no-such-bucket"], bucketURL: "s3://no-such-bucket"),
                Mistake(
                    testDescription: "unreachable endpoint", words: ["127.0.0.1:9", "endpoint"],
                    options: ["endpoint=http://127.0.0.1:9", "timeout=2"]),
                Mistake(testDescription: "unknown scheme", words: ["ftp", "s3"], bucketURL: "ftp://pail"),
                Mistake(testDescription: "unknown option", words: ["colour"], options: ["colour=blue"]),
                Mistake(testDescription: "a value that is no duration", words: ["ttl", "soon"], options: ["ttl=soon"]),
                Mistake(testDescription: "missing mountpoint", words: ["not-there"], mountpoint: "not-there"),
                Mistake(testDescription: "mountpoint is a file", words: ["a-file"], mountpoint: "a-file"),
            ]
        }

        @Test(.timeLimit(.minutes(1)), arguments: Mistake.all)
        func aMistakeIsNamedInOneSentence(_ mistake: Mistake) async throws {
            try await withStore { world, _ in
                world.expectsErrorsInLog = true
                try "x".write(toFile: world.scratch.path("a-file"), atomically: true, encoding: .utf8)
                let mountpoint = mistake.mountpoint.map(world.scratch.path) ?? world.mountpoint
                let outcome = try await world.pailfs(
                    [
                        "mount", mistake.bucketURL ?? world.bucket.url, mountpoint, "-o",
                        world.options(mistake.options),
                    ],
                    changing: mistake.environment)
                expectRefusal(outcome, naming: mistake.words, in: world)
                #expect(!World.isMounted(mountpoint))
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func credentialsThatAreNowhereAreAskedFor() async throws {
            try await withStore { world, _ in
                world.expectsErrorsInLog = true
                let outcome = try await world.attempt(
                    """
                    cd $T; unset PAILFS_ACCESS_KEY_ID PAILFS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
                    exec \(Programs.pailfs) mount \(world.bucket.url) $M -o \(world.options(["timeout=2"]))
                    """)
                expectRefusal(outcome, naming: ["PAILFS_ACCESS_KEY_ID"], in: world)
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func aMountpointInUseIsNamed() async throws {
            try await withMount { world, _ in
                let outcome = try await world.pailfs(
                    ["mount", world.bucket.url, world.mountpoint, "-o", world.options([], cache: "another")])
                #expect(outcome.status != 0)
                expectSentence(outcome.errors, naming: [world.mountpoint])
                try await world.sh("ls; printf x >still-works")
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func aCacheDirectoryInUseIsNamedWithItsHolder() async throws {
            try await withMount { world, _ in
                let second = try world.scratch.makeDirectory("second")
                let holder = try #require(world.daemon)
                let outcome = try await world.pailfs(
                    ["mount", world.bucket.url, second, "-o", world.options([])])
                #expect(outcome.status != 0)
                expectSentence(outcome.errors, naming: ["cache", "\(holder)"])
                #expect(!World.isMounted(second))
                try await world.sh("ls; printf x >still-works")
            }
        }

        @Test(.timeLimit(.minutes(1)), .enabled(if: Machine.isRoot, "hiding a device takes root"))
        func aMachineWithoutFUSEIsToldSo() async throws {
            try await withStore { world, _ in
                world.expectsErrorsInLog = true
                let outcome = try await world.attempt(
                    """
                    cd $T
                    exec unshare --mount bash -euc '
                        mkdir $T/dev
                        mount -t tmpfs tmpfs $T/dev
                        for node in null zero full random urandom; do
                            : >$T/dev/$node
                            mount --bind /dev/$node $T/dev/$node
                        done
                        mount --move $T/dev /dev
                        exec \(Programs.pailfs) mount \(world.bucket.url) $M -o \(world.options([]))'
                    """)
                expectRefusal(outcome, naming: ["/dev/fuse"], in: world)
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func wrongUseOfTheCommandIsExplained() async throws {
            try await withStore { world, _ in
                for arguments in [[], ["mount"], ["mount", world.bucket.url], ["no-such-command"]] {
                    let outcome = try await world.pailfs(arguments)
                    #expect(outcome.status != 0 && outcome.status < 128, "pailfs \(arguments): \(outcome)")
                    #expect(!outcome.missedDeadline)
                }
                let unmounted = try await world.pailfs(["unmount", world.mountpoint])
                #expect(unmounted.status != 0)
                expectSentence(unmounted.errors, naming: [world.mountpoint])
            }
        }

        private func expectRefusal(_ outcome: Outcome, naming words: [String], in world: World) {
            #expect(!outcome.missedDeadline)
            #expect(outcome.status != 0 && outcome.status < 128, "\(outcome)")
            expectSentence(outcome.errors, naming: words)
            #expect(!world.isMounted)
            #expect(world.scratch.processes(running: Programs.pailfs).isEmpty, "nothing is left running")
        }

        private func expectSentence(_ text: String, naming words: [String]) {
            let lines = text.split(separator: "\n")
            #expect(lines.count == 1, "one sentence: \(text)")
            for word in words { #expect(text.contains(word), "names \(word): \(text)") }
        }
    }
}
