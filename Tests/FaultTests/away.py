"""A store that is away for longer than anybody waits: partitioned, frozen, killed. What is here goes on, the rest fails in
time and says why, and all of it is over when the store is back."""

import errno
import itertools
import os
import random
import subprocess
import threading
import time

from fault_bench import bench
import fault_bench

TIMEOUT = 3
# What may pass until a call of a mount with `timeout=3` must have failed, on a machine that has other things to do.
PATIENCE = 40
numbers = itertools.count(os.getpid() % 200)


class Network:
    """A store in a network namespace of its own, and the cable to it."""

    def __init__(self):
        number = next(numbers) % 250
        self.name, self.outer, self.inner = f"pailfs{os.getpid()}-{number}", f"pf{number}-{os.getpid() % 10000}", "store"
        self.host = f"10.213.{number}.2"
        try:
            self.ip("netns", "add", self.name)
            self.ip("link", "add", self.outer, "type", "veth", "peer", "name", self.inner, "netns", self.name)
            self.ip("addr", "add", f"10.213.{number}.1/24", "dev", self.outer)
            self.ip("link", "set", self.outer, "up")
            self.inside("addr", "add", f"{self.host}/24", "dev", self.inner)
            self.inside("link", "set", "lo", "up")
            self.inside("link", "set", self.inner, "up")
        except (OSError, subprocess.CalledProcessError):
            self.remove()
            raise

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def inside(self, *words):
        self.ip("-n", self.name, *words)

    @property
    def before(self):
        # ip netns exec would take a copy of every mount there is along, and none of them could end before the store.
        return ("nsenter", f"--net=/run/netns/{self.name}")

    def cut(self):
        """The cable is out at the store's end: what is sent is never answered."""
        self.inside("link", "set", self.inner, "down")

    def mend(self):
        self.inside("link", "set", self.inner, "up")

    def remove(self):
        for words in (("link", "del", self.outer), ("netns", "del", self.name)):
            subprocess.run(["ip", *words], check=False, capture_output=True)


def fails(what, act, mount):
    """The call fails within its time, with EIO or ETIMEDOUT, and the log has a line that names operation and path."""
    ended = []

    def attempt():
        try:
            act()
            ended.append(None)
        except OSError as error:
            ended.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if not ended:
        # rule: deadline
        raise AssertionError(f"{what} hangs: {mount.tail()}")
    if ended[0] is None or ended[0].errno not in (errno.EIO, errno.ETIMEDOUT):
        raise AssertionError(f"{what} ended with {ended[0]!r}")


def away(leave, come_back, store, work, durable):
    """`leave` takes the store away, `come_back` brings it back; the bucket is looked at while it is there."""
    mount = fault_bench.mount_of(
        "s3", store, "away", work / "mount", f"durable={durable}", f"timeout={TIMEOUT}", "retries=1", "ttl=1")
    written = {}
    try:
        for name in ("cached", "cold", "victim"):
            written[name] = random.Random(name).randbytes(200_000)
            store.put("away", name, written[name])
        mount.start()
        if (mount.path / "cached").read_bytes() != written["cached"] or len(os.listdir(mount.path)) != len(written):
            raise AssertionError("it shows something else than was stored")
        with open(mount.path / "cached", "rb", buffering=0) as held:
            leave()
            # Longer than `ttl`: what is known has to be believed, as nobody can be asked.
            time.sleep(1.5)
            if held.read() != written["cached"]:
                raise AssertionError("an open file that is cached cannot be read")
            fails("reading what is not here", (mount.path / "cold").read_bytes, mount)
            # rule: away.read
            if (mount.path / "cached").read_bytes() != written["cached"]:
                raise AssertionError("a file that is cached cannot be opened and read")
            # rule: away.read
            if sorted(os.listdir(mount.path)) != sorted(written) or (mount.path / "nothing").exists():
                raise AssertionError("a directory that was listed is not shown as it was")
            if durable == "local":
                for number in range(3):
                    written[f"staged{number}"] = random.Random(number).randbytes(100_000)
                    # rule: away.write
                    (mount.path / f"staged{number}").write_bytes(written[f"staged{number}"])
                    if (mount.path / f"staged{number}").read_bytes() != written[f"staged{number}"]:
                        raise AssertionError("what was just written cannot be read")
            else:
                # rule: away.write
                fails("a close that has to store", lambda: (mount.path / "lost").write_bytes(b"x" * 1000), mount)
            log = mount.log.read_text(errors="replace")
            # rule: error.reason
            if not any("cold" in line and "op=" in line and "reason=" in line for line in log.splitlines()):
                raise AssertionError(f"no line of the log says why the file could not be read: {mount.tail()}")
        come_back()
        # rule: away.return
        bench.wait_for("reading after the store is back", lambda: can_read(mount.path / "cold", written["cold"]), 120)
        (mount.path / "after").write_bytes(b"after")
        written["after"] = b"after"
        mount.store_and_unmount()
        found = store.objects("away")
        # Whether a write that failed has happened is not told; it is whole then.
        if found.pop("lost", b"x" * 1000) != b"x" * 1000:
            raise AssertionError("a write that failed is there in part")
        if found != written:
            raise AssertionError(f"the bucket differs at {sorted(set(found) ^ set(written))}")
        return f"{len(written)} files as promised"
    except Exception:
        print(mount.tail(), flush=True)
        raise
    finally:
        mount.leave()


