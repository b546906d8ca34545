"""What is measured: each work knows its candidates, what it needs beforehand, and one run of one candidate.

A run answers seconds, less is better, and whatever else is worth knowing: seconds until close(2) returned, processor
seconds of the mount, requests and bytes at the store, peak memory. Targets are ratios of seconds, the candidate's to
those of pailfs.
"""

import concurrent.futures
import ctypes
import os
import random
import subprocess
import time

from mounts import Mount, rclone_environment
from stores import BUCKET, FAR

CONNECTIONS = 16


def run(*command, **options):
    return subprocess.run(command, check=True, timeout=900, stdout=subprocess.DEVNULL, **options)


class Work:
    name = title = ""
    candidates = ("pailfs", "rclone", "s3fs")
    targets = {}
    faults = ()
    # Told beside the seconds.
    unit = None

    def __init__(self, bench):
        self.bench, self.store, self.scale = bench, bench.store, bench.scale

    def prepare(self):
        """Once, with a store that answers at once."""

    def keys(self):
        """Empty objects that have to be in the bucket."""
        return []

    def amount(self):
        return 1

    def mount(self, candidate, **options):
        return Mount(candidate, self.store, self.bench.work, **options)

    def measured(self, mount, act):
        """Seconds of `act` and what it cost."""
        mark, used = self.store.mark(), mount.processor()
        began = time.monotonic()
        more = act() or {}
        seconds = time.monotonic() - began
        return {"seconds": seconds, **self.costs(mount, mark, used), **more}

    def costs(self, mount, mark, used):
        requests = self.store.requests(mark)
        return {"processor": mount.processor() - used, "requests": len(requests), "memory": mount.peak_memory(),
                "bytes": sum(request["bytes_out"] for request in requests if request["operation"] == "GetObject")}

    def run(self, candidate):
        mount = self.mount(candidate)
        try:
            return self.measured(mount, lambda: self.act(mount))
        finally:
            mount.end()


class Read(Work):
    name, title, unit = "read", "sequential read of 1 GiB, nothing cached, store at once", "MB/s"
    candidates = ("pailfs", "rclone", "s3fs", "curl")
    targets = {"curl": 0.9, "rclone": 2, "s3fs": 2}

    def prepare(self):
        self.bench.need_big()

    def amount(self):
        return self.bench.size / 1e6

    def run(self, candidate):
        return self.curl(CONNECTIONS) if candidate == "curl" else super().run(candidate)

    def curl(self, connections):
        """The same bytes over so many connections, each with its range."""
        each, url, command = self.bench.size // connections, self.store.url("get_object", "big"), []
        for number in range(connections):
            end = self.bench.size if number == connections - 1 else (number + 1) * each
            command += ["--next"] if number else []
            command += ["-sS", "--fail", "-o", "/dev/null", "-r", f"{number * each}-{end - 1}", url]
        began = time.monotonic()
        run("curl", "--parallel", "--parallel-immediate", "--parallel-max", str(connections), *command)
        return {"seconds": time.monotonic() - began}

    def act(self, mount):
        run("dd", f"if={mount.path}/big", "of=/dev/null", "bs=1M", "status=none")


class ReadFar(Read):
    name, title = "read-far", "the same, store at 30 ms and 80 MB/s a connection"
    candidates = ("pailfs", "rclone", "s3fs", "curl", "curl-1")
    targets = {"curl-1": 8, "rclone": 2}
    faults = FAR

    def run(self, candidate):
        return self.curl(1) if candidate == "curl-1" else super().run(candidate)


