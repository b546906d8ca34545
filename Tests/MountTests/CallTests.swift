import TestSupport
import Testing

extension RealMounts {
    /// Rules of pailfs-semantics(7) that ordinary programs seldom meet.
    @Suite struct Calls {
        /// Runs Python in a mount, with `refused(errno, act)` for what must fail.
        private func check(_ source: String) async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import ctypes, errno, fcntl, mmap, os, struct, sys

                    def refused(number, act, *arguments):
                        try:
                            result = act(*arguments)
                        except OSError as error:
                            assert error.errno == number, errno.errorcode[error.errno]
                        else:
                            raise AssertionError(f"{act} gave {result}")

                    \(source)
                    """)
            }
        }

        /// The kernel closes what is not to be passed on inside execve(2), and lets nobody look at the caller meanwhile.
        @Test(.timeLimit(.minutes(1)), arguments: ["remote", "local"])
        func aProgramStartsAnotherWhileItsNewFileIsOpen(durable: String) async throws {
            try await withMount("durable=\(durable)") { world, _ in
                try await world.python(
                    """
                    import os
                    for name in range(3):
                        file = os.open(f"{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC)
                        for size in (10, 5_000_000):
                            os.write(file, b"x" * size)
                            child = os.fork()
                            if child == 0:
                                os.execv("/bin/true", ["true"])
                            assert os.waitpid(child, 0)[1] == 0
                        os.close(file)
                        assert os.path.getsize(f"{name}") == 5_000_010
                    """, deadline: .seconds(40))
            }
        }

        @Test(.timeLimit(.minutes(1)))
        func aDescriptorOfARemovedDirectoryIsThatOfAnEmptyOne() async throws {
            try await check(
                """
                os.mkdir("d")
                d = os.open("d", os.O_RDONLY)
                os.rmdir("d")
                # As on local disks, the kernel's ENOENT is the end of the entries.
                assert os.listdir(d) == []
                assert os.fstat(d).st_nlink == 0
                os.fsync(d)
                refused(errno.ENOENT, lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=d))
                """)
        }

        @Test(.rule("open.flags", "open.direct", "copy.range", "xattr.user"), .timeLimit(.minutes(1)))
        func whatAnObjectCannotBeIsRefused() async throws {
            try await check(
                """
                open("a", "wb").write(bytes(100_000))
                refused(errno.EOPNOTSUPP, os.open, ".", os.O_TMPFILE | os.O_RDWR)
                a, b = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR | os.O_CREAT)
                ficlone = 0x40049409
                refused(errno.EOPNOTSUPP, fcntl.ioctl, b, ficlone, a)
                direct = os.open("a", os.O_RDWR | os.O_DIRECT)
                refused(errno.ENODEV, mmap.mmap, direct, 4096)
                assert mmap.mmap(direct, 4096, flags=mmap.MAP_PRIVATE)[:] == bytes(4096)
                for name in ("trusted.x", "security.x"):
                    refused(errno.EOPNOTSUPP, os.setxattr, "a", name, b"1")
                    refused(errno.ENODATA, os.getxattr, "a", name)
                """)
        }

        @Test(.rule("attr.suid"), .timeLimit(.minutes(1)), .enabled(if: Machine.isRoot, "takes another group"))
        func theGroupOfADirectoryIsInherited() async throws {
            try await check(
                """
                os.mkdir("g")
                os.chown("g", 0, 1234)
                os.chmod("g", 0o2775)
                os.mkdir("g/d")
                open("g/f", "w").close()
                os.symlink("f", "g/l")
                assert os.stat("g/d").st_mode & 0o2000
                assert not os.stat("g/f").st_mode & 0o2000
                assert {os.lstat(f"g/{name}").st_gid for name in "dfl"} == {1234}
                """)
        }

        @Test(.rule("visible.notify"), .timeLimit(.minutes(1)))
        func inotifyTellsWhatThisHostDoes() async throws {
            try await check(
                """
                libc = ctypes.CDLL(None, use_errno=True)
                events = libc.inotify_init()
                created, moved_from, moved_to, deleted, closed = 0x100, 0x40, 0x80, 0x200, 8
                watched = created | moved_from | moved_to | deleted | closed
                assert libc.inotify_add_watch(events, b".", watched) > 0
                open("i", "w").write("x")
                os.rename("i", "j")
                os.unlink("j")
                data, seen = os.read(events, 65536), []
                while data:
                    _, mask, _, length = struct.unpack("iIII", data[:16])
                    seen.append((mask, data[16:16 + length].rstrip(b"\\0")))
                    data = data[16 + length:]
                assert seen == [(created, b"i"), (closed, b"i"), (moved_from, b"i"), (moved_to, b"j"), (deleted, b"j")], seen
                # Another host's change is seen, and not reported.
                sys.path.insert(0, "\(Programs.helper(""))")
                from bucket import store
                os.set_blocking(events, False)
                store.put_bytes("theirs", b"theirs")
                os.setxattr(".", "user.pailfs.refresh", b"")
                assert os.listdir(".") == ["theirs"] and os.path.getsize("theirs") == 6
                refused(errno.EAGAIN, os.read, events, 65536)
                """)
        }

        @Test(.timeLimit(.minutes(1)), .rule("open.flags", "create.exclusive"))
        func everyFlagOfOpenWorks() async throws {
            try await check(
                """
                def opened(name, flags):
                    file = os.open(name, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o640)
                    try: return os.pread(file, 9, 0) if flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_PATH else b""
                    finally: os.close(file)
                def written(name, flags, data, at=0):
                    file = os.open(name, os.O_WRONLY | flags, 0o640)
                    try: assert os.pwrite(file, data, at) == len(data)
                    finally: os.close(file)
                written("a", os.O_CREAT | os.O_EXCL, b"12345")
                refused(errno.EEXIST, os.open, "a", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                written("a", os.O_APPEND, b"6")
                written("a", os.O_SYNC, b"x")
                written("a", os.O_DSYNC, b"y", 1)
                assert opened("a", os.O_RDONLY | os.O_NOATIME | os.O_NOFOLLOW) == opened("a", os.O_RDWR) == b"xy3456"
                written("a", os.O_TRUNC, b"z")
                assert opened("a", os.O_RDONLY | os.O_DIRECT) == b"z"
                os.symlink("a", "link")
                refused(errno.ELOOP, os.open, "link", os.O_RDONLY | os.O_NOFOLLOW)
                opened("link", os.O_PATH | os.O_NOFOLLOW)
                refused(errno.ENOTDIR, os.open, "a", os.O_RDONLY | os.O_DIRECTORY)
                os.close(os.open(".", os.O_RDONLY | os.O_DIRECTORY))
                """)
        }

        @Test(.timeLimit(.minutes(1)), .rule("write.append"))
        func appendsOfSeveralProgramsAreWhole() async throws {
            try await check(
                """
                def work(number):
                    file = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                    for turn in range(40):
                        size = (number * 7919 + turn * 104729) % (600_000 if turn % 8 == 0 else 5000) + 1
                        assert os.write(file, bytes([number]) * size + b"\\n") == size + 1
                    os._exit(0)
                children = []
                for number in range(97, 101):
                    if not (child := os.fork()): work(number)
                    children.append(child)
                for child in children: assert os.waitpid(child, 0)[1] == 0
                lines = open("log", "rb").read().split(b"\\n")
                assert lines.pop() == b"" and len(lines) == 160, len(lines)
                for line in lines: assert len(set(line)) == 1, (len(line), set(line))
                """)
        }

        @Test(.timeLimit(.minutes(1)), .rule("attr.inode", "attr.atime", "xattr.state"))
        func blocksTimesAndTheStateAreShown() async throws {
            try await check(
                """
                import urllib.request
                for size in 0, 1, 512, 513, 100_000:
                    with open("a", "wb") as file: file.write(b"x" * size)
                    os.utime("a", (1, 1_000_000_000))
                    status = os.stat("a")
                    assert (status.st_blocks, status.st_nlink, status.st_atime) == ((size + 511) // 512, 1, 1), status
                url = os.getxattr("a", "user.pailfs.url").decode()
                assert "=3600" in url and urllib.request.urlopen(url).read() == b"x" * 100_000, url
                shown = {name: os.getxattr("a", f"user.pailfs.{name}") for name in ("key", "dirty", "uploading", "cached")}
                assert shown == {"key": b"a", "dirty": b"0", "uploading": b"0", "cached": b"1"}, shown
                refused(errno.EPERM, os.setxattr, "a", "user.pailfs.dirty", b"1")
                """)
        }
    }
}
