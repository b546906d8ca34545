"""Works on one file at random through many descriptors and mappings, and compares every byte with a model in memory.

data.py FILE [--operations N] [--size BYTES] [--longest BYTES] [--start BYTES] [--commits PERCENT] [--seed N]

--size      the file is never longer than this
--longest   most bytes of one read or write
--start     length of random bytes the file begins with
--commits   how often a descriptor is closed or synced
--seed      the same seed does the same; without it one is made up

On a difference the seed is printed, and the shortest sequence of operations that still shows it.
"""

import argparse
import ctypes
import errno
import mmap
import os
import random
import sys

sys.dont_write_bytecode = True

import shrinking  # noqa: E402

KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
HANDLES = 4
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Difference(Exception):
    pass


def check(isTrue, words):
    if not isTrue:
        raise Difference(words)


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, offset, length):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def first_difference(found, wanted):
    if len(found) != len(wanted):
        return f"{len(found)} bytes instead of {len(wanted)}"
    start = next(at for at in range(len(wanted)) if found[at] != wanted[at])
    end = next((at for at in range(start, len(wanted)) if found[at] == wanted[at]), len(wanted))
    return f"differs at +{start}..{end}: {bytes(found[start:start + 8])!r} instead of {bytes(wanted[start:start + 8])!r}"


