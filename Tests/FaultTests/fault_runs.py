#!/usr/bin/env python3
"""usage: fault_runs.py [NAME...]: real work while the store fails in every way that real ones do, and after it was away.
PAILFS_TEST_LONG=1 for longer outages, bigger files and more of everything.

Promises: what passes is not noticed by programs; trees are identical, in the bucket as boto3 sees it too; what does not
pass fails in time and with its reason, and is over when the store is back; what was told to be stored is stored."""

import concurrent.futures
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import away
from fault_bench import bench
import fault_bench
import open_files
import two_hosts
from fault_bench import LONG, PROVIDERS, READS, WRITES


PART = 5 << 20


def faults(provider):
    """10 % errors of the server, 5 % resets, 2 % bodies cut or altered, storms, an outage, lost answers, a clock that is
    two hours ahead and then half an hour behind."""
    read, changes = READS[provider], WRITES[provider]
    specs = [
        "probability=0.06,kind=status:500", "probability=0.04,kind=status:503", "probability=0.05,kind=reset",
        "probability=0.02,kind=cut:100", "probability=0.03,kind=lost-reply", "probability=0.02,kind=latency:200ms",
        "probability=0.02,kind=first-byte:200ms",
        # However the dice fall.
        "after=40,count=2,kind=cut:100",
        # Nothing could tell an altered listing, or an altered piece of an object, from a true one but TLS. Nor an altered
        # form, as Kodo takes small files in: the middle of it may be the key or the token.
        f"op={read},key=*Sources*,probability=0.02,kind=alter",
        *(f"op={change},probability=0.02,kind=alter" for change in (changes[-1:] if provider == "kodo" else changes)),
    ]
    if LONG:
        specs += ["every=60s,from=10s,until=15s,kind=status:503,retry-after=2",
                  "every=150s,from=30s,until=55s,kind=reset", "every=150s,from=90s,until=115s,kind=status:500",
                  "kind=clock:2h,until=100s", "kind=clock:-30m,from=100s"]
    else:
        specs += ["every=8s,from=2s,until=3s,kind=status:503,retry-after=1", "from=5s,until=8s,kind=reset",
                  "kind=clock:2h,until=10s", "kind=clock:-30m,from=10s"]
    return specs


def tree(provider, durable):
    """A real tree goes in and out; programs notice nothing."""
    def run(work):
        source, out = work / "source", work / "copy"
        fault_bench.make_tree(source, 400 if LONG else 16, (48 if LONG else 12) << 20)
        store = fault_bench.Store(work / "store")
        service = fault_bench.CredentialService(store, work, 20 if LONG else 3)
        # Whoever has not seen an object's headers shows what listings tell, unless it is to be exact.
        mounts = [fault_bench.mount_of(provider, store, "tree", work / name, f"durable={durable}", f"attrs={attributes}")
                  for name, attributes in (("in", "listing"), ("out", "exact"))]
        try:
            for mount in mounts:
                mount.variables["HOME"] = str(work)
                if provider in ("s3", "oss", "cos"):
                    service.use(mount)
            if provider not in ("s3", "oss", "cos"):
                service.stop()
            store.faults(*faults(provider))
            mounts[0].start()
            fault_bench.run("rsync", "-a", f"{source}/", f"{mounts[0].path}/")
            again = fault_bench.run("rsync", "-ai", f"{source}/", f"{mounts[0].path}/")
            mounts[0].store_and_unmount()
            # The clock that was behind is right again: the bucket is asked anew in any case.
            mounts[1].start()
            fault_bench.run("rsync", "-a", f"{mounts[1].path}/", f"{out}/")
            if again:
                raise AssertionError(f"rsync saw a difference: {again[:500]}")
            # rule: read.true
            fault_bench.compare(source, out)
            if mounts[1].unmount().returncode:
                raise AssertionError("the second unmount failed")
            store.faults()
            service.stop()
            in_bucket = {key: body for key, body in store.objects("tree").items()
                         if not key.endswith("/") and key not in ("link", "link.rclonelink")}
            wanted = fault_bench.files_below(source)
            if in_bucket != wanted:
                raise AssertionError(f"the bucket differs at {sorted(set(in_bucket) ^ set(wanted))[:10]}")
            if store.uploads("tree"):
                raise AssertionError(f"uploads are left: {store.uploads('tree')}")
            requests, hits = store.hits()
            hits.pop("clock", None)
            missing = {"status:500", "status:503", "reset", "cut", "lost-reply"} - set(hits)
            if missing:
                raise AssertionError(f"no request met {missing}: this proves nothing")
            told = f", {service.number} times new credentials" if provider in ("s3", "oss", "cos") else ""
            return f"{len(wanted)} files, {requests} requests, faults: {dict(hits)}{told}"
        except Exception:
            print(mounts[0].tail(), mounts[1].tail(), flush=True)
            raise
        finally:
            for mount in mounts:
                mount.leave()
            service.stop()
            store.stop()
    return run


