import Foundation
import TestSupport
import Testing

private let isLong = ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] != nil

extension RealMounts {
    /// What programs do to a tree, at random, beside the same in a directory of the local disk, compared after every act:
    /// with somebody else at work in the bucket, new mounts, other machines and deaths of the process that serves the mount
    /// (programs/model.py).
    @Suite struct RandomTree {
        @Test(.rule("visible.own"), .timeLimit(.minutes(isLong ? 300 : 5)))
        func aTreeLooksAsOnALocalDisk() async throws {
            try await Self.run("durable=remote", isLong ? "--operations 5000 --runs 200" : "--operations 1500 --seed 1")
        }

        @Test(.timeLimit(.minutes(isLong ? 60 : 5)))
        func aTreeLooksAsOnALocalDiskWhenClosesDoNotWaitForTheBucket() async throws {
            try await Self.run("durable=local", isLong ? "--operations 5000 --runs 20" : "--operations 1000 --seed 2")
        }

        /// Where the process dies, all processes of the mount do, and a keeper has it.
        @Test(.rule("crash.keeper"), .timeLimit(.minutes(isLong ? 60 : 5)), arguments: ["remote", "local"])
        func aTreeLooksAsOnALocalDiskWhenAllProcessesOfTheMountDie(_ durable: String) async throws {
            try await Self.run(
                "durable=\(durable)", keeper: true, isLong ? "--operations 5000 --runs 20" : "--operations 600 --seed 4"
            )
        }

        /// The state directory is elsewhere. What only the cache keeps, times of directories among it, is learnt anew.
        @Test(.rule("space.deleted"), .timeLimit(.minutes(isLong ? 60 : 5)), arguments: ["remote", "local"])
        func aTreeLooksAsOnALocalDiskWhileItsCacheIsDeleted(_ durable: String) async throws {
            try await Self.run(
                "durable=\(durable),attrs=exact", state: true,
                "--delete-cache " + (isLong ? "--operations 5000 --runs 20" : "--operations 800 --seed 3"))
        }

        /// The program mounts by itself; it prints its seed first and, of a difference, the shortest sequence that shows it.
        private static func run(
            _ durable: String, state: Bool = false, keeper: Bool = false, _ arguments: String
        ) async throws {
            try await withStore { world, _ in
                let options =
                    [durable] + (state ? ["state-dir=\(world.scratch.path("state"))"] : [])
                    + (keeper ? ["keeper=\(world.scratch.path("keeper"))"] : [])
                let outcome = try await world.attempt(
                    """
                    cd $T
                    PAILFS_BIN='\(Programs.pailfs)' "$PYTHON" '\(Programs.helper("model.py"))' $M $T/model \
                    '\(world.bucket.url)' '\(world.options(options))' \(arguments)
                    """, deadline: .seconds(isLong ? 290 * 60 : 280))
                if !outcome.succeeded, world.isMounted {
                    _ = try? await world.pailfs(["unmount", world.mountpoint])
                }
                #expect(outcome.succeeded, "\(outcome.output)\(outcome.errors)")
            }
        }
    }
}