class Reread(Read):
    name, title = "reread", "sequential read of 1 GiB from the block cache, after a remount"
    candidates = ("pailfs", "rclone", "disk")
    targets = {"disk": 0.8}

    def __init__(self, bench):
        super().__init__(bench)
        self.caches = {}

    def run(self, candidate):
        for name in ("pailfs", candidate):
            if name not in self.caches and name != "disk":
                mount = self.mount(name)
                self.act(mount)
                time.sleep(2)
                self.caches[name] = mount.cache
                mount.end(keep=True)
        # The kernel has the files' pages, for all alike.
        files = [f"{place}/{file}" for place, _, names in os.walk(self.caches["pailfs" if candidate == "disk" else candidate])
                 for file in names]
        largest = max(files, key=os.path.getsize)
        run("dd", f"if={largest}", "of=/dev/null", "bs=1M", "status=none")
        if candidate == "disk":
            began = time.monotonic()
            run("dd", f"if={largest}", "of=/dev/null", "bs=1M", "status=none")
            return {"seconds": time.monotonic() - began}
        mount = self.mount(candidate, cache=self.caches[candidate])
        try:
            return self.measured(mount, lambda: self.act(mount))
        finally:
            mount.end()


class Again(Reread):
    name, title = "again", "the fourth time by one mount, read-only"
    targets = {"disk": 0.95}

    def run(self, candidate):
        if candidate == "disk":
            return super().run(candidate)
        mount = self.mount(candidate, options={"pailfs": ("ro",), "rclone": ("--read-only",)}[candidate])
        try:
            for _ in range(3):
                self.act(mount)
                time.sleep(2)
            return self.measured(mount, lambda: self.act(mount))
        finally:
            mount.end()


class Write(Work):
    name, title, unit = "write", "sequential write of 1 GiB until the store has it, store at once", "MB/s"
    candidates = ("pailfs", "rclone", "s3fs", "copyto")
    targets = {"copyto": 0.9}

    def prepare(self):
        self.bench.need_source()

    def amount(self):
        return self.bench.size / 1e6

    def run(self, candidate):
        try:
            if candidate == "copyto":
                began = time.monotonic()
                run("rclone", "copyto", self.bench.source, f"bench:{BUCKET}/written", "--config", f"{self.bench.work}/none",
                    "--s3-upload-concurrency", str(CONNECTIONS), "--s3-chunk-size", "8M", "--s3-no-head",
                    env=os.environ | rclone_environment(self.store), stderr=subprocess.DEVNULL)
                return {"seconds": time.monotonic() - began}
            return super().run(candidate)
        finally:
            self.store.remove("written")

    def act(self, mount):
        began = time.monotonic()
        run("dd", f"if={self.bench.source}", f"of={mount.path}/written", "bs=1M", "status=none")
        closed = time.monotonic() - began
        self.bench.wait_for(lambda: self.store.has("written", self.bench.size), "the object does not arrive")
        return {"closed": closed}


class WriteFar(Write):
    name, title = "write-far", "the same, store at 30 ms and 80 MB/s a connection"
    faults = FAR


