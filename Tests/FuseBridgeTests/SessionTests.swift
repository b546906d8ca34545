import Basics
import CLinux
import FileSystem
import Foundation
import FuseBridge
import Logging
import Metadata
import Synchronization
import TestSupport
import Testing

private let canMount = access("/dev/fuse", R_OK | W_OK) == 0

/// Real mounts: the kernel, libfuse and the bridge over a tree in memory.
@Suite(.serialized, .enabled(if: canMount, "needs /dev/fuse"), .timeLimit(.minutes(5)))
struct SessionTests {
    @Test func programsWorkOnTheTree() throws {
        let tree = try MountedTree()
        let script = """
            set -eu
            cd "$1"
            mkdir -p d/e && cp /etc/passwd d/p && cmp /etc/passwd d/p
            echo one > f; echo two >> f; test "$(cat f)" = "one
            two"
            ln -s d/p l; cmp l /etc/passwd; test "$(readlink l)" = d/p
            mv f g; test ! -e f; truncate -s 2 g; test "$(cat g)" = on
            chmod 640 g; test "$(stat -c %a:%s g)" = 640:2
            touch -d '2001-02-03 04:05:06.789 UTC' g; test "$(stat -c %.3Y g)" = 981173106.789
            dd if=/dev/urandom of=big bs=1M count=9 status=none; cp big big2; cmp big big2
            dd if=big of=direct bs=1M iflag=direct oflag=direct status=none; cmp big direct
            for i in $(seq 300); do : > d/e/file$i; done
            test "$(ls d/e | wc -l)" = 300; test "$(ls -l d/e | grep -c root)" = 300
            test "$(find . -type f | wc -l)" = 305
            tar cf - d | tar xf - -C "$1" --transform s,^d,d2, ; diff -r d d2
            rm -r d d2; test ! -e d
            fallocate -l 5000 g; test "$(stat -c %s g)" = 5000
            df . > /dev/null
            """
        let run = shell("sh", "-c", script, "sh", tree.path)
        #expect(run.status == 0, "\(run.output)")
        _ = try tree.unmount()
    }

    @Test(.rule("link", "mknod", "rename.flags")) func linksDevicesAndOddRenamesAreRefused() throws {
        let tree = try MountedTree()
        let script = """
            import os, errno, fcntl, ctypes, stat, socket, sys
            os.chdir(sys.argv[1])
            def fails(number, call):
                try: call()
                except OSError as e: assert e.errno == number, (e, number)
                else: assert False, number
            open('a', 'w').write('x'); open('b', 'w').close()
            fails(errno.EPERM, lambda: os.link('a', 'c'))
            fails(errno.EPERM, lambda: os.mkfifo('fifo'))
            fails(errno.EPERM, lambda: os.mknod('dev', stat.S_IFCHR | 0o600, os.makedev(1, 3)))
            fails(errno.EPERM, lambda: socket.socket(socket.AF_UNIX).bind('sock'))
            os.mknod('plain', stat.S_IFREG | 0o600); assert os.stat('plain').st_size == 0
            libc = ctypes.CDLL(None, use_errno=True)
            def rename2(a, b, flags):
                if libc.renameat2(-100, a, -100, b, flags) != 0: raise OSError(ctypes.get_errno(), 'renameat2')
            fails(errno.EEXIST, lambda: rename2(b'a', b'b', 1))
            fails(errno.EINVAL, lambda: rename2(b'a', b'b', 2))
            rename2(b'a', b'c', 1)
            f = open('c', 'r+b')
            fails(errno.ENOTTY, lambda: fcntl.ioctl(f, 0x5401))
            assert os.lseek(f.fileno(), 0, os.SEEK_HOLE) == 1 and os.lseek(f.fileno(), 0, os.SEEK_DATA) == 0
            fails(errno.ENXIO, lambda: os.lseek(f.fileno(), 9, os.SEEK_DATA))
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); g = open('c')
            fails(errno.EAGAIN, lambda: fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB))
            fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            out = os.open('copied', os.O_CREAT | os.O_WRONLY)
            try: os.copy_file_range(f.fileno(), out, 1, 0)
            except OSError as e: assert e.errno in (errno.EOPNOTSUPP, errno.EXDEV), e
            fails(errno.ENAMETOOLONG, lambda: open('n' * 256, 'w'))
            fails(errno.ENOENT, lambda: open('missing'))
            """
        let run = shell("python3", "-c", script, tree.path)
        #expect(run.status == 0, "\(run.output)")
        _ = try tree.unmount()
    }

