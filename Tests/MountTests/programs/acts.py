"""What a program can do to a tree: the same acts for a mount and for the directory that it is compared with."""

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import stat

HANDLES = 3
LONG = "long" * 63 + "est"
NAMES = ["a", "b", "c", "\u00e9 x", "%41", LONG]
FOLDERS = ["d", "e"]
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, NOREPLACE, AT_FDCWD = 1, 2, 16, 1, -100
FLAGS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR, "c": os.O_CREAT, "x": os.O_EXCL, "t": os.O_TRUNC,
         "a": os.O_APPEND, "n": os.O_NOFOLLOW, "d": os.O_DIRECTORY}

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def call(function, *arguments):
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def payload(number, length):
    """Bytes that tell which act wrote them and where."""
    unit = b"%08x." % number
    return (unit * (length // len(unit) + 1))[:length]


class Side:
    """One of the two trees, and the descriptors open in it. Each act answers what a program would see of it."""

    def __init__(self, root):
        self.root = root
        self.handles = [None] * HANDLES

    def at(self, path):
        return f"{self.root}/{path}" if path else self.root

    def fd(self, slot):
        if self.handles[slot] is None:
            raise OSError(errno.EBADF, "no such handle")
        return self.handles[slot]

    # Descriptors. What close(2) was told of a descriptor that makes room is told with the act.

    def open(self, number, slot, path, words, mode):
        if self.handles[slot] is not None:
            self.close(number, slot)
        flags = 0
        for word in words:
            flags |= FLAGS[word]
        self.handles[slot] = os.open(self.at(path), flags, mode)

    def close(self, number, slot):
        fd, self.handles[slot] = self.fd(slot), None
        os.close(fd)

    def close_all(self, number):
        for slot in range(HANDLES):
            if self.handles[slot] is not None:
                self.close(number, slot)

    def close_a_duplicate(self, number, slot):
        os.close(os.dup(self.fd(slot)))

    def pwrite(self, number, slot, offset, length):
        return os.pwrite(self.fd(slot), payload(number, length), offset)

    def pread(self, number, slot, offset, length):
        return os.pread(self.fd(slot), length, offset)

    def write(self, number, slot, length):
        return os.write(self.fd(slot), payload(number, length))

    def read(self, number, slot, length):
        return os.read(self.fd(slot), length)

    def lseek(self, number, slot, offset, whence):
        fd = self.fd(slot)
        # Offsets in a directory are each file system's own.
        return None if stat.S_ISDIR(os.fstat(fd).st_mode) else os.lseek(fd, offset, whence)

    def set_append(self, number, slot, isSet):
        fd = self.fd(slot)
        flags = fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_APPEND
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | (os.O_APPEND if isSet else 0))

    def ftruncate(self, number, slot, size):
        os.ftruncate(self.fd(slot), size)

    def fallocate(self, number, slot, mode, offset, length):
        call(libc.fallocate, self.fd(slot), mode, offset, length)

    def fsync(self, number, slot):
        os.fsync(self.fd(slot))

    def fdatasync(self, number, slot):
        os.fdatasync(self.fd(slot))

    def fstat(self, number, slot):
        status = os.fstat(self.fd(slot))
        if status.st_mode & 0o170000 == 0o040000:
            return status.st_mode
        return status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_nlink

    def fchmod(self, number, slot, mode):
        os.fchmod(self.fd(slot), mode)

    def fchown(self, number, slot, uid, gid):
        os.fchown(self.fd(slot), uid, gid)

    def futimens(self, number, slot, nanoseconds):
        os.utime(self.fd(slot), ns=(nanoseconds, nanoseconds))

    def map_write(self, number, slot, offset, length):
        fd = self.fd(slot)
        size = os.fstat(fd).st_size
        if offset >= size:
            return None
        with mmap.mmap(fd, size) as map:
            data = payload(number, min(length, size - offset))
            map[offset:offset + len(data)] = data
            map.flush()

    def map_read(self, number, slot, offset, length):
        fd = self.fd(slot)
        size = os.fstat(fd).st_size
        if not size:
            return None
        with mmap.mmap(fd, size, prot=mmap.PROT_READ) as map:
            return map[offset:offset + length]

    def copy_range(self, number, source, target, offset, to, length):
        """All of it, however many calls that takes."""
        done = 0
        while done < length:
            count = os.copy_file_range(self.fd(source), self.fd(target), length - done, offset + done, to + done)
            if not count:
                break
            done += count
        return done

    def send_file(self, number, source, target, offset, length):
        return os.sendfile(self.fd(target), self.fd(source), offset, length)

    def fsetxattr(self, number, slot, name, length):
        os.setxattr(self.fd(slot), name, payload(number, length))

    # Paths.

    def save(self, number, path, length, mode):
        """As editors and shells do."""
        fd = os.open(self.at(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            os.write(fd, payload(number, length))
        finally:
            os.close(fd)

    def append(self, number, path, length):
        fd = os.open(self.at(path), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, payload(number, length))
        finally:
            os.close(fd)

    def load(self, number, path):
        with open(self.at(path), "rb", buffering=0) as file:
            return file.readall()

    def truncate(self, number, path, size):
        os.truncate(self.at(path), size)

    def mkdir(self, number, path, mode):
        os.mkdir(self.at(path), mode)

    def rmdir(self, number, path):
        os.rmdir(self.at(path))

    def remove_tree(self, number, path):
        if os.path.islink(self.at(path)):
            raise OSError(errno.ENOTDIR, "rmtree has no number for a link")
        shutil.rmtree(self.at(path))

    def unlink(self, number, path):
        os.unlink(self.at(path))

    def rename(self, number, old, new):
        os.rename(self.at(old), self.at(new))

    def rename_noreplace(self, number, old, new):
        call(libc.renameat2, AT_FDCWD, os.fsencode(self.at(old)), AT_FDCWD, os.fsencode(self.at(new)), NOREPLACE)

    def replace(self, number, path, length):
        """A new version beside the old one, synced, and renamed over it."""
        beside = os.path.join(os.path.dirname(path), "new")
        self.save(number, beside, length, 0o640)
        fd = os.open(self.at(beside), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        try:
            os.rename(self.at(beside), self.at(path))
        except OSError:
            os.unlink(self.at(beside))
            raise

    def symlink(self, number, path, target):
        os.symlink(target, self.at(path))

    def readlink(self, number, path):
        return os.readlink(self.at(path))

    def chmod(self, number, path, mode):
        os.chmod(self.at(path), mode)

    def lchown(self, number, path, uid, gid):
        os.chown(self.at(path), uid, gid, follow_symlinks=False)

    def utimens(self, number, path, nanoseconds):
        os.utime(self.at(path), ns=(nanoseconds, nanoseconds))

    def touch(self, number, path):
        os.utime(self.at(path))

    def mknod(self, number, path, mode):
        os.mknod(self.at(path), 0o100000 | mode)

    def access(self, number, path, mode):
        return os.access(self.at(path), mode)

    def listdir(self, number, path):
        return sorted(os.listdir(self.at(path)))

    def setxattr(self, number, path, name, length, flags):
        os.setxattr(self.at(path), name, payload(number, length), flags)

    def getxattr(self, number, path, name):
        return os.getxattr(self.at(path), name)

    def removexattr(self, number, path, name):
        os.removexattr(self.at(path), name)

    def listxattr(self, number, path):
        return sorted(os.listxattr(self.at(path)))


def a_path(random, folder=False):
    """Mostly of what may be there, now and then of what cannot be."""
    depth = random.choices((0, 1, 2, 3), (10, 8, 4, 1))[0]
    parts = [random.choice(FOLDERS) for _ in range(depth)]
    last = FOLDERS if folder and random.random() < 0.9 or random.random() < 0.06 else NAMES
    if random.random() < 0.01:
        return "/".join(parts + ["a", "b"])
    if random.random() < 0.005:
        return "/".join(parts + [LONG + "l"])
    return "/".join(parts + [random.choice(last)])


def an_act(random):
    """A name of `Side` with its arguments. Depends on nothing but `random`, so that any part of a sequence can be done."""
    slot = lambda: random.randrange(HANDLES)
    path = lambda: a_path(random)
    folder = lambda: a_path(random, folder=True)
    offset = lambda: random.randrange(60_000) if random.random() < 0.8 else random.randrange(15) * 4096
    length = lambda: int(40_000 ** random.random())
    mode = lambda: random.choice((0o600, 0o640, 0o644, 0o664, 0o700, 0o755, 0o444, 0o4755))
    owner = lambda: random.choice((0, 1000, 65534))
    moment = lambda: random.randrange(10**18, 2 * 10**18)
    attribute = lambda: "user." + random.choice(("colour", "shape"))

    def an_open():
        words = [random.choices(("r", "w", "rw"), (3, 2, 5))[0]]
        words += [word for word, chance in (("c", 0.6), ("x", 0.1), ("t", 0.15), ("a", 0.2), ("n", 0.1), ("d", 0.02))
                  if random.random() < chance]
        return slot(), path(), words, mode()

    table = {
        "open": (16, an_open),
        "close": (4, lambda: (slot(),)),
        "close_all": (0.2, lambda: ()),
        "close_a_duplicate": (2, lambda: (slot(),)),
        "pwrite": (12, lambda: (slot(), offset(), length())),
        "pread": (8, lambda: (slot(), offset(), length())),
        "write": (6, lambda: (slot(), length())),
        "read": (4, lambda: (slot(), length())),
        "lseek": (2, lambda: (slot(), random.randrange(-100, 50_000), random.randrange(3))),
        "set_append": (1, lambda: (slot(), random.random() < 0.5)),
        "ftruncate": (4, lambda: (slot(), offset())),
        "fallocate": (3, lambda: (
            slot(), random.choice((0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE)), offset(),
            length())),
        "fsync": (2, lambda: (slot(),)),
        "fdatasync": (1, lambda: (slot(),)),
        "fstat": (4, lambda: (slot(),)),
        "fchmod": (2, lambda: (slot(), mode())),
        "fchown": (1, lambda: (slot(), owner(), owner())),
        "futimens": (2, lambda: (slot(), moment())),
        "map_write": (3, lambda: (slot(), offset(), length())),
        "map_read": (2, lambda: (slot(), offset(), length())),
        "copy_range": (3, lambda: (slot(), slot(), random.choice((0, offset())), random.choice((0, offset())), length())),
        "send_file": (1, lambda: (slot(), slot(), offset(), length())),
        "fsetxattr": (1, lambda: (slot(), attribute(), random.randrange(60))),
        "save": (12, lambda: (path(), length(), mode())),
        "append": (4, lambda: (path(), length())),
        "load": (6, lambda: (path(),)),
        "truncate": (4, lambda: (path(), offset())),
        "mkdir": (6, lambda: (folder(), mode() | 0o100)),
        "rmdir": (4, lambda: (folder(),)),
        "remove_tree": (0.7, lambda: (folder(),)),
        "unlink": (10, lambda: (path(),)),
        "rename": (8, lambda: (path(), path()) if random.random() < 0.8 else (folder(), folder())),
        "rename_noreplace": (2, lambda: (path(), path())),
        "replace": (3, lambda: (path(), length())),
        "symlink": (4, lambda: (path(), random.choice(NAMES[:3] + ["d/a", "./b", "e", "nothing", "/nowhere/at/all"]))),
        "readlink": (3, lambda: (path(),)),
        "chmod": (3, lambda: ((path if random.random() < 0.7 else folder)(), mode())),
        "lchown": (2, lambda: (path(), owner(), owner())),
        "utimens": (2, lambda: ((path if random.random() < 0.7 else folder)(), moment())),
        "touch": (1, lambda: (path(),)),
        "mknod": (1, lambda: (path(), mode())),
        "access": (1, lambda: (path(), random.choice((os.F_OK, os.R_OK, os.X_OK)))),
        "listdir": (2, lambda: (folder(),)),
        "setxattr": (2, lambda: (path(), attribute(), random.randrange(60), random.choice((0, 0, 1, 2)))),
        "getxattr": (2, lambda: (path(), attribute())),
        "removexattr": (1, lambda: (path(), attribute())),
        "listxattr": (1, lambda: (path(),)),
        # Of the runner, not of a program.
        "refused": (1, lambda: (path(), path())),
        "somebody_puts": (3, lambda: (path(), length())),
        "somebody_deletes": (1, lambda: (path(),)),
        "pause": (0.05, lambda: ()),
        "kill": (0.15, lambda: ()),
        "remount": (0.3, lambda: ()),
        "another_machine": (0.1, lambda: ()),
    }
    name = random.choices(list(table), [weight for weight, _ in table.values()])[0]
    return (name, *table[name][1]())
