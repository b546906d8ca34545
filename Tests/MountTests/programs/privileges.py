"""What acts of several users leave of set-user-ID and set-group-ID bits, as text: the same on every file system of Linux.

usage: privileges.py DIRECTORY, as root
"""

import mmap
import os
import sys

OWNER, OTHER = 1001, 1002


def as_user(uid, act, path):
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        try:
            act(path)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def write(path):
    with open(path, "r+b", buffering=0) as file:
        file.write(b"y")
        file.write(b"z")


def overwrite(path):
    with open(path, "wb") as file:
        file.write(b"new")


def allocate(path):
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 300)


def write_directly(path):
    try:
        file = os.open(path, os.O_WRONLY | os.O_DIRECT)
    except OSError:
        # Not every file system has it, and what comes of it is the same.
        file = os.open(path, os.O_WRONLY)
    with mmap.mmap(-1, 4096) as page:
        os.write(file, page)
    os.close(file)


ACTS = {
    "write": write,
    "write around the page cache": write_directly,
    "truncate": lambda path: os.truncate(path, 5),
    "open with O_TRUNC": overwrite,
    "fallocate": allocate,
}


def mode(path):
    return oct(os.stat(path).st_mode & 0o7777)


def main(directory):
    # Others may not pass through what is above it.
    os.chdir(directory)
    os.chmod(".", 0o777)
    # Set-group-ID without execution for the group is left out: what Linux makes of it depends on the release.
    for bits in (0o6777, 0o4777, 0o2777, 0o4767, 0o777):
        def made():
            path = "file"
            with open(path, "wb") as file:
                file.write(b"content, long enough")
            os.chown(path, OWNER, OWNER)
            os.chmod(path, bits)
            return path

        for name, act in ACTS.items():
            for who in (0, OWNER, OTHER):
                path = made()
                as_user(who, act, path)
                print(oct(bits), name, who, mode(path))
                os.unlink(path)
        for owner, group in ((OTHER, OTHER), (-1, OTHER), (OTHER, -1), (-1, -1)):
            path = made()
            os.chown(path, owner, group)
            print(oct(bits), "chown", owner, group, mode(path))
            os.unlink(path)


main(sys.argv[1])