class Random(Work):
    name, title, unit = "random", "4 KiB random reads by 32 threads, nothing cached, 30 ms", "reads/s"
    candidates = ("pailfs", "one-thread", "rclone", "s3fs")
    targets = {"one-thread": 30}
    faults = FAR
    reads = 1600
    # With the flags for sequential reads each of these reads would fetch megabytes.
    small_ranges = {"rclone": ("--vfs-read-chunk-streams", "0", "--vfs-read-chunk-size", "64k")}

    def prepare(self):
        self.bench.need_big()

    def run(self, candidate):
        threads = 1 if candidate == "one-thread" else 32
        count = self.reads // (32 if threads == 1 else 1)
        mount = self.mount(
            "pailfs" if threads == 1 else candidate, options=self.small_ranges.get(candidate, ()))
        try:
            file = os.open(f"{mount.path}/big", os.O_RDONLY)
            places = random.Random(7).sample(range(self.bench.size // 4096), count)
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                result = self.measured(
                    mount, lambda: list(pool.map(lambda place: os.pread(file, 4096, place * 4096), places)) and None)
            os.close(file)
        finally:
            mount.end()
        # For the same number of reads.
        result["seconds"] *= self.reads / count
        result["bytes_per_byte"] = result["bytes"] / (count * 4096)
        return result

    def amount(self):
        return self.reads


class Create(Work):
    name, title, unit = "create", "create small files, 30 ms, 16 writers, stored when closed", "files/s"
    candidates = ("pailfs", "ideal", "rclone", "s3fs")
    targets = {"ideal": 1 / 1.3}
    faults = FAR
    writers = 16

    def files(self):
        return self.scale(10_000)

    def amount(self):
        return self.files()

    def prepare(self):
        self.data = os.urandom(1024)

    def run(self, candidate):
        if candidate == "ideal":
            return {"seconds": self.files() * self.store.put_seconds(1024) / self.writers}
        try:
            return super().run(candidate)
        finally:
            self.store.faults()
            self.store.remove("created/")

    def act(self, mount):
        began = time.monotonic()
        os.mkdir(f"{mount.path}/created")
        script = ("import os,sys\nfor n in range(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])):\n"
                  " with open(f'{sys.argv[1]}/{n:06}', 'wb', 0) as file: file.write(b'x' * 1024)\n")
        writers = [
            subprocess.Popen(["/usr/bin/python3", "-c", script, f"{mount.path}/created", str(number), str(self.files()),
                              str(self.writers)]) for number in range(self.writers)]
        if any(writer.wait(900) for writer in writers):
            raise RuntimeError("a writer failed")
        closed = time.monotonic() - began
        if self.is_over_at_close(mount.candidate):
            return {"closed": closed}
        self.bench.wait_for(lambda: self.store.count("created/") == self.files(), "the files do not arrive")
        return {"closed": closed}

    def is_over_at_close(self, candidate):
        return candidate != "rclone"


class CreateLocal(Create):
    name, title = "create-local", "create small files, 30 ms, one writer, until all are closed: pailfs with durable=local"
    candidates = ("pailfs", "rclone", "s3fs")
    targets = {"rclone": 3, "s3fs": 50}
    writers = 1

    def files(self):
        return self.scale(2_000)

    def run(self, candidate):
        options = {"pailfs": ("durable=local",), "rclone": ("--vfs-write-back", "5s"), "s3fs": ()}[candidate]
        mount = self.mount(candidate, options=options)
        try:
            return self.measured(mount, lambda: self.act(mount))
        finally:
            # What follows is not measured.
            self.store.faults()
            mount.end()
            self.store.remove("created/")

    def is_over_at_close(self, candidate):
        return True


class Find(Work):
    name, title, unit = "find", "find over 100,000 objects in 1,000 directories, nothing cached, 30 ms", "entries/s"
    targets = {"rclone": 5, "s3fs": 20}
    faults = FAR

    def keys(self):
        return [f"tree/{number // 100:04}/{number:06}" for number in range(self.amount())]

    def amount(self):
        return self.scale(100_000)

    def act(self, mount):
        found = subprocess.run(["find", mount.path + "/tree", "-type", "f"], check=True, timeout=900,
                               stdout=subprocess.PIPE).stdout.count(b"\n")
        if found != self.amount():
            raise RuntimeError(f"find found {found}")


class Refind(Find):
    name, title = "refind", "the same by pailfs, after a remount within ttl"
    candidates = ("pailfs",)

    def run(self, candidate):
        mount = self.mount(candidate, options=("ttl=1h",))
        self.act(mount)
        cache = mount.cache
        mount.end(keep=True)
        mount = self.mount(candidate, options=("ttl=1h",), cache=cache)
        try:
            return self.measured(mount, lambda: self.act(mount))
        finally:
            mount.end()


class Million(Work):
    name, title, unit = "million", "ls -f of one directory of 1,000,000 objects, nothing cached, store at once", "entries/s"
    candidates = ("pailfs", "hundredth")
    targets = {"hundredth": 1 / 1.5}

    def keys(self):
        return [f"flat/{number:07}" for number in range(self.amount())] + [
            f"small/{number:07}" for number in range(self.amount() // 100)]

    def amount(self):
        return self.scale(1_000_000)

    def run(self, candidate):
        directory, times = ("flat", 1) if candidate == "pailfs" else ("small", 100)
        mount = self.mount("pailfs")
        try:
            result = self.measured(mount, lambda: self.list(f"{mount.path}/{directory}", self.amount() // times))
        finally:
            mount.end()
        result["seconds"] *= times
        return result

    def list(self, path, count):
        began = time.monotonic()
        listing = subprocess.Popen(["ls", "-f", path], stdout=subprocess.PIPE)
        first = os.read(listing.stdout.fileno(), 1 << 16)
        until_first, found = time.monotonic() - began, first.count(b"\n")
        while piece := os.read(listing.stdout.fileno(), 1 << 20):
            found += piece.count(b"\n")
        if listing.wait() or found != count + 2:
            raise RuntimeError(f"ls found {found}")
        return {"first": until_first}


class Stat(Work):
    name, title, unit = "stat", "stat of a known file past the kernel's cache; least: one file in 40 lines of C", "stats/s"
    candidates = ("pailfs", "least", "rclone")
    targets = {"least": 1 / 1.3}

    def keys(self):
        return ["stat/file"]

    def amount(self):
        return self.scale(20_000)

    def prepare(self):
        """The C program, and a client that does nothing else."""
        source = os.path.dirname(os.path.abspath(__file__))
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], check=True, stdout=subprocess.PIPE, text=True)
        run("cc", "-O2", "-o", f"{self.bench.work}/least", f"{source}/least.c", *flags.stdout.split())

    def mount(self, candidate, **options):
        return super().mount(candidate, **options, prefix="" if candidate == "least" else "stat/")

    def act(self, mount):
        # statx(2) with AT_STATX_FORCE_SYNC and STATX_BASIC_STATS: the kernel asks, whatever it knows.
        statx, status = ctypes.CDLL(None, use_errno=True).statx, ctypes.create_string_buffer(256)
        path = f"{mount.path}/file".encode()
        os.stat(path)
        for _ in range(self.amount()):
            if statx(-100, path, 0x2000, 0x7FF, status) != 0:
                raise OSError(ctypes.get_errno(), "statx")


class Rename(Work):
    name, title, unit = "rename", "rename a directory of 10,000 objects, 30 ms", "objects/s"
    candidates = ("pailfs", "one-by-one", "rclone")
    targets = {"one-by-one": 30}
    faults = FAR

    def amount(self):
        return self.scale(10_000)

    def run(self, candidate):
        if candidate == "one-by-one":
            self.store.client.put_object(Bucket=BUCKET, Key="one/a", Body=b"x")
            began = time.monotonic()
            for _ in range(50):
                self.store.client.copy_object(Bucket=BUCKET, Key="one/b", CopySource=f"{BUCKET}/one/a")
                self.store.client.delete_object(Bucket=BUCKET, Key="one/b")
            return {"seconds": (time.monotonic() - began) / 50 * self.amount()}
        self.store.faults()
        self.store.put_many([f"moved/a/{number:05}" for number in range(self.amount())], 16)
        self.store.faults(*self.faults)
        try:
            return super().run(candidate)
        finally:
            self.store.faults()
            self.store.remove("moved/")

    def act(self, mount):
        began = time.monotonic()
        os.rename(f"{mount.path}/moved/a", f"{mount.path}/moved/b")
        closed = time.monotonic() - began
        self.bench.wait_for(lambda: self.store.count("moved/b/") == self.amount() and not self.store.keys("moved/a/"),
                            "the objects do not move")
        return {"closed": closed}


class Idle(Work):
    name, title = "idle", "20 s of a mount that nobody uses: processor seconds and requests"

    def act(self, mount):
        # What a mount does at first is not what it does when idle.
        time.sleep(5)
        mark, used = self.store.mark(), mount.processor()
        time.sleep(20)
        return {**self.costs(mount, mark, used), "seconds": max(mount.processor() - used, 0.001)}


WORKS = {work.name: work for work in (
    Read, ReadFar, Reread, Again, Write, WriteFar, Random, Create, CreateLocal, Find, Refind, Million, Stat, Rename, Idle)}
