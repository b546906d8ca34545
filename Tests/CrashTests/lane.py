"""One mount behind a gate, and a row of points on it. Each point is an act in a directory of its own, and an event at one of
its requests. At the end the mount is unmounted in order, and another one with an empty cache shows the bucket."""

import dataclasses
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import acts
import acts_content  # noqa: F401 (its acts register themselves)
import acts_removal  # noqa: F401
import bench
import compare
from act_side import MountSide, Side
from gate import Gate

BUCKET = "pail-1250000000"
OWN_OPTIONS = {"s3": ("region=us-east-1", "path-style"), "oss": ("region=us-east-1", "path-style"),
               "cos": ("region=ap-guangzhou",), "kodo": (), "cssp": ()}
# Long enough for a worker to start on a busy machine, several times over.
PATIENCE = 120
# How often another process looks at what an act does.
VISITS = 12
# No request for so long: the background work of an act is done. Removals wait for a tenth of a second, and uploads for a
# quarter.
QUIET = 0.5


@dataclasses.dataclass(frozen=True)
class Variant:
    store: str
    durable: str
    symlinks: str = "objects"

    def __str__(self):
        return f"{self.store}:{self.durable}" + ("" if self.symlinks == "objects" else f":{self.symlinks}")


@dataclasses.dataclass(frozen=True)
class Point:
    """`what` is 'whole' (nothing happens), 'watched' (another process uses the names at every request), or KIND-number-side,
    where side is before, after (the worker is killed), seen (another process uses the names when the store has done it),
    overwritten or deleted (another host does that)."""
    variant: Variant
    act: str
    what: str

    def __str__(self):
        return f"{self.act}:{self.variant}:{self.what}"

    @property
    def target(self):
        found = re.fullmatch(r"([A-Z]+)-(\d+)-(\w+)", self.what)
        return (found[1], int(found[2]), found[3]) if found else None


    @property
    def is_watched(self):
        return self.what == "watched" or self.what.endswith("-seen")

    @property
    def is_of_another_host(self):
        return self.what.endswith(("-overwritten", "-deleted"))


class Hang(AssertionError):
    """The mount cannot be used any more."""


@functools.cache
def locally(name):
    """What the act answers and leaves on a local disk."""
    act = acts.EVERY[name]
    with tempfile.TemporaryDirectory(prefix="pailfs-local-") as root:
        side = Side(root)
        steps = act.body(side)
        next(steps)
        before = set(compare.snapshot(root))
        side.results.clear()
        for _ in steps:
            pass
        side.finish()
        return side.results, compare.snapshot(root, act.timed), before


