import Foundation
import Glibc
import TestSupport
import Testing

extension RealMounts {
    /// A mount outlives the process that serves it: programs that use it notice nothing but a pause.
    @Suite struct Restarts {
        @Test(.rule("crash.process"), .timeLimit(.minutes(5)))
        func openFilesGoOnAfterTheWorkerWasKilled() async throws {
            try await withMount { world, _ in
                try await world.sh("printf 'some words that are long enough' >read; mkdir dir; printf x >dir/one")
                let program = try world.start(
                    """
                    exec 3<read 4>written 5>>appended
                    printf 'before ' >&4; printf 'before ' >&5
                    head -c 5 <&3 >/dev/null
                    chmod 640 written; setfattr -n user.colour -v blue written
                    : >$T/ready
                    until test -e $T/killed; do sleep 0.02; done
                    printf after >&4; printf after >&5
                    test "$(stat -c %a written)" = 640
                    cat <&3 >$T/rest
                    ls dir >$T/listing
                    exec 3<&- 4>&- 5>&-
                    """)
                let isReady = await poll(for: .seconds(60)) { [scratch = world.scratch] in
                    scratch.has("ready") ? true : nil
                }
                try #require(isReady == true)
                try await world.killWorker()
                _ = FileManager.default.createFile(atPath: world.scratch.path("killed"), contents: nil)
                let outcome = await program.wait(deadline: .seconds(60))
                #expect(outcome.succeeded, "\(outcome)")
                try await world.sh("test \"$(getfattr --only-values -n user.colour written)\" = blue")
                #expect(try await world.outside("get", "written") == "before after")
                #expect(try await world.outside("get", "appended") == "before after")
                try await world.sh("test \"$(tail -c +6 read)\" = \"$(cat $T/rest)\"; test \"$(cat $T/listing)\" = one")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aCloneAndItsCheckSucceedWhileWorkersAreKilled() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    cd $T; git config --global user.name Tester; git config --global user.email tester@example.com
                    git config --global --add safe.directory '*'
                    git init -q -b main origin; cd origin
                    for d in $(seq 20); do mkdir $d; for f in $(seq 15); do head -c 3000 /dev/urandom >$d/$f; done; done
                    git add -A; git commit -q -m Everything
                    """)
                try await world.killingWorkers(
                    while: "git clone -q file://$T/origin clone; cd clone; git fsck --strict; git status --porcelain",
                    atLeast: 3)
                try await world.sh(
                    "diff -r --exclude=.git $T/origin clone; test -z \"$(git -C clone status --porcelain)\"")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func fioFindsWhatItWroteWhileWorkersAreKilled() async throws {
            try await withMount { world, _ in
                try await world.killingWorkers(
                    while: """
                        fio --name=verify --directory=. --numjobs=2 --size=16m --rw=randwrite --bsrange=512-64k \
                            --ioengine=psync --fallocate=none --verify=crc32c --verify_fatal=1 --do_verify=1 \
                            --end_fsync=1 --output=$T/fio.txt
                        """, atLeast: 3)
            }
        }

        @Test(.rule("crash.process"), .timeLimit(.minutes(5)))
        func everyChangeHappensOnceWhileWorkersAreKilled() async throws {
            try await withMount { world, _ in
                // Each name is made, moved and removed once; whoever does it twice gets an error.
                try await world.killingWorkers(
                    while: """
                        $PYTHON - <<'PROGRAM'
                        import os
                        for n in range(60):
                            os.mkdir(f"d{n}")
                            descriptor = os.open(f"d{n}/file", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                            os.write(descriptor, b"%d" % n)
                            os.close(descriptor)
                            os.rename(f"d{n}/file", f"d{n}/moved")
                            os.symlink("moved", f"d{n}/link")
                            if n % 3 == 0:
                                os.unlink(f"d{n}/link")
                                os.unlink(f"d{n}/moved")
                                os.rmdir(f"d{n}")
                        PROGRAM
                        """, atLeast: 3)
                try await world.python(
                    """
                    import os
                    assert sorted(os.listdir(".")) == sorted(f"d{n}" for n in range(60) if n % 3), os.listdir(".")
                    for n in range(60):
                        if n % 3:
                            assert sorted(os.listdir(f"d{n}")) == ["link", "moved"], os.listdir(f"d{n}")
                            assert open(f"d{n}/link").read() == str(n)
                    """)
            }
        }

        @Test(.rule("crash.process"), .timeLimit(.minutes(5)))
        func everyByteIsWrittenOnceWhileWorkersAreKilled() async throws {
            try await withMount { world, _ in
                try await world.killingWorkers(
                    while: """
                        $PYTHON - <<'PROGRAM'
                        import os, random
                        random.seed(1)
                        expected = bytearray(6 << 20)
                        lines = 0
                        both = os.open("both", os.O_CREAT | os.O_RDWR)
                        log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
                        for n in range(1500):
                            start = random.randrange(len(expected) - 70000)
                            piece = random.randbytes(random.randrange(1, 70000))
                            assert os.pwrite(both, piece, start) == len(piece)
                            expected[start:start + len(piece)] = piece
                            os.write(log, b"line %d\\n" % n)
                            if n % 100 == 0:
                                size = random.randrange(3 << 20, 6 << 20)
                                os.ftruncate(both, size)
                                expected[size:] = bytes(len(expected) - size)
                            if n % 10 == 0:
                                start = random.randrange(len(expected) - 70000)
                                there = os.pread(both, 70000, start)
                                assert there == expected[start:start + len(there)], (n, start)
                            if n % 400 == 399: os.fsync(both)
                        os.ftruncate(both, len(expected))
                        os.close(both)
                        os.close(log)
                        assert open("both", "rb").read() == expected
                        assert open("log", "rb").read() == b"".join(b"line %d\\n" % n for n in range(1500))
                        PROGRAM
                        """, atLeast: 3)
            }
        }

        /// Files without a name go on as well: what was written to them, what only the store has, and what took their names.
        @Test(.timeLimit(.minutes(5)))
        func filesThatWereRemovedWhileOpenGoOnWhenWorkersAreKilled() async throws {
            try await withMount { world, store in
                try await world.sh(
                    """
                    head -c 20000000 /dev/urandom >$T/bytes
                    for name in large under kept; do cp $T/bytes $name; done
                    head -c 100000 $T/bytes >small
                    """)
                try await world.unmount()
                try await world.mount(cache: "another")
                let program = try world.start(
                    """
                    $PYTHON - $T <<'PROGRAM'
                    import os, pathlib, sys, time
                    place = pathlib.Path(sys.argv[1])
                    truth = bytearray((place / "bytes").read_bytes())
                    large = os.open("large", os.O_RDONLY)
                    kept = os.open("kept", os.O_RDWR)
                    under = os.open("under", os.O_RDONLY)
                    fresh = os.open("fresh", os.O_CREAT | os.O_RDWR)
                    os.write(fresh, b"first ")
                    os.pread(large, 10, 0)
                    small = os.open("small", os.O_RDONLY)
                    assert os.pread(small, 1 << 20, 0) == truth[:100000]
                    os.pwrite(kept, b"changed", 1000)
                    changed = truth[:1000] + b"changed" + truth[1007:]
                    for name in ("large", "kept", "fresh", "small"): os.unlink(name)
                    with open("over", "w") as file: file.write("new")
                    os.rename("over", "under")
                    for stage in range(3):
                        (place / f"ready{stage}").touch()
                        while not (place / f"go{stage}").exists(): time.sleep(0.01)
                        assert sorted(os.listdir(".")) == (["large", "under"] if stage == 2 else ["under"]), os.listdir(".")
                        assert os.pread(large, 1 << 23, 9000000) == truth[9000000:9000000 + (1 << 23)], "what only the store has"
                        assert os.pread(small, 1 << 20, 0) == truth[:100000], "what only the cache has"
                        assert os.fstat(large).st_nlink == 0 and os.fstat(large).st_size == 20000000
                        assert os.pread(kept, 1 << 22, 0) == changed[:1 << 22], "what was written over it"
                        os.write(fresh, b"stage %d " % stage)
                        assert os.pread(fresh, 100, 0) == b"first " + b"".join(b"stage %d " % n for n in range(stage + 1))
                        os.pwrite(kept, b"%d" % stage, 2000000 + stage)
                        changed[2000000 + stage] = ord("%d" % stage)
                        if stage == 1:
                            with open("large", "w") as file: file.write("another")
                    assert open("under").read() == "new" and open("large").read() == "another"
                    for each in (large, kept, under, fresh, small): os.close(each)
                    PROGRAM
                    """)
                for stage in 0..<3 {
                    let isReady = await poll(for: .seconds(60)) { [scratch = world.scratch] in
                        FileManager.default.fileExists(atPath: scratch.path("ready\(stage)")) ? true : nil
                    }
                    guard isReady == true else { break }
                    try await world.killWorker()
                    _ = FileManager.default.createFile(atPath: world.scratch.path("go\(stage)"), contents: nil)
                }
                let outcome = await program.wait(deadline: .seconds(120))
                #expect(outcome.succeeded, "\(outcome)")
                try await world.unmount()
                let keys = try await world.outside("keys").split(separator: "\n")
                #expect(keys == ["large", "under"], "\(store.requests.suffix(30))")
                try await world.mount(cache: "another")
                try await world.sh(
                    "test \"$(cat large)\" = another; test \"$(cat under)\" = new; test ! -e kept; test ! -e fresh")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func anotherVersionGoesOnWithTheMountOnRequest() async throws {
            try await withMount { world, _ in
                let program = try world.start(
                    """
                    exec 3>file
                    n=0
                    until test -e $T/done; do n=$((n + 1)); echo $n >&3; sleep 0.01; done
                    exec 3>&-
                    echo $n >$T/count
                    """)
                for _ in 0..<3 {
                    let before = try #require(world.worker)
                    let outcome = try await world.pailfs(["restart", world.mountpoint])
                    #expect(outcome.succeeded, "\(outcome)")
                    #expect(world.worker != before)
                }
                _ = FileManager.default.createFile(atPath: world.scratch.path("done"), contents: nil)
                let outcome = await program.wait(deadline: .seconds(60))
                #expect(outcome.succeeded, "\(outcome)")
                try await world.sh("seq $(cat $T/count) | cmp - file")
                let unmounted = try await world.pailfs(["unmount", world.mountpoint])
                #expect(unmounted.succeeded, "\(unmounted)")
                try await world.daemonEnds(within: .seconds(10))
            }
        }

        /// What takes the store longer than the old process waits is carried out by the new one.
        @Test(.timeLimit(.minutes(5)))
        func noCallIsCutOffByARestartOnRequest() async throws {
            try await withMount { world, store in
                // The kernel lets nobody look for a name in a directory in which another is renamed.
                try await world.sh("printf read >$T/read")
                _ = try await world.outside("put", "read", world.scratch.path("read"))
                try await world.sh("mkdir one two; printf renamed >one/old")
                try await store.setFaults(
                    "op=GetObject,kind=latency:60s,count=1", "op=PutObject,kind=latency:60s,count=1",
                    "op=CopyObject,kind=latency:60s,count=1")
                // Many others try again by themselves when they are told of an interruption.
                let read = #"open(F, "<", "read") or die $!; sysread(F, $bytes, 9) == 4 or die $!"#
                let programs = try [
                    world.start("perl -e '\(read)'"), world.start("printf written >two/written"),
                    world.start("mv one/old one/new"),
                ]
                try await Task.sleep(for: .seconds(2))
                let outcome = try await world.pailfs(["restart", world.mountpoint])
                #expect(outcome.succeeded, "\(outcome)")
                try await store.setFaults()
                for program in programs {
                    let outcome = await program.wait(deadline: .seconds(60))
                    #expect(outcome.succeeded, "\(outcome)")
                }
                #expect(try await world.outside("get", "two/written") == "written")
                #expect(try await world.outside("get", "one/new") == "renamed")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aWorkerThatKeepsDyingLetsGoOfTheMountpoint() async throws {
            try await withMount { world, _ in
                world.expectsErrorsInLog = true
                let daemon = try #require(world.daemon)
                let hasEnded = await poll(for: .seconds(90)) { [program = Programs.pailfs, scratch = world.scratch] in
                    guard World.isRunning(daemon) else { return true }
                    for pid in scratch.processes(running: program) where pid != daemon { kill(pid, SIGKILL) }
                    return nil
                }
                #expect(hasEnded == true)
                try await world.daemonEnds(within: .seconds(5))
                try await world.mount()
                try await world.sh("printf x >file; test \"$(cat file)\" = x")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aDeadMountIsReplacedByTheNext() async throws {
            try await withMount { world, _ in
                world.expectsErrorsInLog = true
                // The kernel remembers the attributes of the root when its server is gone.
                try await world.sh("printf x >file; ls -la . file")
                let daemon = try #require(world.daemon)
                kill(daemon, SIGKILL)
                try await world.daemonEnds(within: .seconds(10), mounted: true)
                // The worker serves on by itself.
                try await world.sh("test \"$(cat file)\" = x; printf y >other")
                for pid in world.scratch.processes(running: Programs.pailfs) { kill(pid, SIGKILL) }
                let isDead = await poll(for: .seconds(30)) { [mountpoint = world.mountpoint] in
                    var status = stat()
                    return stat(mountpoint, &status) != 0 && errno == ENOTCONN ? true : nil
                }
                #expect(isDead == true)
                try await world.mount()
                try await world.sh("test \"$(cat file)\" = x; test \"$(cat other)\" = y")
            }
        }
    }
}
