"""peak.py DIRECTORY STOP: measures the disk space that everything below DIRECTORY takes, again and again until the file
STOP is there, and prints the largest figure in bytes."""
import os
import sys


def taken(directory):
    # A file that is renamed while the tree is walked is met twice: it counts once.
    found = {}
    pending = [directory]
    while pending:
        path = pending.pop()
        try:
            status = os.lstat(path)
            found[status.st_ino] = status.st_blocks * 512
            if os.path.isdir(path) and not os.path.islink(path):
                pending += [os.path.join(path, name) for name in os.listdir(path)]
        except FileNotFoundError:
            pass
    return sum(found.values())


peak = 0
while not os.path.exists(sys.argv[2]):
    peak = max(peak, taken(sys.argv[1]))
print(peak)
