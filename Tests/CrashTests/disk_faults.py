#!/usr/bin/env python3
"""usage: disk_faults.py [NAME...]: mounts whose local disk fails: writes and flushes that end in an error, torn writes, and
databases that are damaged, cut, lost or another program's. PAILFS_TEST_LONG=1 for random faults under load, and for
damage that does not show when a file is opened.

Promises: a close or fsync that returned 0 stands, whatever the disk did before or after, at worst in a conflict file beside the
name; one that could not be kept is an
error; caches are made anew; a journal that cannot be read is never touched and stops the mount."""

import errno
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import threading
import time

from bench import DEADLINE, PAILFS, Bench

LONG = os.environ.get("PAILFS_TEST_LONG") == "1"
SHIM = pathlib.Path(__file__).with_name("disk_shim.c")


class Disk:
    """The disk of one mount's cache directory."""

    def __init__(self, bench, mount):
        library = bench.work / "disk_shim.so"
        if not library.exists():
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
        self.rules = mount.cache.parent / "faults"
        self.heal()
        mount.environment = {"LD_PRELOAD": str(library), "DISK_FAULTS": str(self.rules), "DISK_BELOW": str(mount.cache)}

    def fail(self, *rules):
        """Each rule: call, part of the path, errno, per cent."""
        fresh = self.rules.with_name("faults.new")
        fresh.write_text("".join(" ".join(str(word) for word in rule) + "\n" for rule in rules))
        fresh.rename(self.rules)

    def heal(self):
        self.fail()


def write(path, body):
    with open(path, "wb", buffering=0) as file:
        file.write(body)


def expect_error(what, act, *codes):
    try:
        act()
    except OSError as error:
        if error.errno not in codes:
            raise AssertionError(f"{what} failed with {error}") from error
        return
    raise AssertionError(f"{what} succeeded")


def finish(mount):
    mount.store_and_unmount()
    return {key: body for key, body in mount.store.objects(mount.prefix).items() if not key.endswith("/")}


def only(cache, name):
    """The file `name` of the one cache directory there is."""
    found = list(cache.glob(f"*/{name}"))
    if len(found) != 1:
        raise AssertionError(f"{name}: {found}")
    return found[0]


# Single faults.

def no_room(bench):
    def run(mount):
        disk = Disk(bench, mount)
        mount.start()
        write(mount.path / "before", b"1" * 5000)
        disk.fail(("write", "*", errno.ENOSPC, 100))
        expect_error("a file on a full disk", lambda: write(mount.path / "full", b"2" * 5000), errno.ENOSPC, errno.EIO)
        disk.heal()
        write(mount.path / "after", b"3" * 5000)
        found = finish(mount)
        if found != {"before": b"1" * 5000, "after": b"3" * 5000} and found.pop("full", b"2" * 5000) != b"2" * 5000:
            raise AssertionError(f"the bucket has {sorted(found)}")
    return run


def journal_flush(bench):
    """Every flush of the journal fails: nothing can be promised, and nothing is."""
    def run(mount):
        disk = Disk(bench, mount)
        mount.start()
        write(mount.path / "before", b"1" * 5000)
        disk.fail(("sync", "journal.db", errno.EIO, 100))
        # rule: crash.disk, close.local
        expect_error("a promise without a journal", lambda: write(mount.path / "lost", b"2" * 5000), errno.EIO)
        expect_error("another", lambda: write(mount.path / "lost2", b"2" * 5000), errno.EIO)
        disk.heal()
        write(mount.path / "after", b"3" * 5000)
        mount.kill()
        mount.start()
        found = finish(mount)
        for name, body in (("before", b"1" * 5000), ("after", b"3" * 5000)):
            if found.get(name) != body:
                raise AssertionError(f"{name} was promised and is not there: {sorted(found)}")
    return run


