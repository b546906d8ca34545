import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// Arguments and limits that a program or its shell has set, and what a terminal shows.
    @Suite struct Limits {
        @Test(.timeLimit(.minutes(5)))
        func theNameOfAnAttributeIsMoreThanItsPrefix() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import errno, os
                    open("file", "w").close()
                    for act in (lambda: os.setxattr("file", "user.", b"x"), lambda: os.getxattr("file", "user."),
                                lambda: os.removexattr("file", "user.")):
                        try: act()
                        except OSError as error: assert error.errno == errno.EINVAL, error
                        else: raise AssertionError("the name user. was taken")
                    """)
            }
        }

        /// SIGXFSZ would end the worker; the bytes have no room, as on a disk that is full.
        @Test(.timeLimit(.minutes(5)))
        func aMountStartedWithALimitOfFileSizesKeepsServing() async throws {
            try await withStore { world, _ in
                world.expectsErrorsInLog = true
                let outcome = try await world.attempt(
                    """
                    cd $T
                    (ulimit -f 20000; exec \(Programs.pailfs) mount \(world.bucket.url) $M \
                        -o \(world.options(["timeout=3", "part-size=64MiB"])))
                    worker() { pgrep -P $(\(Programs.pailfs) status --json $M | sed 's/.*"pid" *: *\\([0-9]*\\).*/\\1/;t;d' | head -1); }
                    before=$(worker)
                    if dd if=/dev/zero of=$M/big bs=1M count=40 status=none 2>error; then echo written; fi
                    cat error >&2
                    printf x >$M/small; cat $M/small; echo
                    test "$(worker)" = "$before"
                    exec \(Programs.pailfs) unmount $M
                    """)
                #expect(outcome.output == "x\n", "\(outcome)")
                #expect(outcome.errors.contains("No space left on device"), "\(outcome)")
            }
        }

        private static let terminal = """
            import os, pty, select, sys, time
            def start(*arguments):
                child, terminal = pty.fork()
                if child == 0: os.execve(arguments[0], arguments, {**os.environ, "TERM": "xterm"})
                return child, terminal
            def read(terminal, until=None):
                seen, end = b"", time.monotonic() + 60
                while until is None or until not in seen:
                    if time.monotonic() > end: sys.exit(f"no {until}: {seen[-2000:]}")
                    if not select.select([terminal], [], [], 10)[0]: continue
                    try: piece = os.read(terminal, 65536)
                    except OSError: break  # the terminal's other end is closed
                    if not piece: break
                    seen += piece
                return seen

            """

        @Test(.timeLimit(.minutes(5)))
        func theKeyQEndsAStatusThatIsWatched() async throws {
            try await withMount { world, _ in
                try await world.python(
                    Self.terminal + """
                        child, terminal = start("\(Programs.pailfs)", "status", "--watch", "\(world.mountpoint)")
                        read(terminal, b"s3://pail on ")
                        os.write(terminal, b"xq")
                        read(terminal)
                        assert os.waitpid(child, 0)[1] == 0
                        """)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func warmShowsATotalABarAndTheTimeLeft() async throws {
            try await withMount { world, store in
                try await world.sh("for n in 1 2 3; do head -c 4000000 /dev/urandom >file$n; done")
                try await world.unmount()
                try await world.mount(cache: "another")
                try await store.setFaults("op=GetObject,kind=bandwidth:1500000")
                let seen = try await world.python(
                    Self.terminal + """
                        child, terminal = start("\(Programs.pailfs)", "warm", "-j", "1", "\(world.mountpoint)")
                        seen = read(terminal)
                        assert os.waitpid(child, 0)[1] == 0, seen
                        sys.stdout.buffer.write(seen)
                        """)
                try await store.setFaults()
                #expect(
                    seen.contains(#/█+░+ +[0-9]+%  [0-3] of 3 files, [0-9.]+MiB of 11.4MiB, [0-9]+s left/#),
                    "\(seen)")
                #expect(seen.contains("3 files, 11.4MiB"), "\(seen)")
            }
        }
    }
}
