import Foundation
import TestSupport
import Testing

extension RealMountsAlone {
    /// Mounts that root has made, and whose connection pailfs serves as another user: without capabilities, /dev/fuse and
    /// fusermount3, and, as in a pod, without the mount in its mount namespace.
    @Suite(.enabled(if: Machine.isRoot, "mounting for another program takes root"))
    struct HandedMounts {
        private static let user = 1234

        /// Shell functions: `handed` runs programs/handed.py, `theirs` runs a command as the user that serves, `serve` has that
        /// user serve the mount on $M with the options of mount(2) in $1, in the background, and `ended` waits for its end.
        private static func prelude(_ world: World) -> String {
            """
            cd $T; chmod 755 $T; mkdir -p theirs/run; chown -R \(user) theirs; chmod 700 theirs/run
            export HOME=$T/home XDG_RUNTIME_DIR=$T/theirs/run
            handed() { "$PYTHON" '\(Programs.helper("handed.py"))' "$@"; }
            theirs() { setpriv --reuid=\(user) --regid=\(user) --clear-groups "$@"; }
            pailfs=\(Programs.pailfs) url=\(world.bucket.url) options='\(options(world))'
            serve() { handed run $M "$1" \(user) $pailfs mount $url /dev/fd/3 -f -o $options,$2 2>$T/said & served=$!; answers; }
            answers() { until mountpoint -q $M; do sleep 0.01; done; stat $M >/dev/null; }
            as() { setpriv --reuid=$1 --clear-groups "${@:2}"; }

            """
        }

        private static func options(_ world: World) -> String {
            (["endpoint=\(world.bucket.endpoint)", "cache-dir=\(world.scratch.path("theirs/cache"))"]
                + world.bucket.options)
                .joined(separator: ",")
        }

        private func waitForEnd(_ world: World) async {
            let hasEnded = await poll(for: .seconds(30)) { [scratch = world.scratch] in
                scratch.processes(running: Programs.pailfs).isEmpty ? true : nil
            }
            #expect(hasEnded == true)
        }

