#!/usr/bin/env python3
"""usage: soak.py [NAME...]: a mount lives through a great many of every operation: 100,000, or as many as
PAILFS_SOAK_OPERATIONS says; with PAILFS_TEST_LONG=1 a million.

Promise: an operation takes as long at the end as among the first thousand, and neither memory nor descriptors grow."""

import collections
import os
import statistics
import subprocess
import sys
import tempfile
import time

from bench import PAILFS, Bench, Store
from replaced_names import ServedMount

OPERATIONS = int(os.environ.get("PAILFS_SOAK_OPERATIONS") or (1_000_000 if os.environ.get("PAILFS_TEST_LONG") == "1" else 100_000))
# Operations of one kind whose median is compared.
WINDOW = 1000
# The last windows; the quickest of them counts, since other programs use the machine as well.
LAST = 5
MOST, LEAST_SECONDS = 1.2, 100e-6
# Names that live at once; each round makes new ones and removes the oldest.
LIVING = 200
# The disk's own time is not the mount's: everything is in memory where there is room for it.
MEMORY = "/dev/shm"
LEAST_FREE = 4 << 30
MEMORY_MIB, DESCRIPTORS = 24, 16


class Clock:
    """How long each operation took, by kind."""

    def __init__(self):
        self.times = collections.defaultdict(list)
        self.count = 0

    def __call__(self, kind, act, *arguments, **named):
        began = time.perf_counter()
        answer = act(*arguments, **named)
        self.times[kind].append(time.perf_counter() - began)
        self.count += 1
        return answer

    def slower(self):
        """What has become slower, in words."""
        found = []
        for kind, times in sorted(self.times.items()):
            window = min(WINDOW, len(times) // (2 * LAST))
            first = statistics.median(times[:window])
            last = min(statistics.median(times[len(times) - (n + 1) * window:len(times) - n * window]) for n in range(LAST))
            print(f"{kind:14} {len(times):8}  first {first * 1e6:7.0f} us  last {last * 1e6:7.0f} us  {last / first:5.2f}", flush=True)
            if last > first * MOST and last - first > LEAST_SECONDS:
                found.append(f"{kind} takes {last / first:.2f} times as long")
        return found


def one_round(root, number, clock):
    """Each operation once or more, on names of this round and of those before."""
    directory, name = root / f"d{number % 10}", f"f{number}"
    path = directory / name
    descriptor = clock("create", os.open, path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
    clock("write", os.write, descriptor, b"some words" * 10)
    clock("pwrite", os.pwrite, descriptor, b"x", 50)
    clock("ftruncate", os.ftruncate, descriptor, 90)
    clock("fstat", os.fstat, descriptor)
    clock("close", os.close, descriptor)
    clock("stat", os.stat, path)
    clock("absent", os.path.exists, directory / f"absent{number}")
    descriptor = clock("open", os.open, path, os.O_RDONLY)
    if len(clock("read", os.read, descriptor, 1000)) != 90:
        raise AssertionError(f"{path} has other bytes")
    clock("close reader", os.close, descriptor)
    clock("chmod", os.chmod, path, 0o600)
    clock("utimens", os.utime, path, (number, number))
    clock("setxattr", os.setxattr, path, "user.number", b"%d" % number)
    clock("getxattr", os.getxattr, path, "user.number")
    clock("listxattr", os.listxattr, path)
    clock("removexattr", os.removexattr, path, "user.number")
    descriptor = clock("open to append", os.open, path, os.O_WRONLY | os.O_APPEND)
    clock("append", os.write, descriptor, b"more")
    if number % 16 == 0:
        clock("fsync", os.fsync, descriptor)
    clock("close", os.close, descriptor)
    clock("rename", os.rename, path, directory / f"g{number}")
    clock("rename over", os.rename, directory / f"g{number}", directory / f"same{number % 5}")
    clock("symlink", os.symlink, name, directory / f"l{number}")
    clock("readlink", os.readlink, directory / f"l{number}")
    clock("unlink", os.unlink, directory / f"l{number}")
    clock("mkdir", os.mkdir, directory / f"made{number}")
    clock("rmdir", os.rmdir, directory / f"made{number}")
    clock("copy", (root / f"k{number}").write_bytes, b"kept")
    if number >= LIVING:
        clock("unlink", os.unlink, root / f"k{number - LIVING}")
    if number % 8 == 0:
        clock("readdir", os.listdir, directory)
        clock("stats", os.getxattr, root, "user.pailfs.stats")
        clock("statfs", os.statvfs, root)


def level(mount):
    """Resident memory in MiB and descriptors of the worker, when everything is stored."""
    subprocess.run([PAILFS, "flush", "--wait", mount.path], check=True)
    worker = mount.worker()
    with open(f"/proc/{worker}/status", encoding="ascii") as status:
        memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024
    return memory, len(os.listdir(f"/proc/{worker}/fd"))


def case(mount):
    mount.start()
    for number in range(10):
        (mount.path / f"d{number}").mkdir()
    clock, number, before = Clock(), 0, None
    # Until as many names live as later, there is less to do.
    while number < LIVING:
        one_round(mount.path, number, Clock())
        number += 1
    began = time.monotonic()
    while clock.count < OPERATIONS:
        one_round(mount.path, number, clock)
        number += 1
        # Caches with a bound have filled by then.
        if before is None and clock.count > OPERATIONS // 3:
            before = level(mount)
    after = level(mount)
    print(f"{clock.count} operations in {time.monotonic() - began:.0f} s; memory {before[0]:.0f} -> {after[0]:.0f} MiB, "
          f"descriptors {before[1]} -> {after[1]}", flush=True)
    wrong = clock.slower()
    if after[0] > before[0] + MEMORY_MIB:
        wrong.append(f"memory grows from {before[0]:.0f} to {after[0]:.0f} MiB")
    if after[1] > before[1] + DESCRIPTORS:
        wrong.append(f"descriptors grow from {before[1]} to {after[1]}")
    if wrong:
        raise AssertionError("; ".join(wrong))
    mount.store_and_unmount()
    return len(clock.times)


class SoakBench(Bench):
    mount_type = ServedMount

    def make_store(self):
        # A line for each request would fill the disk.
        (self.work / "requests.log").symlink_to("/dev/null")
        return Store(self.work)


def main(names):
    if os.path.isdir(MEMORY) and os.statvfs(MEMORY).f_bavail * os.statvfs(MEMORY).f_frsize > LEAST_FREE:
        tempfile.tempdir = MEMORY
    bench = SoakBench()
    for durability in ("remote", "local"):
        if not names or durability in names:
            bench.case(durability, case, f"durable={durability}", "ttl=1h")
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
