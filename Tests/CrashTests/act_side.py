"""An act runs in a directory of a mount and in one of a local disk, which shows the right result. Both write down the answer
of each call, and use the open handles once more at the end."""

import contextlib
import errno
import functools
import hashlib
import os
import random
import stat
import time

SMALL, BIG = 3000, 11 << 20
ERRNO = errno.errorcode


@functools.cache
def content(seed, size=SMALL):
    return random.Random(str(seed)).randbytes(size)


def short(value):
    """As little of a result as tells it from others."""
    if isinstance(value, bytes) and len(value) > 24:
        return f"{len(value)} bytes {hashlib.sha256(value).hexdigest()[:12]}"
    return value


class Side:
    """A directory on a local disk, where acts are done as POSIX has them."""

    is_local = True

    def __init__(self, root):
        self.root = str(root)
        self.results, self.handles, self.dirty, self.stalled = [], {}, [], False

    def path(self, name):
        return os.path.join(self.root, name) if name else self.root

    def call(self, label, function, *arguments):
        try:
            result = function(*arguments)
        except OSError as error:
            result = ERRNO.get(error.errno, error.errno)
        self.results.append((label, short(result)))
        return result

    def permitted(self, label, error, rule, function, *arguments):
        """A call that is refused with `error` in a mount, as `rule` of pailfs-semantics(7) says."""
        assert rule
        if self.is_local:
            self.results.append((label, error))
        else:
            self.call(label, function, *arguments)

    # States that only a mount has.

    def settle(self):
        """Waits until the bucket has everything."""

    def settle_unless_stalled(self):
        """The same, unless something is to stay acknowledged."""
        if not self.stalled:
            self.settle()

    def stall(self):
        """From now on nothing reaches the bucket until the act begins."""
        self.stalled = True

    def foreign(self, name, body):
        """An object that another host stored."""
        self.write(name, body)

    def shared(self, name):
        """Two keys that want the name: a file, and a directory of one file. Returns the name that the file is shown under."""
        self.mkdir(name)
        self.write(name + "/x", content("inner"))
        self.write(name + "%%file", content("shared"))
        return name + "%%file"

    def shared_link(self, name):
        """A file and a link of one name. Returns the name that the link is shown under."""
        self.write(name, content("shared"))
        self.symlink("nowhere", name + "%%link")
        return name + "%%link"

    # Calls.

    def write(self, name, body, flags=os.O_TRUNC):
        """Makes or rewrites a file, and closes it."""
        if self.open("_", name, os.O_CREAT | os.O_WRONLY | flags):
            self.send("_", body)
            self.close("_")
        self.dirty.append(name)

    def acked(self, name, body):
        """A file whose close returned, and which the bucket does not have yet."""
        self.settle()
        self.stall()
        self.write(name, body)

    def open(self, handle, name, flags):
        opened = self.call(f"open {name}", lambda: os.open(self.path(name), flags, 0o644))
        if isinstance(opened, str):
            return False
        self.handles[handle] = (opened, flags)
        self.results[-1] = (f"open {name}", "opened")
        return True

    def send(self, handle, body, offset=None):
        number = self.number(handle)

        def whole():
            done = 0
            while done < len(body):
                piece = body[done:done + (1 << 20)]
                done += os.write(number, piece) if offset is None else os.pwrite(number, piece, offset + done)
            return done
        self.call(f"write {handle}", whole)

    def read(self, handle, size=64 << 20, offset=0):
        number = self.number(handle)

        def whole():
            pieces, place = [], offset
            while piece := os.pread(number, min(1 << 20, size - (place - offset)), place):
                pieces.append(piece)
                place += len(piece)
            return b"".join(pieces)
        return self.call(f"read {handle}", whole)

    def ftruncate(self, handle, size):
        self.call(f"ftruncate {handle}", os.ftruncate, self.number(handle), size)

    def fsync(self, handle):
        self.call(f"fsync {handle}", os.fsync, self.number(handle))

    def close(self, handle):
        number = self.number(handle)
        self.handles.pop(handle, None)
        self.call(f"close {handle}", os.close, number)

    def number(self, handle):
        """The descriptor; of a file that could not be opened -1, with which every call is EBADF."""
        return self.handles.get(handle, (-1, 0))[0]

    def leave(self):
        """Closes what an act that broke has left open."""
        for number, _ in self.handles.values():
            with contextlib.suppress(OSError):
                os.close(number)
        self.handles = {}

    def one(self, name, *arguments, **options):
        """A call of `os` that takes a path first."""
        self.call(f"{name.__name__} {arguments[0]}", lambda: name(self.path(arguments[0]), *arguments[1:], **options))

    def rename(self, old, new):
        self.call(f"rename {old} {new}", os.rename, self.path(old), self.path(new))

    def link(self, old, new):
        self.permitted(f"link {old} {new}", "EPERM", "link", os.link, self.path(old), self.path(new))

    def symlink(self, target, name):
        self.call(f"symlink {name}", os.symlink, target, self.path(name))

    def unlink(self, name):
        self.one(os.unlink, name)

    def mkdir(self, name):
        self.one(os.mkdir, name)

    def rmdir(self, name):
        self.one(os.rmdir, name)

    def names(self, name=""):
        """The names of a directory, in order."""
        found = self.call(f"list {name}", lambda: sorted(os.listdir(self.path(name))))
        return found if isinstance(found, list) else []

    def remove_tree(self, name):
        """As rm -rf does it: a listing, and then each name that it had."""
        status = self.call(f"stat {name}", lambda: stat.S_IFMT(os.lstat(self.path(name)).st_mode))
        if status == stat.S_IFDIR:
            for each in self.names(name):
                self.remove_tree(f"{name}/{each}" if name else each)
            self.rmdir(name)
        else:
            self.unlink(name)

    def copy(self, old, new, flags=os.O_CREAT | os.O_TRUNC):
        """As cp(1) does it."""
        if not self.open("from", old, os.O_RDONLY) or not self.open("to", new, os.O_WRONLY | flags):
            return

        def whole():
            total = 0
            while count := os.copy_file_range(self.handles["from"][0], self.handles["to"][0], 1 << 30):
                total += count
            return total
        self.call(f"copy {old} {new}", whole)
        self.close("to")
        self.close("from")

    def finish(self):
        """Uses each open handle once more: what it reads, where a later write goes, and what its close answers."""
        for handle, (number, flags) in list(self.handles.items()):
            self.call(f"fstat {handle}", lambda number=number: (os.fstat(number).st_size, os.fstat(number).st_nlink))
            if flags & os.O_ACCMODE != os.O_WRONLY:
                self.read(handle)
            if flags & os.O_ACCMODE != os.O_RDONLY:
                self.send(handle, b"LATER", 2)
                self.fsync(handle)
            self.close(handle)