    @Test func extendedAttributesAnswerSizesAndShortBuffers() throws {
        let tree = try MountedTree()
        let script = """
            import os, errno, sys, ctypes
            os.chdir(sys.argv[1]); open('a', 'w').close()
            def fails(number, call):
                try: call()
                except OSError as e: assert e.errno == number, (e, number)
                else: assert False, number
            for value in (b'', b'v', b'x' * 5000):
                os.setxattr('a', 'user.k', value); assert os.getxattr('a', 'user.k') == value
            os.setxattr('a', 'user.l', b'2', os.XATTR_CREATE)
            fails(errno.EEXIST, lambda: os.setxattr('a', 'user.l', b'2', os.XATTR_CREATE))
            fails(errno.ENODATA, lambda: os.setxattr('a', 'user.m', b'2', os.XATTR_REPLACE))
            assert sorted(os.listxattr('a')) == ['user.k', 'user.l']
            libc = ctypes.CDLL(None, use_errno=True); short = ctypes.create_string_buffer(3)
            assert libc.getxattr(b'a', b'user.k', None, 0) == 5000
            assert libc.getxattr(b'a', b'user.k', short, 3) == -1 and ctypes.get_errno() == errno.ERANGE
            assert libc.listxattr(b'a', short, 3) == -1 and ctypes.get_errno() == errno.ERANGE
            os.removexattr('a', 'user.k'); fails(errno.ENODATA, lambda: os.getxattr('a', 'user.k'))
            """
        let run = shell("python3", "-c", script, tree.path)
        #expect(run.status == 0, "\(run.output)")
        _ = try tree.unmount()
    }

    @Test(.rule("signal")) func aSignalTheProgramHandlesInterruptsNothing() throws {
        let tree = try MountedTree()
        try "x".write(toFile: tree.path + "/slow", atomically: false, encoding: .utf8)
        let script = """
            import os, signal, sys
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            signals = []
            signal.signal(signal.SIGALRM, lambda *_: signals.append(1))
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
            assert os.read(file, 4096) == b'' and signals
            # The interpreter gives its handlers up before it ends.
            signal.setitimer(signal.ITIMER_REAL, 0)
            """
        let run = shell("python3", "-c", script, tree.path + "/slow")
        #expect(run.status == 0, "\(run.output)")
        #expect(tree.fileSystem.state.withLock { $0.interrupted } == 0)
        _ = try tree.unmount()
    }

    @Test(.rule("signal")) func aDeadlySignalEndsAWaitingRead() throws {
        let tree = try MountedTree()
        try "x".write(toFile: tree.path + "/hangs", atomically: false, encoding: .utf8)
        // Around the page cache: the kernel does not interrupt its own read-ahead, it only stops waiting for it.
        let run = shell("timeout", "-s", "KILL", "1", "dd", "if=\(tree.path)/hangs", "of=/dev/null", "iflag=direct")
        #expect(run.status != 0)
        let isInterrupted = { @Sendable in tree.fileSystem.state.withLock { $0.interrupted >= 1 } }
        for _ in 0..<30_000 where !isInterrupted() { usleep(10_000) }
        #expect(isInterrupted())
        _ = try tree.unmount()
    }

    /// pailfs-semantics(7), signal: a call that waits ends when its process is killed, and what it was to change is changed
    /// all the same. So does what the kernel closes of a process that was killed.
    @Test(
        .rule("signal"),
        arguments: [
            "mv stuck moved", "rm stuck", "rmdir stuck", "sync stuck", "mkdir stuck", "touch stuck", "sleep 9 < stuck",
        ])
    func aDeadlySignalEndsAnyCallThatWaits(_ command: String) throws {
        let tree = try MountedTree()
        switch command {
        case "rmdir stuck": #expect(shell("mkdir", tree.path + "/made", tree.path + "/made/x").status == 0)
        case "mkdir stuck", "touch stuck": break
        // A flush of the file waits as soon as it has the name.
        default: #expect(shell("bash", "-c", "cd $1; : > made; mv made stuck", "sh", tree.path).status == 0)
        }
        if command == "rmdir stuck" {
            let run = shell("bash", "-c", "cd $1; rmdir made/x; mv made stuck", "sh", tree.path)
            #expect(run.status == 0)
        }
        let before = tree.fileSystem.state.withLock { $0.nodes.count }
        // Were the call not to end, neither would this before the file system lets it. No machine is as slow as that.
        let isOver = Semaphore()
        startThread(name: "end") { [fileSystem = tree.fileSystem] in
            if !isOver.wait(for: .seconds(600)) { fileSystem.state.withLock { $0.isReleased = true } }
        }
        let began = ContinuousClock.now
        let run = shell("timeout", "-s", "KILL", "1", "bash", "-c", "cd \"$1\"; exec \(command)", "sh", tree.path)
        #expect(run.status != 0)
        let wasReleased = tree.fileSystem.state.withLock { $0.isReleased }
        #expect(!wasReleased, "it took \(ContinuousClock.now - began)")
        tree.fileSystem.state.withLock { $0.isReleased = true }
        isOver.signal()
        let isDone = { @Sendable in
            tree.fileSystem.state.withLock { state in
                let names = Set(state.nodes[.root]?.children.keys.map(\.description) ?? [])
                // Nobody has what was made: the kernel did not hear of it.
                let isKnown = state.references.values.contains { $0 != 0 } || !state.openHandles.isEmpty
                return switch command {
                case "mv stuck moved": names == ["moved"]
                case "rm stuck", "rmdir stuck": names.isEmpty
                case "sync stuck", "sleep 9 < stuck": names == ["stuck"] && state.openHandles.isEmpty
                default: names == ["stuck"] && state.nodes.count == before + 1 && !isKnown
                }
            }
        }
        for _ in 0..<30_000 where !isDone() { usleep(10_000) }
        #expect(isDone())
        _ = try tree.unmount()
    }

