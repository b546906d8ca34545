"""Another process. For each line of its input it stats, lists and opens every name below a directory: those that it lists, and
those that it reads from the input, which may be there or not. Some of them exist all the time.
Each name is used by a thread of its own, since the kernel lets some of them wait while a directory is changed. The answer
comes when all are through, or in a moment; what goes wrong later is told in the next answer."""

import errno
import json
import os
import stat
import sys
import threading
import time

# A name that was listed may be gone, and may be of another kind, when it is used.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


def use(path):
    kind = None
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
        if kind == stat.S_IFDIR:
            for name in os.listdir(path):
                use(os.path.join(path, name))
        elif kind == stat.S_IFLNK:
            os.readlink(path)
        else:
            with open(path, "rb", buffering=0) as file:
                file.read(1000)
    except OSError as error:
        # readlink(2) of what is no link any more is EINVAL.
        if error.errno not in GONE and (error.errno, kind) != (errno.EINVAL, stat.S_IFLNK):
            raise


def there(path):
    # rule: rename.replace
    os.lstat(path)


def guarded(function, path):
    try:
        function(path)
    except OSError as error:
        wrong.append(f"{error} in {function.__name__} {path}")


wrong = []
for line in sys.stdin:
    root, names, lasting = json.loads(line)
    paths = [os.path.join(root, name) for name in names]
    calls = [(use, path) for path in [*paths, root]] + [(there, os.path.join(root, name)) for name in lasting]
    threads = [threading.Thread(target=guarded, args=call, daemon=True) for call in calls]
    end = time.monotonic() + 0.3
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    said, wrong = wrong[:], []
    print("; ".join(said) or "ok", flush=True)
