#!/usr/bin/env python3
"""usage: open_program.py DIRECTORY SEED SECONDS LOG: a program that keeps files open below a new directory, changes them in every
way there is, and compares every byte with what it knows. Writes what is there at its end, as JSON."""

import ctypes
import faulthandler
import hashlib
import json
import os
import pathlib
import random
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
DIRECTORIES, NAMES = ("a", "b", "c"), ("1", "2", "3", "4")
LARGEST = 24 << 20
PUNCH_HOLE, KEEP_SIZE, ZERO_RANGE = 2, 1, 16


class File:
    """What a program knows of a file, with a name or without."""

    def __init__(self):
        self.content, self.mode, self.mtime = bytearray(), 0o644, None


class Program:
    """Random calls on files of a directory of its own; `run` returns what is to be in the bucket below it."""

    def __init__(self, root, seed, log):
        self.root, self.log = root, log
        self.dice = random.Random(seed)
        self.files, self.open, self.directories = {}, [], set()

    # MARK: what it knows

    def path(self, name):
        return self.root / name

    def some_file(self):
        return self.dice.choice(sorted(self.files)) if self.files else None

    def some_open(self, writing=False):
        chosen = [each for each in self.open if not writing or each[2] != os.O_RDONLY]
        return self.dice.choice(chosen) if chosen else None

    def new_name(self):
        return f"{self.dice.choice(sorted(self.directories))}/{self.dice.choice(NAMES)}" if self.directories else None

    def bytes(self, size):
        return self.dice.randbytes(size)

    def note(self, *words):
        print(f"{time.time():.3f}", *words, file=self.log, flush=True)

    def compare(self, what, found, wanted):
        if found == wanted:
            return
        if isinstance(wanted, (bytes, bytearray)) and isinstance(found, bytes):
            first = next((at for at, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), None)
            raise AssertionError(f"{what}: {len(found)} bytes instead of {len(wanted)}, different from {first} on")
        raise AssertionError(f"{what}: {found} instead of {wanted}")

    # MARK: calls

    def op_create(self):
        name = self.new_name()
        if not name or len(self.open) > 8:
            return
        flags = self.dice.choice([os.O_RDWR, os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_APPEND])
        truncates = self.dice.random() < 0.2
        self.note("open", name, flags, truncates)
        descriptor = os.open(self.path(name), flags | os.O_CREAT | (os.O_TRUNC if truncates else 0), 0o644)
        file = self.files.setdefault(name, File())
        if truncates:
            del file.content[:]
            file.mtime = None
        self.opened(descriptor, file, flags)

    def opened(self, descriptor, file, flags):
        self.open.append((descriptor, file, flags))
        self.note("is", descriptor, os.fstat(descriptor).st_ino)

    def op_open(self):
        name = self.some_file()
        if not name or len(self.open) > 8:
            return
        flags = self.dice.choice([os.O_RDWR, os.O_RDONLY])
        self.note("open", name, flags)
        self.opened(os.open(self.path(name), flags), self.files[name], flags)

    def op_close(self):
        if not self.open:
            return
        at = self.dice.randrange(len(self.open))
        descriptor = self.open.pop(at)[0]
        self.note("close", descriptor)
        os.close(descriptor)

    def op_write(self):
        chosen = self.some_open(writing=True)
        if not chosen:
            return
        descriptor, file, flags = chosen
        size = self.dice.choice([1, 100, 4096, 70_000, 1 << 20, 3 << 20])
        length = len(file.content)
        place = self.dice.choice([length, length, self.dice.randrange(length + 1), length + self.dice.randrange(100_000)])
        if flags & os.O_APPEND:
            place = length
        if place + size > LARGEST:
            return
        body = self.bytes(size)
        self.note("write", descriptor, place, size)
        done = 0
        while done < size:
            done += os.pwrite(descriptor, body[done:], place + done)
        if place > length:
            file.content.extend(bytes(place - length))
        file.content[place:place + size] = body
        file.mtime = None

    def op_stream(self):
        """What most programs do: a whole file, from its beginning to its end."""
        name = self.new_name()
        if not name:
            return
        size = self.dice.choice([0, 3000, 200_000, 6 << 20, 17 << 20])
        self.note("stream", name, size)
        body = self.bytes(size)
        with open(self.path(name), "wb", buffering=0) as stream:
            for start in range(0, size, 128 << 10):
                stream.write(body[start:start + (128 << 10)])
        file = self.files.setdefault(name, File())
        file.content[:] = body
        file.mtime = None

    def op_read(self):
        chosen = self.some_open()
        if not chosen or chosen[2] & os.O_WRONLY:
            return
        descriptor, file, _ = chosen
        place = self.dice.randrange(len(file.content) + 1)
        size = self.dice.choice([1, 5000, 300_000, 4 << 20])
        self.note("read", descriptor, place, size)
        wanted = bytes(file.content[place:place + size])
        found = b""
        while len(found) < size:
            piece = os.pread(descriptor, size - len(found), place + len(found))
            if not piece:
                break
            found += piece
        self.compare(f"read of {descriptor} at {place}", found, wanted)

    def op_load(self):
        name = self.some_file()
        if not name:
            return
        self.note("load", name)
        self.compare(f"content of {name}", self.path(name).read_bytes(), bytes(self.files[name].content))

    def op_sync(self):
        chosen = self.some_open(writing=True)
        if not chosen:
            return
        self.note("fsync", chosen[0])
        os.fsync(chosen[0])

    def op_truncate(self):
        chosen = self.some_open(writing=True)
        if not chosen:
            return
        descriptor, file, _ = chosen
        length = len(file.content)
        size = self.dice.choice([0, self.dice.randrange(length + 1), min(LARGEST, length + self.dice.randrange(2 << 20))])
        self.note("truncate", descriptor, size)
        os.ftruncate(descriptor, size)
        if size < length:
            del file.content[size:]
        else:
            file.content.extend(bytes(size - length))
        file.mtime = None

    def op_zero(self):
        chosen = self.some_open(writing=True)
        if not chosen or not chosen[1].content:
            return
        descriptor, file, _ = chosen
        length = len(file.content)
        place = self.dice.randrange(length)
        size = min(length - place, self.dice.choice([1, 10_000, 1 << 20]))
        mode = self.dice.choice([PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE | KEEP_SIZE])
        self.note("zero", descriptor, place, size, mode)
        if LIBC.fallocate(descriptor, mode, ctypes.c_long(place), ctypes.c_long(size)):
            raise OSError(ctypes.get_errno(), f"fallocate: {os.strerror(ctypes.get_errno())}")
        file.content[place:place + size] = bytes(size)
        file.mtime = None

    def op_copy(self):
        source, target = self.some_open(), self.some_open(writing=True)
        if not source or not target or source[2] & os.O_WRONLY or target[2] & os.O_APPEND or source[1] is target[1]:
            return
        size = min(len(source[1].content), self.dice.choice([1000, LARGEST]))
        place = self.dice.choice([0, 0, len(target[1].content)])
        if place + size > LARGEST:
            return
        if place == 0 and self.dice.random() < 0.7:
            self.note("truncate", target[0], 0)
            os.ftruncate(target[0], 0)
            del target[1].content[:]
        self.note("copy", source[0], target[0], place, size)
        done = 0
        while done < size:
            count = os.copy_file_range(source[0], target[0], size - done, done, place + done)
            if not count:
                raise AssertionError(f"copy_file_range stopped at {done} of {size}")
            done += count
        content = target[1].content
        if place > len(content):
            content.extend(bytes(place - len(content)))
        content[place:place + size] = source[1].content[:size]
        target[1].mtime = None

    def op_rename(self):
        old, new = self.some_file(), self.new_name()
        if not old or not new or old == new:
            return
        self.note("rename", old, new)
        os.rename(self.path(old), self.path(new))
        self.files[new] = self.files.pop(old)

    def op_unlink(self):
        name = self.some_file()
        if not name:
            return
        self.note("unlink", name)
        os.unlink(self.path(name))
        del self.files[name]

    def op_directory(self):
        name = self.dice.choice(DIRECTORIES)
        inside = [each for each in self.files if each.startswith(name + "/")]
        if name not in self.directories:
            self.note("mkdir", name)
            os.mkdir(self.path(name))
            self.directories.add(name)
        elif not inside and len(self.directories) > 1:
            self.note("rmdir", name)
            os.rmdir(self.path(name))
            self.directories.discard(name)
        else:
            free = [each for each in DIRECTORIES if each not in self.directories]
            if not free:
                return
            new = self.dice.choice(free)
            self.note("rename", name, new)
            os.rename(self.path(name), self.path(new))
            self.directories.discard(name)
            self.directories.add(new)
            for each in inside:
                self.files[new + each[len(name):]] = self.files.pop(each)

    def op_attributes(self):
        chosen = self.some_open()
        if not chosen:
            return
        descriptor, file, _ = chosen
        if self.dice.random() < 0.5:
            mode = self.dice.choice([0o600, 0o640, 0o644])
            self.note("chmod", descriptor, oct(mode))
            os.fchmod(descriptor, mode)
            file.mode = mode
        else:
            mtime = self.dice.randrange(1_000_000_000, 1_700_000_000)
            self.note("utime", descriptor, mtime)
            os.utime(descriptor, (mtime, mtime))
            file.mtime = mtime

    def op_stat(self):
        for descriptor, file, _ in self.open:
            self.check_status(f"descriptor {descriptor}", os.fstat(descriptor), file)
        for name, file in self.files.items():
            self.check_status(name, os.stat(self.path(name)), file)

    def check_status(self, what, status, file):
        what = f"{what} (inode {status.st_ino})"
        self.compare(f"size of {what}", status.st_size, len(file.content))
        self.compare(f"mode of {what}", oct(status.st_mode & 0o777), oct(file.mode))
        if file.mtime is not None:
            self.compare(f"mtime of {what}", status.st_mtime, file.mtime)

    def op_list(self):
        self.note("list")
        self.compare("directories", sorted(os.listdir(self.root)), sorted(self.directories))
        for directory in self.directories:
            wanted = sorted(name.split("/")[1] for name in self.files if name.startswith(directory + "/"))
            self.compare(f"names in {directory}", sorted(os.listdir(self.root / directory)), wanted)

    WEIGHTS = {"create": 6, "open": 6, "close": 9, "write": 25, "stream": 3, "read": 15, "load": 3, "sync": 4, "truncate": 4,
               "zero": 2, "copy": 3, "rename": 5, "unlink": 3, "directory": 2, "attributes": 3, "stat": 3, "list": 2}

    def run(self, seconds):
        end, calls = time.monotonic() + seconds, 0
        self.note("mkdir", self.root)
        os.mkdir(self.root)
        while time.monotonic() < end:
            name = self.dice.choices(list(self.WEIGHTS), list(self.WEIGHTS.values()))[0]
            # A call that has no end is told with the place it hangs at.
            faulthandler.dump_traceback_later(120, exit=True)
            getattr(self, "op_" + name)()
            calls += 1
        faulthandler.cancel_dump_traceback_later()
        self.op_stat()
        while self.open:
            self.op_close()
        self.op_list()
        self.op_stat()
        return calls, {name: (len(file.content), hashlib.sha256(file.content).hexdigest())
                       for name, file in self.files.items()}


def main(root, seed, seconds, log):
    with open(log, "w", encoding="utf-8") as log:
        calls, files = Program(pathlib.Path(root), int(seed), log).run(float(seconds))
    json.dump({"calls": calls, "files": files}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