    @Test func readsWaitForMemoryInsteadOfFailing() throws {
        let tree = try MountedTree(memory: 1 << 20)
        let script = """
            set -eu; cd "$1"
            head -c 6000000 /dev/urandom > a
            for i in 1 2 3 4 5 6; do cat a > /tmp/$2.$i & done; wait
            for i in 1 2 3 4 5 6; do cmp a /tmp/$2.$i; rm /tmp/$2.$i; done
            """
        let run = shell("timeout", "60", "bash", "-c", script, "sh", tree.path, UUID().uuidString)
        #expect(run.status == 0, "\(run.output)")
        _ = try tree.unmount()
    }

    @Test(.rule("error.reason")) func failuresAreLoggedByWeight() throws {
        let tree = try MountedTree()
        try "x".write(toFile: tree.path + "/broken", atomically: false, encoding: .utf8)
        #expect(shell("cat", tree.path + "/broken").output.contains("Input/output error"))
        _ = shell("python3", "-c", "import os,sys; os.getxattr(sys.argv[1], 'user.none')", tree.path)
        let lines = tree.log.lines.withLock { $0 }
        #expect(
            lines.contains {
                $0.level == .warning && $0.text.contains("errno=5") && $0.text.contains("op=read")
                    && $0.text.contains("reason=the store sent other bytes")
            })
        #expect(lines.contains { $0.level == .debug && $0.text.contains("op=getxattr") })
        _ = try tree.unmount()
    }

    @Test func theKernelForgetsWhatItIsTold() throws {
        let tree = try MountedTree()
        try "x".write(toFile: tree.path + "/file", atomically: false, encoding: .utf8)
        let count = { shell("ls", tree.path).output.split(separator: "\n").count }
        #expect(count() == 1)
        #expect(FileManager.default.fileExists(atPath: tree.path + "/file"))
        // Gone behind the kernel's back: it believes in the name for its timeout of 60 s, until it is told.
        tree.fileSystem.state.withLock { $0.nodes[.root]?.children["file"] = nil }
        tree.invalidator.invalidate("file", in: .root)
        tree.invalidator.invalidate(.root)
        let isThere = { FileManager.default.fileExists(atPath: tree.path + "/file") }
        for _ in 0..<500 where isThere() { usleep(10_000) }
        #expect(!isThere())
        _ = try tree.unmount()
    }

    @Test func kernelGivesBackEveryReferenceAndHandle() throws {
        let tree = try MountedTree()
        let script = """
            set -e; cd $1
            for i in 1 2 3 4 5; do mkdir d$i; echo x > d$i/f; done
            ls -lR > /dev/null; cat d*/f > /dev/null; rm -r d*
            """
        #expect(shell("sh", "-c", script, "sh", tree.path).status == 0)
        let isEven = { @Sendable in tree.fileSystem.state.withLock { $0.references.values.allSatisfy { $0 == 0 } } }
        for _ in 0..<500 where !isEven() { usleep(10_000) }
        #expect(isEven(), "\(tree.fileSystem.state.withLock { $0.references })")
        _ = try tree.unmount()
        #expect(tree.fileSystem.state.withLock { $0.openHandles.isEmpty })
    }

    @Test func sessionEndsByUnmountAndShutsTheFileSystemDown() throws {
        let tree = try MountedTree()
        let unstored = try tree.unmount()
        #expect(unstored.map(\.path) == ["left"])
        #expect(tree.fileSystem.state.withLock { $0.isShutDown })
        #expect(try Mountpoint(tree.path).mounted == nil)
    }

    @Test func sessionEndsThoughAFileIsOpenAndAReadHangs() throws {
        let tree = try MountedTree()
        try "x".write(toFile: tree.path + "/hangs", atomically: false, encoding: .utf8)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["cat", tree.path + "/hangs"]
        process.standardError = FileHandle.nullDevice
        try process.run()
        while tree.fileSystem.state.withLock({ $0.openHandles.isEmpty }) { usleep(1000) }
        tree.end()
        _ = try tree.waitForEnd()
        process.waitUntilExit()
        #expect(process.terminationStatus != 0)
        #expect(try Mountpoint(tree.path).mounted == nil)
    }

    @Test func mountTableShowsTheSourceAndTheFlags() throws {
        let tree = try MountedTree(readOnly: true)
        let entry = try #require(try Mountpoint(tree.path).mounted)
        #expect(entry.type == "fuse.pailfs")
        #expect(entry.source == "mem://a%2Cb%20c/p%C3%A4th")
        #expect(throws: (any Error).self) {
            try "x".write(toFile: tree.path + "/f", atomically: false, encoding: .utf8)
        }
        let ahead = try? String(contentsOfFile: "/sys/class/bdi/\(entry.device)/read_ahead_kb", encoding: .utf8)
        if geteuid() == 0, let ahead { #expect(ahead == "2048\n") }
        _ = try tree.unmount()
    }
}