        @Test(.timeLimit(.minutes(5)), arguments: ["durable=remote", "durable=local", "restart=no"])
        func anUnmountByTheOwnerStoresEverythingAndEndsWithStatusZero(_ option: String) async throws {
            try await withStore { world, _ in
                try await world.sh(
                    Self.prelude(world) + """
                        serve allow_other \(option)
                        printf first >$M/first; mkdir $M/below; seq 100000 >$M/below/second
                        test "$(cat $M/first)" = first
                        umount $M
                        wait $served
                        cat said >&2
                        """)
                #expect(try await world.outside("get", "first") == "first")
                #expect(try await world.outside("get", "below/second").hasSuffix("\n100000\n"))
                await waitForEnd(world)
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: ["restart=yes", "restart=no"])
        func inTheBackgroundTheCommandReturnsOnceTheMountIsServed(_ option: String) async throws {
            try await withStore { world, _ in
                try await world.sh(
                    Self.prelude(world) + """
                        handed run $M allow_other \(Self.user) $pailfs mount $url /dev/fd/3 -o $options,\(option)
                        printf text >$M/file
                        umount $M
                        """)
                await waitForEnd(world)
                #expect(try await world.outside("get", "file") == "text")
            }
        }

        /// The options of the mount, and whether pailfs can see them.
        @Test(
            .timeLimit(.minutes(5)), .rule("permission"),
            arguments: ["allow_other", "allow_other,default_permissions"], ["", "visible"])
        func permissionsAreCheckedWhateverTheOptionsOfTheMount(_ mountOptions: String, _ sight: String) async throws {
            try await withStore { world, _ in
                try await world.sh(
                    Self.prelude(world) + """
                        handed run $M \(mountOptions) \(Self.user) \(sight) $pailfs mount $url /dev/fd/3 -o $options
                        printf secret >$M/own; chmod 600 $M/own; chown 1001 $M/own
                        printf open >$M/all; chmod 644 $M/all
                        check() {
                            refuses as 1002 cat $M/own
                            refuses as 1002 sh -c ": >$M/all"
                            refuses as 1002 touch $M/another
                            test "$(as 1001 cat $M/own)" = secret
                            test "$(as 1002 cat $M/all)" = open
                        }
                        check
                        """)
                // The worker that goes on has agreed on the same with the kernel.
                let killed = try #require(world.scratch.processes(running: Programs.pailfs).max())
                kill(killed, SIGKILL)
                try await world.sh(
                    Self.prelude(world) + """
                        check() { refuses as 1002 cat $M/own; test "$(as 1001 cat $M/own)" = secret; }
                        check
                        umount $M
                        """)
                await waitForEnd(world)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func anotherWorkerGoesOnAfterADeath() async throws {
            try await withStore { world, _ in
                try await world.sh(
                    Self.prelude(world) + """
                        serve allow_other durable=local
                        holder() { pgrep -u \(Self.user) -fx ".*pailfs mount $url /dev/fd/3 .*"; }
                        exec 5>$M/file; printf before >&5
                        kill -9 $(pgrep -P $(holder))
                        printf after >&5; exec 5>&-
                        test "$(cat $M/file)" = beforeafter
                        umount $M
                        wait $served
                        """)
                #expect(try await world.outside("get", "file") == "beforeafter")
                await waitForEnd(world)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func commandsFindTheMountByItsName() async throws {
            try await withStore { world, _ in
                let said = try await world.sh(
                    Self.prelude(world) + """
                        serve allow_other durable=local
                        printf text >$M/file
                        theirs $pailfs status
                        theirs $pailfs flush --wait /dev/fd/3
                        theirs $pailfs set /dev/fd/3 uploads=7
                        theirs $pailfs restart /dev/fd/3
                        theirs $pailfs status --json /dev/fd/3 | grep -o '"mountpoint" *: *"[^"]*"\\|"uploads=7"'
                        theirs $pailfs cache info $T/theirs/cache/* >/dev/null
                        refuses theirs $pailfs unmount /dev/fd/3
                        theirs $pailfs unmount /dev/fd/3 2>&1 || true
                        refuses theirs $pailfs status /dev/fd/4
                        test "$(cat $M/file)" = text
                        umount $M
                        wait $served
                        """)
                #expect(said.contains("\(world.bucket.url) on /dev/fd/3\n"))
                #expect(said.contains(", mounted by another process"))
                #expect(said.contains("/dev/fd/3\"\n"))
                #expect(said.contains("\"uploads=7\""))
                #expect(said.contains("which has to unmount it"))
                await waitForEnd(world)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func probesAnswerByTheirExitStatus() async throws {
            try await withStore { world, _ in
                let said = try await world.sh(
                    Self.prelude(world) + """
                        probe() { theirs $pailfs status $1 && echo $1 0 || echo $1 1; }
                        (probe --ready; probe --live) 2>/dev/null
                        serve allow_other durable=local
                        probe --ready; probe --live; probe "--ready /dev/fd/3"; probe "--live /dev/fd/3"
                        holder=$(pgrep -u \(Self.user) -fx ".*pailfs mount $url /dev/fd/3 .*")
                        worker=$(pgrep -P $holder)
                        kill -STOP $worker
                        (probe --ready; probe --live) 2>/dev/null
                        kill -CONT $worker
                        umount $M
                        wait $served
                        (probe --ready; probe --live) 2>/dev/null
                        """)
                #expect(
                    said == """
                        --ready 1
                        --live 1
                        --ready 0
                        --live 0
                        --ready /dev/fd/3 0
                        --live /dev/fd/3 0
                        --ready 1
                        --live 0
                        --ready 1
                        --live 1

                        """)
                await waitForEnd(world)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func afterASignalItIsServedWhileAFileIsOpen() async throws {
            try await withStore { world, _ in
                try await world.sh(
                    Self.prelude(world) + """
                        serve allow_other durable=local
                        exec 5>$M/file; printf before >&5
                        kill $(pgrep -u \(Self.user) -fx ".*pailfs mount $url /dev/fd/3 .*")
                        sleep 3
                        printf after >&5; exec 5>&-
                        wait $served
                        umount $M
                        """)
                #expect(try await world.outside("get", "file") == "beforeafter")
                await waitForEnd(world)
            }
        }

        /// The store is away and a program keeps a file open: term-wait bounds the whole end.
        @Test(.timeLimit(.minutes(5)))
        func whatIsNotStoredAtTheEndOfTermWaitStaysForTheNextMount() async throws {
            try await withStore { world, store in
                world.expectsErrorsInLog = true
                let outcome = try await world.attempt(
                    Self.prelude(world) + """
                        serve allow_other durable=local,term-wait=6s
                        exec 4>$M/file 5>$M/open
                        kill -STOP \(store.pid)
                        printf kept >&4; exec 4>&-
                        kill $(pgrep -u \(Self.user) -fx ".*pailfs mount $url /dev/fd/3 .*")
                        wait $served || echo status $?
                        kill -CONT \(store.pid)
                        exec 5>&- || true
                        umount $M
                        grep -a "not stored" said
                        serve allow_other durable=local
                        test "$(cat $M/file)" = kept
                        umount $M
                        wait $served
                        """)
                #expect(outcome.output.contains("status 1") && outcome.output.contains("key=file"), "\(outcome)")
                #expect(try await world.outside("get", "file") == "kept")
                await waitForEnd(world)
            }
        }

        /// Everything but the cache directory is read-only, as with readOnlyRootFilesystem in a pod.
        @Test(.timeLimit(.minutes(5)))
        func aReadOnlyRootFileSystemIsEnough() async throws {
            try await withStore { world, _ in
                try await world.sh(
                    Self.prelude(world) + """
                        unset XDG_RUNTIME_DIR; mkdir theirs/cache
                        export -f handed theirs; export pailfs url options
                        exec unshare --mount --propagation private bash -eu -o pipefail -c '
                            mount -t tmpfs -o mode=700,uid=\(Self.user) none theirs/cache
                            findmnt -rno TARGET | grep -v "^/proc\\|^/sys\\|^/dev\\|theirs/cache$" | while read -r place; do
                                mount -o remount,bind,ro "$place"
                            done
                            ! touch $T/file /tmp/file /run/file 2>/dev/null
                            handed run $M allow_other \(Self.user) $pailfs mount $url /dev/fd/3 -o $options
                            printf text >$M/file
                            theirs env PAILFS_CACHE_DIR=$T/theirs/cache $pailfs status --ready
                            theirs env PAILFS_CACHE_DIR=$T/theirs/cache $pailfs flush --wait /dev/fd/3
                            umount $M'
                        """)
                #expect(try await world.outside("get", "file") == "text")
                await waitForEnd(world)
            }
        }

        /// What descriptor 3 is, and how the message continues.
        @Test(
            .timeLimit(.minutes(5)),
            arguments: [
                ("unmounted", "/dev/fd/3", "belongs to no mount; call mount(2) with it"),
                ("gone", "/dev/fd/3", "belongs to a mount that is gone; mount again"),
                ("served", "/dev/fd/3", "belongs to a mount that another process serves or has served; mount again"),
                ("read", "/dev/fd/3", "belongs to a mount that another process serves or has served; mount again"),
                ("file", "/dev/fd/3", "is not /dev/fuse but a file; hand in"),
                ("file", "/dev/fd/9", "is not open; start pailfs with"),
                ("file", "/dev/fd/nine", "names no descriptor; write /dev/fd/N"),
            ], ["", "-f"])
        func aDescriptorThatCannotBeServedIsAnErrorAtOnce(
            _ row: (what: String, name: String, text: String), _ flag: String
        ) async throws {
            try await withStore { world, _ in
                let outcome = try await world.attempt(
                    Self.prelude(world) + """
                        handed open \(row.what) \(Self.user) $pailfs mount $url \(row.name) \(flag) -o $options
                        """)
                #expect(outcome.status == 1, "\(outcome)")
                #expect(
                    outcome.errors.hasPrefix("pailfs: \(row.name)") && outcome.errors.contains(row.text), "\(outcome)")
                #expect(outcome.errors.split(separator: "\n").count { $0.hasPrefix("pailfs: ") } == 1, "\(outcome)")
                await waitForEnd(world)
            }
        }

        /// A request for another server is not lost when it waits while pailfs looks: the program that sent it gets its answer.
        @Test(.timeLimit(.minutes(5)))
        func aRequestForAnotherServerStaysThere() async throws {
            try await withStore { world, _ in
                let outcome = try await world.attempt(
                    Self.prelude(world) + """
                        (until grep -q " $M " /proc/mounts; do sleep 0.01; done; stat $M >/dev/null 2>&1 || true; echo ended) &
                        handed open waiting \(Self.user) $pailfs mount $url /dev/fd/3 -o $options || echo refused
                        wait
                        """)
                #expect(outcome.errors.contains("another process serves or has served"), "\(outcome)")
                #expect(
                    outcome.output.split(separator: "\n").sorted() == ["answered", "ended", "refused"], "\(outcome)")
            }
        }
    }
}