def resume(provider):
    """A big upload that is killed at 60 % sends less than half of itself again."""
    def run(work):
        size = (2 << 30) if LONG else (100 << 20)
        body = work / "body"
        with open(body, "wb") as file:
            for number in range(size >> 20):
                file.write(random.Random(number).randbytes(1 << 20))
        store = fault_bench.Store(work / "store")
        mount = fault_bench.mount_of(provider, store, "big", work / "mount", "durable=local", "uploads=4")
        try:
            # The store takes so many parts and answers no more, however long the program is at it.
            store.faults(f"op={WRITES[provider][-1]},after={(size // PART) * 6 // 10},kind=hang")
            mount.start()
            shutil.copyfile(body, mount.path / "big")
            bench.wait_for("60 % of the upload", lambda: store.sent(provider) >= (size // PART) * 6 // 10 * PART, 600)
            # It is to have heard, and written down, what arrived.
            time.sleep(2)
            mount.kill()
            store.faults()
            marker = len(store.requests())
            before = store.sent(provider)
            mount.start()
            if (mount.path / "big").stat().st_size != size:
                raise AssertionError("the file is not as it was promised before it is stored")
            ended = mount.unmount()
            if ended.returncode:
                raise AssertionError(f"the unmount after recovery said: {ended.stderr}")
            again = store.sent(provider, since=marker)
            # rule: crash.acknowledged
            if again >= size // 2:
                raise AssertionError(f"{again} of {size} bytes were sent after the restart, {before} were there")
            answer = store.s3.get_object(Bucket=store.bucket, Key="big/big")["Body"]
            with open(body, "rb") as file:
                while piece := file.read(8 << 20):
                    if answer.read(len(piece)) != piece:
                        raise AssertionError("the object is not what was written")
            if answer.read(1) or store.uploads("big"):
                raise AssertionError("the object is longer than what was written, or an upload is left")
            return f"{before >> 20} of {size >> 20} MiB before the kill, {again >> 20} MiB after it"
        except Exception:
            print(mount.tail(), flush=True)
            raise
        finally:
            mount.leave()
            store.stop()
    return run


def cases():
    """Name and work."""
    for number, provider in enumerate(PROVIDERS):
        ways = ["remote", "local"] if LONG else [["remote", "local"][number % 2]]
        for durable in ways:
            yield f"tree {provider} durable={durable}", tree(provider, durable)
    for provider in ("s3", "oss", "kodo") if not LONG else PROVIDERS:
        yield f"two hosts {provider}", lambda work, provider=provider: two_hosts.random_lines(provider, work)
    for provider in PROVIDERS:
        yield f"second writer {provider}", lambda work, provider=provider: two_hosts.second_writer(provider, work)
    for provider in ("s3", "oss", "cos", "kodo"):
        yield f"resume {provider}", resume(provider)
    yield from away.cases()
    yield from open_files.cases()


def one(name, work):
    """A case in a process of its own: a program that another thread starts would close its copies of open files, which
    stores them."""
    began = time.monotonic()
    try:
        told = dict(cases())[name](pathlib.Path(work))
    except Exception:  # a case that breaks in any way has failed
        traceback.print_exc()
        return 1
    print(f"ok {name}: {told} ({time.monotonic() - began:.1f} s)", flush=True)
    return 0


def main(names):
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="pailfs-faults-"))
    passed, failed = 0, []

    def attempt(number, name):
        work = scratch / str(number)
        work.mkdir()
        ended = subprocess.run([sys.executable, __file__, "--one", name, str(work)], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        shutil.rmtree(work, ignore_errors=True)
        return name, ended

    chosen = [name for name, _ in cases() if not names or any(word in name for word in names)]
    # Most of the time is spent waiting, for tries to come and for stores to come back.
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for result in concurrent.futures.as_completed(
                [pool.submit(attempt, number, name) for number, name in enumerate(chosen)]):
            name, ended = result.result()
            if ended.returncode:
                failed.append(name)
                print(f"FAILED {name}:", flush=True)
            else:
                passed += 1
            print(ended.stdout, end="", flush=True)
    shutil.rmtree(scratch, ignore_errors=True)
    print(f"{passed} passed, {len(failed)} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(one(*sys.argv[2:]) if sys.argv[1:2] == ["--one"] else main(sys.argv[1:]))
