#!/usr/bin/env python3
"""usage: open_files.py [--provider P] [--seconds N] [--programs N] [--store-away] [-o OPTION]... SEED...

Programs that keep files open while the process that serves the mount is killed again and again, and the store as well if it is to
be. A seed and the options name one run; what it does depends on the time too. What a run that fails leaves is where it says.

Promises: an open file outlives the process that serves it, with every byte a call has answered for; what is in the bucket
after the end is what the programs closed, and nothing else."""

import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from fault_bench import LONG, PROVIDERS, bench
import fault_bench

# The holder of a mount gives it up when so many workers have died one after the other and none has lived for a while.
MOST_KILLS = 19


def worker(mount):
    """The process that serves the mount, below the one that was started."""
    try:
        children = pathlib.Path(f"/proc/{mount.process.pid}/task/{mount.process.pid}/children").read_text()
    except OSError:
        return None
    return int(children.split()[0]) if children.split() else None


def serve_and_kill(mount, programs, dice, store_away):
    """Kills the worker, and the store if it is to be, until the programs have ended; how often."""
    kills = 0
    while kills < MOST_KILLS and any(program.poll() is None for program in programs):
        time.sleep(dice.uniform(0.3, 3))
        if store_away and dice.random() < 0.3:
            mount.store.kill()
            time.sleep(dice.uniform(0, 2))
            mount.store.start()
        elif (victim := worker(mount)) and any(program.poll() is None for program in programs):
            os.kill(victim, 9)
            kills += 1
    return kills


def run(provider, seed, seconds, programs, options, store_away, work):
    """One run; what it did. Raises what went wrong."""
    dice = random.Random(seed)
    store = fault_bench.Store(work / "store")
    mount = fault_bench.mount_of(provider, store, "open", work / "mount", *options)
    mount.options.remove("restart=no")
    started = []
    try:
        mount.start()
        for number in range(programs):
            log = work / f"program{number}"
            arguments = [sys.executable, pathlib.Path(__file__).with_name("open_program.py"), mount.path / f"p{number}",
                         str(seed * 100 + number), str(seconds), log]
            with open(f"{log}.out", "wb") as out:
                started.append(subprocess.Popen(arguments, stdout=out, stderr=out))
        kills = serve_and_kill(mount, started, dice, store_away)
        calls, wanted = 0, {}
        for number, program in enumerate(started):
            log = work / f"program{number}"
            if program.wait():
                tail = "".join(open(log).readlines()[-25:]) if log.exists() else ""
                raise AssertionError(f"program {number}: {pathlib.Path(f'{log}.out').read_text()}\n{tail}")
            answer = json.loads(pathlib.Path(f"{log}.out").read_text())
            calls += answer["calls"]
            wanted.update({f"p{number}/{name}": tuple(told) for name, told in answer["files"].items()})
        mount.store_and_unmount()
        found = {key: (len(body), hashlib.sha256(body).hexdigest())
                 for key, body in store.objects("open").items() if not key.endswith("/")}
        # rule: crash.process
        wrong = {key: (found.get(key), wanted.get(key)) for key in found.keys() | wanted.keys()
                 if found.get(key) != wanted.get(key)}
        if wrong:
            raise AssertionError(f"the bucket differs (found, wanted): {wrong}")
        if store.uploads("open"):
            raise AssertionError(f"uploads are left: {store.uploads('open')}")
        return f"{calls} calls, {kills} kills, {len(wanted)} files"
    except Exception:
        print(mount.tail(), flush=True)
        raise
    finally:
        for program in started:
            program.kill()
        mount.leave()
        store.stop()


def cases():
    """Name and work. The time that a case takes is that of its programs and a little more."""
    ways = [(provider, options) for provider in PROVIDERS for options in (["durable=remote"], ["durable=local"])]
    ways += [("s3", ["ttl=0"]), ("s3", ["ttl=0", "attrs=exact", "durable=local"]), ("oss", ["conflict=overwrite"])]
    for number, (provider, options) in enumerate(ways if LONG else ways[::5]):
        def work(path, number=number, provider=provider, options=options):
            told = [run(provider, seed, 30 if LONG else 6, 3 if LONG else 2, options, False, path / str(seed))
                    for seed in ([number * 10 + each for each in range(5)] if LONG else [number])]
            return "; ".join(told)
        yield f"open files {provider} {','.join(options)}", work


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--provider", default="s3", choices=PROVIDERS)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--programs", type=int, default=3)
    parser.add_argument("--store-away", action="store_true")
    parser.add_argument("-o", action="append", default=[])
    parser.add_argument("seed", type=int, nargs="+")
    arguments = parser.parse_args()
    for seed in arguments.seed:
        work = pathlib.Path(tempfile.mkdtemp(prefix=f"pailfs-open{seed}-"))
        print(f"{seed}: {work}", flush=True)
        told = run(arguments.provider, seed, arguments.seconds, arguments.programs, arguments.o, arguments.store_away, work)
        print(f"{seed}: {told}", flush=True)
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
