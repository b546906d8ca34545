"""The cases that every real server is put through, whatever API it speaks. Each is a body for `Bench.case`."""

import os
import random
import signal
import subprocess
import threading

import posix_checks
from server_bench import bench
import crash_matrix
from crash_matrix import Record, content, write

LONG = os.environ.get("PAILFS_TEST_LONG") == "1"
BIG = (200 if LONG else 40) << 20
KILLS = 12 if LONG else 4

# Where the journal is cut: (durability, the stop points).
STOPS = {
    "remote": ["after:open:3", "before:attempt:2", "after:attempt:3", "before:part:2", "before:end-upload:1",
               "after:rename:1", "before:advance:1", "after:removal:1"],
    "local": ["after:acknowledge:2", "before:end-file:1", "after:part:1", "before:end-upload:1", "after:rename:1"],
}


def differing(found, wanted):
    names = {name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)}
    return sorted(names)[:10]


def posix(mount):
    """Each check in a directory of its own; then a mount that knows nothing shows the same, and so does the server."""
    mount.start()
    failures = []
    for check in posix_checks.CHECKS:
        at = mount.path / check.__name__
        at.mkdir()
        try:
            check(at)
        except (AssertionError, OSError) as error:
            failures.append(f"{check.__name__}: {error!r}")
    if failures:
        raise AssertionError(f"{len(failures)} of {len(posix_checks.CHECKS)} checks: " + "; ".join(failures))
    shown = posix_checks.snapshot(mount.path)
    mount.store_and_unmount()
    other = mount.again("attrs=exact")
    try:
        other.start()
        again = posix_checks.snapshot(other.path)
        other.store_and_unmount()
    finally:
        other.leave()
    if again != shown:
        name = differing(again, shown)[0]
        raise AssertionError(f"another mount shows other than {differing(again, shown)}: {again.get(name)!r:.300} for "
                             f"{shown.get(name)!r:.300}")
    stored = {key: body for key, body in mount.store.objects(mount.prefix).items()
              if not key.endswith("/") and not key.endswith(".rclonelink")}
    wanted = {name: facts[-1] for name, facts in shown.items() if len(facts) == 7}
    stored = {key: body for key, body in stored.items() if key in wanted or body}
    if stored != wanted:
        raise AssertionError(f"the server's objects differ at {differing(stored, wanted)}")
    return len(posix_checks.CHECKS) + 2


def big_file(mount):
    """A file of many parts is changed in its middle by a mount that has nothing of it, renamed, copied and removed."""
    before = mount.store.segments(mount.prefix)
    body = bytearray(random.Random(BIG).randbytes(BIG))
    mount.start()
    write(mount.path / "big", body)
    mount.store_and_unmount()
    expect(mount, {"big": bytes(body)})
    other = mount.again()
    try:
        other.start()
        with open(other.path / "big", "r+b", buffering=0) as file:
            for place in (BIG // 2, BIG // 3 + 7):
                file.seek(place)
                file.write(b"changed")
                body[place:place + 7] = b"changed"
        with open(other.path / "big", "ab") as file:
            file.write(b"the end")
        body += b"the end"
        if other.path.joinpath("big").read_bytes() != body:
            raise AssertionError("the mount does not show the changes")
        os.rename(other.path / "big", other.path / "moved")
        other.store_and_unmount()
        expect(mount, {"moved": bytes(body)})
        other.start()
        subprocess.run(["cp", other.path / "moved", other.path / "copy"], check=True)
        os.truncate(other.path / "copy", BIG // 2)
        (other.path / "replacement").write_bytes(b"small")
        os.rename(other.path / "replacement", other.path / "moved")
        other.store_and_unmount()
        expect(mount, {"copy": bytes(body[:BIG // 2]), "moved": b"small"})
        other.start()
        os.unlink(other.path / "copy")
        other.store_and_unmount()
    finally:
        other.leave()
    expect(mount, {"moved": b"small"})
    if mount.store.uploads(mount.prefix):
        raise AssertionError(f"uploads are left: {mount.store.uploads(mount.prefix)}")
    if mount.store.segments(mount.prefix) != before:
        raise AssertionError(f"segments are left: {len(mount.store.segments(mount.prefix))} of {len(before)}")
    return 5


def expect(mount, wanted):
    found = mount.store.objects(mount.prefix)
    if found != wanted:
        sizes = {name: len(body) for name, body in found.items()}
        raise AssertionError(f"the server's objects differ at {differing(found, wanted)}: {sizes}")


def killed_workers(mount):
    """The process that serves the mount is killed again and again while programs write; they notice nothing."""
    mount.start()
    failures, done, killed = [], threading.Event(), 0
    files = [{} for _ in range(3)]

    def writer(number):
        dice, mine = random.Random(number), files[number]
        root = mount.path / f"w{number}"
        try:
            os.mkdir(root)
            while not done.is_set() or len(mine) < 6:
                name = f"w{number}/f{dice.randrange(6)}"
                body = dice.randbytes(crash_matrix.BIG if dice.randrange(12) == 0 else dice.randrange(1, 60_000))
                write(mount.path / name, body)
                mine[name] = body
                if dice.randrange(4) == 0:
                    os.rename(mount.path / name, mount.path / f"w{number}/moved")
                    mine[f"w{number}/moved"] = mine.pop(name)
        except Exception as error:  # any is a failure, and the others go on
            failures.append(f"writer {number}: {error!r}")

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(len(files))]
    for thread in threads:
        thread.start()
    try:
        while killed < KILLS and not failures:
            wanted = sum(len(mine) for mine in files)
            bench.wait_for("writers to go on", lambda: failures or sum(len(mine) for mine in files) != wanted or done.wait(0.3))
            worker = mount.worker()
            os.kill(worker, signal.SIGKILL)
            killed += 1
            bench.wait_for("another worker", lambda: mount.worker() not in (None, worker))
    finally:
        done.set()
        for thread in threads:
            thread.join(bench.DEADLINE)
    if failures or any(thread.is_alive() for thread in threads):
        raise AssertionError(f"programs noticed: {failures}, or hang")
    mount.store_and_unmount()
    expect_files(mount, {name: body for mine in files for name, body in mine.items()})
    return killed


def expect_files(mount, wanted):
    found = {key: body for key, body in mount.store.objects(mount.prefix).items() if not key.endswith("/")}
    if found != wanted:
        raise AssertionError(f"the server's objects differ at {differing(found, wanted)}")


def run(cases_of, store, durable, names):
    """Every case on one store with one durability."""
    cases_of.store = store
    label, option = f"{store.scheme} {durable}", f"durable={durable}"
    cases = [("posix", cases_of.case, posix), ("big file", cases_of.case, big_file),
             ("killed workers", cases_of.restarting_case, killed_workers)]
    cases += [(f"stop {stop}", cases_of.case, crash_matrix.stop_case(stop)) for stop in STOPS[durable]]
    seeds = range(100 if LONG else 3)
    cases += [(f"random {seed}", cases_of.case, crash_matrix.random_case(seed)) for seed in seeds]
    for name, case, body in cases:
        if not names or any(word in f"{label} {name}" for word in names):
            case(f"{label} {name}", body, option)
