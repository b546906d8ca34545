"""Two hosts that write the same files, each through a mount of its own: no line that a host was told is stored is lost."""

import collections
import datetime
import errno
import os
import random
import threading
import time

from fault_bench import bench
import fault_bench

# Stores that check the version on every write. The others are asked right before, and lose what falls in between.
CHECKED = {"s3"}
HEADS = {"oss": "HeadObject", "cos": "HeadObject", "kodo": "stat", "cssp": "headObject"}


class Host(threading.Thread):
    """Adds lines to files at random: reads a file and writes it back with a line more, through one handle, so that the
    commit stands on just what was read."""

    def __init__(self, name, mount, keys, end, seed):
        super().__init__()
        self.label, self.path, self.keys, self.end = name, mount.path, keys, end
        self.dice = random.Random(seed)
        self.stored, self.refused, self.wrong = [], [], None

    def run(self):
        number = 0
        try:
            while time.monotonic() < self.end:
                number += 1
                key = self.dice.choice(self.keys)
                line = f"{self.label} {number} {key}\n".encode()
                outcome = self.add(self.path / key, line)
                if outcome is not None:
                    (self.stored if outcome else self.refused).append((key, line))
        except Exception as error:  # told by whoever joins
            self.wrong = error

    def add(self, path, line):
        """Whether the line is stored; None if nothing was written."""
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            return self.refusal(error)
        try:
            size = len(read_all(file))
            if os.pwrite(file, line, size) != len(line):
                raise AssertionError("a short write")
            written = True
        except OSError as error:
            self.refusal(error)
            written = None
        try:
            os.close(file)
            return written
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            return None if written is None else False

    @staticmethod
    def refusal(error):
        # Another version is there already: the program looks again.
        if error.errno not in (errno.ESTALE, errno.EEXIST, errno.ENOENT):
            raise error


def read_all(file):
    body = b""
    while True:
        piece = os.pread(file, 1 << 20, len(body))
        if not piece:
            return body
        body += piece


def seconds(request):
    return datetime.datetime.fromisoformat(request["time"].replace("Z", "+00:00")).timestamp()


def overlaps(provider, requests):
    """By key, how often a write began with a look at the store that came before another host's write was done."""
    looks, writes = collections.defaultdict(list), collections.defaultdict(list)
    for request in requests:
        if request["operation"] == HEADS[provider]:
            looks[request["key"], request["agent"]].append(seconds(request))
        elif request["operation"] in fault_bench.WRITES[provider] and 200 <= request["status"] < 300:
            start = seconds(request)
            writes[request["key"]].append((start, start + request["ms"] / 1000, request["agent"]))
    found = collections.Counter()
    for key, all_writes in writes.items():
        for start, end, agent in all_writes:
            look = max((moment for moment in looks[key, agent] if moment <= start), default=0)
            found[key] += sum(1 for _, other_end, other in all_writes if other != agent and look < other_end <= end)
    return found


def random_lines(provider, work):
    """Both hosts write for a while; then everything that was promised is looked for in the bucket."""
    store = fault_bench.Store(work / "store")
    mounts = []
    try:
        for name in ("one", "two"):
            mounts.append(fault_bench.mount_of(provider, store, "shared", work / name, "ttl=0", f"user-agent=host-{name}"))
            mounts[-1].start()
        keys = [f"file{number}" for number in range(4)]
        end = time.monotonic() + (180 if fault_bench.LONG else 8)
        # Within a host each file has one writer: two programs that add to one file at once spoil it anywhere.
        hosts = [Host(f"host{index}.{number}", mount, keys[number::2], end, 10 * index + number)
                 for index, mount in enumerate(mounts) for number in range(2)]
        for host in hosts:
            host.start()
        for host in hosts:
            host.join(600)
            if host.is_alive() or host.wrong:
                raise AssertionError(f"the host {host.label} failed: {host.wrong!r}; {mounts[0].tail()}")
        for mount in mounts:
            mount.store_and_unmount()
        return check(provider, store, hosts)
    except Exception:
        for mount in mounts:
            print(mount.tail(), flush=True)
        raise
    finally:
        for mount in mounts:
            mount.leave()
        store.stop()


def check(provider, store, hosts):
    objects = store.objects("shared")
    found = collections.defaultdict(set)
    conflicts = 0
    for name, body in objects.items():
        conflicts += ".conflict-" in name
        found[name.split(".conflict-")[0]].update(body.splitlines(keepends=True))
    stored = [entry for host in hosts for entry in host.stored]
    refused = [entry for host in hosts for entry in host.refused]
    if len(stored) < 20:
        raise AssertionError(f"only {len(stored)} lines were stored: this proves nothing")
    gone = [(key, line) for key, line in refused if line not in found[key]]
    if gone:
        raise AssertionError(f"{len(gone)} lines of {len(refused)} conflicts were not kept: {gone[:5]}")
    lost = collections.Counter(key for key, line in stored if line not in found[key])
    window = overlaps(provider, store.requests()) if provider not in CHECKED else {}
    for key, count in lost.items():
        # rule: conflict.gap
        if count > window.get(f"shared/{key}", 0):
            raise AssertionError(f"{count} lines of {key} are lost, of {len(stored)} stored: {window}")
    return (f"{len(stored)} lines stored, {len(refused)} refused and kept in {conflicts} conflict files, "
            f"{sum(lost.values())} lost between a look and a write")


def second_writer(provider, work):
    """Without luck: whoever closes second gets ESTALE, and both contents are there."""
    store = fault_bench.Store(work / "store")
    mounts = []
    try:
        for name in ("one", "two"):
            mounts.append(fault_bench.mount_of(provider, store, "shared", work / name, "ttl=0"))
            mounts[-1].start()
        (mounts[0].path / "file").write_bytes(b"base\n")
        files = [os.open(mount.path / "file", os.O_RDWR) for mount in mounts]
        for number, file in enumerate(files):
            os.pwrite(file, f"writer {number}\n".encode(), len(read_all(file)))
        os.close(files[1])
        try:
            os.close(files[0])
            # rule: conflict
            raise AssertionError("the second writer was told that it is stored")
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
        if (mounts[0].path / "file").read_bytes() != b"base\nwriter 1\n":
            raise AssertionError("the second writer does not see what the first one has stored")
        for mount in mounts:
            if mount.unmount().returncode:
                raise AssertionError("the unmount failed")
        objects = store.objects("shared")
        kept = [body for name, body in objects.items() if name.startswith("file.conflict-")]
        # rule: conflict.keep
        if objects.get("file") != b"base\nwriter 1\n" or kept != [b"base\nwriter 0\n"]:
            raise AssertionError(f"the bucket has {objects}")
        return "ESTALE for the second, its bytes kept"
    finally:
        for mount in mounts:
            mount.leave()
        store.stop()
