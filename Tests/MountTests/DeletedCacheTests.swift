import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// People, and programs that clean up, delete caches while they are used.
    @Suite struct DeletedCaches {
        /// What is deleted every second, in bash; the state is not among it.
        private static let deletions = [
            (["state-dir=$T/state", "durable=remote"], "rm -rf $T/cache"),
            (["state-dir=$T/state", "durable=local"], "rm -rf $T/cache"),
            (["durable=remote"], "rm -rf $T/cache/*/meta.db* $T/cache/*/blocks*"),
            (
                ["durable=local"],
                "rm -f $T/cache/*/meta.db; rm -f $T/cache/*/blocks/*; sleep 1; rm -f $T/cache/*/blocks.db-wal"
            ),
        ]

        private static let programs = """
            import os, time
            def put(name, byte, count):
                with open(name, "wb") as file: file.write(byte * count)
            def get(name):
                with open(name, "rb") as file: return file.read()
            end = time.monotonic() + 8
            os.mkdir("tree")
            round = 0
            while time.monotonic() < end:
                round += 1
                names = [f"tree/{round}-{n}" for n in range(5)]
                for name in names: put(name, name[-1].encode(), 200000)
                for name in names: assert get(name) == name[-1].encode() * 200000, name
                assert get("old/big") == b"b" * 9000000
                os.rename(names[0], names[0] + "-renamed")
                os.remove(names[1])
                os.truncate(names[2], 5)
                assert get(names[2]) == b"2" * 5
                found = sorted(name for name in os.listdir("tree") if name.startswith(f"{round}-"))
                assert found == [f"{round}-0-renamed", f"{round}-2", f"{round}-3", f"{round}-4"], found
                assert sorted(os.listdir("old")) == ["big"] + [f"small{n}" for n in range(9)]
                for n in range(9): assert get(f"old/small{n}") == b"s" * 10
            print("rounds", round)
            """

        @Test(.rule("space.deleted"), .timeLimit(.minutes(5)), arguments: deletions)
        func programsGoOnWithoutAnError(_ options: [String], _ deletion: String) async throws {
            try await withStore { world, _ in
                try await world.sh(
                    "head -c 9000000 /dev/zero | tr '\\0' b >$T/big; printf ssssssssss >$T/small")
                try await world.outside("put", "old/big", world.scratch.path("big"))
                for number in 0..<9 {
                    try await world.outside("put", "old/small\(number)", world.scratch.path("small"))
                }
                try await world.mount(options.map { $0.replacing("$T", with: world.scratch.directory) } + ["ttl=1"])
                let cleaner = try world.start("cd /; while sleep 1; do \(deletion); done")
                do { try await world.python(Self.programs) } catch {
                    cleaner.send(SIGKILL)
                    throw error
                }
                cleaner.send(SIGKILL)
                _ = await cleaner.wait(deadline: .seconds(20))
                try await world.sh("for n in $(seq 100); do ls $T/cache/*/meta.db && exit; sleep 0.1; done; exit 1")
                try await world.unmount()
                let log = try String(contentsOfFile: world.logPath, encoding: .utf8)
                #expect(log.split(separator: "\n").count { $0.contains(" warning ") } == 1, "\(log)")
                #expect(log.contains("the cache or a part of it was deleted"), "\(log)")
                let listed = try await world.outside("keys", "tree/")
                #expect(listed.contains("tree/1-0-renamed") && !listed.contains("tree/1-1"), "\(listed)")
                #expect(try await world.outside("get", "tree/1-2") == "22222")
            }
        }

        /// The worker that comes after knows every inode number that the kernel has.
        @Test(.rule("space.deleted", "crash.process"), .timeLimit(.minutes(5)))
        func whatIsMadeAnewServesTheNextWorker() async throws {
            try await withStore { world, _ in
                try await world.mount(["state-dir=\(world.scratch.path("state"))"])
                try await world.sh("mkdir -p dir/deep; printf content >dir/deep/file; printf x >dir/other")
                let program = try world.start(
                    """
                    cd dir/deep; exec 3<file 4<>../other
                    touch $T/ready; until [ -e $T/go ]; do sleep 0.1; done
                    test "$(cat <&3)" = content; printf y >&4; cat file; ls
                    """)
                try await world.sh("until [ -e $T/ready ]; do sleep 0.1; done; rm -rf $T/cache")
                try await world.sh("for n in $(seq 100); do ls $T/cache/*/meta.db && exit; sleep 0.1; done; exit 1")
                try await world.killWorker()
                try await world.sh("touch $T/go")
                let outcome = await program.wait(deadline: .seconds(60))
                #expect(outcome.succeeded && outcome.output == "contentfile\n", "\(outcome)")
                try await world.unmount()
                #expect(try await world.outside("get", "dir/other") == "y")
            }
        }

        /// What cannot be had back is named; everything else is stored, and new files too.
        @Test(.rule("space.state"), .timeLimit(.minutes(5)), arguments: [["state-dir=$T/state"], []])
        func aDeletedStateIsMadeAgain(_ options: [String]) async throws {
            try await withStore { world, store in
                world.expectsErrorsInLog = true
                let state = options.isEmpty ? "$T/cache" : "$T/state"
                try await world.mount(
                    options.map { $0.replacing("$T", with: world.scratch.directory) } + [
                        "durable=local", "timeout=2", "uploads=1",
                    ])
                try await store.setFaults("op=PutObject,kind=status:503", "op=CreateMultipartUpload,kind=status:503")
                let writer = try world.start(
                    """
                    exec 3>open; head -c 3000000 /dev/zero >&3
                    touch $T/written; until [ -e $T/go ]; do sleep 0.1; done
                    echo more >&3
                    """)
                try await world.sh(
                    """
                    until [ -e $T/written ]; do sleep 0.1; done
                    for n in 1 2 3 4 5; do head -c 30000 /dev/urandom >$T/$n; cp $T/$n $n; done; printf small >small
                    rm -rf \(state); for n in $(seq 100); do ls \(state)/*/staging && exit; sleep 0.1; done; exit 1
                    """)
                try await world.sh("printf new >new; touch $T/go")
                #expect(await writer.wait(deadline: .seconds(60)).succeeded)
                // One that was being sent is open, and put back.
                let reason = "another program deleted the file in staging"
                let lost = try await world.sh(
                    """
                    sleep 1.5
                    for n in 1 2 3 4 5; do
                        if cat $n >$T/read 2>$T/why; then cmp $T/read $T/$n; continue; fi
                        grep -q 'Input/output error' $T/why
                        getfattr --only-values -n user.pailfs.lasterror $n | grep -q '\(reason)'
                        printf %s $n
                    done
                    """)
                #expect(lost.count >= 3, "\(lost)")
                let status = try await world.pailfs(["status", "--json", world.mountpoint])
                #expect(status.output.contains(reason), "\(status)")
                let log = try String(contentsOfFile: world.logPath, encoding: .utf8)
                #expect(log.contains("the state or a part of it was deleted"), "\(log)")
                for name in lost { #expect(log.contains("key=\(name)"), "\(log)") }
                // The next worker finds what the one before has made again.
                try await world.killWorker()
                try await store.setFaults()
                try await world.sh(
                    "for n in 1 2 3 4 5; do printf again$n >$n; done; test $(cat 1 5 small new) = again1again5smallnew")
                #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                try await world.unmount()
                for (name, content) in [("1", "again1"), ("5", "again5"), ("small", "small"), ("new", "new")] {
                    #expect(try await world.outside("get", name) == content)
                }
                let open = try await world.outside("get", "open")
                #expect(open.utf8.count == 3_000_005 && open.hasSuffix("more\n"), "\(open.utf8.count)")
            }
        }

        /// Files of a mount by an earlier version, which had one directory, in the place of the cache of today.
        @Test(.rule("crash.acknowledged"), .timeLimit(.minutes(5)))
        func aMountTakesOverWhatAnEarlierVersionLeft() async throws {
            try await withStore { world, store in
                world.expectsErrorsInLog = true
                try await world.mount(["durable=local", "timeout=2"], cache: "home/.cache/pailfs")
                try await world.sh("printf known >known; sync -f .; \(Programs.pailfs) flush --wait .")
                try await store.setFaults("op=PutObject,kind=status:503")
                try await world.sh("head -c 300000 /dev/zero >file; printf small >small")
                world.killMount()
                try await world.unmount()
                try await store.setFaults()
                let options = world.options(["durable=local"]).split(separator: ",").filter {
                    !$0.hasPrefix("cache-dir=")
                }
                .joined(separator: ",")
                let listed = try await world.pailfs(["cache", "info", world.bucket.url, "-o", options])
                #expect(listed.output.contains("not stored  2 files"), "\(listed)")
                let mount = try await world.pailfs(["mount", world.bucket.url, world.mountpoint, "-o", options])
                #expect(mount.succeeded && mount.errors == "", "\(mount)")
                try await world.sh("cmp file <(head -c 300000 /dev/zero); test $(cat small known) = smallknown")
                #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                #expect(try await world.outside("get", "small") == "small")
                let info = try await world.pailfs(["cache", "info", world.mountpoint])
                #expect(
                    info.output.contains("state       \(world.scratch.path("home/.local/state/pailfs/"))"), "\(info)")
                try await world.sh(
                    """
                    cd $T/home; ls .cache/pailfs/*/meta.db .cache/pailfs/*/blocks.db .local/state/pailfs/*/journal.db
                    ! ls .cache/pailfs/*/journal.db .local/state/pailfs/*/meta.db 2>/dev/null
                    """)
                #expect(try await world.pailfs(["unmount", world.mountpoint]).succeeded)
            }
        }
    }
}
