"""The measurements of scripts/bench, which installs, builds, sets the PATH and says what the arguments mean.

Every candidate works on one pailstore. A run has a mount of its own with an empty cache; runs are interleaved, and
the order turns with each repetition, so that what the machine does meanwhile falls on all alike. A write is over when
the store has the object: close() of a mount with a write-back cache returns earlier, which is printed as well.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

BUCKET = "bench"
KEY, SECRET = "pailstore", "pailstore-secret"
PATIENCE = 300  # seconds a single run may take
MEMORY_LIMIT = 300  # MiB
SMALL_FILES = 1000
PER_DIRECTORY = 100

WORKS = {
    "write": "MB/s, sequential write until the store has it",
    "read": "MB/s, sequential read, nothing cached",
    "reread": "MB/s, the same read again",
    "create": f"s, {SMALL_FILES} files of 1 KiB until the store has them",
    "find": "s, find -type f over all objects, nothing cached",
}


def run(*command, **options):
    return subprocess.run(command, check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL, **options)


def wait_for(condition, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.005)


class Store:
    """One pailstore for all runs, and boto3 to look at it from outside."""

    def __init__(self, work):
        os.mkdir(f"{work}/store")
        self.process = subprocess.Popen(
            ["pailstore", f"{work}/store", "--listen", "127.0.0.1:0", "--bucket", BUCKET],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.endpoint = json.loads(self.process.stdout.readline())["s3"]
        self.client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    def has(self, key, size):
        try:
            return self.client.head_object(Bucket=BUCKET, Key=key)["ContentLength"] == size
        except ClientError:
            return False

    def count(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return sum(not entry["Key"].endswith("/") for page in pages for entry in page.get("Contents", []))

    def remove(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        for page in pages:
            names = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
            if names:
                self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": names})

    def signed(self, key):
        return self.client.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key})

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class Mount:
    """A candidate's mount with a cache of its own; left with nothing running and nothing on disk."""

    def __init__(self, candidate, store, work):
        self.directory = tempfile.mkdtemp(dir=work)
        self.path, cache = f"{self.directory}/mnt", f"{self.directory}/cache"
        os.mkdir(self.path)
        os.mkdir(cache)
        command, environment = getattr(self, candidate)(store, cache)
        self.log = open(f"{self.directory}/log", "w")
        self.process = subprocess.Popen(
            command, env=os.environ | environment, stdout=self.log, stderr=self.log, start_new_session=True
        )
        try:
            wait_for(self.answers, f"{candidate} does not mount", 30)
        except TimeoutError:
            with open(self.log.name) as log:
                print(log.read(), file=sys.stderr)
            self.end()
            raise

    def answers(self):
        if self.process.poll() is not None:
            raise TimeoutError(f"the mount ended at once, status {self.process.returncode}")
        return os.path.ismount(self.path) and os.listdir(self.path) is not None

    def pailfs(self, store, cache):
        options = f"endpoint={store.endpoint},region=us-east-1,path-style,cache-dir={cache}"
        return (
            ["pailfs", "mount", f"s3://{BUCKET}", self.path, "-f", "-o", options],
            {"PAILFS_ACCESS_KEY_ID": KEY, "PAILFS_SECRET_ACCESS_KEY": SECRET},
        )

    def rclone(self, store, cache):
        settings = {
            "TYPE": "s3",
            "PROVIDER": "Other",
            "ENDPOINT": store.endpoint,
            "REGION": "us-east-1",
            "ACCESS_KEY_ID": KEY,
            "SECRET_ACCESS_KEY": SECRET,
            "NO_CHECK_BUCKET": "true",
        }
        return (
            ["rclone", "mount", f"bench:{BUCKET}", self.path, "--vfs-cache-mode", "full"]
            + ["--vfs-write-back", "0s", "--cache-dir", cache, "--config", f"{self.directory}/none"],
            {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in settings.items()},
        )

    def s3fs(self, store, cache):
        secret = f"{self.directory}/passwd"
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(f"{KEY}:{SECRET}\n")
        options = f"passwd_file={secret},url={store.endpoint},endpoint=us-east-1,use_path_request_style"
        return ["s3fs", BUCKET, self.path, "-f", "-o", f"{options},use_cache={cache}"], {}

    def peak_memory(self):
        """Of the resident set, in MiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024

    def end(self):
        subprocess.run(["fusermount3", "-u", self.path], capture_output=True)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            subprocess.run(["fusermount3", "-uz", self.path], capture_output=True)
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Bench:
    def __init__(self, arguments, store, work):
        self.arguments, self.store, self.work = arguments, store, work
        self.size = arguments.size << 20
        self.source = f"{work}/source"
        with open(self.source, "wb") as file:
            for _ in range(arguments.size):
                file.write(os.urandom(1 << 20))
        self.results = []

    def note(self, work, candidate, repetition, value, **more):
        self.results.append({"work": work, "candidate": candidate, "repetition": repetition, "value": value, **more})
        print(f"{work:8} {candidate:8} {repetition:3} {value:10.2f}", file=sys.stderr)

    def speed(self, seconds):
        return self.size / 1e6 / seconds

    def write(self, candidate, repetition):
        mount = Mount(candidate, self.store, self.work)
        try:
            began = time.monotonic()
            run("dd", f"if={self.source}", f"of={mount.path}/written", "bs=1M", "status=none")
            closed = time.monotonic() - began
            wait_for(lambda: self.store.has("written", self.size), "the object does not arrive")
            stored = time.monotonic() - began
            memory = mount.peak_memory()
            self.note("write", candidate, repetition, self.speed(stored), close=self.speed(closed), memory=memory)
        finally:
            mount.end()
            self.store.remove("written")

    def read(self, candidate, repetition):
        if candidate == "curl":
            url = self.store.signed("big")
            began = time.monotonic()
            run("curl", "-sS", "--fail", "-o", "/dev/null", url)
            self.note("read", candidate, repetition, self.speed(time.monotonic() - began))
            return
        mount = Mount(candidate, self.store, self.work)
        try:
            for work in ["read", "reread"]:
                began = time.monotonic()
                run("dd", f"if={mount.path}/big", "of=/dev/null", "bs=1M", "status=none")
                speed = self.speed(time.monotonic() - began)
                if work in self.arguments.works:
                    self.note(work, candidate, repetition, speed, memory=mount.peak_memory())
        finally:
            mount.end()

    def create(self, candidate, repetition):
        mount = Mount(candidate, self.store, self.work)
        try:
            data = os.urandom(1024)
            prefix = f"created-{candidate}-{repetition}/"
            folder = f"{mount.path}/{prefix}"
            began = time.monotonic()
            os.mkdir(folder)
            for number in range(SMALL_FILES):
                with open(f"{folder}/{number:04}", "wb") as file:
                    file.write(data)
            closed = time.monotonic() - began
            wait_for(lambda: self.store.count(prefix) == SMALL_FILES, "the files do not arrive")
            self.note("create", candidate, repetition, time.monotonic() - began, close=closed)
        finally:
            mount.end()
            self.store.remove("created-")

    def find(self, candidate, repetition):
        mount = Mount(candidate, self.store, self.work)
        try:
            began = time.monotonic()
            found = subprocess.run(
                ["find", f"{mount.path}/many", "-type", "f"], check=True, timeout=PATIENCE, stdout=subprocess.PIPE
            )
            seconds = time.monotonic() - began
            count = len(found.stdout.splitlines())
            if count != self.arguments.objects:
                raise RuntimeError(f"{candidate} found {count} objects")
            self.note("find", candidate, repetition, seconds, memory=mount.peak_memory())
        finally:
            mount.end()

    def prepare(self):
        works = self.arguments.works
        if "read" in works or "reread" in works:
            self.store.client.upload_file(self.source, BUCKET, "big")
        if "find" in works:
            for number in range(self.arguments.objects):
                key = f"many/{number // PER_DIRECTORY:05}/{number:07}"
                self.store.client.put_object(Bucket=BUCKET, Key=key, Body=b"x")

    def run(self):
        self.prepare()
        measured = [name for name in WORKS if name in self.arguments.works]
        # A reread follows the read of the same mount.
        acts = list(dict.fromkeys("read" if name == "reread" else name for name in measured))
        for repetition in range(1, self.arguments.repetitions + 1):
            for act in acts:
                candidates = [name for name in self.arguments.candidates if name != "curl" or act == "read"]
                turn = repetition % len(candidates) if candidates else 0
                for candidate in candidates[turn:] + candidates[:turn]:
                    try:
                        getattr(self, act)(candidate, repetition)
                    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                        self.results.append(
                            {"work": act, "candidate": candidate, "repetition": repetition, "failure": str(error)}
                        )
                        print(f"{act:8} {candidate:8} {repetition:3} failed: {error}", file=sys.stderr)

    def of(self, work, candidate, field="value"):
        return [
            result[field]
            for result in self.results
            if result["work"] == work and result["candidate"] == candidate and field in result
        ]

    def ratios(self, work, candidate):
        """How many times faster pailfs was, paired by repetition."""
        values = {}
        for result in self.results:
            if result["work"] == work and "value" in result:
                values[result["candidate"], result["repetition"]] = result["value"]
        pairs = [
            (values["pailfs", repetition], value)
            for (name, repetition), value in values.items()
            if name == candidate and ("pailfs", repetition) in values
        ]
        if WORKS[work].startswith("s,"):
            return [other / ours for ours, other in pairs]
        return [ours / other for ours, other in pairs]

    def table(self):
        print(f"{'':8} {'':8} {'median':>9} {'lowest':>9} {'highest':>9} {'at close':>9} {'MiB':>6} {'pailfs is':>10}")
        for work, meaning in WORKS.items():
            if work not in self.arguments.works:
                continue
            print(f"{work}: {meaning}")
            for candidate in self.arguments.candidates:
                values = self.of(work, candidate)
                failures = len(self.of(work, candidate, "failure"))
                if not values:
                    if failures:
                        print(f"{'':8} {candidate:8} failed every time")
                    continue
                close, memory = self.of(work, candidate, "close"), self.of(work, candidate, "memory")
                ratios = self.ratios(work, candidate) if candidate != "pailfs" else []
                print(
                    f"{'':8} {candidate:8} {statistics.median(values):9.2f} {min(values):9.2f} {max(values):9.2f}"
                    + (f" {statistics.median(close):9.2f}" if close else f" {'':9}")
                    + (f" {max(memory):6.0f}" if memory else f" {'':6}")
                    + (f" {statistics.median(ratios):9.2f}x" if ratios else "")
                    + (f"  failed {failures} times" if failures else "")
                )

    def pailfs_failed(self):
        return any(result["candidate"] == "pailfs" and "failure" in result for result in self.results)

    def memory_is_bounded(self):
        peaks = [peak for work in ["write", "read", "reread"] for peak in self.of(work, "pailfs", "memory")]
        if peaks and max(peaks) >= MEMORY_LIMIT:
            print(f"bench: pailfs needed {max(peaks):.0f} MiB; the limit is {MEMORY_LIMIT}", file=sys.stderr)
            return False
        return True


def chosen(text, known):
    names = text.split(",")
    for name in names:
        if name not in known:
            sys.exit(f"bench: {name} is not one of {', '.join(known)}")
    return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--candidates", default="pailfs,rclone,s3fs,curl")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--objects", type=int, default=5000)
    parser.add_argument("--output")
    arguments = parser.parse_args()
    arguments.works = chosen(arguments.works, list(WORKS))
    arguments.candidates = chosen(arguments.candidates, ["pailfs", "rclone", "s3fs", "curl"])
    with tempfile.TemporaryDirectory() as work:
        store = Store(work)
        try:
            bench = Bench(arguments, store, work)
            bench.run()
        finally:
            store.stop()
        bench.table()
        if arguments.output:
            with open(arguments.output, "w") as file:
                json.dump({"arguments": vars(arguments), "results": bench.results}, file, indent=1)
        sys.exit(0 if bench.memory_is_bounded() and not bench.pailfs_failed() else 1)


main()
