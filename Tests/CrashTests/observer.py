"""Another process: for each line of its input, a directory and names in it that are there all the time, it stats, lists and
opens every name below the directory."""

import os
import stat
import sys


def visit(path):
    for name in os.listdir(path):
        inner = os.path.join(path, name)
        try:
            status = os.lstat(inner)
            if stat.S_ISDIR(status.st_mode):
                visit(inner)
            elif stat.S_ISLNK(status.st_mode):
                os.readlink(inner)
            else:
                with open(inner, "rb", buffering=0) as file:
                    file.read(1000)
        except FileNotFoundError:
            # It was listed, and is gone since.
            pass


for line in sys.stdin:
    answer = "ok"
    try:
        root, *lasting = line.rstrip("\n").split("\t")
        visit(root)
        for name in lasting:
            # rule: rename.replace
            os.lstat(os.path.join(root, name))
    except OSError as error:
        answer = str(error)
    print(answer, flush=True)
