#!/usr/bin/env python3
"""usage: deadlines.py [NAME...]: every call into a store that takes requests and answers none.

Promise: each call ends within the timeout and a quarter of it, one with a transfer within twice that, one that sends parts
within twice that again; the reason names the request that got no answer."""

# rule: deadline, error.reason

import concurrent.futures
import os
import sys
import time
import urllib.request

from bench import Bench
from replaced_names import ServedMount

MIB = 1 << 20
TIMEOUT = 4
# For the machine, which runs all calls at once.
SLACK = 1
CALL, TRANSFER = TIMEOUT * 5 / 4 + SLACK, TIMEOUT * 5 / 2 + SLACK
# Parts may be on their way already when the call begins.
PARTS = TIMEOUT * 5 + SLACK


def open_new(path, size):
    """A file that is written and not closed."""
    descriptor = os.open(path / "new", os.O_CREAT | os.O_RDWR)
    os.write(descriptor, bytes(size))
    return descriptor


def writing(size, end):
    """Writes a file before the store falls silent, and ends with `end` after it."""
    return lambda path: open_new(path, size), end


def nothing(_):
    return None


def read(path, _):
    (path / "stored").read_bytes()


def close(_, descriptor):
    os.close(descriptor)


def fsync(_, descriptor):
    os.fsync(descriptor)


def rewrite(path, _):
    (path / "stored").write_bytes(b"other")


# What is done before, the call itself, how long it may take, and whose attribute has the reason.
ACTS = {
    "stat of an unknown name": (nothing, lambda path, _: os.stat(path / "unknown" / "name"), CALL, None),
    "readdir": (nothing, lambda path, _: os.listdir(path / "directory"), CALL, None),
    "chmod": (nothing, lambda path, _: os.chmod(path / "stored", 0o600), CALL, "stored"),
    "utimens": (nothing, lambda path, _: os.utime(path / "stored", (1, 1)), CALL, "stored"),
    "setxattr": (nothing, lambda path, _: os.setxattr(path / "stored", "user.a", b"b"), CALL, None),
    "rename": (nothing, lambda path, _: os.rename(path / "stored", path / "renamed"), CALL, "stored"),
    "rename over": (nothing, lambda path, _: os.rename(path / "stored", path / "other"), CALL, "stored"),
    "rename of a directory": (nothing, lambda path, _: os.rename(path / "directory", path / "moved"), CALL, "directory"),
    "unlink": (nothing, lambda path, _: os.unlink(path / "stored"), CALL, "stored"),
    "mkdir": (nothing, lambda path, _: os.mkdir(path / "made"), CALL, ""),
    "rmdir": (nothing, lambda path, _: os.rmdir(path / "empty"), CALL, "empty"),
    "symlink": (nothing, lambda path, _: os.symlink("target", path / "link"), CALL, ""),
    "read": (nothing, read, TRANSFER, "stored"),
    "truncate": (nothing, lambda path, _: os.truncate(path / "stored", 5), TRANSFER, "stored"),
    "rewrite": (nothing, rewrite, TRANSFER, "stored"),
    "close of an empty file": (*writing(0, close), CALL, "new"),
    "close of a small file": (*writing(100, close), CALL, "new"),
    "close of a file": (*writing(100_000, close), TRANSFER, "new"),
    "close of a large file": (*writing(20 * MIB, close), PARTS, "new"),
    "fsync of a small file": (*writing(100, fsync), CALL, "new"),
    "fsync of a file": (*writing(100_000, fsync), TRANSFER, "new"),
    "fsync of a large file": (*writing(20 * MIB, fsync), PARTS, "new"),
}
# Under durable=local these need no store.
LOCAL = ("close of", "fsync of")


def fall_silent(store):
    """Without another process: its copies of open descriptors would be closed, and the files stored."""
    request = urllib.request.Request(f"{store.endpoint}/_pailstore/faults", data=b"op=*,kind=hang\n", method="PUT")
    urllib.request.urlopen(request).close()


def act(mount, number, name, prepared):
    _, call, limit, reason_of = ACTS[name]
    path = mount.path / f"d{number}"
    began = time.monotonic()
    try:
        call(path, prepared)
        outcome = "succeeds"
    except OSError as error:
        outcome = os.strerror(error.errno)
    took = time.monotonic() - began
    wrong = ""
    if took > limit:
        wrong = f"{name} takes {took:.1f} s instead of {limit - SLACK:g}: {outcome}"
    elif outcome != "succeeds" and reason_of is not None:
        try:
            os.getxattr(path / reason_of if reason_of else path, "user.pailfs.lasterror")
        except OSError as error:
            wrong = f"{name} leaves no reason: {os.strerror(error.errno)}"
    return name, took, outcome, wrong


def case(mount):
    chosen = list(ACTS)
    for number in range(len(chosen)):
        for key, body in (("stored", b"x" * 3 * MIB), ("other", b"y"), ("directory/file", b"z"), ("empty/", b"")):
            mount.store.put(mount.prefix, f"d{number}/{key}", body)
    mount.start()
    os.listdir(mount.path)
    prepared = []
    for number, name in enumerate(chosen):
        os.listdir(mount.path / f"d{number}")
        prepared.append(ACTS[name][0](mount.path / f"d{number}"))
    fall_silent(mount.store)
    try:
        with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
            done = list(pool.map(lambda item: act(mount, item[0], item[1], prepared[item[0]]), enumerate(chosen)))
    finally:
        mount.store.faults()
    wrong = []
    for name, took, outcome, what in done:
        print(f"{took:5.1f} s  {name}: {outcome}", flush=True)
        if what:
            wrong.append(what)
        if "durable=local" in mount.options and name.startswith(LOCAL) and outcome != "succeeds":
            wrong.append(f"{name}: {outcome}")
    if wrong:
        raise AssertionError("; ".join(wrong))
    return len(done)


class DeadlineBench(Bench):
    mount_type = ServedMount


def main(names):
    bench = DeadlineBench()
    for durability in ("remote", "local"):
        if not names or durability in names:
            bench.case(durability, case, f"durable={durability}", "ttl=1h", f"timeout={TIMEOUT}s")
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
