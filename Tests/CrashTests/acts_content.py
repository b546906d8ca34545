"""The acts that change content and attributes, and those that make names; see acts.py."""

import os

from act_side import BIG, SMALL, content
from acts import DIRTY, NEW, act, make


@act("link/file")
def link(t):
    make(t, "file", "f")
    yield
    t.link("f", "g")


def on_each_file(name, run, kinds=("file", "big", "foreign", "open", "dirty", "unstored", "acked"), timed=()):
    for kind in kinds:
        # What has an open handle is written to at the end, and has the time of that.
        handled = kind in ("open", "dirty", "unstored")

        @act(f"{name}/{kind}", kind.startswith("acked"), timed=() if handled else timed, changes=("f",))
        def body(t, kind=kind):
            make(t, kind, "f")
            t.settle_unless_stalled()
            yield
            run(t)


on_each_file("truncate", lambda t: t.one(os.truncate, "f", 1000))
on_each_file("truncate-to-nothing", lambda t: t.one(os.truncate, "f", 0), ("file", "big", "open", "acked"))
on_each_file("truncate-longer", lambda t: t.one(os.truncate, "f", BIG + 5000), ("file", "big", "dirty", "acked"))
on_each_file("truncate-big-in-half", lambda t: t.one(os.truncate, "f", 7 << 20), ("big",))
on_each_file("chmod", lambda t: t.one(os.chmod, "f", 0o640))
on_each_file("chown", lambda t: t.one(os.chown, "f", 1000, 1001))
on_each_file("utime", lambda t: t.one(os.utime, "f", (1_000_000_000, 1_000_000_000)), timed=("f",))
on_each_file("setxattr", lambda t: t.one(os.setxattr, "f", "user.colour", b"blue"))
on_each_file("overwrite", lambda t: t.write("f", content("over", 5000)))
on_each_file("append", lambda t: (t.open("end", "f", os.O_WRONLY | os.O_APPEND), t.send("end", b"at the end"), t.close("end")))
on_each_file("exclusive", lambda t: t.open("exclusive", "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY), ("file", "acked"))
on_each_file("copy", lambda t: t.copy("f", "g"))


@act("chmod/dir")
def chmod_dir(t):
    make(t, "empty", "d")
    yield
    t.one(os.chmod, "d", 0o700)
    t.one(os.chown, "d", 1000, 1001)
    t.one(os.setxattr, "d", "user.colour", b"blue")


@act("chmod/then-renamed", timed=("g",))
def chmod_rename(t):
    make(t, "file", "f")
    t.settle()
    yield
    t.one(os.chmod, "f", 0o600)
    t.one(os.utime, "f", (1_000_000_000, 1_000_000_000))
    t.rename("f", "g")


@act("setxattr/and-removed")
def set_and_remove(t):
    make(t, "file", "f")
    t.one(os.setxattr, "f", "user.colour", b"blue")
    t.settle()
    yield
    t.one(os.removexattr, "f", "user.colour")
    t.one(os.setxattr, "f", "user.size", b"large")


def copy_over(kind):
    @act(f"copy/over-{kind}", kind.startswith("acked"), changes=("f",))
    def body(t):
        make(t, "file", "f")
        make(t, kind, "g")
        t.settle_unless_stalled()
        yield
        t.copy("f", "g")


for each in ("file", "open", "dirty", "unstored", "acked"):
    copy_over(each)


@act("copy/and-changed")
def copy_and_change(t):
    make(t, "big", "f")
    t.settle()
    yield
    t.copy("f", "g")
    t.open("g", "g", os.O_RDWR)
    t.send("g", DIRTY, 6 << 20)
    t.close("g")


def edit(name, place, size):
    @act(f"edit/{name}", changes=("f",))
    def body(t):
        t.write("f", content("edited", size))
        t.settle()
        yield
        t.open("edit", "f", os.O_RDWR)
        t.send("edit", DIRTY, place)
        t.close("edit")


edit("start-of-big", 0, BIG)
edit("middle-of-big", 6 << 20, BIG)
edit("end-of-big", BIG - 3, BIG)
edit("small", 100, SMALL)
edit("beyond-the-end", SMALL + 5000, SMALL)


@act("edit/twice-with-a-sync")
def edit_twice(t):
    make(t, "big", "f")
    t.settle()
    t.open("edit", "f", os.O_RDWR)
    yield
    t.send("edit", DIRTY, 100)
    t.fsync("edit")
    t.send("edit", DIRTY, 10 << 20)
    t.close("edit")


@act("edit/acked", local_only=True)
def edit_acked(t):
    make(t, "acked", "f")
    yield
    t.open("edit", "f", os.O_RDWR)
    t.send("edit", DIRTY, 5)
    t.close("edit")


@act("edit/ftruncate-dirty")
def ftruncate_dirty(t):
    make(t, "dirty", "f")
    yield
    t.ftruncate("dirty", 50)
    t.send("dirty", DIRTY, 70)
    t.close("dirty")


@act("edit/ftruncate-big")
def ftruncate_big(t):
    make(t, "big", "f")
    t.settle()
    t.open("edit", "f", os.O_RDWR)
    yield
    t.ftruncate("edit", 6 << 20)
    t.ftruncate("edit", 8 << 20)
    t.close("edit")


@act("edit/read-by-another")
def edit_read(t):
    make(t, "file", "f")
    t.settle()
    t.open("reader", "f", os.O_RDONLY)
    yield
    t.write("f", NEW)
    t.read("reader")


@act("create/empty")
def create_empty(t):
    yield
    t.write("f", b"")


@act("create/in-a-new-dir")
def create_in_dir(t):
    yield
    t.mkdir("d")
    t.mkdir("d/e")
    t.write("d/e/f", NEW)


@act("create/big")
def create_big(t):
    yield
    t.write("f", content("created", BIG))


@act("create/exclusive")
def create_exclusive(t):
    yield
    t.write("f", NEW, os.O_EXCL)


@act("create/renamed-before-its-close")
def create_renamed(t):
    yield
    t.open("made", "f", os.O_CREAT | os.O_RDWR)
    t.send("made", NEW)
    t.rename("f", "g")
    t.close("made")


@act("create/removed-before-its-close")
def create_removed(t):
    yield
    t.open("made", "f", os.O_CREAT | os.O_RDWR)
    t.send("made", NEW)
    t.unlink("f")


@act("create/over-a-link", links=True)
def create_over_link(t):
    t.symlink("f", "l")
    yield
    t.write("l", NEW)


@act("mkdir/new")
def mkdir_new(t):
    yield
    t.mkdir("d")


@act("mkdir/over-others")
def mkdir_over(t):
    make(t, "file", "f")
    make(t, "link", "l")
    make(t, "dir", "d")
    t.settle()
    yield
    for name in ("f", "l", "d"):
        t.mkdir(name)


@act("symlink/new", links=True)
def symlink_new(t):
    yield
    t.symlink("there", "l")


@act("symlink/over-others", links=True)
def symlink_over(t):
    make(t, "file", "f")
    make(t, "link", "l")
    make(t, "dir", "d")
    t.settle()
    yield
    for name in ("f", "l", "d"):
        t.symlink("there", name)


@act("symlink/replaced", links=True)
def symlink_replaced(t):
    t.symlink("one", "l")
    yield
    t.symlink("two", "l.tmp")
    t.rename("l.tmp", "l")


@act("symlink/where-a-file-was", links=True)
def symlink_instead(t):
    make(t, "file", "f")
    t.settle()
    yield
    t.unlink("f")
    t.symlink("there", "f")


@act("symlink/and-a-file-instead", links=True)
def file_instead(t):
    t.symlink("there", "f")
    yield
    t.unlink("f")
    t.write("f", NEW)