def staged_flush(bench):
    """The staged bytes cannot be flushed: the close fails, and so does every later one, until they are written anew."""
    def run(mount):
        disk = Disk(bench, mount)
        mount.start()
        disk.fail(("sync", "/staging/", errno.EIO, 100))
        file = os.open(mount.path / "file", os.O_CREAT | os.O_WRONLY)
        os.write(file, b"x" * 9000)
        # rule: crash.disk, close.local
        expect_error("the fsync", lambda: os.fsync(file), errno.EIO)
        disk.heal()
        # The kernel says now that all is well, and it is not.
        expect_error("the fsync after it", lambda: os.fsync(file), errno.EIO)
        try:
            os.close(file)
        except OSError:
            pass
        mount.kill()
        mount.start()
        if "file" in mount.store.objects(mount.prefix):
            raise AssertionError("bytes that were never safe were committed")
        write(mount.path / "file", b"y" * 9000)
        if finish(mount).get("file") != b"y" * 9000:
            raise AssertionError("the file written anew is not there")
    return run


# Random faults under load.

class Known:
    """What each file may hold: a success leaves one answer, a failure two."""

    def __init__(self):
        self.files, self.written = {}, set()

    def act(self, name, act, after):
        """`after` is None where the file goes. False when the program was told of an error."""
        before = self.files.get(name, {None})
        # A file that could be opened and not be written is empty.
        self.files[name] = before | {after, b""}
        self.written |= {after, b""}
        try:
            act()
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                raise
            return False
        self.files[name] = {after}
        return True

    def check(self, found):
        for name, bodies in self.files.items():
            # A mount whose cache could not be written may not know its own versions: then it keeps both.
            beside = {body for key, body in found.items() if key.startswith(name + ".conflict-")}
            # rule: crash.later
            if found.get(name) not in bodies and not beside & bodies:
                have = found.get(name)
                raise AssertionError(
                    f"{name} has {None if have is None else len(have)} bytes and may have "
                    f"{[None if body is None else len(body) for body in bodies]}")
        for name in found.keys() - self.files.keys():
            if found[name] not in self.written or name.split(".conflict-")[0] not in self.files:
                raise AssertionError(f"nobody wrote {name}")