class MountSide(Side):
    """A directory of a mount, behind a gate."""

    is_local = False

    def __init__(self, lane, word):
        super().__init__(lane.mount.path / word)
        self.lane, self.word = lane, word

    def settle(self):
        # With `durable=local` a close returns before the bucket has the file.
        names, self.dirty = self.dirty, []
        for name in names if self.lane.variant.durable == "local" else []:
            end = time.monotonic() + 60
            while os.path.isfile(self.path(name)) and os.getxattr(self.path(name), "user.pailfs.dirty") == b"1":
                if time.monotonic() > end:
                    raise AssertionError(f"{name} is not stored")
                time.sleep(0.02)

    def stall(self):
        super().stall()
        self.lane.gate.stall(self.word)

    def foreign(self, name, body):
        self.put(name, body)
        os.setxattr(self.root, "user.pailfs.refresh", b"1")

    def put(self, name, body):
        self.lane.store.put(self.lane.mount.prefix, f"{self.word}/{name}", body)

    def shared(self, name):
        self.put(name + "/x", content("inner"))
        self.foreign(name, content("shared"))
        os.listdir(self.root)
        return name + "%%file"

    def shared_link(self, name):
        self.put(name + ".rclonelink", b"nowhere")
        self.foreign(name, content("shared"))
        os.listdir(self.root)
        return name + "%%link"

