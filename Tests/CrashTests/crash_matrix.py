#!/usr/bin/env python3
"""usage: crash_matrix.py [NAME...]: kills the mount at every step of its journal and at random times, mounts again, and
compares the bucket, as boto3 sees it, with what programs were told. PAILFS_TEST_LONG=1 for many more random times,
PAILFS_TEST_DELETE_CACHE=1 to delete the cache every second meanwhile.

Promises: a file whose close returned is in the bucket with those bytes; what was under way is as it was before or as it was
to be, never between; what was removed stays away; no multipart upload is left."""

import os
import random
import sys
import threading
import time

from bench import Bench, wait_for

BIG = 11 << 20
LONG = os.environ.get("PAILFS_TEST_LONG") == "1"


def content(seed, size):
    return random.Random(seed).randbytes(size)


class Record:
    """What programs were told: the files there are, and what the act under way may have made of them."""

    def __init__(self):
        self.files = {}
        self.possible = []

    def act(self, act, after):
        """Runs `act`; the files are `after` then. Until it has returned, both states are right."""
        self.possible = [after]
        act()
        self.files, self.possible = after, []

    def check(self, found):
        found = {key: body for key, body in found.items() if not key.endswith("/")}
        # rule: object.whole, crash.acknowledged
        for state in [self.files, *self.possible]:
            if found == state:
                return
        wrong = {key for key in found.keys() | self.files.keys() if found.get(key) != self.files.get(key)}
        raise AssertionError(
            f"the bucket differs from what programs were told at {sorted(wrong)}: "
            f"{ {key: len(found[key]) if key in found else None for key in wrong} }")


def write(path, body, piece=1 << 20):
    with open(path, "wb", buffering=0) as file:
        for start in range(0, len(body), piece):
            file.write(body[start:start + piece])


def workload(mount, record):
    """Every act that the journal knows, one after the other, until the mount dies."""
    root, store, prefix = mount.path, mount.store, mount.prefix

    def put(name, body):
        record.act(lambda: write(root / name, body), {**record.files, name: body})

    def moved(old, new):
        return {(new + key[len(old):] if key.startswith(old) else key): body for key, body in record.files.items()
                if not key.startswith(new)}

    def rename(old, new):
        record.act(lambda: os.rename(root / old, root / new), moved(old, new))

    os.mkdir(root / "dir")
    put("dir/small", content(1, 5000))
    put("dir/big", content(2, BIG))
    put("dir/small", content(3, 7000))
    rename("dir/small", "dir/other")
    put("target", content(4, 100))
    rename("dir/other", "target")
    os.mkdir(root / "dir/sub")
    for number in range(3):
        put(f"dir/sub/{number}", content(10 + number, 3000))
    rename("dir", "tree")
    # An object that nothing was read of yet goes when it is closed, but its name goes at once.
    store.put(prefix, "tree/foreign", content(5, BIG))
    record.files = {**record.files, "tree/foreign": content(5, BIG)}
    os.setxattr(root, "user.pailfs.refresh", b"1")
    with open(root / "tree/foreign", "rb"):
        record.act(lambda: os.unlink(root / "tree/foreign"),
                   {key: body for key, body in record.files.items() if key != "tree/foreign"})
    put("last", content(6, BIG))
    body = bytearray(record.files["last"])
    body[100:103] = b"new"

    def overwrite():
        with open(root / "last", "r+b", buffering=0) as file:
            file.seek(100)
            file.write(b"new")

    record.act(overwrite, {**record.files, "last": bytes(body)})


def settle(mount, record):
    """Mounts again, ends in order, and looks at the bucket."""
    mount.start()
    ended = mount.unmount()
    if ended.returncode != 0:
        raise AssertionError(f"the unmount after recovery said: {ended.stderr}")
    record.check(mount.store.objects(mount.prefix))
    uploads = mount.store.uploads(mount.prefix)
    if uploads:
        # rule: crash.jobs
        raise AssertionError(f"uploads are left: {uploads}")


def stop_case(stop):
    def run(mount):
        record = Record()
        mount.start(stop)
        try:
            workload(mount, record)
        except OSError:
            pass
        # Steps that follow an answer are reached without a program waiting for them.
        mount.died()
        settle(mount, record)
    return run


