import TestSupport
import Testing

extension RealMounts {
    /// Reads and writes of every shape through real descriptors.
    @Suite struct FileContents {
        @Test(.rule("write.any", "truncate"), .timeLimit(.minutes(5)))
        func overwritingAppendingAndTruncatingAnyWhereGivesWhatPOSIXSays() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    head -c 20000000 /dev/urandom >$T/model
                    cp $T/model file
                    for file in $T/model file; do
                        printf overwritten | dd of=$file bs=1 seek=9437180 conv=notrunc status=none
                        printf appended >>$file
                        truncate -s 15000001 $file
                        truncate -s 15000101 $file
                        printf end >>$file
                        dd if=/dev/zero of=$file bs=4096 seek=3000 count=2 conv=notrunc status=none
                    done
                    cmp $T/model file
                    """)
                try await world.unmount()
                try await world.mount(cache: "another")
                try await world.sh("cmp $T/model file")
            }
        }

        @Test(.rule("visible.own", "write.any", "truncate"), .timeLimit(.minutes(5)))
        func anOpenFileIsReadWhileItIsWritten() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os
                    w = os.open("file", os.O_RDWR | os.O_CREAT)
                    r = os.open("file", os.O_RDONLY)
                    assert os.pwrite(w, b"later", 1 << 20) == 5
                    assert os.pread(r, 4, 0) == bytes(4), "a hole reads as zeros"
                    assert os.pread(r, 99, (1 << 20) - 2) == bytes(2) + b"later"
                    assert os.fstat(r).st_size == (1 << 20) + 5
                    os.ftruncate(w, 10)
                    assert os.fstat(r).st_size == 10 and os.stat("file").st_size == 10
                    assert os.pread(r, 99, 0) == bytes(10)
                    a = os.open("file", os.O_WRONLY | os.O_APPEND)
                    os.write(a, b"tail")
                    assert os.pread(r, 99, 0) == bytes(10) + b"tail"
                    os.fsync(w)
                    assert open("file", "rb").read() == bytes(10) + b"tail"
                    for f in (w, r, a): os.close(f)
                    assert open("file", "rb").read() == bytes(10) + b"tail"
                    """)
                #expect(try await world.outside("get", "file").hasSuffix("tail"))
            }
        }

        @Test(.rule("unlink"), .timeLimit(.minutes(5)))
        func anUnlinkedFileStaysReadableThroughItsHandleAndNeverComesBack() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os
                    with open("file", "w+b") as file:
                        file.write(b"first" * 100000)
                        file.flush()
                        os.unlink("file")
                        assert not os.path.exists("file")
                        file.write(b"second")
                        file.seek(0)
                        assert file.read() == b"first" * 100000 + b"second"
                    assert os.listdir(".") == []
                    """)
                #expect(try await world.outside("keys") == "")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aFileRemovedRightAfterItsCloseStaysGone() async throws {
            try await withMount { world, store in
                try await store.setFaults("op=PutObject,kind=latency:5ms")
                try await world.python(
                    """
                    import os
                    for number in range(100):
                        os.close(os.open("empty", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                        os.unlink("empty")
                        lock = os.open("lock", os.O_CREAT | os.O_EXCL | os.O_RDWR)
                        os.write(lock, b"x")
                        os.fsync(lock)
                        os.write(lock, b"y")
                        os.close(lock)
                        os.unlink("lock")
                    assert os.listdir(".") == []
                    """)
                try await world.unmount()
                #expect(try await world.outside("keys") == "")
            }
        }

        @Test(.rule("rename.replace"), .timeLimit(.minutes(5)))
        func renamingOverAFileReplacesItAndNobodySeesItMissing() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os, threading
                    open("target", "w").write("0" * 10)
                    done, missing = threading.Event(), []
                    def watch():
                        while not done.is_set():
                            try:
                                text = open("target").read()
                                assert len(text) == 10 and len(set(text)) == 1, text
                            except FileNotFoundError as error:
                                missing.append(error)
                    watcher = threading.Thread(target=watch)
                    watcher.start()
                    for number in range(1, 40):
                        with open("new", "w") as file: file.write(str(number % 10) * 10)
                        os.rename("new", "target")
                        assert open("target").read() == str(number % 10) * 10
                    done.set()
                    watcher.join()
                    assert not missing, len(missing)
                    assert os.listdir(".") == ["target"]
                    """)
            }
        }

        @Test(.rule("attr.inode"), .timeLimit(.minutes(5)))
        func openHandlesFollowARename() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os
                    os.mkdir("a"); os.mkdir("b")
                    file = open("a/name", "wb")
                    file.write(b"before"); file.flush()
                    os.rename("a/name", "b/other")
                    file.write(b" after"); file.close()
                    assert open("b/other", "rb").read() == b"before after"
                    assert os.listdir("a") == []
                    ino = os.stat("b/other").st_ino
                    os.rename("b/other", "a/again")
                    assert os.stat("a/again").st_ino == ino
                    """)
                #expect(try await world.outside("get", "a/again") == "before after")
            }
        }

        @Test(.rule("create.exclusive"), .timeLimit(.minutes(5)))
        func exclusiveCreationHasOneWinner() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os, threading
                    wins = []
                    def try_it(number):
                        try:
                            os.close(os.open("lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                            wins.append(number)
                        except FileExistsError:
                            pass
                    threads = [threading.Thread(target=try_it, args=(n,)) for n in range(8)]
                    for t in threads: t.start()
                    for t in threads: t.join()
                    assert len(wins) == 1, wins
                    """)
            }
        }

        @Test(.rule("mmap"), .timeLimit(.minutes(5)))
        func memoryMapsReadAndWrite() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import mmap, os
                    open("file", "wb").write(bytes(100000))
                    with open("file", "r+b") as file, mmap.mmap(file.fileno(), 0) as map:
                        map[50000:50004] = b"mapd"
                        map.flush()
                    data = open("file", "rb").read()
                    assert data[50000:50004] == b"mapd" and len(data) == 100000
                    """)
                #expect(try await world.outside("get", "file").contains("mapd"))
            }
        }

        /// The kernel writes pages back through any descriptor of the file, be it one that appends.
        @Test(.timeLimit(.minutes(5)))
        func aMappingWritesInPlaceThroughADescriptorThatAppends() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import fcntl, mmap, os
                    file = os.open("file", os.O_RDWR | os.O_CREAT | os.O_APPEND)
                    os.write(file, bytes(10_000))
                    os.pwrite(file, b"end", 0)
                    with mmap.mmap(file, 10_003) as map:
                        map[5000:5003] = b"map"
                        map.flush()
                    wanted = bytes(5000) + b"map" + bytes(4997) + b"end"
                    assert os.pread(file, 20_000, 0) == wanted
                    fcntl.fcntl(file, fcntl.F_SETFL, 0)
                    os.pwrite(file, b"start", 0)
                    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
                    os.pwrite(file, b"again", 0)
                    os.close(file)
                    assert open("file", "rb").read() == b"start" + wanted[5:] + b"again"
                    """)
            }
        }

        /// What a program has done to a file is what every program sees from then on, also while it goes up.
        @Test(.rule("visible.own"), .timeLimit(.minutes(5)), arguments: ["durable=remote", "durable=local"])
        func aListingThatMeetsACommitShowsTheNewLength(_ durable: String) async throws {
            try await withMount(durable) { world, _ in
                try await world.python(
                    """
                    import multiprocessing, os, random, time

                    def work(number):
                        choose = random.Random(number)
                        for turn in range(80):
                            name = f"{number}-{turn % 3}"
                            with open(name, "wb", 0) as file: file.write(b"x" * 30_000)
                            time.sleep(choose.random() * 0.01)
                            with open(name, "ab", 0) as file: file.write(b"y" * 3000)
                            for _ in range(5):
                                for entry in os.scandir("."):
                                    if entry.name == name: assert entry.stat().st_size == 33_000, (turn, "scandir")
                                assert os.stat(name).st_size == 33_000, (turn, "stat")

                    with multiprocessing.get_context("fork").Pool(3) as pool: pool.map(work, range(3))
                    """, deadline: .seconds(200))
            }
        }

        /// As of a local disk: what an open file needs of its object is nobody else's business.
        @Test(.timeLimit(.minutes(5)))
        func aDirectoryOfARemovedFileThatIsOpenGoesAndComesAgain() async throws {
            try await withMount { world, _ in
                try await world.sh("mkdir -p a/b; head -c 300000 /dev/urandom >$T/model; cp $T/model a/b/file")
                try await world.unmount()
                try await world.mount(cache: "another")
                try await world.python(
                    """
                    import errno, os, shutil
                    model = open(os.environ["T"] + "/model", "rb").read()
                    file = open("a/b/file", "rb", 0)
                    shutil.rmtree("a")
                    os.setxattr(".", "user.pailfs.refresh", b"1")
                    assert os.listdir(".") == []
                    os.makedirs("a/b")
                    open("a/b/more", "w").close()
                    os.setxattr("a", "user.pailfs.refresh", b"1")
                    try: os.rmdir("a/b")
                    except OSError as error: assert error.errno == errno.ENOTEMPTY, error
                    else: raise AssertionError("a directory with a file was removed")
                    os.unlink("a/b/more")
                    assert os.listdir("a/b") == []
                    open("a/b/other", "w").write("other")
                    os.rename("a", "c")
                    assert os.listdir("c/b") == ["other"] and os.listdir(".") == ["c"]
                    assert file.read() == model
                    """)
                #expect(try await world.outside("keys").split(separator: "\n") == ["c/", "c/b/", "c/b/other"])
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aReplacedFileThatIsOpenOutlivesWhatReplacedIt() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os, time
                    def save(name, data):
                        with open(name, "wb", 0) as file: file.write(data)
                    save("file", b"first" * 1000)
                    file = open("file", "rb", 0)
                    for number in range(3):
                        save("other", b"other" * number)
                        os.rename("other", "file")
                        save("file", b"again")
                    os.unlink("file")
                    time.sleep(0.2)
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    assert file.read() == b"first" * 1000
                    """)
            }
        }

        @Test(.rule("attr.inode", "unlink"), .timeLimit(.minutes(5)))
        func anOpenFileWithoutANameKeepsItsAttributes() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os
                    for replaces in False, True:
                        open("file", "w").write("content")
                        os.setxattr("file", "user.colour", b"blue")
                        file = os.open("file", os.O_RDWR)
                        if replaces:
                            open("other", "w").close()
                            os.rename("other", "file")
                        else:
                            os.unlink("file")
                        os.setxattr(file, "user.shape", b"round")
                        assert {name: os.getxattr(file, name) for name in os.listxattr(file)} == {
                            "user.colour": b"blue", "user.shape": b"round"}
                        os.removexattr(file, "user.colour")
                        assert os.listxattr(file) == ["user.shape"]
                        os.fchmod(file, 0o604)
                        status = os.fstat(file)
                        assert (status.st_mode & 0o777, status.st_nlink) == (0o604, 0), status
                        os.close(file)
                    assert os.listxattr("file") == []
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func cuttingAFileToTheLengthItHasIsAChangeThroughADescriptorOnly() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import os
                    old = 1_000_000_000 * 10**9
                    for size in 0, 5:
                        open("file", "w").write("x" * size)
                        os.utime("file", ns=(old, old))
                        os.truncate("file", size)
                        assert os.stat("file").st_mtime_ns == old
                        file = os.open("file", os.O_RDWR)
                        os.ftruncate(file, size)
                        os.close(file)
                        assert os.stat("file").st_mtime_ns > old
                    open("file", "w").close()
                    os.utime("file", ns=(old, old))
                    open("file", "w").close()
                    assert os.stat("file").st_mtime_ns > old, "make's stamps"
                    """)
            }
        }

        @Test(.rule("link", "mknod"), .timeLimit(.minutes(5)))
        func whatNoObjectStoreHasIsRefusedByName() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import errno, os
                    open("file", "w").close()
                    for act in (lambda: os.link("file", "hard"), lambda: os.mkfifo("fifo")):
                        try: act()
                        except OSError as error: assert error.errno == errno.EPERM, error
                        else: raise AssertionError("it worked")
                    try: os.mkdir("file")
                    except FileExistsError: pass
                    try: os.rmdir("file")
                    except NotADirectoryError: pass
                    try: open("file/below")
                    except NotADirectoryError: pass
                    """)
            }
        }

        @Test(.rule("name.length"), .timeLimit(.minutes(5)))
        func namesAndKeysOverTheLimitAreRefusedBeforeAnyByteMoves() async throws {
            try await withMount { world, store in
                try await world.sh("mkdir -p $(printf 'd%0199d/' 1 2 3 4 5)")
                let cost = try await store.requests {
                    let name = try await world.attempt("printf x >$(printf '%0256d' 0)")
                    #expect(name.errors.contains("File name too long"))
                    let key = try await world.attempt("printf x >$(printf 'd%0199d/' 1 2 3 4 5)$(printf '%020d' 0)")
                    #expect(key.errors.contains("File name too long"), "1,025 bytes of key")
                    let directory = try await world.attempt("mkdir $(printf 'd%0199d/' 1 2 3 4 5)$(printf '%019d' 0)")
                    #expect(directory.errors.contains("File name too long"), "1,025 bytes with the marker's slash")
                }
                #expect(cost.counts["PutObject"] == nil)
                try await world.sh("printf x >$(printf 'd%0199d/' 1 2 3 4 5)$(printf '%019d' 0)")
            }
        }
    }
}