class Mount(bench.Mount):
    restart = "yes"

    def __init__(self, variant, store, prefix, work, *options):
        self.scheme, self.own_options = variant.store, OWN_OPTIONS[variant.store]
        super().__init__(store, prefix, work, f"durable={variant.durable}", f"symlinks={variant.symlinks}", "free-space=0",
                         *options)
        self.environment.update(HOME=str(work), no_proxy="", NO_PROXY="")

    def worker(self):
        """The process that serves the mount; None between two of them."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None


class Lane:
    """Runs the points of one batch, which are of one variant."""

    def __init__(self, store, variant, work, number, watched):
        self.store, self.variant, self.work, self.number = store, variant, work, number
        self.gate = Gate(variant.store)
        self.mount = Mount(variant, store, f"case{number}", work, f"proxy={self.gate.url}", *(["ttl=0"] if watched else []))
        self.observer = None
        self.problems, self.traces, self.shown, self.done, self.missed = {}, {}, {}, [], []

    def run(self, points):
        """Problems by point; a point that did not run is missing in `done`."""
        try:
            if points[0].is_watched:
                self.observer = subprocess.Popen(
                    [sys.executable, "-B", str(pathlib.Path(__file__).with_name("observer.py"))], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, text=True)
            self.mount.start()
            for index, point in enumerate(points):
                self.problems[point] = []
                self.done.append(point)
                try:
                    self.point(point, f"p{self.number}x{index}x")
                except Hang as error:
                    self.problems[point].append(f"{error}: {self.mount.tail()[-600:]}")
                    return
                except (AssertionError, OSError) as error:
                    self.problems[point].append(f"{type(error).__name__}: {error}")
            self.end()
        finally:
            self.gate.close()
            self.end_observer()
            self.mount.leave()

    def end_observer(self):
        """It may have files of the mount open still."""
        if self.observer:
            self.observer.kill()
            self.observer.wait()

    def point(self, point, word):
        act = acts.EVERY[point.act]
        os.mkdir(self.mount.path / word)
        side = MountSide(self, word)
        try:
            self.act_on(point, act, word, side)
        finally:
            side.leave()

    def act_on(self, point, act, word, side):
        results, tree, before = locally(point.act)
        steps = act.body(side)
        next(steps)
        side.settle_unless_stalled()
        refused = [result for result in side.results if str(result[1]).startswith("E")]
        if refused:
            raise AssertionError(f"it cannot be set up: {refused}")
        side.results.clear()

        def through():
            for _ in steps:
                pass
            side.finish()

        program = threading.Thread(target=through, daemon=True)
        lasting = before & tree.keys() if re.fullmatch(r"rename/\w+-over-\w+", point.act) else ()
        self.go(point, word, program, [sorted(before | tree.keys()), [name for name in lasting if "%%" not in name]])
        problems = self.problems[point]
        # Where its request did not come again, another host has changed nothing.
        if point.is_of_another_host and point not in self.missed:
            # The mount shows what it knows for as long as `ttl`, unless it is told to look again.
            os.setxattr(side.root, "user.pailfs.refresh", b"1")
            self.shown[point] = self.limited("a look at the tree", lambda: compare.snapshot(side.root))
            request = next(text for kind, number, text in self.traces[point] if (kind, number) == point.target[:2])
            problems += compare.after_another_host(point, request, results, side.results, self.shown[point])
            return
        problems += compare.result_differences(results, side.results)
        shown = self.limited("a look at the tree", lambda: compare.snapshot(side.root, act.timed))
        problems += compare.differences("in the mount", tree, shown)

    def go(self, point, word, program, names):
        """Runs the act, and makes the point's event happen at its request."""
        target = point.target
        visitor = None
        if point.what == "watched":
            visits = itertools.count()

            def visitor(where):
                # Late requests of the other process itself bring it here, too.
                if next(visits) < VISITS:
                    self.visit(point, where, word, names)
                else:
                    self.gate.visited()
        # Another host makes its change before the store does what was asked for.
        gated = target and (*target[:2], "after" if target[2] in ("after", "seen") else "before")
        self.gate.begin(word, gated, visitor)
        program.start()
        if target:
            end = time.monotonic() + PATIENCE
            while not self.gate.is_held():
                if time.monotonic() > end:
                    raise Hang("the act does not end and its request does not come")
                if not program.is_alive() and self.gate.is_quiet(QUIET):
                    self.missed.append(point)
                    break
                time.sleep(0.005)
            else:
                # Other threads of the worker go on meanwhile, as far as they can without an answer.
                time.sleep(0.03)
                self.strike(point, word, names)
        program.join(PATIENCE)
        if program.is_alive():
            raise Hang("the act does not end")
        self.gate.end_visits()
        if not target or point.is_of_another_host:
            bench.wait_for("the end of the requests", lambda: self.gate.is_quiet(QUIET))
        self.traces[point] = list(self.gate.trace)
        self.gate.begin(None)

    def strike(self, point, word, names):
        side = point.target[2]
        if side == "seen":
            self.visit(point, point.what, word, names)
            self.gate.release()
            return
        if side in ("before", "after"):
            worker = self.mount.worker()
            os.kill(worker, signal.SIGKILL)
            bench.wait_for("the end of the worker", lambda: self.mount.worker() != worker)
            self.gate.drop()
            return
        for name in acts.EVERY[point.act].changes:
            key = f"{self.mount.prefix}/{word}/{name}"
            if side == "deleted":
                self.store.s3.delete_object(Bucket=self.store.bucket, Key=key)
            else:
                self.store.put(self.mount.prefix, f"{word}/{name}", compare.OTHER)
        self.gate.release()

    def visit(self, point, where, word, names):
        """Another process stats, lists and opens every name below the directory, as far as it comes in a moment."""
        try:
            self.observer.stdin.write(json.dumps([str(self.mount.path / word), *names]) + "\n")
            self.observer.stdin.flush()
        except OSError:
            self.problems[point].append(f"the observer is gone at {where}")
            return
        answered = threading.Event()

        def wait():
            answer = self.observer.stdout.readline().strip()
            for error in answer.split("; "):
                if error != "ok":
                    # One that came late may be of an act before.
                    self.blame(self.done[-1:], f"at {where} another process met {error or 'its end'}")
            self.gate.visited()
            answered.set()

        threading.Thread(target=wait, daemon=True).start()
        answered.wait(1)

    def limited(self, what, function):
        """The function's result, or a hang."""
        results = []

        def run():
            try:
                results.append(function())
            except OSError as error:
                results.append(error)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        if not results:
            raise Hang(f"{what} does not end")
        if isinstance(results[0], OSError):
            raise Hang(f"{what}: {results[0]}")
        return results[0]

    def end(self):
        """Ends the mount in order, and compares what a fresh one shows."""
        self.end_observer()
        ended = self.mount.unmount()
        said = self.unexpected(ended.stderr)
        if said or ended.returncode and not ended.stderr:
            self.blame(self.done, f"the unmount said: {said[:400]}")
        keys = self.store.keys(self.mount.prefix)
        for key, upload in self.store.uploads(self.mount.prefix):
            self.blame(self.done, f"the bucket: upload {upload} of {key} is left", key)
        fresh = Mount(self.variant, self.store, self.mount.prefix, self.work / "fresh", "attrs=exact", "restart=no")
        try:
            fresh.start()
            for index, point in enumerate(self.done):
                word = f"p{self.number}x{index}x"
                act = acts.EVERY[point.act]
                try:
                    shown = compare.snapshot(
                        str(fresh.path / word), () if point in self.shown else act.timed)
                except OSError as error:
                    shown = {"": str(error)}
                if point in self.shown:
                    mine = self.shown[point]
                    if point.what.endswith("-overwritten") and point.target[0] == "POST":
                        mine, shown = compare.another_hosts_bytes(mine), compare.another_hosts_bytes(shown)
                    self.problems[point] += compare.differences("in the bucket and not in the mount", mine, shown)
                    continue
                tree = locally(point.act)[1]
                self.problems[point] += compare.differences("in the bucket", tree, shown)
                files = sum(1 for each in tree.values() if each[0] != "directory")
                mine = [key for key in keys if key.startswith(word + "/") and ".cssp-parts" not in key]
                if len(mine) != files and not self.problems[point]:
                    self.problems[point].append(f"the bucket has the keys {mine}")
            fresh.unmount()
        finally:
            fresh.leave()

    def unexpected(self, said):
        """What an unmount said, without the files of which another host has changed the object before theirs was stored."""
        # rule: conflict
        names = [f"p{self.number}x{index}x/" for index, point in enumerate(self.done) if point in self.shown]
        rest = [line for line in said.splitlines()
                if not ("another host" in line and any(f"not stored: {name}" in line for name in names))]
        # Past ten the names are in the log alone, and the last line counts them.
        if len(names) == len(self.done):
            rest = [line for line in rest if not re.search(r"not stored: \d+ more files?", line)]
        return "" if len(rest) == 1 and rest[0] != said.strip() else "\n".join(rest)

    def blame(self, points, what, key=""):
        """Counts a problem for the points whose directories the text names, or else for all of `points`."""
        named = [point for index, point in enumerate(self.done) if f"p{self.number}x{index}x" in what + key]
        for point in named or points:
            self.problems[point].append(what)


def run_batch(job):
    """Runs points in a mount of their own. Returns problems and traces by point, the points that ran, and the missed ones."""
    number, store, points, keep = job
    os.umask(0o022)
    work = pathlib.Path(tempfile.mkdtemp(prefix="lane-", dir=store.work))
    watched = points[0].is_watched
    lane = Lane(store.client(), points[0].variant, work, number, watched)
    try:
        lane.run(points)
    except Exception as error:  # an error of the whole batch counts for each of its points
        for point in lane.done or points:
            lane.problems.setdefault(point, []).append(f"the mount: {type(error).__name__}: {error}")
        lane.done = lane.done or points
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
    return lane.problems, lane.traces, lane.done, lane.missed
