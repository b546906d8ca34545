#!/usr/bin/env python3
"""usage: power_cut.py [NAME...]: mounts whose cache directory loses power: all that was not flushed is gone, for the database
and the staged bytes alike. PAILFS_TEST_LONG=1 for many more.

The cache directory is an ext4 file system of its own on a loop device. All threads of the mount are stopped first, so that no
answer can come from a disk that is gone already; then the file system is shut down without its journal (what xfstests calls
godown), which drops every byte that was not written out; then the process is killed, and the next one has what the disk had.

Needs root and a loop device; without, it says so and passes nothing.

Promises: a close or fsync that returned 0 stands; a file that was not promised is as it was before; what the mount shows after
the cut is what the bucket has."""

import fcntl
import os
import pathlib
import random
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time

from bench import DEADLINE, Bench, wait_for
from disk_faults import Known, finish, write

LONG = os.environ.get("PAILFS_TEST_LONG") == "1"
# EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: fs/ext4/ext4.h of Linux.
SHUTDOWN, WITHOUT_LOG = 0x8004587D, struct.pack("I", 2)


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Disk:
    """The disk below one mount's cache directory."""

    def __init__(self, mount):
        self.image, self.place = mount.cache.with_name("disk.img"), mount.cache
        self.place.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(256 << 20)
        run("mkfs.ext4", "-q", "-F", str(self.image))
        self.attach()

    def attach(self):
        # A long time between the commits of ext4's own journal: nothing reaches the disk by chance.
        run("mount", "-o", "loop,commit=300", str(self.image), str(self.place))

    def cut(self, mount):
        """The power goes; afterwards the disk is there again."""
        mount.process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{mount.process.pid}/task")
        wait_for("the mount to stand still", lambda: all(
            (task / "stat").read_text().rsplit(")", 1)[1].split()[0] in "Tt" for task in tasks.iterdir()))
        directory = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, SHUTDOWN, WITHOUT_LOG)
        finally:
            os.close(directory)
        mount.kill()
        self.leave()
        self.attach()
        # A machine that lost its power is started again: the kernel's name of the boot is another one then.
        for path in self.place.glob("*/meta.db"):
            database = sqlite3.connect(path)
            try:
                database.execute("UPDATE setting SET value = 'the boot before' WHERE name = 'boot'")
                database.commit()
            except sqlite3.OperationalError:
                pass  # it had not come so far as to have tables
            finally:
                database.close()

    def leave(self):
        run("umount", str(self.place))


def with_disk(body):
    def case(mount):
        disk = Disk(mount)
        try:
            body(mount, disk)
        finally:
            mount.leave()
            disk.leave()
    return case


def sync(disk):
    """Lets the disk have what the mount has so far."""
    directory = os.open(disk.place, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    run("sync", "-f", str(disk.place))


def promised(mount, disk):
    """`durable=local`, and the store takes nothing before the power goes: only the disk can have it."""
    mount.start()
    sync(disk)
    mount.store.faults("op=PutObject,kind=status:503")
    bodies = {f"f{number}": os.urandom(10_000 * number + 1) for number in range(6)}
    try:
        for name, body in bodies.items():
            write(mount.path / name, body)
        os.unlink(mount.path / "f2")
        bodies.pop("f2")
        held = open(mount.path / "open", "wb", buffering=0)
        held.write(b"nobody was promised this")
        disk.cut(mount)
        try:
            held.close()
        except OSError:
            pass
    finally:
        mount.store.faults()
    mount.start()
    for name, body in bodies.items():
        # rule: close.local, crash.acknowledged
        if (mount.path / name).read_bytes() != body:
            raise AssertionError(f"{name} is not what was promised")
    # rule: crash.unacknowledged
    if finish(mount) != bodies:
        raise AssertionError("the bucket has something else than what was promised")


def fresh(mount, disk):
    """The newest rows of the metadata cache are gone with the power: what it still knows must not be believed."""
    mount.start()
    write(mount.path / "file", b"old")
    write(mount.path / "gone", b"old")
    finish(mount)
    mount.start()
    os.listdir(mount.path)
    (mount.path / "file").stat()
    sync(disk)
    write(mount.path / "file", b"much newer")
    os.unlink(mount.path / "gone")
    write(mount.path / "later", b"later")
    disk.cut(mount)
    mount.start()
    if sorted(os.listdir(mount.path)) != ["file", "later"]:
        raise AssertionError(f"the listing is of before the cut: {os.listdir(mount.path)}")
    if (mount.path / "file").stat().st_size != 10 or (mount.path / "file").read_bytes() != b"much newer":
        raise AssertionError("the attributes are of before the cut")
    finish(mount)


def random_case(seed):
    """Writers that never end; the power goes at a random time."""
    def body(mount, disk):
        dice = random.Random(seed)
        mount.start()
        known = [Known() for _ in range(3)]
        for number in range(3):
            os.mkdir(mount.path / f"w{number}")
        if dice.randrange(2):
            mount.store.faults("op=PutObject,kind=latency:300ms")

        over = threading.Event()

        def writer(number):
            mine = random.Random(seed * 10 + number)
            root = mount.path / f"w{number}"
            try:
                while not over.is_set():
                    name = f"f{mine.randrange(6)}"
                    if mine.randrange(10) < 8:
                        content = mine.randbytes(mine.randrange(1, 60_000))
                        known[number].act(name, lambda: write(root / name, content), content)
                    else:
                        known[number].act(name, lambda: os.unlink(root / name), None)
            except OSError:
                pass

        threads = [threading.Thread(target=writer, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(dice.uniform(0.1, 1.5))
        try:
            disk.cut(mount)
        finally:
            mount.store.faults()
            over.set()
        for thread in threads:
            thread.join(DEADLINE)
            if thread.is_alive():
                raise AssertionError("a program hangs in a mount that died")
        mount.start()
        found = finish(mount)
        for number in range(3):
            own = f"w{number}/"
            known[number].check({key[len(own):]: content for key, content in found.items() if key.startswith(own)})
        if mount.store.uploads(mount.prefix):
            raise AssertionError("uploads are left")
    return body


def main(names):
    if os.geteuid() != 0 or subprocess.run(["losetup", "-f"], capture_output=True, check=False).returncode != 0:
        print("skipped: a power cut needs root and a loop device\n0 passed, 0 failed", flush=True)
        return 0
    bench = Bench()
    cases = [("promised", promised, "durable=local", "timeout=2", "retries=1"), ("fresh", fresh, "ttl=3600")]
    for seed in range(200 if LONG else 2):
        cases.append((f"random {seed}", random_case(seed)))
        cases.append((f"local random {seed}", random_case(seed + 5000), "durable=local"))
    for name, body, *options in cases:
        if not names or any(word in name for word in names):
            bench.case(name, with_disk(body), "free-space=1M", "cache-size=128M", *options)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
