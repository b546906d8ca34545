#!/usr/bin/env python3
"""usage: every_request.py [--lanes N] [--shard I/N] [--one-in N] [--variant V] [--side S] [--keep] [--trace] [NAME...]: kills
the worker of a mount at every request of every act, before the store does it and before its answer arrives, and compares calls, open
handles, tree and bucket with the same act on a local disk.

A point is called ACT:STORE:DURABLE[:SYMLINKS]:WHAT, such as rename/file-over-link:s3:remote:DELETE-1-after. WHAT is whole
(nothing happens), watched (another process uses the names at every request, with ttl=0), or the kind and the number of a
request with its event: before, after (the worker is killed), seen (another process uses the names, with ttl=0), overwritten,
deleted (another host does that to the act's files).
NAME runs the points whose names begin with it; a whole name runs that one alone.

Without NAME the points that were wrong once, and are mended, are tried; with --one-in one point in so many, always the same
ones. PAILFS_TEST_LONG=1 tries every point, on each store, with both durabilities and each way to keep symbolic links: --shard
divides that among machines."""

import argparse
import collections
import functools
import multiprocessing
import os
import pathlib
import resource
import shutil
import signal
import sys
import tempfile
import time
import zlib

import acts
import bench
from gate import CHANGES
from lane import BUCKET, Point, Variant, run_batch

LONG = os.environ.get("PAILFS_TEST_LONG") == "1"
STORES = ("s3", "oss", "cos", "kodo", "cssp")
# Points at which something was wrong once. Who mends another adds it.
WRONG_ONCE = """
rename/file-over-link:s3:remote:COPY-1-before rename/file-over-link:s3:remote:DELETE-1-before
rename/file-over-link:s3:local:COPY-1-after rename/unstored-over-link:s3:remote:DELETE-1-before
rename/link-over-file:s3:remote:COPY-1-after rename/link-over-file:s3:local:DELETE-1-before
rename/link-over-file-and-made-again:s3:remote:COPY-1-before rename/same-key-other-kind:s3:remote:COPY-2-before
rename/link-over-unstored:s3:remote:COPY-1-before rename/link-over-unwritten:s3:remote:COPY-1-after
rename/link-over-dirty:s3:remote:DELETE-1-before rename/link-over-dirty:s3:remote:DELETE-1-after
rename/link-over-open:s3:remote:COPY-1-before rename/link-over-open:s3:remote:DELETE-1-after
rename/link-over-foreignopen:s3:remote:DELETE-1-after
rename/file-over-nothing:s3:remote:DELETE-1-seen rename/file-over-file:s3:remote:DELETE-1-seen
rename/open-over-nothing:s3:remote:DELETE-1-seen rename/file-over-unstored:s3:local:DELETE-1-seen
rename/dir-over-nothing:s3:remote:LIST-2-overwritten
rename/dir-over-nothing:s3:remote:LIST-2-deleted rename/dir-of-many:s3:remote:COPY-6-overwritten
rename/acked-dirty-then-closed:s3:local:PUT-3-before rename/ackeddirty-over-nothing:s3:local:PUT-3-before
rename/link-over-ackeddirty:s3:local:HEAD-1-before rename/link-over-acked:s3:local:metadata:DELETE-1-before
rename/link-over-unstored:s3:remote:metadata:COPY-1-before rename/link-over-open:s3:remote:metadata:DELETE-1-after
rename/link-over-unstored:oss:remote:native:DELETE-1-before rename/link-over-open:oss:remote:native:DELETE-1-after
rename/unstored-over-link:oss:remote:native:whole unlink/link-after-others:oss:remote:native:whole
unlink/link-after-others-and-made-again:oss:remote:native:whole
rmdir/dir-of-a-shared-name:s3:remote:whole rmdir/tree-with-shared-names:s3:local:whole
unlink/sharedlink:s3:remote:DELETE-1-seen rename/big-over-link:s3:local:DELETE-1-seen
rename/shared-over-link:s3:remote:DELETE-1-seen rename/open-over-link:s3:remote:metadata:DELETE-1-seen
unlink/sharedlink-and-made-again:cssp:local:DELETE-1-seen
copy/big:kodo:remote:CHANGE-1-before copy/open:kodo:remote:CHANGE-1-before
rename/dir-of-a-shared-name:s3:remote:LIST-3-before rename/dir-of-a-shared-name:s3:remote:BATCH-1-after
rename/dir-over-nothing:s3:remote:LIST-1-overwritten
rmdir/dir-of-a-shared-name:s3:remote:DELETE-1-seen rmdir/tree-with-shared-names:s3:remote:DELETE-1-seen
rmdir/tree-with-shared-names:cssp:local:DELETE-5-seen chmod/file:cssp:local:POST-1-overwritten
rename/big-over-nothing:s3:remote:HEAD-2-overwritten chmod/dirty:s3:remote:PUT-1-overwritten
rename/link-over-nothing:oss:remote:native:GETLINK-1-overwritten
rename/link-over-nothing:oss:remote:native:GETLINK-2-overwritten
rename/file-over-link:oss:remote:native:watched
""".split()
# Twenty deaths in a row, each within two seconds of the worker's start, end a mount.
BATCH = 12


