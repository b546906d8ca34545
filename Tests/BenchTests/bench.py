"""The measurements of scripts/bench, which installs, builds, sets the PATH and says what the arguments mean.

Every candidate works on one pailstore. A run has a mount of its own; runs are interleaved, and the order turns with
each repetition, so that what the machine does meanwhile falls on all alike: only ratios of one repetition are told.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import stores
from picture import AXIS, bar
from works import WORKS

MEMORY_LIMIT = 300  # MiB


class Bench:
    def __init__(self, arguments, work):
        self.arguments, self.work = arguments, work
        self.size = self.scale(1 << 30)
        self.source = f"{work}/source"
        self.has_big = False
        self.results = []
        self.store = stores.Store(work)
        self.wait_for = stores.wait_for
        self.works = [WORKS[name](self) for name in arguments.works]

    def scale(self, number):
        return max(1, int(number * self.arguments.scale))

    def need_source(self):
        if os.path.exists(self.source):
            return
        with open(self.source, "wb") as file:
            for start in range(0, self.size, 1 << 20):
                file.write(os.urandom(min(1 << 20, self.size - start)))

    def need_big(self):
        self.need_source()
        if not self.has_big:
            self.store.client.upload_file(self.source, stores.BUCKET, "big")
            self.has_big = True

    def run(self):
        keys = [key for work in self.works for key in work.keys()]
        if keys:
            self.store.fill(dict.fromkeys(keys))
        for work in self.works:
            work.prepare()
        for repetition in range(1, self.arguments.repetitions + 1):
            for work in self.works:
                candidates = [name for name in work.candidates if self.arguments.candidates in (None, ()) or
                              name in self.arguments.candidates]
                turn = repetition % len(candidates) if candidates else 0
                for candidate in candidates[turn:] + candidates[:turn]:
                    self.once(work, candidate, repetition)

    def once(self, work, candidate, repetition):
        head = {"work": work.name, "candidate": candidate, "repetition": repetition}
        try:
            self.store.faults(*work.faults)
            result = work.run(candidate)
            self.results.append(head | result | {"amount": work.amount()})
            text = " ".join(f"{name}={value:.2f}" for name, value in result.items())
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            self.results.append(head | {"failure": str(error)})
            text = f"failed: {error}"
        finally:
            self.store.faults()
        print(f"{work.name:12} {candidate:10} {repetition:2} {text}", file=sys.stderr, flush=True)

    # MARK: the table

    def values(self, work, candidate, field):
        return {result["repetition"]: result[field] for result in self.results
                if result["work"] == work.name and result["candidate"] == candidate and field in result}

    def table(self):
        head = ("", "median s", "rate", "CPU s", "requests", "MiB", "pailfs is", "lowest..highest", "target")
        print("{:14} {:>9} {:>16} {:>7} {:>8} {:>6} {:>10} {:>17} {:>7}  ".format(*head) + AXIS)
        for work in self.works:
            print(f"{work.name}: {work.title}")
            for candidate in work.candidates:
                self.row(work, candidate)

    def row(self, work, candidate):
        seconds = self.values(work, candidate, "seconds")
        failures = len(self.values(work, candidate, "failure"))
        if not seconds:
            if failures:
                print(f"  {candidate:12} failed every time")
            return
        middle = statistics.median(seconds.values())

        def cell(field, form, width, choose=statistics.median):
            values = self.values(work, candidate, field).values()
            return f"{choose(values):{width}{form}}" if values else " " * width

        rate = f"{work.amount() / middle:,.0f} {work.unit}" if work.unit else ""
        line = (f"  {candidate:12} {middle:9.2f} {rate:>16} {cell('processor', '.2f', 7)}"
                f" {cell('requests', '.0f', 8)} {cell('memory', '.0f', 6, max)}")
        ours = self.values(work, "pailfs", "seconds")
        ratios = sorted(seconds[turn] / ours[turn] for turn in seconds if turn in ours)
        if candidate != "pailfs" and ratios:
            target = work.targets.get(candidate)
            line += f" {statistics.median(ratios):9.2f}x {f'{ratios[0]:.2f}..{ratios[-1]:.2f}':>17}"
            line += f" {f'{target:.2f}x' if target else '':>7}  {bar(statistics.median(ratios))}"
        for field, meaning in (("closed", "s until close"), ("first", "s until the first names"),
                               ("bytes_per_byte", "bytes fetched a byte")):
            if values := self.values(work, candidate, field).values():
                line += f"  {statistics.median(values):.2f} {meaning}"
        print(line + (f"  failed {failures} times" if failures else ""))

    def is_well(self):
        """Whether pailfs did everything, within its memory."""
        ours = [result for result in self.results if result["candidate"] == "pailfs"]
        peak = max((result.get("memory", 0) for result in ours), default=0)
        if peak >= MEMORY_LIMIT:
            print(f"bench: pailfs needed {peak:.0f} MiB; the limit is {MEMORY_LIMIT}", file=sys.stderr)
        return peak < MEMORY_LIMIT and not any("failure" in result for result in ours)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-w", "--works", default=",".join(WORKS))
    parser.add_argument("-c", "--candidates")
    parser.add_argument("-s", "--scale", type=float, default=1)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    arguments.works = arguments.works.split(",")
    for name in arguments.works:
        if name not in WORKS:
            sys.exit(f"bench: {name} is not one of {', '.join(WORKS)}")
    arguments.candidates = arguments.candidates.split(",") if arguments.candidates else None
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(arguments, work)
        try:
            bench.run()
        finally:
            bench.store.stop()
            if arguments.json:
                with open(arguments.json, "w") as file:
                    json.dump({"arguments": vars(arguments), "results": bench.results}, file, indent=1)
            bench.table()
    sys.exit(0 if bench.is_well() else 1)


main()
