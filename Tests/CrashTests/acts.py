"""The acts, renames first: each sets up its directory, yields, and then makes the calls whose requests are tried."""

import os

from act_side import BIG, content

EVERY = {}
OLD, NEW, DIRTY = content("old"), content("new"), b"DIRTY"


class Act:
    def __init__(self, name, body, local_only, objects_only, timed, links, changes):
        self.name, self.body, self.local_only, self.objects_only = name, body, local_only, objects_only
        self.timed, self.links, self.changes = timed, links, changes

    def fits(self, variant):
        return (variant.durable == "local" or not self.local_only) and \
            (variant.symlinks == "objects" or not self.objects_only) and \
            (variant.symlinks in ("objects", "") or self.links)


def act(name, local_only=False, objects_only=False, timed=(), links=False, changes=()):
    """`local_only`: only where a close returns before the store has the file. `objects_only`: needs links that are objects
    of their own. `links`: has to do with links, so that it is tried with each way to keep them. `timed`: files whose time
    is compared. `changes`: names that another host changes meanwhile, in the runs where one does."""
    def register(body):
        assert name not in EVERY, name
        EVERY[name] = Act(name, body, local_only, objects_only, timed, links or "link" in name, changes)
        return body
    return register


def make(t, kind, name):
    """Makes something of a kind, and returns the name that it has."""
    if kind == "file":
        t.write(name, content(name))
    elif kind == "big":
        t.write(name, content(name, BIG))
    elif kind == "link":
        t.symlink("over there", name)
    elif kind == "empty":
        t.mkdir(name)
    elif kind == "dir":
        t.mkdir(name)
        t.write(name + "/file", content(name))
        t.symlink("file", name + "/link")
        t.mkdir(name + "/sub")
        t.write(name + "/sub/deep", content(name + "deep"))
    elif kind == "shared":
        return t.shared(name)
    elif kind == "sharedlink":
        return t.shared_link(name)
    elif kind == "foreign":
        t.foreign(name, content(name))
    elif kind == "acked":
        t.acked(name, NEW)
    elif kind == "unstored":
        t.open("unstored", name, os.O_CREAT | os.O_RDWR)
        t.send("unstored", NEW)
    elif kind == "unwritten":
        t.open("unwritten", name, os.O_CREAT | os.O_RDWR)
    elif kind == "dirty":
        t.write(name, OLD)
        t.settle()
        t.open("dirty", name, os.O_RDWR)
        t.send("dirty", DIRTY, 100)
    elif kind == "open":
        t.write(name, OLD)
        t.open("open", name, os.O_RDWR)
    elif kind == "foreignopen":
        t.foreign(name, OLD)
        t.open("foreign", name, os.O_RDONLY)
    elif kind == "ackeddirty":
        t.acked(name, OLD)
        t.open("dirty", name, os.O_RDWR)
        t.send("dirty", DIRTY, 100)
    return name


KINDS = ("file", "link", "dir", "empty", "shared", "sharedlink", "acked", "ackeddirty", "unstored", "unwritten", "dirty", "open",
         "big", "foreign", "foreignopen")
FILES = KINDS[6:]


def rename(source, target):
    local_only = source.startswith("acked") or target.startswith("acked")
    # A file under an escaped name of links stands for no key, and the other way round.
    is_nothing = target.startswith("shared") and source not in ("dir", "empty") and ("link" in source) != ("link" in target)

    @act(f"rename/{source}-over-{target}", local_only, is_nothing or "sharedlink" in (source, target),
         links="link" in (source, target), changes=("f",) if source != "dir" else ("f/file",))
    def body(t):
        # What is acknowledged comes last, since nothing reaches the bucket afterwards.
        if target.startswith("acked"):
            old = make(t, source, "f")
            new = make(t, target, "g")
        else:
            new = make(t, target, "g")
            old = make(t, source, "f")
        t.settle_unless_stalled()
        yield
        if is_nothing:
            t.permitted(f"rename {old} {new}", "EINVAL", "name.escaped", os.rename, t.path(old), t.path(new))
        else:
            t.rename(old, new)