def read_only(bench):
    """The disk makes itself read-only, as ext4 does after an error: what is in the bucket is read, and nothing is written."""
    def run(mount):
        image = bench.work / f"{mount.prefix}.img"
        with open(image, "wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        mount.cache.mkdir()
        subprocess.run(["mount", "-o", "loop", image, mount.cache], check=True)
        try:
            for name in ("other/deep", "other/big"):
                mount.store.put(mount.prefix, name, name.encode() * 100000)
            mount.start()
            names = [f"file{number}" for number in range(9)]
            for name in names:
                write(mount.path / name, name.encode() * 1000)
            os.listdir(mount.path)
            if "durable=local" in mount.options:
                subprocess.run([PAILFS, "flush", "--wait", mount.path], check=True)
            subprocess.run(["mount", "-o", "remount,abort", mount.cache], check=True)
            # rule: crash.readonly
            for _ in range(3):
                found = sorted(os.listdir(mount.path))
                if found != [*names, "other"]:
                    raise AssertionError(f"the directory lists {found}")
                for name in names:
                    if (mount.path / name).read_bytes() != name.encode() * 1000:
                        raise AssertionError(f"{name} has other bytes")
                for name in sorted(os.listdir(mount.path / "other")):
                    if (mount.path / "other" / name).read_bytes() != f"other/{name}".encode() * 100000:
                        raise AssertionError(f"other/{name} has other bytes")
                time.sleep(1.2)
            refused = {
                "a new file": lambda: write(mount.path / "new", b"1"),
                "a change": lambda: write(mount.path / "file0", b"1"),
                "a rename": lambda: os.rename(mount.path / "file1", mount.path / "moved"),
                "a rename over a file": lambda: os.rename(mount.path / "file2", mount.path / "file3"),
                "a rename of a directory": lambda: os.rename(mount.path / "other", mount.path / "moved"),
                "a mode": lambda: os.chmod(mount.path / "file4", 0o600),
            }
            for what, act in refused.items():
                expect_error(f"{what} on a read-only disk", act, errno.EROFS)
            ended = mount.unmount()
            if ended.returncode != 0:
                raise AssertionError(f"the unmount said: {ended.stderr}")
            found = sorted(mount.store.objects(mount.prefix))
            if found != sorted([*names, "other/deep", "other/big"]):
                raise AssertionError(f"the bucket has {found}")
        finally:
            mount.leave()
            subprocess.run(["umount", mount.cache], check=True)
    return run


def storm(bench, seed, *rules, kills):
    """Writers on a disk that fails now and then; at last the process dies, and the next mount has a disk that works."""
    def run(mount):
        disk = Disk(bench, mount)
        dice = random.Random(seed)
        mount.start()
        known = [Known() for _ in range(3)]
        for number in range(3):
            os.mkdir(mount.path / f"w{number}")
        told = [0, 0]
        disk.fail(*rules)
        end = time.monotonic() + dice.uniform(0.5, 1.5)

        def writer(number):
            mine = random.Random(seed * 10 + number)
            root = mount.path / f"w{number}"
            try:
                while time.monotonic() < end or not kills and told[1] == 0 and time.monotonic() < end + DEADLINE:
                    name = f"f{mine.randrange(5)}"
                    if mine.randrange(10) < 8:
                        body = mine.randbytes(mine.randrange(1, 40_000))
                        done = known[number].act(name, lambda: write(root / name, body), body)
                    else:
                        done = known[number].act(name, lambda: os.unlink(root / name), None)
                    told[0 if done else 1] += 1
            except OSError:
                pass

        threads = [threading.Thread(target=writer, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * DEADLINE)
            if thread.is_alive():
                raise AssertionError("a program hangs on a disk that fails")
        disk.heal()
        if mount.process.poll() is None:
            mount.process.kill()
        mount.died()
        mount.start()
        found = finish(mount)
        for number in range(3):
            own = f"w{number}/"
            known[number].check({key[len(own):]: body for key, body in found.items() if key.startswith(own)})
    return run


# Databases that are not what they were.

def garbage(path):
    size = max(path.stat().st_size, 8192)
    path.write_bytes(random.Random(1).randbytes(size))


def middle(path):
    """All but the first page is gone mad: it opens well."""
    body = path.read_bytes()
    path.write_bytes(body[:4096] + random.Random(2).randbytes(max(len(body) - 4096, 4096)))


def page(path):
    """One page in the middle of the rows."""
    body = bytearray(path.read_bytes())
    row = body.index(b'"staging"', len(body) // 16) // 4096 * 4096
    body[row:row + 4096] = b"\xa5" * 4096
    path.write_bytes(body)


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    os.truncate(path, 0)


def foreign(path):
    path.unlink()
    database = sqlite3.connect(path)
    database.executescript("PRAGMA user_version = 1; CREATE TABLE song (title TEXT); INSERT INTO song VALUES ('x');"
                           "PRAGMA application_id = 77;")
    database.close()


def lost(path):
    path.unlink()


def cache_case(name, damage):
    def run(mount):
        for number in range(200):
            mount.store.put(mount.prefix, f"d/{number}", b"%d" % number)
        mount.start()
        write(mount.path / "mine", b"m" * 10_000)
        if len(os.listdir(mount.path / "d")) != 200:
            raise AssertionError("the listing is short")
        for number in range(20):
            (mount.path / f"d/{number}").read_bytes()
        finish(mount)
        damage(only(mount.cache, name))
        # What does not show when a file is opened shows in its use, and then the mount after that makes it anew.
        for attempt in range(2):
            mount.start()
            try:
                right = (mount.path / "mine").read_bytes() == b"m" * 10_000 and len(os.listdir(mount.path / "d")) == 200
                right = right and all((mount.path / f"d/{number}").read_bytes() == b"%d" % number for number in range(20))
            except OSError:
                if attempt:
                    raise
                right = False
            mount.unmount()
            if right:
                return
            if attempt:
                raise AssertionError("the mount shows something else than the bucket")
    return run


def journal_case(damage, least):
    def run(mount):
        mount.start()
        mount.store.faults("op=PutObject,kind=status:500")
        try:
            for number in range(40):
                write(mount.path / f"f{number}", b"%d" % number * 9000)
                write(mount.path / f"s{number}", b"%d" % number * 1000)
            mount.kill()
        finally:
            mount.store.faults()
        path = only(mount.cache, "journal.db")
        # Moves the log into the file, so that it is the file that counts.
        database = sqlite3.connect(path)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        damage(path)
        before = path.read_bytes() if path.exists() else None
        said = mount.tail()
        mount.start(check=False)
        # rule: crash.disk
        if mount.process.wait(DEADLINE) == 0:
            raise AssertionError("a journal that cannot be read was mounted over")
        text = mount.log.read_text(errors="replace")[len(said):]
        if "journal.db" not in text or "pailfs recover" not in text or "staging/" not in text:
            raise AssertionError(f"it does not name the file and the remedy: {text}")
        if (path.read_bytes() if path.exists() else None) != before:
            raise AssertionError("the journal was changed")
        staged = {file.name for file in path.parent.glob("staging/*") if file.name.isdigit()}
        if sum((path.parent / "staging" / name).stat().st_size >= 9000 for name in staged) != 40:
            raise AssertionError("staged bytes are gone")
        # The remedy it names: what is left is saved, and what is not is told.
        said = recover("list", path.parent)
        if "damaged" not in said.stderr or "lost: " not in said.stderr:
            raise AssertionError(f"recover does not say what is lost: {said.stderr}")
        saved = path.parent.parent / "saved"
        said = recover("save", saved, path.parent)
        files = {file.name: file.read_bytes() for file in saved.glob("*")} if saved.exists() else {}
        for name, body in files.items():
            if body != b"%d" % int(name[1:]) * (9000 if name[0] == "f" else 1000):
                raise AssertionError(f"{name} was saved with other bytes")
        named = sum(name[0] == "f" for name in files)
        nameless = sum(line.rsplit("/", 1)[-1] in staged for line in said.stderr.splitlines())
        # rule: crash.disk
        if named + nameless < 40 or named < least:
            raise AssertionError(f"{named} files were saved with their names, {nameless} others named: {said.stderr}")
        refused = recover("discard", path.parent, "--all", check=False)
        if files and (refused.returncode == 0 or "damaged" not in refused.stderr):
            raise AssertionError(f"files of a damaged journal are discarded: {refused.stderr}")
        if (path.read_bytes() if path.exists() else None) != before:
            raise AssertionError("the journal was changed")
    return run


def recover(*words, check=True):
    said = subprocess.run([PAILFS, "recover", *words], capture_output=True, text=True, timeout=DEADLINE, check=False)
    if check and said.returncode != 0:
        raise AssertionError(f"recover {words[0]} ended with {said.returncode}: {said.stderr}")
    return said


def main(names):
    bench = Bench()
    local = ("durable=local",)
    slow = ("durable=local", "timeout=2", "retries=1")
    cases = [("no room", no_room(bench)), ("local no room", no_room(bench), *local),
             ("local journal flush", journal_flush(bench), *local),
             ("local staged flush", staged_flush(bench), *local), ("read-only disk", read_only(bench), "ttl=1", "free-space=1M"),
             ("local read-only disk", read_only(bench), "ttl=1", "free-space=1M", *local)]
    for name in ("meta.db", "blocks.db"):
        for damage in (garbage, emptied, foreign, lost, *((middle, cut) if LONG else ())):
            cases.append((f"{name} {damage.__name__}", cache_case(name, damage)))
    for damage, least in ((garbage, 0), (cut, 0), (emptied, 0), (lost, 0), (foreign, 0), (page, 10)):
        cases.append((f"journal.db {damage.__name__}", journal_case(damage, least), *slow))
    for seed in range(60 if LONG else 0):
        for mode in ((), local):
            word = "local " if mode else ""
            cases.append((f"{word}flushes fail {seed}",
                          storm(bench, seed, ("sync", "*", errno.EIO, 15), kills=False), *mode))
            cases.append((f"{word}writes fail {seed}",
                          storm(bench, seed + 1000, ("write", "*", errno.EIO, 3), kills=False), *mode))
            cases.append((f"{word}no room now and then {seed}",
                          storm(bench, seed + 2000, ("write", "*", errno.ENOSPC, 5), kills=False), *mode))
            cases.append((f"{word}torn write {seed}",
                          storm(bench, seed + 3000, ("tear", ".db", errno.EIO, 2), kills=True), *mode))
    for name, body, *options in cases:
        if not names or any(word in name for word in names):
            bench.case(name, body, *options)
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
