import Foundation
import Glibc
import TestSupport
import Testing

extension RealMountsAlone {
    /// A signal ends a mount when no program uses it: under one that is detached earlier, programs that go on by path write into
    /// the directory below.
    @Suite struct MountsInUse {
        /// Appends to `file` by its path until `$T/enough` is there.
        private func startWriter(_ world: World) async throws -> Child {
            let writer = try world.start(
                ": >$T/started; while [ ! -e $T/enough ]; do printf x >>file; sleep 0.05; done; printf done >>file")
            let hasStarted = await poll(for: .seconds(20)) { [scratch = world.scratch] in
                scratch.has("started") ? true : nil
            }
            try #require(hasStarted == true)
            return writer
        }

        private func below(_ world: World) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: world.mountpoint)
        }

        @Test(.rule("away.end"), .timeLimit(.minutes(5)))
        func aMountInUseIsServedUntilItsProgramsHaveEnded() async throws {
            try await withMount { world, _ in
                let writer = try await startWriter(world)
                let daemon = try #require(world.daemon)
                kill(daemon, SIGTERM)
                try await Task.sleep(for: .seconds(3))
                #expect(world.isMounted && World.isRunning(daemon))
                _ = FileManager.default.createFile(atPath: world.scratch.path("enough"), contents: nil)
                #expect(await writer.wait(deadline: .seconds(20)).succeeded)
                try await world.daemonEnds(within: .seconds(20))
                #expect(try below(world).isEmpty)
                #expect(try await world.outside("get", "file").hasSuffix("xdone"))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aMountInUseEndsAtOnceWhenItIsAskedAgain() async throws {
            try await withMount("term-wait=1h") { world, _ in
                let writer = try world.start("exec 3>file; printf x >&3; : >$T/started; exec sleep 60")
                let hasStarted = await poll(for: .seconds(20)) { [scratch = world.scratch] in
                    scratch.has("started") ? true : nil
                }
                try #require(hasStarted == true)
                let daemon = try #require(world.daemon)
                kill(daemon, SIGTERM)
                try await Task.sleep(for: .milliseconds(1500))
                #expect(world.isMounted)
                kill(daemon, SIGTERM)
                try await world.daemonEnds(within: .seconds(20))
                writer.send(SIGKILL)
                _ = await writer.wait(deadline: .seconds(10))
                #expect(try await world.outside("get", "file") == "x")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aMountInUseIsUnmountedLazilyOnly() async throws {
            try await withMount { world, _ in
                let user = try world.start(": >$T/started; exec sleep 60")
                let hasStarted = await poll(for: .seconds(20)) { [scratch = world.scratch] in
                    scratch.has("started") ? true : nil
                }
                try #require(hasStarted == true)
                let refused = try await world.pailfs(["unmount", world.mountpoint])
                #expect(refused.status == 1 && refused.errors.contains("in use"), "\(refused)")
                let outcome = try await world.pailfs(["unmount", "--lazy", world.mountpoint])
                #expect(outcome.succeeded, "\(outcome)")
                try await world.daemonEnds(within: .seconds(1))
                user.send(SIGKILL)
                _ = await user.wait(deadline: .seconds(10))
            }
        }

        /// As scripts do: the former process still stores.
        @Test(.timeLimit(.minutes(5)))
        func aMountMadeRightAfterAnUnmountWaitsForTheFormerProcess() async throws {
            try await withMount("durable=local") { world, store in
                try await store.setFaults("op=PutObject,kind=latency:6s")
                try await world.sh("printf x >file; cd /; fusermount3 -u \(world.mountpoint)")
                let cache = try #require(
                    try FileManager.default.contentsOfDirectory(atPath: world.scratch.path("cache")).first)
                let info = try await world.pailfs(["cache", "info", world.scratch.path("cache/\(cache)")])
                #expect(info.output.contains("no more; process"), "\(info)")
                #expect(info.output.contains("not stored  1 file\n"), "\(info)")
                let outcome = try await world.pailfs(
                    ["mount", world.bucket.url, world.mountpoint, "-o", world.options([])])
                #expect(outcome.succeeded && outcome.errors.contains("waiting for process"), "\(outcome)")
                try await store.setFaults()
                #expect(try await world.sh("cat file") == "x")
                let end = try await world.pailfs(["unmount", world.mountpoint])
                #expect(end.succeeded, "\(end)")
                try await world.daemonEnds(within: .seconds(10))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func ofTwoMountsAtTheSameMomentOnOneDirectoryOneIsRefused() async throws {
            try await withStore { world, _ in
                world.expectsErrorsInLog = true
                for round in 1...3 {
                    let outcomes = try await world.attempt(
                        """
                        cd $T
                        one() { \(Programs.pailfs) mount \(world.bucket.url) $M -o \(world.options([], cache: "$1")) || echo refused; }
                        one a\(round) & one b\(round) & wait
                        grep -c " $M fuse.pailfs " /proc/mounts
                        \(Programs.pailfs) unmount $M
                        """)
                    #expect(outcomes.succeeded && outcomes.output == "refused\n1\n", "\(outcomes)")
                    #expect(outcomes.errors.contains("is already a mountpoint"), "\(outcomes)")
                }
            }
        }
    }

    /// Mounts that are started and looked after as services and other users do.
    @Suite struct MountsOfOthers {
        @Test(.timeLimit(.minutes(5)), arguments: [">&- 2>&-", "<&- >&- 2>&-", "<&-"])
        func aMountStartedWithClosedDescriptorsEndsLikeAnother(_ closing: String) async throws {
            try await withStore { world, _ in
                let outcome = try await world.attempt(
                    """
                    cd $T
                    \(Programs.pailfs) mount \(world.bucket.url) $M -o \(world.options([])) \(closing)
                    printf x >$M/file
                    exec \(Programs.pailfs) unmount $M
                    """)
                #expect(outcome.succeeded, "\(outcome)")
                #expect(try await world.outside("get", "file") == "x")
            }
        }

        /// Which limit lets the command run and not the mount depends on the build.
        @Test(.timeLimit(.minutes(5)))
        func aMountThatLacksMemorySaysSo() async throws {
            try await withStore { world, _ in
                world.expectsErrorsInLog = true
                let outcome = try await world.attempt(
                    """
                    cd $T
                    for limit in 100000 150000 200000 250000 300000; do
                        (ulimit -v $limit; \(Programs.pailfs) mount \(world.bucket.url) $M -o \(world.options([]))) 2>error || true
                        if grep 'ulimit -v' error; then break; fi
                        \(Programs.pailfs) unmount $M || true
                    done
                    """)
                #expect(outcome.output.contains("of memory; raise that limit (ulimit -v)"), "\(outcome)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aMountOverFilesSaysSo() async throws {
            try await withStore { world, _ in
                let outcome = try await world.attempt(
                    """
                    cd $T; : >$M/hidden
                    \(Programs.pailfs) mount \(world.bucket.url) $M -o \(world.options([]))
                    \(Programs.pailfs) unmount $M; rm $M/hidden
                    """)
                #expect(outcome.succeeded, "\(outcome)")
                #expect(outcome.errors.hasPrefix("pailfs: warning: "), "\(outcome)")
                #expect(outcome.errors.contains("is not empty"), "\(outcome)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func mountOfRemountChangesWhatCanChange() async throws {
            try await withMount { world, _ in
                let link = "PATH=$T/bin:$PATH; mkdir -p $T/bin; ln -sf \(Programs.pailfs) $T/bin/mount.pailfs; cd $T"
                let same = try await world.attempt(
                    "\(link); mount.pailfs \(world.bucket.url) $M -o remount,rw,nosuid,user_id=0,ttl=7s")
                #expect(same.succeeded, "\(same)")
                #expect(try await world.pailfs(["status", world.mountpoint]).output.contains("ttl=7s"))
                let refused = try await world.attempt("\(link); mount.pailfs \(world.bucket.url) $M -o remount,ro")
                #expect(refused.status == 1 && refused.errors.contains("mount it again with ro"), "\(refused)")
            }
        }

        /// Root's commands find the record and the process of the user that mounted.
        @Test(.enabled(if: Machine.isRoot, "needs root"), .timeLimit(.minutes(5)))
        func rootUnmountsAndLooksAtTheMountOfAnotherUser() async throws {
            try await withStore { world, store in
                world.expectsErrorsInLog = true
                let outcome = try await world.attempt(
                    """
                    cd $T; chmod 755 $T; mkdir -p theirs/mnt; chown -R 65534 theirs
                    as() { setpriv --reuid=65534 --clear-groups env -u XDG_RUNTIME_DIR HOME=$T/theirs "$@"; }
                    as \(Programs.pailfs) mount \(world.bucket.url) $T/theirs/mnt \
                        -o endpoint=\(store.endpoint),path-style,cache-dir=$T/theirs/cache,durable=local
                    \(Programs.pailfs) cache info $T/theirs/cache/*
                    """)
                #expect(outcome.succeeded, "\(outcome)")
                #expect(outcome.output.contains("mounted     \(world.bucket.url) on"), "\(outcome)")
                let place = world.scratch.path("theirs/mnt")
                let pid = outcome.output.firstMatch(of: /process ([0-9]+)/).map { String($0.output.1) } ?? "unknown"
                let owner = try FileManager.default.attributesOfItem(atPath: "/proc/\(pid)/environ")
                #expect(owner[.ownerAccountID] as? Int == 0, "a crash of it would write its secrets")
                try await store.setFaults("op=PutObject,kind=latency:2s")
                let written = try await world.attempt(
                    "cd /; setpriv --reuid=65534 --clear-groups sh -c 'printf x >$T/theirs/mnt/file'")
                #expect(written.succeeded, "\(written)")
                let end = try await world.pailfs(["unmount", place])
                try await store.setFaults()
                #expect(end.succeeded, "\(end)")
                #expect(!World.isMounted(place))
                #expect(try await world.outside("get", "file") == "x")
            }
        }

        @Test(.enabled(if: Machine.isRoot, "needs root"), .timeLimit(.minutes(5)))
        func aForeignDirectoryOfRecordsKeepsNoUserFromMounting() async throws {
            try await withStore { world, store in
                let outcome = try await world.attempt(
                    """
                    cd $T; chmod 755 $T; mkdir -p theirs/mnt; chown -R 1 theirs
                    foreign=/tmp/pailfs-1; test ! -e $foreign; mkdir $foreign; chown 65534 $foreign
                    trap 'rm -r $foreign' EXIT
                    as() { setpriv --reuid=1 --clear-groups env -u XDG_RUNTIME_DIR HOME=$T/theirs "$@"; }
                    as \(Programs.pailfs) mount \(world.bucket.url) $T/theirs/mnt \
                        -o endpoint=\(store.endpoint),path-style,cache-dir=$T/theirs/cache
                    as \(Programs.pailfs) status $T/theirs/mnt
                    as \(Programs.pailfs) unmount $T/theirs/mnt
                    """)
                #expect(outcome.succeeded && outcome.output.contains("all stored"), "\(outcome)")
            }
        }
    }
}