for source in KINDS[:6]:
    for target in ("nothing", *KINDS[:6]):
        rename(source, target)
for source in FILES:
    for target in ("nothing", "file", "link"):
        rename(source, target)
for target in FILES:
    if target not in ("big",):
        rename("file", target)
        rename("link", target)
rename("unstored", "acked")
rename("shared", "open")
rename("big", "big")
rename("open", "empty")
rename("dirty", "shared")
rename("dirty", "sharedlink")


@act("rename/acked-dirty-then-closed", local_only=True)
def rename_acked_dirty(t):
    make(t, "ackeddirty", "f")
    yield
    t.rename("f", "g")
    t.send("dirty", b"AFTER", 200)
    t.close("dirty")


@act("rename/twice")
def rename_twice(t):
    make(t, "file", "f")
    make(t, "file", "h")
    t.settle()
    yield
    t.rename("f", "g")
    t.rename("h", "f")
    t.rename("g", "h")


@act("rename/dir-with-open-files")
def rename_open_dir(t):
    t.mkdir("d")
    for name in ("d/read", "d/changed"):
        t.write(name, OLD)
    t.settle()
    t.open("read", "d/read", os.O_RDONLY)
    t.open("changed", "d/changed", os.O_RDWR)
    t.send("changed", DIRTY, 10)
    t.open("made", "d/made", os.O_CREAT | os.O_RDWR)
    t.send("made", NEW)
    yield
    t.rename("d", "e")


@act("rename/dir-with-acked-files", local_only=True)
def rename_acked_dir(t):
    t.mkdir("d")
    t.write("d/stored", OLD)
    t.acked("d/acked", NEW)
    yield
    t.rename("d", "e")


@act("rename/dir-with-shared-names", objects_only=True)
def rename_shared_dir(t):
    t.mkdir("d")
    t.shared("d/a")
    t.shared_link("d/l")
    yield
    t.rename("d", "e")


@act("rename/dir-of-a-shared-name")
def rename_dir_of_shared(t):
    t.shared("a")
    yield
    t.rename("a", "b")


@act("rename/dir-of-many", changes=("d/3",))
def rename_many(t):
    t.mkdir("d")
    for number in range(8):
        t.write(f"d/{number}", content(number))
    t.settle()
    yield
    t.rename("d", "e")


@act("rename/dir-over-empty-and-back")
def rename_and_back(t):
    make(t, "dir", "d")
    t.mkdir("e")
    t.settle()
    yield
    t.rename("d", "e")
    t.rename("e", "d")


@act("rename/into-a-dir")
def rename_into(t):
    make(t, "dir", "d")
    make(t, "file", "f")
    t.settle()
    yield
    t.rename("f", "d/f")
    t.rename("d/file", "file")


@act("rename/editor-saves", timed=())
def editor_saves(t):
    make(t, "file", "f")
    t.settle()
    yield
    t.open("temporary", ".f.tmp", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    t.send("temporary", NEW)
    t.fsync("temporary")
    t.close("temporary")
    t.rename("f", "f~")
    t.rename(".f.tmp", "f")


@act("rename/target-open-for-reading")
def target_read(t):
    make(t, "file", "f")
    make(t, "foreignopen", "g")
    t.settle()
    yield
    t.rename("f", "g")
    t.read("foreign")


@act("rename/last-of-a-dir")
def rename_last(t):
    t.mkdir("d")
    t.write("d/f", OLD)
    t.settle()
    yield
    t.rename("d/f", "f")


@act("rename/same-key-other-kind", links=True)
def rename_back_over_link(t):
    make(t, "link", "l")
    make(t, "file", "f")
    t.settle()
    yield
    t.rename("f", "l")
    t.symlink("elsewhere", "f")
    t.rename("f", "l")


@act("rename/link-over-file-and-made-again", links=True)
def link_over_and_again(t):
    make(t, "link", "l")
    make(t, "file", "f")
    t.settle()
    yield
    t.rename("l", "f")
    t.unlink("f")
    t.write("f", NEW)