def payload(number, length):
    """Bytes that tell which operation wrote them and where."""
    unit = b"%08x." % number
    return (unit * (length // len(unit) + 1))[:length]


class Run:
    """The operations, applied to the file and to the model. Offsets are cut to what the size allows."""

    def __init__(self, path, options):
        self.path, self.size = path, options.size
        for name in (path, path + ".copy"):
            if os.path.lexists(name):
                os.unlink(name)
        self.model = bytearray(random.Random(7).randbytes(options.start))
        with open(path, "wb") as file:
            file.write(self.model)
        self.handles = [os.open(path, os.O_RDWR) for _ in range(HANDLES)]
        self.appender = os.open(path, os.O_WRONLY | os.O_APPEND)
        self.direct = os.open(path, os.O_RDWR | os.O_DIRECT)

    def end(self):
        for fd in self.handles + [self.appender, self.direct]:
            os.close(fd)

    # Each of these gets the operation's number, a descriptor, an offset and a length.

    def put(self, offset, data):
        if offset > len(self.model):
            self.model.extend(bytes(offset - len(self.model)))
        self.model[offset:offset + len(data)] = data

    def cut(self, size):
        if size < len(self.model):
            del self.model[size:]
        else:
            self.model.extend(bytes(size - len(self.model)))

    def compare(self, found, offset, length):
        wanted = self.model[offset:offset + length]
        if found != wanted:
            raise Difference(f"read of {offset}+{length}: {first_difference(found, wanted)}")

    def read(self, number, fd, offset, length):
        self.compare(os.pread(fd, length, offset), offset, length)

    def write(self, number, fd, offset, length):
        data = payload(number, min(length, self.size - offset))
        check(os.pwrite(fd, data, offset) == len(data), "a short write")
        self.put(offset, data)

    def append(self, number, fd, offset, length):
        data = payload(number, min(length, self.size - len(self.model)))
        check(os.write(self.appender, data) == len(data), "a short append")
        self.put(len(self.model), data)

    def ftruncate(self, number, fd, offset, length):
        os.ftruncate(fd, offset)
        self.cut(offset)

    def truncate(self, number, fd, offset, length):
        os.truncate(self.path, offset)
        self.cut(offset)

    def map_read(self, number, fd, offset, length):
        if not self.model:
            return
        with mmap.mmap(fd, len(self.model), mmap.MAP_SHARED, mmap.PROT_READ) as map:
            self.compare(map[offset:offset + length], offset, length)

    def map_write(self, number, fd, offset, length):
        data = payload(number, min(length, self.size - offset))
        if not data:
            return
        if offset + len(data) > len(self.model):
            os.ftruncate(fd, offset + len(data))
            self.cut(offset + len(data))
        with mmap.mmap(fd, len(self.model)) as map:
            map[offset:offset + len(data)] = data
            if number % 2:
                map.flush()
        self.put(offset, data)

    def map_private(self, number, fd, offset, length):
        if not self.model:
            return
        with mmap.mmap(fd, len(self.model), mmap.MAP_PRIVATE) as map:
            map[offset:offset + length] = bytes(len(map[offset:offset + length]))
        self.read(number, fd, offset, length)

    def allocate(self, number, fd, offset, length):
        length = min(length, self.size - offset)
        if length:
            fallocate(fd, 0, offset, length)
            self.cut(max(len(self.model), offset + length))

    def allocate_beyond(self, number, fd, offset, length):
        fallocate(fd, KEEP_SIZE, offset, length)

    def punch(self, number, fd, offset, length):
        fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length)
        end = min(offset + length, len(self.model))
        self.model[offset:end] = bytes(max(0, end - offset))

    def zero(self, number, fd, offset, length):
        length = min(length, self.size - offset)
        if not length:
            return
        keeps = number % 2
        fallocate(fd, ZERO_RANGE | (KEEP_SIZE if keeps else 0), offset, length)
        end = min(offset + length, len(self.model)) if keeps else offset + length
        if offset < end:
            self.put(offset, bytes(end - offset))

    def copy_within(self, number, fd, offset, length):
        target = (offset * 7 + number * 4096) % self.size
        length = min(length, self.size - target)
        if abs(target - offset) < length:
            return
        data = bytes(self.model[offset:offset + length])
        done = 0
        while done < len(data):
            count = os.copy_file_range(fd, self.handles[number % HANDLES], len(data) - done, offset + done, target + done)
            check(count > 0, "copy_file_range ended early")
            done += count
        if data:
            self.put(target, data)

    def copy_whole(self, number, fd, offset, length):
        """As cp does it; then a change of the copy, a change of the source, and both are compared."""
        copy = os.open(self.path + ".copy", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            at = 0
            while count := os.copy_file_range(fd, copy, 1 << 30, at, at):
                at += count
            check(at == len(self.model), f"a copy has {at} bytes instead of {len(self.model)}")
            wanted = bytearray(self.model)
            if number % 3 and wanted:
                place = offset % len(wanted)
                data = payload(number, min(length, len(wanted) - place))
                os.pwrite(copy, data, place)
                wanted[place:place + len(data)] = data
            if number % 5 == 0:
                self.write(number, fd, offset, length)
                os.fsync(fd)
            if number % 2:
                os.close(copy)
                copy = os.open(self.path + ".copy", os.O_RDONLY)
            found = os.pread(copy, len(wanted) + 1, 0)
            if found != wanted:
                raise Difference("the copy " + first_difference(found, wanted))
        finally:
            os.close(copy)

    def seek(self, number, fd, offset, length):
        size, zeros = len(self.model), bytes(1 << 16)
        for whence in (os.SEEK_DATA, os.SEEK_HOLE):
            try:
                found = os.lseek(fd, offset, whence)
            except OSError as error:
                check(error.errno == errno.ENXIO, f"seek: {error}")
                check(offset >= size or whence == os.SEEK_DATA, "no hole at the end of the file")
                skipped = memoryview(self.model)[offset:]
            else:
                check(offset <= found <= size, f"seek from {offset} to {found} in {size} bytes")
                skipped = memoryview(self.model)[offset:found] if whence == os.SEEK_DATA else b""
                if whence == os.SEEK_HOLE and found < size:
                    check(self.model[found] == 0, f"the hole at {found} is none")
            for at in range(0, len(skipped), len(zeros)):
                piece = skipped[at:at + len(zeros)]
                check(piece == zeros[:len(piece)], f"data was skipped after {offset}")

    def direct_read(self, number, fd, offset, length):
        buffer = mmap.mmap(-1, (length + 4095) // 4096 * 4096 or 4096)
        offset = offset // 4096 * 4096
        try:
            count = os.preadv(self.direct, [buffer], offset)
            self.compare(buffer[:count], offset, len(buffer))
        finally:
            buffer.close()

    def direct_write(self, number, fd, offset, length):
        offset, length = offset // 4096 * 4096, (length + 4095) // 4096 * 4096
        if offset + length > self.size or not length:
            return
        with mmap.mmap(-1, length) as buffer:
            buffer[:] = payload(number, length)
            check(os.pwritev(self.direct, [buffer], offset) == length, "a short direct write")
        self.put(offset, payload(number, length))

    def size_of(self, number, fd, offset, length):
        for found in (os.fstat(fd).st_size, os.stat(self.path).st_size, os.lseek(fd, 0, os.SEEK_END)):
            check(found == len(self.model), f"{found} bytes long instead of {len(self.model)}")

    def forget_pages(self, number, fd, offset, length):
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync(self, number, fd, offset, length):
        (os.fsync if number % 2 else os.fdatasync)(fd)

    def reopen(self, number, fd, offset, length):
        at = self.handles.index(fd)
        os.close(fd)
        self.handles[at] = os.open(self.path, os.O_RDWR)

    def reopen_all(self, number, fd, offset, length):
        self.end()
        check(os.stat(self.path).st_size == len(self.model), "another length after the last close")
        self.handles = [os.open(self.path, os.O_RDWR) for _ in range(HANDLES)]
        self.appender = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        self.direct = os.open(self.path, os.O_RDWR | os.O_DIRECT)

    def empty(self, number, fd, offset, length):
        os.close(os.open(self.path, os.O_WRONLY | os.O_TRUNC))
        self.cut(0)

    def rename(self, number, fd, offset, length):
        os.rename(self.path, self.path + ".moved")
        self.read(number, fd, offset, length)
        os.rename(self.path + ".moved", self.path)

    def compare_all(self, number, fd, offset, length):
        self.size_of(number, fd, offset, length)
        for at in range(0, len(self.model), 1 << 20):
            self.read(number, fd, at, 1 << 20)

    def apply(self, number, operation):
        name, which, offset, length = operation
        try:
            getattr(self, name)(number, self.handles[which], offset, length)
        except OSError as error:
            raise Difference(f"{type(error).__name__}: {error}") from error


CHANGES = {
    "read": 20, "write": 20, "append": 5, "ftruncate": 3, "truncate": 2, "map_read": 6, "map_write": 8,
    "map_private": 1, "allocate": 2, "allocate_beyond": 1, "punch": 4, "zero": 4, "copy_within": 4, "seek": 4,
    "direct_read": 4, "direct_write": 4, "size_of": 4,
}
COMMITS = {
    "sync": 4, "reopen": 4, "reopen_all": 4, "forget_pages": 2, "copy_whole": 2, "empty": 0.3, "rename": 0.7,
    "compare_all": 2,
}


def sequence(options):
    """Does not depend on what happens, so any part of it can be done again."""
    generator = random.Random(options.seed)
    tables = [(list(table), list(table.values())) for table in (CHANGES, COMMITS)]
    operations = []
    for _ in range(options.operations):
        names, weights = tables[generator.random() * 100 < options.commits]
        offset = generator.randrange(options.size)
        if generator.random() < 0.3:
            offset = offset // 4096 * 4096
        # Mostly short, sometimes as long as allowed.
        length = int(options.longest ** generator.random())
        operations.append((generator.choices(names, weights)[0], generator.randrange(HANDLES), offset, length))
    return operations


def play(numbered, options):
    """None, or how many operations it took to see a difference, and which."""
    run, done = Run(options.file, options), 0
    try:
        for number, operation in numbered:
            done += 1
            run.apply(number, operation)
        done += 1
        run.reopen_all(0, None, 0, 0)
        run.compare_all(0, run.handles[0], 0, 0)
    except Difference as difference:
        return min(done, len(numbered)), str(difference)
    finally:
        try:
            run.end()
        except OSError:
            pass
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    for name, value in (("operations", 3000), ("size", 300_000), ("longest", 40_000), ("start", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--commits", type=float, default=8)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    numbered = list(enumerate(sequence(options), 1))
    failure = play(numbered, options)
    if not failure:
        return
    for line in shrinking.report(numbered, failure, lambda part: play(part, options), options.seed):
        print(line, file=sys.stderr, flush=True)
    sys.exit(1)


main()
