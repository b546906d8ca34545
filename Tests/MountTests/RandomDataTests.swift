import Foundation
import TestSupport
import Testing

private let isLong = ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] != nil

extension RealMounts {
    /// Reads, writes, mappings, truncations, holes and copies of one file at random (programs/data.py).
    @Suite struct RandomData {
        @Test(.rule("write.any", "mmap", "truncate", "fallocate"), .timeLimit(.minutes(isLong ? 180 : 3)))
        func aSmallFileHoldsWhatWasWritten() async throws {
            try await withMount("part-size=5MiB") { world, _ in
                try await Self.run("\(isLong ? "--operations 1000000" : "--operations 2000 --seed 1")", in: world)
            }
        }

        @Test(.rule("write.any", "mmap"), .timeLimit(.minutes(5)))
        func aSmallFileHoldsWhatWasWrittenWhenClosesDoNotWaitForTheBucket() async throws {
            try await withMount("durable=local") { world, _ in
                try await Self.run("--operations \(isLong ? 50_000 : 1500) --commits 20", in: world)
            }
        }

        @Test(.timeLimit(.minutes(isLong ? 180 : 3)))
        func aFileOfManyPartsHoldsWhatWasWritten() async throws {
            try await withMount("part-size=5MiB") { world, _ in
                let size = isLong ? 100 << 20 : 25_000_000
                try await Self.run(
                    """
                    \(isLong ? "--operations 20000" : "--operations 300 --seed 2") --size \(size) \
                    --start \(size * 18 / 25) --longest 3000000 --commits 5
                    """, in: world)
            }
        }

        /// The program prints its seed first and, of a difference, the shortest sequence that shows it.
        private static func run(_ arguments: String, in world: World) async throws {
            let program = Programs.helper("data.py")
            try await world.sh(
                "\"$PYTHON\" '\(program)' $M/file \(arguments)", deadline: isLong ? .seconds(170 * 60) : .seconds(170))
        }
    }
}
