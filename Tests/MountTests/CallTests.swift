import Testing

extension RealMounts {
    /// Rules of pailfs-semantics(7) that ordinary programs seldom meet.
    @Suite struct Calls {
        /// Runs Python in a mount, with `refused(errno, act)` for what must fail.
        private func check(_ source: String) async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import ctypes, errno, fcntl, mmap, os, struct

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
        func aDescriptorOfARemovedDirectoryTellsNothing() async throws {
            try await check(
                """
                os.mkdir("d")
                d = os.open("d", os.O_RDONLY)
                os.rmdir("d")
                refused(errno.ESTALE, os.listdir, d)
                refused(errno.ESTALE, os.fstat, d)
                refused(errno.ENOENT, lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=d))
                """)
        }

        @Test(.timeLimit(.minutes(1)))
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

        @Test(.timeLimit(.minutes(1)), .enabled(if: Machine.isRoot, "takes another group"))
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

        @Test(.timeLimit(.minutes(1)))
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
                """)
        }
    }
}
