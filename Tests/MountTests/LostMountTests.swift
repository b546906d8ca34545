import Foundation
import Glibc
import TestSupport
import Testing

extension RealMountsAlone {
    /// A mount whose process is healthy and cannot be found from where a command runs: no command calls it dead.
    @Suite struct LostMounts {
        /// A mount that nothing can be asked of ends by itself.
        private func waitForEnd(_ world: World) async {
            let hasEnded = await poll(for: .seconds(20)) { [scratch = world.scratch] in
                scratch.processes(running: Programs.pailfs).isEmpty ? true : nil
            }
            #expect(hasEnded == true)
        }

        private func expectNothingDead(_ outcomes: String, _ text: String = "cannot be found from here") {
            #expect(!outcomes.contains("is gone") && !outcomes.contains("another user"), "\(outcomes)")
            let others = outcomes.split(separator: "\n").filter { $0.contains("pailfs: ") && !$0.contains(text) }
            #expect(others.isEmpty, "\(outcomes)")
        }

        private static let commands = [
            "status", "flush --wait", "restart", "cache info", "explain", "refresh", "unmount",
        ]

        @Test(.enabled(if: Machine.isRoot, "needs root"), .timeLimit(.minutes(5)), arguments: commands)
        func aMountOfAnotherSessionIsNotCalledDead(_ command: String) async throws {
            try await withStore { world, store in
                world.expectsErrorsInLog = true
                let outcome = try await world.attempt(
                    """
                    cd $T; chmod 755 $T; mkdir -p theirs/mnt theirs/run; chown -R 65534 theirs; chmod 700 theirs/run
                    as() { setpriv --reuid=65534 --clear-groups env HOME=$T/theirs "$@"; }
                    as XDG_RUNTIME_DIR=$T/theirs/run \(Programs.pailfs) mount \(world.bucket.url) $T/theirs/mnt \
                        -o endpoint=\(store.endpoint),path-style,cache-dir=$T/theirs/cache
                    as -u XDG_RUNTIME_DIR \(Programs.pailfs) \(command) $T/theirs/mnt && echo succeeded
                    as sh -c "printf x >$T/theirs/mnt/file" && echo served
                    as XDG_RUNTIME_DIR=$T/theirs/run \(Programs.pailfs) unmount $T/theirs/mnt && echo unmounted
                    true
                    """)
                await waitForEnd(world)
                expectNothingDead(outcome.errors)
                #expect(!outcome.output.contains("succeeded"), "\(outcome)")
                if command != "unmount" { #expect(outcome.output == "served\nunmounted\n", "\(outcome)") }
            }
        }

        @Test(.enabled(if: Machine.isRoot, "needs root"), .timeLimit(.minutes(5)), arguments: commands)
        func aMovedMountIsNotCalledDead(_ command: String) async throws {
            try await withStore { world, store in
                world.expectsErrorsInLog = true
                let outcome = try await world.attempt(
                    """
                    cd $T; mkdir -p base elsewhere
                    exec unshare -m --propagation private bash -euc '
                        mount -t tmpfs none base; mkdir base/mnt
                        \(Programs.pailfs) mount \(world.bucket.url) base/mnt \
                            -o endpoint=\(store.endpoint),path-style,cache-dir=$T/other
                        mount --move base/mnt elsewhere
                        \(Programs.pailfs) \(command) elsewhere && echo succeeded
                        if mountpoint -q elsewhere; then printf x >elsewhere/file && echo served; umount elsewhere; fi
                        true'
                    """)
                await waitForEnd(world)
                expectNothingDead(outcome.errors)
                #expect(!outcome.output.contains("succeeded"), "\(outcome)")
                if command != "unmount" { #expect(outcome.output == "served\n", "\(outcome)") }
            }
        }
    }
}
