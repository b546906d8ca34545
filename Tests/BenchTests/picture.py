"""Ratios as bars: how many times the time of pailfs others took, on a scale where each doubling has one length.

As a program it draws those of the tables in a page, README.md:  picture.py FILE
"""

import math
import re
import sys

DOUBLING = 3  # characters
SLOWER, FASTER = 3, 6  # doublings that are shown to either side; what is beyond them ends there
AXIS = f"{'1/8':<{SLOWER * DOUBLING}}" + "".join(f"{2 ** power:<{DOUBLING}}" for power in range(FASTER + 1))


def bar(ratio):
    """To the right of the line what pailfs was faster by, to the left what it was slower by."""
    length = round(DOUBLING * math.log2(ratio))
    slower, faster = min(-length, SLOWER * DOUBLING), min(length, FASTER * DOUBLING)
    return f"{'#' * slower:>{SLOWER * DOUBLING}}|{'#' * faster:<{FASTER * DOUBLING}}"


def ratios(page):
    """Of each row of the tables that compare with pailfs, its name and what the others took."""
    heads = ()
    for line in page.splitlines():
        if not line.startswith("|"):
            heads = ()
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not heads:
            heads = cells if cells[1:2] == ["pailfs"] else ("",)
        elif len(cells) == len(heads):
            others = []
            for head, cell in zip(heads[2:], cells[2:]):
                parts = [f"{head}: {cell}"] if head else cell.split("; ")
                found = (re.fullmatch(r"(.+): ([0-9.]+)", part) for part in parts)
                others += [(match[1], float(match[2])) for match in found if match]
            if others:
                yield cells[0].replace("`", ""), others


def picture(rows):
    lines = [f"{'':38}{AXIS.rstrip()}"]
    for name, others in rows:
        lines.append(name)
        lines += [f"  {other:36}{bar(ratio)} {ratio:6.2f}" for other, ratio in others]
    return "".join(line + "\n" for line in lines)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as page:
        print(picture(ratios(page.read())), end="")