class StoreView(bench.Store):
    """The pailstore as a lane sees it, which is a process of its own."""

    def __init__(self, endpoints, work):
        self.endpoints, self.endpoint, self.work, self.bucket = endpoints, endpoints["s3"], work, BUCKET

    def client(self):
        self.s3 = connected(self.endpoint)
        return self


@functools.cache
def connected(endpoint):
    return bench.s3_client(endpoint)


def variants():
    """All of them; those of the slice first."""
    found = [Variant("s3", "remote"), Variant("s3", "local"), Variant("oss", "remote", "native"),
             Variant("s3", "remote", "metadata"), Variant("kodo", "remote"), Variant("cssp", "local")]
    if LONG:
        for store in STORES:
            for durable in ("remote", "local"):
                kinds = ["objects", *(["metadata"]), *(["native"] if store == "oss" else [])]
                found += [Variant(store, durable, links) for links in kinds]
    return list(dict.fromkeys(found))


class Run:
    """Every point that was asked for, in batches on several mounts at a time."""

    def __init__(self, arguments, pool, view):
        self.arguments, self.pool, self.view = arguments, pool, view
        self.numbers, self.counts, self.failed = 0, collections.Counter(), {}
        self.wrong, self.acts, self.missed = collections.Counter(), collections.defaultdict(set), []

    def wants(self, point, beginning=False):
        """Whether a name asks for the point; with `beginning`, whether one may ask for some point of its act."""
        names = self.arguments.names
        text = f"{point.act}:{point.variant}:" if beginning else str(point)
        return not names or any(text.startswith(name) or beginning and name.startswith(text) for name in names)

    def has_act(self, variant, name):
        """Whether the act's points on this variant are of this shard and of the slice."""
        number = zlib.crc32(f"{name}:{variant}".encode())
        shard, shards = self.arguments.shard
        return number % shards == shard and (number // shards) % self.arguments.one_in == 0

    def has_point(self, point):
        return self.wants(point) and zlib.crc32(str(point).encode()) % self.arguments.one_in == 0

    def batches(self, points):
        rows = collections.defaultdict(list)
        for point in points:
            rows[point.variant, point.is_watched].append(point)
        for row in rows.values():
            for start in range(0, len(row), BATCH):
                self.numbers += 1
                yield (self.numbers, self.view, row[start:start + BATCH], self.arguments.keep)

    def go(self, points):
        """Runs the points; those that a broken mount did not reach run again in another. Returns the traces by point."""
        traces, waiting = {}, list(points)
        while waiting:
            again, done_now = [], 0
            jobs = list(self.batches(waiting))
            for job, (problems, found, done, missed) in zip(jobs, self.pool.imap(run_batch, jobs)):
                traces.update(found)
                if self.arguments.trace:
                    self.show(found)
                self.missed += missed
                again += [point for point in job[2] if point not in done]
                done_now += len(done)
                for point in done:
                    self.count(point, problems.get(point, []), len(job[2]) > 1)
            if not done_now:
                raise AssertionError(f"nothing runs: {waiting}")
            waiting = again
        return traces

    def show(self, traces):
        for point, trace in traces.items():
            print(point, *(f"    {kind}-{number} {text}" for kind, number, text in trace), sep="\n", flush=True)

    def count(self, point, problems, shared):
        key = point.variant
        self.counts[key] += 1
        self.acts[key].add(point.act)
        if not problems:
            return
        self.wrong[key] += 1
        self.failed[str(point)] = problems
        lines = "\n    ".join(dict.fromkeys(problems))
        print(f"FAILED {point}\n    {lines}", flush=True)

    def table(self):
        print("| store | durability | acts | points | wrong |", flush=True)
        for key, points in self.counts.items():
            links = "" if key.symlinks == "objects" else f", symlinks={key.symlinks}"
            print(f"| {key.store}{links} | {key.durable} | {len(self.acts[key])} | {points} | {self.wrong[key]} |", flush=True)
        if self.missed:
            print(f"{len(self.missed)} points whose request did not come again:", *self.missed, flush=True)
        print(f"{sum(self.counts.values()) - len(self.failed)} passed, {len(self.failed)} failed", flush=True)


def exact(names):
    """The point of a name, if that is a whole one."""
    for name in names:
        pieces = name.split(":")
        if pieces[0] not in acts.EVERY or len(pieces) < 4:
            continue
        links = pieces[3] if pieces[3] in ("native", "metadata") else "objects"
        point = Point(Variant(pieces[1], pieces[2], links), pieces[0], pieces[-1])
        if str(point) == name and (point.what in ("whole", "watched") or point.target):
            yield name, point


def asked(arguments, run):
    """Runs every point that was asked for."""
    named = dict(exact(WRONG_ONCE if arguments.is_slice else arguments.names))
    if named:
        run.go(list(dict.fromkeys(named.values())))
        arguments.names = [name for name in arguments.names if name not in named]
        if not arguments.names:
            return
    whole, every = [], []
    for variant in arguments.variants:
        for act in acts.EVERY.values():
            if (act.fits(variant) and run.has_act(variant, act.name)
                    and run.wants(Point(variant, act.name, ""), beginning=True)):
                whole.append(Point(variant, act.name, "whole"))
                if not arguments.side:
                    every.append(Point(variant, act.name, "watched"))
    # A run to which nothing happens shows which requests there are.
    for point, trace in run.go(whole).items():
        for kind, number, _ in trace:
            sides = ["before", "after"]
            if kind in CHANGES:
                # Another process that looks meets a change that was made, and whose end the mount does not know yet.
                sides += ["seen"]
            if acts.EVERY[point.act].changes and (LONG or arguments.side):
                sides += ["overwritten", "deleted"]
            every += [Point(point.variant, point.act, f"{kind}-{number}-{side}") for side in arguments.side or sides
                      if side in sides]
    run.go([point for point in every if run.has_point(point)])


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.partition("usage: ")[2])
    parser.add_argument("--lanes", type=int, default=6)
    parser.add_argument("--shard", default="0/1", help="the points of this shard only")
    parser.add_argument("--one-in", type=int, default=None, help="of the acts, and of the points of each, one in so many")
    parser.add_argument("--variant", action="append", help="STORE:DURABLE[:SYMLINKS]")
    parser.add_argument("--side", action="append", help="before, after, seen, overwritten or deleted; may be repeated")
    parser.add_argument("--keep", action="store_true", help="the directories of the mounts stay")
    parser.add_argument("--trace", action="store_true", help="prints the requests of every point")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.shard = tuple(int(number) for number in arguments.shard.split("/"))
    arguments.variants = [Variant(*text.split(":")) for text in arguments.variant or []] or variants()
    arguments.is_slice = not (LONG or arguments.names or arguments.variant or arguments.one_in)
    if arguments.one_in is None:
        arguments.one_in = 1
    return arguments


def prepare_lane():
    """A lane that is asked to end takes its mounts with it; the process that runs them all asks them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    work = pathlib.Path(tempfile.mkdtemp(prefix="pailfs-requests-"))
    # Lanes are processes, since one that starts programs must not have files of a mount open: their copies of the
    # descriptors would be closed, and a close stores a file.
    context = multiprocessing.get_context("fork")
    store = bench.Store(work, bucket=BUCKET)
    try:
        with context.Pool(arguments.lanes, prepare_lane) as pool:
            run = Run(arguments, pool, StoreView(store.endpoints, work))
            asked(arguments, run)
            pool.close()
            pool.join()
        run.table()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors", file=sys.stderr)
    finally:
        store.stop()
        if not arguments.keep:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if run.failed or not run.counts else 0


if __name__ == "__main__":
    sys.exit(main())
