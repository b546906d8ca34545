"""Works at random in a mount and in a directory of the local disk, and compares after every act.

model.py MOUNTPOINT DIRECTORY URL OPTIONS [--operations N] [--seed N] [--runs N] [--delete-cache] [--replay FILE]

Mounts URL with the mount options OPTIONS at MOUNTPOINT, empties it, and does each act there and in DIRECTORY: both have to
answer the same error or the same value, and to look the same afterwards: names, kinds, modes, owners, sizes, content,
extended attributes, and modification times, which change in the mount when they change in the directory and at no other
moment. Inode numbers stay with their files. Among the acts are those of somebody else on the bucket (boto3, as for
bucket.py), new mounts, mounts with an empty cache, and the death of the process that serves the mount; with the option keeper=PATH
among OPTIONS, of all its processes, after which the next mount takes it back.

--operations  acts of one run (3000)
--runs        runs, each with a seed of its own and from an empty tree (1)
--seed        of the first run; without it one is made up
--delete-cache
              deletes the cache now and then while it is mounted; OPTIONS have a state-dir elsewhere, and attrs=exact
--replay      does the acts of a file instead, in the form in which they are printed

Of a difference the seed is printed, and the shortest sequence that still shows it.
"""

import argparse
import ast
import errno
import glob
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import acts  # noqa: E402
import bucket  # noqa: E402
import shrinking  # noqa: E402

# How far the clocks of two file systems may be apart, in ns: the kernel's own moves in steps of up to 10 ms, and of more
# on a machine that has too much to do.
CLOCKS = 60_000_000
WHOLE_TREE_EVERY = 40
RENAMES = ("rename", "rename_noreplace", "replace")
PAILFS = os.environ.get("PAILFS_BIN", "pailfs")


class Difference(Exception):
    pass


