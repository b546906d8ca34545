"""Makes a failing sequence short."""

import time


def shrink(numbered, play, seconds=60):
    """Leaves out halves, quarters, ... as long as a difference stays, for at most `seconds`. `play` answers None, or how
    many operations of a sequence it took to see one, and which."""
    deadline, step = time.monotonic() + seconds, len(numbered) // 2
    while step and time.monotonic() < deadline:
        at = 0
        while at < len(numbered) and time.monotonic() < deadline:
            rest = numbered[:at] + numbered[at + step:]
            failure = play(rest)
            if failure:
                numbered = rest[:failure[0]]
            else:
                at += step
        step //= 2
    return numbered


def report(numbered, failure, play, seed, seconds=60):
    """What to print of a difference: where it was seen, and the shortest sequence that shows it."""
    count, words = failure
    yield f"seed {seed}: operation {count} of {len(numbered)}, {numbered[count - 1][1]}: {words}"
    short = shrink(numbered[:count], play, seconds)
    again = play(short)
    yield "the shortest sequence that shows it:" if again else "not seen again; the last operations:"
    for number, operation in short if again else numbered[max(0, count - 40):count]:
        yield f"  {number} {operation}"
    if again:
        yield again[1]
