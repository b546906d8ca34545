#!/usr/bin/env python3
"""usage: picture.py [NAME...]: every answer about names in every state, before and after the worker is killed, and before and
after "pailfs restart": with the store there, with a slow one and without one. PAILFS_TEST_LONG=1 asks after ten seconds as well.

Promise: a worker's death changes no answer, and the next worker gives what needs no store at once."""

# rule: crash.answers, crash.serving

import hashlib
import os
import pathlib
import subprocess
import sys
import time

from bench import PAILFS, Bench
from replaced_names import ServedMount

MIB = 1 << 20
SIZES = {"read": 100, "read large": 3 * MIB, "read in part": 3 * MIB, "overwritten": 2 * MIB, "appended to": 100, "with a mode": 100,
         "with a time": 100, "with an attribute": 100, "renamed before": 100, "removed": 100, "listed": 100, "cut": 2 * MIB}
# How much of a file is looked at.
PARTS = {"read in part": 128 << 10, "listed": 0, "renamed": 100}
# Of these nobody has asked the store for more than a listing tells.
NEVER_ASKED = ("listed", "old")
TIMEOUT = 5
# How the worker ends, and how long after that the picture is taken.
ENDS = [("kill_worker", 0), ("restart_worker", 0)]
if os.environ.get("PAILFS_TEST_LONG") == "1":
    ENDS += [(end, 10) for end, _ in ENDS]
STORES = {"alive": (), "slow": ("op=*,kind=latency:300ms",), "dead": ("op=*,kind=reset",)}


def body(name):
    return (name.encode() + b"\n") * (SIZES.get(name, 100) // (len(name) + 1) + 1)


def prepare(mount, store, prefix):
    """Makes a name in each state, and returns the descriptors that stay open."""
    for name in SIZES:
        store.put(prefix, f"old/{name}", body(name)[:SIZES[name]])
        store.put(prefix, f"untouched/{name}", b"x")
    mount.start()
    old, new = mount.path / "old", mount.path / "new"
    os.listdir(old)
    os.listdir(mount.path / "untouched")
    for name in ("read", "read large"):
        (old / name).read_bytes()
    with open(old / "read in part", "rb", buffering=0) as file:
        file.read(PARTS["read in part"])
    with open(old / "overwritten", "r+b") as file:
        file.seek(MIB)
        file.write(b"in the middle")
    with open(old / "appended to", "ab") as file:
        file.write(b"at the end")
    (old / "overwritten").read_bytes()
    (old / "appended to").read_bytes()
    (old / "with a mode").chmod(0o600)
    os.utime(old / "with a time", ns=(1_000_000_000_123_456_789, 1_100_000_000_987_654_321))
    os.setxattr(old / "with an attribute", "user.colour", b"red")
    (old / "renamed before").rename(old / "renamed")
    (old / "removed").unlink()
    os.truncate(old / "cut", 1000)
    for name in ("with a mode", "with a time", "with an attribute", "renamed", "cut"):
        (old / name).read_bytes()
    new.mkdir()
    (new / "written").write_bytes(body("written"))
    (new / "large").write_bytes(bytes(6 * MIB))
    (new / "empty").touch()
    (new / "link").symlink_to("written")
    (new / "directory").mkdir()
    (new / "renamed before").write_bytes(body("renamed"))
    (new / "renamed before").rename(new / "renamed")
    (new / "removed").write_bytes(b"x")
    (new / "removed").unlink()
    still = open(new / "still open", "wb", buffering=0)
    still.write(body("still open"))
    nameless = open(new / "nameless", "w+b", buffering=0)
    nameless.write(body("nameless"))
    (new / "nameless").unlink()
    for path in (old / "absent", new / "absent", mount.path / "absent"):
        path.exists()
    return {"still open": still, "nameless": nameless}


def answer(ask, *arguments):
    try:
        return ask(*arguments)
    except OSError as error:
        return os.strerror(error.errno)


def fields(status):
    return {name: getattr(status, name) for name in ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_mtime_ns",
                                                     "st_ctime_ns", "st_atime_ns")}


