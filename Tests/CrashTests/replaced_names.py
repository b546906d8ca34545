#!/usr/bin/env python3
"""usage: replaced_names.py [NAME...]: threads replace names by rename while others open, read and change what has them, with a
worker that lives, with one that is killed every three seconds, and with all processes of the mount killed as often and the mount
taken back from a keeper. PAILFS_TEST_LONG=1 does it for a minute each.

Promise: as on a local disk no call fails, since each name has a file at all times, and a file is read as it was written."""

# rule: name.gone, crash.keeper

import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

from bench import DEADLINE, PAILFS, Bench, Mount, wait_for

SECONDS = 60 if os.environ.get("PAILFS_TEST_LONG") == "1" else 8
NAMES = [f"n{number}" for number in range(8)]
THREADS = 8


def content(number):
    return f"{number}\n" * (1 + number % 50)


class ServedMount(Mount):
    """A mount of which another process takes over from one that is killed."""

    restart = "yes"

    def worker(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="utf-8") as children:
            return int((children.read().split() or [0])[0])

    def kill_worker(self):
        worker = self.worker()
        os.kill(worker, signal.SIGKILL)
        wait_for("another worker", lambda: self.worker() not in (0, worker))

    def die(self):
        self.kill_worker()


class KeptMount(ServedMount):
    """A mount whose processes all die, and which the next ones take back: from `pailfs keep`, or from a service manager.

    Another program starts them: a child of this one would close what this one has open in the mount, and wait for it."""

    def __init__(self, store, prefix, work, *options):
        super().__init__(store, prefix, work, *options)
        self.work, self.keeper = work, None

    def start(self, stop=None, check=True):
        if "keeper=systemd" not in self.options:
            self.keeper = subprocess.Popen([PAILFS, "keep", str(self.work / "keeper")])
            self.options.append(f"keeper={self.work / 'keeper'}")
        program = os.path.join(os.path.dirname(__file__), "../MountTests/programs/kept.py")
        mount = [PAILFS, "mount", f"{self.scheme}://{self.store.bucket}/{self.prefix}", str(self.path), "-f", "-o", ",".join(self.options)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, program, "manage", str(self.work / "notify"), *mount], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, env=dict(os.environ, **self.variables))
        self.ask("start", "ready")

    def ask(self, act, expected):
        self.process.stdin.write(act + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != expected:
            raise AssertionError(f"{act}: {answer}; {self.tail()}")

    def die(self):
        self.ask("kill", "ended -9")
        self.ask("start", "ready")

    def unmount(self):
        self.process.stdin.write("wait\n\n")
        self.process.stdin.flush()
        return super().unmount()

    def leave(self):
        super().leave()
        if self.keeper:
            self.keeper.terminate()
            self.keeper.wait(DEADLINE)


class Shared:
    """What the threads do in one directory, and what went wrong."""

    def __init__(self, root, seconds=SECONDS):
        self.root = root
        for name in NAMES:
            (root / name).write_text(content(0))
        self.end = time.monotonic() + seconds
        self.done, self.wrong = collections.Counter(), collections.Counter()
        self.threads = [threading.Thread(target=act, args=(number,))
                        for act in (self.replacer, self.user) for number in range(THREADS)]
        for thread in self.threads:
            thread.start()

    def join(self):
        """Waits for the threads, and raises what went wrong."""
        for thread in self.threads:
            thread.join()
        if self.wrong:
            raise AssertionError(f"went wrong: {dict(self.wrong)}")
        if min(self.done.values()) < 10 or len(self.done) < 8:
            raise AssertionError(f"it proves nothing: {dict(self.done)}")
        for name in NAMES:
            self.read(self.root / name)

    def try_to(self, what, act, *arguments):
        try:
            act(*arguments)
            self.done[what] += 1
        except Exception as error:  # whatever it is, it is counted
            self.wrong[f"{what}: {getattr(error, 'strerror', None) or error}"] += 1

    def replace(self, number, dice):
        temporary = self.root / f"temporary{number}"
        temporary.write_text(content(dice.randrange(1000)))
        temporary.rename(self.root / dice.choice(NAMES))

    def read(self, path):
        text = path.read_text()
        if text != content(int(text.split()[0])):
            raise AssertionError(f"{path.name} is {text!r}")

    def keep_open(self, path):
        with open(path, "rb") as file:
            time.sleep(0.01)
            size = os.fstat(file.fileno()).st_size
            os.fchmod(file.fileno(), 0o644)
            # Another one may have cut it off by now; none makes it longer.
            if len(file.read()) != size:
                raise AssertionError(f"{path.name} has not its {size} bytes")

    def open_to_write(self, path):
        os.close(os.open(path, os.O_WRONLY))

    def replacer(self, number):
        dice = random.Random(number)
        while time.monotonic() < self.end:
            self.try_to("replace", self.replace, number, dice)

    def user(self, number):
        dice = random.Random(100 + number)
        acts = {"read": self.read, "open": self.keep_open, "open to write": self.open_to_write, "stat": os.stat,
                "chmod": lambda path: os.chmod(path, 0o640 | dice.randrange(8)), "utime": os.utime,
                "listxattr": os.listxattr}
        while time.monotonic() < self.end:
            what = dice.choice(list(acts))
            self.try_to(what, acts[what], self.root / dice.choice(NAMES))


def case(dies):
    def body(mount):
        mount.start()
        shared = Shared(mount.path)
        deaths = 0
        while dies and time.monotonic() < shared.end - 3:
            time.sleep(3)
            mount.die()
            deaths += 1
        shared.join()
        print(f"{sum(shared.done.values())} calls, {shared.done['replace']} of them replaced a file, {deaths} deaths", flush=True)
        mount.store_and_unmount()
        return len(shared.done)
    return body


def use(root, seconds):
    """What a program beside the mount does; it ends with an error when anything went wrong."""
    shared = Shared(pathlib.Path(root), seconds)
    shared.join()
    print(f"{sum(shared.done.values())} calls", flush=True)


def main(names):
    bench = Bench()
    for durability, keeper in (("remote", ["keeper=systemd"]), ("local", [])):
        for end, kind, options in (("", ServedMount, []), (", killed", ServedMount, []), (", all killed", KeptMount, keeper)):
            if not names or durability + end in names:
                bench.mount_type = kind
                bench.case(durability + end, case(bool(end)), f"durable={durability}", *options)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