def recreate_case(stop, same):
    """A file is removed while a program reads it, and another takes its name, maybe with the same bytes: whatever happens,
    the old one does not come back and the new one does not go."""
    def run(mount):
        record = Record()
        old = content(50, 3000)
        new = old if same else content(51, 4000)
        for name in ("written", "renamed"):
            mount.store.put(mount.prefix, name, old)
        mount.start(stop)
        record.files = {"written": old, "renamed": old}

        def without(name):
            return {key: body for key, body in record.files.items() if key != name}

        try:
            with open(mount.path / "written", "rb"), open(mount.path / "renamed", "rb"):
                record.act(lambda: os.unlink(mount.path / "written"), without("written"))
                record.act(lambda: os.unlink(mount.path / "renamed"), without("renamed"))
                record.act(lambda: write(mount.path / "written", new), {**record.files, "written": new})
                record.act(lambda: write(mount.path / "other", new), {**record.files, "other": new})
                record.act(lambda: os.rename(mount.path / "other", mount.path / "renamed"),
                           {**without("other"), "renamed": new})
        except OSError:
            pass
        mount.died()
        settle(mount, record)
    return run


def links_case(stop):
    """Files and links replace each other, which are objects of different keys: the replaced one does not come back."""
    def run(mount):
        record = Record()
        root, body = mount.path, content(55, 3000)
        mount.start(stop)

        def replaced(old, new, gone):
            rest = {key: data for key, data in record.files.items() if key not in (old, gone)}
            return {**rest, new: record.files[old]}

        try:
            for name in ("a", "b"):
                record.act(lambda: write(root / name, body), {**record.files, name: body})
            for name in ("k", "l", "m"):
                record.act(lambda: os.symlink("x", root / name), {**record.files, f"{name}.rclonelink": b"x"})
            record.act(lambda: os.rename(root / "a", root / "l"), replaced("a", "l", "l.rclonelink"))
            record.act(lambda: os.rename(root / "m", root / "b"), replaced("m.rclonelink", "b.rclonelink", "b"))
            with open(root / "new", "wb", buffering=0) as file:
                file.write(body)
                # From here on the file is promised.
                after = {key: data for key, data in record.files.items() if key != "k.rclonelink"}
                record.act(lambda: os.rename(root / "new", root / "k"), {**after, "k": body})
        except OSError:
            pass
        mount.died()
        settle(mount, record)
    return run


def in_a_row_case(stop):
    """Files are removed one after the other, as rm -r does, and one of their names taken again, with the same bytes."""
    def run(mount):
        record = Record()
        record.files = {f"row/{number}": content(60 + number, 3000) for number in range(9)}
        for name, body in record.files.items():
            mount.store.put(mount.prefix, name, body)
        mount.start(stop)
        try:
            os.listdir(mount.path / "row")
            for name in sorted(record.files)[:8]:
                rest = {key: body for key, body in record.files.items() if key != name}
                record.act(lambda: os.unlink(mount.path / name), rest)
            again = {**record.files, "row/5": content(65, 3000)}
            record.act(lambda: write(mount.path / "row/5", again["row/5"]), again)
        except OSError:
            pass
        mount.died()
        settle(mount, record)
    return run


STEPS = [("open", 1), ("open", 3), ("attempt", 1), ("attempt", 2), ("attempt", 3), ("end-file", 1), ("end-file", 3),
         ("upload", 1), ("part", 1), ("part", 2), ("end-upload", 1), ("rename", 1), ("rename", 2), ("tree", 1),
         ("advance", 1), ("advance", 2), ("end-job", 1), ("end-job", 3), ("removal", 1), ("end-job", 4)]


# `durable=local`: a close returns before the store has anything, so most of these fall into an upload.
LOCAL_STEPS = [("open", 2), ("acknowledge", 1), ("acknowledge", 2), ("acknowledge", 3), ("acknowledge", 5),
               ("end-file", 1), ("end-file", 2), ("upload", 1), ("part", 1), ("part", 2), ("end-upload", 1),
               ("rename", 1), ("tree", 1), ("advance", 1), ("advance", 2), ("end-job", 1)]