def content(path):
    with open(path, "rb", buffering=0) as file:
        digest, left = hashlib.sha256(), PARTS.get(path.name, 1 << 40)
        while left and (piece := file.read(min(left, MIB))):
            digest.update(piece)
            left -= len(piece)
        return digest.hexdigest()[:12]


def attributes(path):
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)
            if not name.startswith("user.pailfs.")}


def picture(mount, descriptors):
    """Every answer, by what was asked. What the kernel still knows is dropped before, where that is allowed."""
    subprocess.run(["sync", "-f", str(mount.work)], check=True)
    if os.geteuid() == 0:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
    answers = {}
    old, new = mount.path / "old", mount.path / "new"
    for directory in (mount.path, old, new, mount.path / "untouched"):
        answers["ls", str(directory)] = answer(lambda where: sorted(os.listdir(where)), directory)
    names = [old / name for name in [*SIZES, "renamed", "absent"]]
    names += [new / name for name in ("written", "large", "empty", "link", "directory", "renamed before", "renamed", "removed",
                                      "still open", "nameless", "absent")]
    for path in [*names, mount.path / "absent", mount.path, old, new]:
        where = str(path)
        status = answer(os.lstat, path)
        answers["lstat", where] = status if isinstance(status, str) else fields(status)
        if path.name not in NEVER_ASKED:
            answers["attributes", where] = answer(attributes, path)
        if path.name in ("link", "directory", "old", "new", "mount"):
            answers["readlink", where] = answer(os.readlink, path)
        else:
            answers["content", where] = answer(content, path)
    for name, file in descriptors.items():
        answers["fstat", name] = fields(os.fstat(file.fileno()))
        if "+" in file.mode:
            answers["pread", name] = answer(os.pread, file.fileno(), 1000, 0)
    return answers


def differences(before, after):
    found = []
    for asked, first in before.items():
        second = after[asked]
        if first == second:
            continue
        if isinstance(first, dict) and isinstance(second, dict):
            changed = [name for name in first | second if first.get(name) != second.get(name)]
            found.append(f"{' '.join(asked)}: " + ", ".join(f"{name} {first.get(name)} -> {second.get(name)}" for name in changed))
        else:
            found.append(f"{' '.join(asked)}: {first} -> {second}")
    return found


def serve_at_once(mount):
    """Answers that need no store, in a time that no request to a dead one can be over in."""
    began = time.monotonic()
    os.lstat(mount.path / "old" / "read")
    os.listdir(mount.path / "old")
    (mount.path / "new" / "written").read_bytes()
    took = time.monotonic() - began
    if took > TIMEOUT / 2:
        raise AssertionError(f"the next worker answers after {took:.1f} s")


def case(state, end, delay):
    def body_of_case(mount):
        store = mount.store
        descriptors = prepare(mount, store, mount.prefix)
        if state != "alive":
            store.faults(*STORES[state])
        try:
            before = picture(mount, descriptors)
            broken = [f"{asked}: {found}" for asked, found in before.items() if found == os.strerror(5)]
            if broken:
                raise AssertionError("not known before: " + "; ".join(broken))
            getattr(mount, end)()
            serve_at_once(mount)
            time.sleep(delay)
            changed = differences(before, picture(mount, descriptors))
            if changed:
                raise AssertionError(f"{len(changed)} of {len(before)} answers are others:\n  " + "\n  ".join(changed))
            return len(before)
        finally:
            store.faults()
            for file in descriptors.values():
                file.close()
    return body_of_case


class PictureMount(ServedMount):
    def __init__(self, store, prefix, work, *options):
        super().__init__(store, prefix, work, *options)
        self.work = work

    def restart_worker(self):
        subprocess.run([PAILFS, "restart", str(self.path)], check=True, timeout=60)


class PictureBench(Bench):
    mount_type = PictureMount


def main(names):
    bench = PictureBench()
    for durability in ("remote", "local"):
        for state in STORES:
            for end, delay in ENDS:
                name = f"{durability}, {state}" + (", restarted" if end == "restart_worker" else "")
                name += f", after {delay} s" if delay else ""
                if not names or name in names:
                    bench.case(name, case(state, end, delay), f"durable={durability}", "ttl=1h", f"timeout={TIMEOUT}s")
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