class Status:
    """What lstat(2) tells of a path."""

    def __init__(self, path):
        status = os.lstat(path)
        self.kind = stat.S_IFMT(status.st_mode)
        self.mtime, self.ino = status.st_mtime_ns, status.st_ino
        self.compared = {"mode": oct(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}
        if self.kind != stat.S_IFDIR:
            self.compared |= {"size": status.st_size, "nlink": status.st_nlink}


def look(root):
    """Every path of a tree, its top as the empty one."""
    found = {"": Status(root)}

    def below(folder, prefix):
        for name in os.listdir(folder):
            path = f"{folder}/{name}"
            status = found[prefix + name] = Status(path)
            if status.kind == stat.S_IFDIR:
                below(path, prefix + name + "/")

    below(root, "")
    return found


def do(act, *arguments):
    """The value or the error: what a program is told."""
    try:
        return act(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


class Mount:
    def __init__(self, options):
        self.point, self.url, self.options = options.mountpoint, options.url, options.options
        self.cache = next(word[10:] for word in options.options.split(",") if word.startswith("cache-dir="))
        self.isLocal = "durable=local" in options.options
        self.starter = None
        keeper = next((word[7:] for word in options.options.split(",") if word.startswith("keeper=")), None)
        if keeper:
            self.keeper = subprocess.Popen([PAILFS, "keep", keeper])
            # Starts processes while this one has files of the mount open: a child of this one would close them, and wait.
            program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kept.py")
            self.starter = subprocess.Popen(
                [sys.executable, program, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *command):
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if outcome.returncode:
            raise Difference(f"{command[:3]}: {outcome.stdout}{outcome.stderr}")
        return outcome.stdout

    def begin(self, more=""):
        self.command = [PAILFS, "mount", self.url, self.point, "-o", self.options + more]
        self.run(*self.command)
        mounts = json.loads(self.run(PAILFS, "status", "--json", self.point))["mounts"]
        self.holder = mounts[0]["pid"]

    def end(self):
        self.run(PAILFS, "unmount", self.point)

    def worker(self):
        with open(f"/proc/{self.holder}/task/{self.holder}/children") as children:
            return next(map(int, children.read().split()), None)

    def kill_all(self):
        """Kills holder and worker, and has another program mount again."""
        killed = [self.holder, self.worker()]
        for process in filter(None, killed):
            os.kill(process, signal.SIGKILL)
        while any(os.path.exists(f"/proc/{process}") for process in filter(None, killed)):
            time.sleep(0.005)
        answer = "?"
        for command in self.command, [PAILFS, "status", "--json", self.point]:
            self.starter.stdin.write(json.dumps(command) + "\n")
            self.starter.stdin.flush()
            status, answer = json.loads(self.starter.stdout.readline())
            if status:
                raise Difference(f"{command[:3]}: {answer}")
        self.holder = json.loads(answer)["mounts"][0]["pid"]

    def leave(self):
        if self.starter:
            self.starter.stdin.close()
            self.keeper.terminate()
            self.keeper.wait()

    def kill(self):
        if self.starter:
            return self.kill_all()
        killed = self.worker()
        os.kill(killed, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while self.worker() in (killed, None):
            if time.monotonic() > deadline:
                raise Difference("no other process serves the mount")
            time.sleep(0.01)

    def flush(self):
        self.run(PAILFS, "flush", "--wait", self.point)


class Run:
    def __init__(self, mount, options, is_patient):
        self.mount, self.is_patient, self.act = mount, is_patient, None
        self.ours, self.model = acts.Side(options.mountpoint), acts.Side(options.directory)
        for side in self.ours, self.model:
            for name in os.listdir(side.root):
                path = f"{side.root}/{name}"
                subprocess.run(["rm", "-rf", path], check=True)
            os.chown(side.root, 0, 0)
            os.chmod(side.root, 0o755)
            for name in os.listxattr(side.root):
                os.removexattr(side.root, name)
        self.before = look(self.ours.root), look(self.model.root)

    def end(self):
        for side in self.ours, self.model:
            do(side.close_all, 0)

    # The acts that are not a program's.

    def is_open(self, path):
        wanted = os.stat(self.model.at(path))
        held = [os.fstat(fd) for fd in self.model.handles if fd is not None]
        return any(os.path.samestat(each, wanted) for each in held)

    def is_plain(self, path):
        """Whether nothing on the way is a link."""
        full = self.model.at(path)
        return len(os.path.basename(path)) < 256 and not os.path.islink(full) and os.path.realpath(full) == full

    def send(self, path):
        """What was done here is to be in the bucket before somebody else's act, or there would be no telling what came first."""
        if self.mount.isLocal:
            self.mount.flush()
        else:
            self.refresh(path)

    def refresh(self, path):
        """At once, instead of within `ttl`: the kernel has heard of it when the command returns."""
        self.mount.run(PAILFS, "refresh", self.ours.at(os.path.dirname(path)))

    def somebody_puts(self, number, path, length):
        model = self.model.at(path)
        parent = os.path.dirname(model)
        if not self.is_plain(path) or not os.path.isdir(parent) or os.path.isdir(model):
            return
        if os.path.exists(model) and self.is_open(path):
            return
        # A removed file that is open keeps its name from others' files until it is closed.
        if any(fd is not None and os.fstat(fd).st_nlink == 0 for fd in self.model.handles):
            return
        self.send(path)
        # By its bytes alone the store tells it from what was there.
        data = b"somebody's %d " % number + acts.payload(number, length)
        modified = bucket.store.put_bytes(path, data)
        kept = os.stat(parent)
        with open(model, "wb") as file:
            file.write(data)
        os.chmod(model, 0o644)
        os.chown(model, 0, 0)
        for name in os.listxattr(model):
            os.removexattr(model, name)
        os.utime(model, ns=(modified, modified))
        os.utime(parent, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        self.refresh(path)

    def somebody_deletes(self, number, path):
        model = self.model.at(path)
        if not self.is_plain(path) or not os.path.isfile(model) or self.is_open(path):
            return
        self.send(path)
        bucket.store.delete(path)
        parent = os.path.dirname(model)
        kept = os.stat(parent)
        os.unlink(model)
        os.utime(parent, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        self.refresh(path)

    def refused(self, number, old, new):
        """Hard links and fifos, which no object can be: an error that a program understands, and nothing is made."""
        ours, model = self.ours, self.model
        fine = os.path.lexists(model.at(old)) and not os.path.isdir(model.at(old)) and not os.path.lexists(model.at(new))
        fine = fine and os.path.isdir(os.path.dirname(model.at(new))) and len(os.path.basename(new)) < 256
        for act in (lambda: os.link(ours.at(old), ours.at(new), follow_symlinks=False), lambda: os.mkfifo(ours.at(new))):
            answer = do(act)
            if answer is None or fine and answer != "EPERM":
                raise Difference(f"{answer or 'no error'} where nothing can be made")

    def pause(self, number):
        """Some stores count the seconds only."""
        time.sleep(1.1)

    def kill(self, number):
        self.mount.kill()

    def remount(self, number):
        self.compare_calls(number, "close_all")
        self.mount.end()
        self.mount.begin()
        self.compare_contents(self.before[1])

    def another_machine(self, number):
        """Nothing cached: what the bucket tells."""
        self.compare_calls(number, "close_all")
        self.mount.end()
        subprocess.run(["rm", "-rf", self.mount.cache], check=True)
        self.mount.begin(",attrs=exact")
        self.accept_what_is_kept_here()
        self.compare_contents(self.before[1])

    def delete_cache(self, number):
        """Somebody is short of space. Programs go on with what they have open."""
        # It is made anew at once: rm(1) may find that a directory is not empty.
        subprocess.run(["rm", "-rf", self.mount.cache], capture_output=True)
        deadline = time.monotonic() + 60
        while not glob.glob(f"{self.mount.cache}/*/meta.db"):
            if time.monotonic() > deadline:
                raise Difference("the cache was not made anew")
            time.sleep(0.01)
        self.accept_what_is_kept_here()
        self.compare_contents(self.before[1])

    def accept_what_is_kept_here(self):
        """The times of directories, and all there is of the top, are not in the bucket; numbers stay with one cache only."""
        ours = look(self.ours.root)
        top = os.lstat(self.ours.root)
        os.chmod(self.model.root, stat.S_IMODE(top.st_mode))
        os.chown(self.model.root, top.st_uid, top.st_gid)
        for name in os.listxattr(self.model.root):
            os.removexattr(self.model.root, name)
        for path, status in self.before[1].items():
            if status.kind == stat.S_IFDIR and path in ours:
                os.utime(self.model.at(path), ns=(ours[path].mtime, ours[path].mtime))
        self.before = ours, look(self.model.root)

    # Comparing.

    def compare_calls(self, number, name, *arguments):
        found, wanted = (do(getattr(side, name), number, *arguments) for side in (self.ours, self.model))
        if found != wanted:
            raise Difference(f"{shown(found)} instead of {shown(wanted)}")
        self.close_removed_directories()

    def close_removed_directories(self):
        """The one difference there is: nothing is known any more of a directory that is gone."""
        for slot, fd in enumerate(self.model.handles):
            if fd is None:
                continue
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode) and status.st_nlink == 0:
                for side in self.ours, self.model:
                    do(side.close, 0, slot)

    def compare_content(self, path):
        found, wanted = (do(side.load, 0, path) for side in (self.ours, self.model))
        if found != wanted:
            raise Difference(f"content of {path!r}: {shown(found)} instead of {shown(wanted)}")

    def compare_contents(self, tree):
        for path, status in tree.items():
            if status.kind == stat.S_IFREG:
                self.compare_content(path)
            if status.kind == stat.S_IFLNK:
                found, wanted = (os.readlink(side.at(path)) for side in (self.ours, self.model))
                if found != wanted:
                    raise Difference(f"the link {path!r} leads to {found!r} instead of {wanted!r}")
                continue
            found, wanted = ({name: os.getxattr(side.at(path), name) for name in os.listxattr(side.at(path))}
                             for side in (self.ours, self.model))
            if found != wanted:
                raise Difference(f"attributes of {path!r}: {found} instead of {wanted}")

    def compare_trees(self, number, began):
        ours, model = look(self.ours.root), look(self.model.root)
        ended = time.time_ns()
        if set(ours) != set(model):
            raise Difference(f"shown and not there: {set(ours) - set(model)}; there and not shown: {set(model) - set(ours)}")
        ours_before, model_before = self.before
        # What each file of the model was, and how the mount showed it, wherever it is now.
        known = {status.ino: (status, ours_before[path]) for path, status in model_before.items()}
        for path, wanted in model.items():
            found = ours[path]
            if found.compared != wanted.compared:
                raise Difference(f"{path!r} is {found.compared} instead of {wanted.compared}")
            was, shown_before = known.get(wanted.ino, (None, None))
            # Local disks give a number that became free to the next file.
            if path not in model_before and self.act not in RENAMES:
                was = None
            if was and shown_before.ino != found.ino:
                raise Difference(f"{path!r} has another number")
            if was and was.mtime == wanted.mtime:
                # The process that takes a dirty file over has its time from the kernel's clock.
                fits = abs(found.mtime - shown_before.mtime) <= (CLOCKS if self.act == "kill" else 0)
            elif began - CLOCKS <= wanted.mtime <= ended:
                fits = began - CLOCKS <= found.mtime <= ended + CLOCKS
            else:
                fits = found.mtime == wanted.mtime
            # truncate(2) to the length that a file has changes its time on some file systems; by POSIX it does not.
            if was and self.act == "truncate" and was.compared == wanted.compared:
                fits = fits or found.mtime == shown_before.mtime
            if not fits:
                raise Difference(f"{path!r} was changed at {found.mtime}, in the model at {wanted.mtime}; "
                                 f"the act took from {began} to {ended}")
        changed = [path for path, status in model.items() if status.kind == stat.S_IFREG and (
            path not in model_before or model_before[path].mtime != status.mtime)]
        if number % 2:
            for path in changed:
                self.compare_content(path)
        if number % WHOLE_TREE_EVERY == 0:
            self.compare_contents(model)
        self.before = ours, model

    def apply(self, number, act):
        name, *arguments = act
        if self.is_patient:
            time.sleep(0.025)
        began = time.time_ns()
        self.act = name
        try:
            if hasattr(Run, name):
                getattr(self, name)(number, *arguments)
            else:
                self.compare_calls(number, name, *arguments)
            self.compare_trees(number, began)
        except OSError as error:
            raise Difference(f"{type(error).__name__}: {error}") from error


def shown(value):
    if isinstance(value, bytes) and len(value) > 60:
        return f"{len(value)} bytes {value[:24]!r}"
    return "success" if value is None else repr(value)


def play(numbered, mount, options, is_patient=False):
    """None, or how many acts it took to see a difference, and which. Patience lets the clock move between two acts."""
    run, done = Run(mount, options, is_patient), 0
    try:
        for number, act in numbered:
            done += 1
            run.apply(number, act)
        run.remount(0)
        run.compare_trees(0, time.time_ns())
    except Difference as difference:
        return done, str(difference)
    finally:
        run.end()
    return None


def replayed(path):
    with open(path) as file:
        for line in file:
            number, _, act = line.strip().partition(" ")
            yield int(number), ast.literal_eval(act)


def an_act(generator, options):
    if options.delete_cache and generator.random() < 0.01:
        return ("delete_cache",)
    return acts.an_act(generator)


def main():
    parser = argparse.ArgumentParser()
    for name in ("mountpoint", "directory", "url", "options"):
        parser.add_argument(name)
    parser.add_argument("--operations", type=int, default=3000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--delete-cache", action="store_true")
    parser.add_argument("--replay")
    options = parser.parse_args()
    os.umask(0o022)
    os.makedirs(options.directory, exist_ok=True)
    mount = Mount(options)
    mount.begin()
    for seed in [options.seed] if options.replay else range(options.seed, options.seed + options.runs):
        if options.replay:
            numbered = list(replayed(options.replay))
        else:
            print(f"seed {seed}", flush=True)
            generator = random.Random(seed)
            numbered = [(number, an_act(generator, options)) for number in range(1, options.operations + 1)]
        failure = play(numbered, mount, options)
        if failure:
            for line in shrinking.report(numbered, failure, lambda part: play(part, mount, options, True), seed, seconds=100):
                print(line, file=sys.stderr, flush=True)
            mount.leave()
            sys.exit(1)
    mount.end()
    mount.leave()


main()
