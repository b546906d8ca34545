import Foundation
import Testing

extension RealMounts {
    /// What cannot be mounted is refused with one sentence that names the thing and the remedy, and leaves nothing.
    @Suite struct BadInput {
        @Test(.timeLimit(.minutes(5)))
        func aMountpointInUseIsNamed() async throws {
            try await withMount { world, _ in
                let outcome = try await world.pailfs(
                    ["mount", world.bucket.url, world.mountpoint, "-o", world.options([], cache: "another")])
                #expect(outcome.status != 0)
                expectSentence(outcome.errors, naming: [world.mountpoint])
                try await world.sh("ls; printf x >still-works")
            }
        }

        @Test(.timeLimit(.minutes(5)))
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

        /// Reading goes, so it is mounted; but who writes must not find out by ENOSPC alone.
        @Test(.timeLimit(.minutes(5)))
        func aDiskWithLessThanIsToStayFreeIsNamed() async throws {
            try await withMount { world, _ in
                let second = try world.scratch.makeDirectory("second")
                nonisolated(nonsending) func mount(_ option: String) async throws -> Outcome {
                    let options = world.options(["free-space=1PiB"] + [option], cache: "another")
                    let outcome = try await world.pailfs(["mount", world.bucket.url, second, "-o", options])
                    #expect(outcome.succeeded && World.isMounted(second), "\(outcome)")
                    return outcome
                }
                expectSentence(
                    try await mount("ttl=1").errors, naming: ["writes can fail with ENOSPC", "free-space", "cache-dir"])
                let refused = try await world.attempt("printf x >$T/second/file")
                #expect(refused.errors.contains("No space left"), "\(refused)")
                #expect(try await world.pailfs(["unmount", second]).succeeded)
                #expect(try await mount("ro").errors.isEmpty)
                #expect(try await world.pailfs(["unmount", second]).succeeded)
            }
        }

        @Test(.timeLimit(.minutes(5)))
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

        private func expectSentence(_ text: String, naming words: [String]) {
            let lines = text.split(separator: "\n")
            #expect(lines.count == 1, "one sentence: \(text)")
            for word in words { #expect(text.contains(word), "names \(word): \(text)") }
        }
    }
}