def resume_case(mount):
    """A big upload that is killed when two thirds are there, and sends less than half of itself again."""
    parts = 410 if LONG else 40
    body = content(7, parts * (5 << 20))
    store = mount.store

    def sent():
        return sum(1 for request in store.requests()
                   if request["operation"] == "UploadPart" and request["status"] == 200
                   and (request.get("key") or "").startswith(mount.prefix + "/"))

    # Slow enough for the program to be through before the parts are.
    store.faults("op=UploadPart,kind=latency:1s")
    try:
        mount.start()
        write(mount.path / "big", body)
        wait_for("two thirds of the parts", lambda: sent() >= parts * 13 // 20, 600)
        mount.kill()
    finally:
        store.faults()
    before = sent()
    if before >= parts * 9 // 10:
        raise AssertionError(f"the kill came after {before} of {parts} parts: this proves nothing")
    mount.start()
    if (mount.path / "big").stat().st_size != len(body):
        raise AssertionError("the file is not as it was promised before it is stored")
    ended = mount.unmount()
    if ended.returncode != 0:
        raise AssertionError(f"the unmount after recovery said: {ended.stderr}")
    again = sent() - before
    # rule: crash.acknowledged
    if again >= parts // 2:
        raise AssertionError(f"{again} of {parts} parts were sent after the restart, {before} were there")
    if store.objects(mount.prefix) != {"big": body} or store.uploads(mount.prefix):
        raise AssertionError("the object is not what was written, or an upload is left")
    print(f"resumed: {before} of {parts} parts before the kill, {again} after it", flush=True)


def outage_case(mount):
    """The store goes away: closes go on, the unmount names what it could not store, and the next mount stores it."""
    record = Record()
    mount.start()
    mount.store.faults("op=PutObject,kind=status:500")
    try:
        for number in range(5):
            body = content(20 + number, 10_000)
            record.act(lambda: write(mount.path / f"f{number}", body), {**record.files, f"f{number}": body})
        ended = mount.unmount()
    finally:
        mount.store.faults()
    # rule: away.end
    if ended.returncode == 0 or "f3" not in ended.stderr:
        raise AssertionError(f"the unmount did not name what is not stored: {ended.returncode} {ended.stderr}")
    settle(mount, record)


def attributes_case(mount):
    """Attributes set after the close of a file that the store does not have yet go with it, whatever happens."""
    mount.start()
    mount.store.faults("op=PutObject,kind=status:500")
    try:
        write(mount.path / "f", content(30, 5000))
        os.chmod(mount.path / "f", 0o640)
        os.utime(mount.path / "f", (1_000_000_000, 1_000_000_000))
        mount.kill()
    finally:
        mount.store.faults()
    mount.start()
    seen = (mount.path / "f").stat()
    if (seen.st_mode & 0o777, seen.st_mtime) != (0o640, 1_000_000_000):
        raise AssertionError(f"the attributes are {seen.st_mode:o} {seen.st_mtime}")
    ended = mount.unmount()
    if ended.returncode != 0:
        raise AssertionError(f"the unmount after recovery said: {ended.stderr}")
    headers = mount.store.s3.head_object(Bucket="pail", Key=f"{mount.prefix}/f")["Metadata"]
    if int(headers["mode"]) & 0o777 != 0o640 or not headers["mtime"].startswith("1000000000"):
        raise AssertionError(f"the object has {headers}")


def jobs_case(heals, kills):
    """The store will not delete: renames and removals are done all the same, and the rest follows while mounted, or is named
    at the end and done by the next mount."""
    def run(mount):
        record = Record()
        root, store = mount.path, mount.store
        for name in ("a", "d/x", "d/y", "open"):
            store.put(mount.prefix, name, content(40, 3000))
        record.files = {"b": content(40, 3000), "e/x": content(40, 3000), "e/y": content(40, 3000)}
        mount.start()
        store.faults("op=DeleteObject,kind=status:503", "op=DeleteObjects,kind=status:503")
        try:
            os.rename(root / "a", root / "b")
            os.rename(root / "d", root / "e")
            with open(root / "open", "rb"):
                os.unlink(root / "open")
            if sorted(os.listdir(root)) != ["b", "e"]:
                raise AssertionError(f"programs see {sorted(os.listdir(root))}")
            if kills:
                mount.kill()
            elif not heals:
                refused = "a change of the bucket is not finished"
                wait_for(
                    "the removal to be refused", lambda: mount.log.read_text(errors="replace").count(refused) >= 3)
                ended = mount.unmount()
                # rule: crash.background
                if ended.returncode == 0 or "not finished" not in ended.stderr or "open" not in ended.stderr:
                    raise AssertionError(f"the unmount did not say what is left: {ended.returncode} {ended.stderr}")
        finally:
            store.faults()
        if heals:
            # rule: crash.background
            wait_for("the jobs to be done", lambda: store.keys(mount.prefix) == sorted(record.files))
            mount.store_and_unmount()
        settle(mount, record)
    return run


def random_case(seed):
    """Writers that never end, killed at a random time."""
    def run(mount):
        dice = random.Random(seed)
        mount.start()
        records = [Record() for _ in range(4)]

        def writer(number, record):
            mine = random.Random(seed * 10 + number)
            root = mount.path / f"w{number}"
            try:
                os.mkdir(root)
                while True:
                    name = f"f{mine.randrange(6)}"
                    act = mine.randrange(10)
                    if act < 6 or name not in record.files:
                        size = BIG if mine.randrange(12) == 0 else mine.randrange(1, 60_000)
                        body = mine.randbytes(size)
                        record.act(lambda: write(root / name, body), {**record.files, name: body})
                    elif act < 8:
                        rest = {key: body for key, body in record.files.items() if key != name}
                        record.act(lambda: os.unlink(root / name), rest)
                    else:
                        new = f"f{mine.randrange(6)}"
                        after = {key: body for key, body in record.files.items() if key != name}
                        after[new] = record.files[name]
                        record.act(lambda: os.rename(root / name, root / new), after)
            except OSError:
                pass

        threads = [threading.Thread(target=writer, args=pair) for pair in enumerate(records)]
        for thread in threads:
            thread.start()
        time.sleep(dice.uniform(0.05, 1.2))
        mount.kill()
        for thread in threads:
            thread.join(60)
            if thread.is_alive():
                raise AssertionError("a program hangs in a mount that died")
        mount.start()
        ended = mount.unmount()
        if ended.returncode != 0:
            raise AssertionError(f"the unmount after recovery said: {ended.stderr}")
        found = mount.store.objects(mount.prefix)
        for number, record in enumerate(records):
            own = f"w{number}/"
            record.check({key[len(own):]: body for key, body in found.items() if key.startswith(own) and not key.endswith("/")})
    return run


def main(names):
    bench = Bench()
    cases = []
    for step, count in STEPS:
        for side in ("before", "after"):
            cases.append((f"{side}:{step}:{count}", stop_case(f"{side}:{step}:{count}")))
    for step, count in LOCAL_STEPS:
        for side in ("before", "after"):
            stop = f"{side}:{step}:{count}"
            cases.append((f"local {stop}", stop_case(stop), "durable=local"))
    for stop in ("before:attempt:1", "after:attempt:1", "before:end-file:1", "after:end-file:1", "before:rename:1",
                 "after:rename:1", "after:end-job:3"):
        for same in (False, True):
            cases.append((f"recreated {stop} {'same' if same else 'other'}", recreate_case(stop, same)))
    for stop in ("after:acknowledge:1", "after:acknowledge:2", "before:end-file:1"):
        cases.append((f"local recreated {stop}", recreate_case(stop, False), "durable=local"))
    for stop in ("before:removal:1", "after:removal:1", "after:removal:3", "after:removal:6", "before:end-job:1",
                 "after:end-job:1", "before:attempt:1", "after:attempt:1"):
        cases.append((f"in a row {stop}", in_a_row_case(stop)))
    for stop in ("after:rename:1", "after:rename:2", "before:end-job:1", "before:end-job:2", "after:removal:1",
                 "before:end-job:3", "after:end-job:3"):
        for options in ([], ["durable=local"]):
            cases.append((f"{' '.join(options)} links {stop}".strip(), links_case(stop), *options))
    # Two at a time: those under way at the kill are sent again.
    cases.append(("local resume", resume_case, "durable=local", "uploads=2"))
    cases.append(("local outage", outage_case, "durable=local", "timeout=2", "retries=1"))
    cases.append(("local attributes", attributes_case, "durable=local", "timeout=2", "retries=1"))
    cases.append(("jobs while mounted", jobs_case(True, False), "timeout=2", "retries=1"))
    cases.append(("jobs at the end", jobs_case(False, False), "timeout=2", "retries=1"))
    cases.append(("jobs after a kill", jobs_case(False, True), "timeout=2", "retries=1"))
    for seed in range(500 if LONG else 12):
        cases.append((f"random {seed}", random_case(seed)))
        cases.append((f"local random {seed}", random_case(seed + 5000), "durable=local"))
    for name, body, *options in cases:
        if not names or any(word in name for word in names):
            bench.case(name, body, *options)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