def can_read(path, body):
    try:
        return path.read_bytes() == body
    except OSError:
        return False


def partition(durable):
    def run(work):
        try:
            network = Network()
        except (OSError, subprocess.CalledProcessError) as error:
            # Without the right to make one, a store that does not answer is the nearest thing.
            print(f"skipped the partition durable={durable}: no network namespace ({error})", flush=True)
            return frozen(durable)(work)
        store = None
        try:
            store = fault_bench.Store(work / "store", "--allow-remote", host=network.host, before=network.before)
            return away(network.cut, network.mend, store, work, durable)
        finally:
            if store:
                network.mend()
                store.stop()
            network.remove()
    return run


def frozen(durable):
    def run(work):
        store = fault_bench.Store(work / "store")
        try:
            return away(store.freeze, store.thaw, store, work, durable)
        finally:
            store.stop()
    return run


def killed(durable):
    def run(work):
        store = fault_bench.Store(work / "store")
        try:
            return away(store.kill, store.start, store, work, durable)
        finally:
            store.stop()
    return run


def restart(work):
    """The store is killed again and again below a big upload, and keeps what it had answered, the upload too."""
    store = fault_bench.Store(work / "store")
    mount = fault_bench.mount_of("s3", store, "restart", work / "mount", "uploads=2")
    body = random.Random(7).randbytes((400 if fault_bench.LONG else 60) << 20)
    (work / "body").write_bytes(body)
    try:
        mount.start()
        store.faults("op=UploadPart,kind=latency:150ms")
        # Not this process: starting the store anew would close its copy of the open file, and so store it.
        writer = subprocess.Popen(["cp", work / "body", mount.path / "big"], stderr=subprocess.PIPE, text=True)
        kills = 0
        for share in (1, 2, 3):
            bench.wait_for(
                "some parts", lambda: writer.poll() is not None or store.sent("s3") >= len(body) * share // 5, 300)
            if writer.poll() is None:
                store.kill()
                kills += 1
                store.start()
                store.faults("op=UploadPart,kind=latency:150ms")
        store.faults()
        _, problem = writer.communicate(timeout=300)
        if writer.returncode or problem:
            raise AssertionError(f"the write ended with {writer.returncode}: {problem}")
        if mount.unmount().returncode:
            raise AssertionError("the unmount failed")
        uploads = sum(1 for request in store.requests()
                      if request["operation"] == "CreateMultipartUpload" and request["status"] == 200)
        if store.objects("restart") != {"big": body} or store.uploads("restart"):
            raise AssertionError("the object is not what was written, or an upload is left")
        if not kills or uploads != 1:
            raise AssertionError(f"{kills} kills and {uploads} uploads: parts that the store had were given up")
        return f"{kills} kills of the store, one upload, {store.sent('s3') >> 20} of {len(body) >> 20} MiB sent"
    except Exception:
        print(mount.tail(), flush=True)
        raise
    finally:
        mount.leave()
        store.stop()


def cases():
    for durable in ("local", "remote"):
        yield f"partition durable={durable}", partition(durable)
        yield f"store killed durable={durable}", killed(durable)
    yield "store frozen durable=local", frozen("local")
    yield "store restarted", restart
