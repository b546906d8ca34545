#!/usr/bin/env python3
"""usage: small_space.py [NAME...]: mounts with little room for what goes through them: a cache much smaller than the files,
and a disk that fills up while the mount is killed. PAILFS_TEST_LONG=1 sends 100 GiB through a cache of 1 GiB.

Promises: the cache directory never takes more than cache-size; every byte that was written is read again, from the mount and
from the bucket; a mount that is killed on a full disk comes back, and what a close had promised is there.

The full disk is a tmpfs, so that case needs root; without, it says so."""

import errno
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

from bench import DEADLINE, Bench

LONG = os.environ.get("PAILFS_TEST_LONG") == "1"
PEAK = pathlib.Path(__file__).parents[1] / "MountTests/programs/peak.py"
MIB = 1 << 20


class Sampler:
    """Measures the disk space of a directory again and again."""

    def __init__(self, directory):
        self.stop = directory.with_name("stop")
        self.process = subprocess.Popen(
            [sys.executable, PEAK, directory, self.stop], stdout=subprocess.PIPE, text=True)

    def peak(self):
        self.stop.touch()
        return int(self.process.communicate(timeout=DEADLINE)[0])


class Pattern:
    """Files of a size that is known, every MiB of which tells its file, its place and how often it was written."""

    def __init__(self, root):
        self.root = root
        self.body = random.Random(1).randbytes(MIB)
        self.written = 0
        self.known = {}

    def mib(self, name, place):
        return f"{name} {place} {self.known[name][place]}".encode().ljust(64) + self.body[64:]

    def write(self, name, size):
        """The whole file anew."""
        self.known[name] = [version + 1 for version in self.known.get(name, [0] * size)]
        with open(self.root / name, "wb", buffering=0) as file:
            for place in range(size):
                file.write(self.mib(name, place))
        self.written += size

    def overwrite(self, name, count, dice):
        """Some of it, wherever."""
        with open(self.root / name, "r+b", buffering=0) as file:
            for place in dice.sample(range(len(self.known[name])), count):
                self.known[name][place] += 1
                file.seek(place * MIB)
                file.write(self.mib(name, place))
        self.written += count

    def check(self, name, places=None):
        with open(self.root / name, "rb", buffering=0) as file:
            for place in places if places is not None else range(len(self.known[name])):
                file.seek(place * MIB)
                self.compare(name, place, file.read(MIB))

    def check_object(self, mount, name):
        body = mount.store.s3.get_object(Bucket=mount.store.bucket, Key=f"{mount.prefix}/{name}")["Body"]
        for place in range(len(self.known[name])):
            self.compare(name, place, body.read(MIB))
        if body.read(1):
            raise AssertionError(f"the object {name} is longer than the file")

    def compare(self, name, place, found):
        if found != self.mib(name, place):
            raise AssertionError(f"MiB {place} of {name} is {found[:64]} and not {self.mib(name, place)[:64]}")


def pattern_case(limit, big, small, rounds):
    """Rounds of one file of `big` MiB, then as much again by four writers in files of `small` MiB, then random overwrites."""
    def run(mount):
        mount.start()
        pattern = Pattern(mount.path)
        sampler = Sampler(mount.cache)
        failures = []
        for number in range(rounds):
            dice = random.Random(number)
            pattern.write("big", big)

            def writer(first):
                try:
                    for place in range(first, big // small, 4):
                        pattern.write(f"small {place}", small)
                except Exception as error:  # told by the main thread
                    failures.append(error)

            threads = [threading.Thread(target=writer, args=(first,)) for first in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failures:
                raise failures[0]
            pattern.overwrite("big", max(1, big // 16), dice)
            pattern.check("big", dice.sample(range(big), big // 8))
            if LONG:
                print(f"round {number + 1}: {pattern.written / 1024:.1f} GiB written", flush=True)
        ended = mount.unmount()
        peak = sampler.peak()
        if ended.returncode != 0:
            raise AssertionError(f"the unmount said: {ended.stderr}")
        print(f"{pattern.written / 1024:.2f} GiB through {limit} MiB: at most {peak} of {limit * MIB} bytes", flush=True)
        # rule: space.bound, space.large
        if peak > limit * MIB:
            raise AssertionError(f"the cache took {peak} bytes, {peak - limit * MIB} too many")
        if peak < limit * MIB // 2:
            raise AssertionError(f"only {peak} bytes of the cache were used: this proves nothing")
        for name in pattern.known:
            pattern.check_object(mount, name)
    return run


def full_disk_case(mount):
    """Others fill the disk while a program writes; the mount is killed there, comes back there, and then there is room."""
    mount.cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", mount.cache], check=True)
    try:
        for number in range(20 if LONG else 2):
            fill_and_kill(mount, number)
    finally:
        mount.leave()
        subprocess.run(["umount", mount.cache], check=True)


def fill_and_kill(mount, number):
    mount.start()
    known = {f"{number} {place}": random.Random(place).randbytes(30_000 + place) for place in range(40)}
    filler = mount.cache / "filler"
    # Nothing gets to the store, so that everything promised is on this disk alone.
    mount.store.faults("op=PutObject,kind=status:503", "op=CreateMultipartUpload,kind=status:503")
    acknowledged = {}
    try:
        for place, (name, body) in enumerate(known.items()):
            if place == 20:
                with open(filler, "wb", buffering=0) as file:
                    try:
                        while True:
                            file.write(bytes(64 << 10))
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
            try:
                (mount.path / name).write_bytes(body)
                acknowledged[name] = body
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EIO):
                    raise AssertionError(f"a full disk shows as {error}") from error
                break
        mount.kill()
    finally:
        mount.store.faults()
    if len(acknowledged) < 20:
        raise AssertionError(f"only {len(acknowledged)} files were promised: this proves nothing")
    # On the disk that is still full it starts, or says why not and changes nothing.
    mount.start(check=False)
    if mount.process.poll() is None:
        for name, body in acknowledged.items():
            if (mount.path / name).read_bytes() != body:
                raise AssertionError(f"{name} differs on the full disk")
        filler.unlink()
    else:
        said = mount.tail()
        if "room" not in said and "full" not in said and "space" not in said:
            raise AssertionError(f"it does not say that the disk is full: {said}")
        filler.unlink()
        mount.start()
    end = time.monotonic() + DEADLINE
    ended = mount.unmount()
    if ended.returncode != 0 or time.monotonic() > end:
        raise AssertionError(f"the unmount with room again said: {ended.stderr}")
    found = mount.store.objects(mount.prefix)
    wrong = [name for name, body in acknowledged.items() if found.get(name) != body]
    if wrong:
        raise AssertionError(f"promised and not in the bucket: {wrong}")


def main(names):
    bench = Bench()
    if LONG:
        cases = [("pattern", pattern_case(1024, 4096, 128, 12), "cache-size=1GiB", "free-space=0"),
                 ("local pattern", pattern_case(1024, 4096, 128, 1), "cache-size=1GiB", "free-space=0", "durable=local")]
    else:
        cases = [("pattern", pattern_case(96, 256, 16, 2), "cache-size=96MiB", "free-space=0"),
                 ("local pattern", pattern_case(96, 256, 16, 1), "cache-size=96MiB", "free-space=0", "durable=local")]
    if os.geteuid() == 0:
        cases.append(("full disk", full_disk_case, "durable=local", "free-space=0", "timeout=2", "retries=1"))
    else:
        print("skipped full disk: a tmpfs needs root", flush=True)
    for name, body, *options in cases:
        if not names or any(word in name for word in names):
            bench.case(name, body, *options)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
