"""The acts that remove names; see acts.py."""

from act_side import content
from acts import KINDS, NEW, OLD, act, make


def removal(kind):
    @act(f"unlink/{kind}", kind.startswith("acked"), kind == "sharedlink", changes=("f",))
    def body(t):
        name = make(t, kind, "f")
        t.settle_unless_stalled()
        yield
        t.unlink(name)

    @act(f"unlink/{kind}-and-made-again", kind.startswith("acked"), kind == "sharedlink")
    def again(t):
        name = make(t, kind, "f")
        t.settle_unless_stalled()
        yield
        t.unlink(name)
        t.write("f" if kind not in ("shared", "sharedlink") else "g", NEW)


for each in KINDS:
    if each not in ("dir", "empty"):
        removal(each)


@act("unlink/many-in-a-row")
def unlink_many(t):
    for number in range(6):
        t.write(f"{number}", content(number))
    t.symlink("0", "link")
    t.settle()
    yield
    for number in range(6):
        t.unlink(f"{number}")
    t.unlink("link")
    t.write("3", NEW)


def unlink_after_others(name, run):
    """The third removal in a row is the first that waits for others; see unlink.batch of pailfs-semantics(7)."""
    @act(f"unlink/link-after-others{name}", links=True)
    def body(t):
        t.write("0", OLD)
        t.write("1", OLD)
        make(t, "link", "l")
        t.settle()
        yield
        for each in ("0", "1", "l"):
            t.unlink(each)
        run(t)


unlink_after_others("", lambda t: None)
unlink_after_others("-and-made-again", lambda t: t.write("l", NEW))
unlink_after_others("-and-renamed-over", lambda t: (t.write("f", NEW), t.rename("f", "l")))


@act("unlink/last-of-a-dir")
def unlink_last(t):
    t.mkdir("d")
    t.foreign("d/f", OLD)
    yield
    t.unlink("d/f")


@act("unlink/of-a-dir")
def unlink_dir(t):
    make(t, "dir", "d")
    t.settle()
    yield
    t.unlink("d")


@act("rmdir/empty")
def rmdir_empty(t):
    t.mkdir("d")
    yield
    t.rmdir("d")


@act("rmdir/full")
def rmdir_full(t):
    make(t, "dir", "d")
    t.settle()
    yield
    t.rmdir("d")


@act("rmdir/of-a-file")
def rmdir_file(t):
    make(t, "file", "f")
    yield
    t.rmdir("f")


@act("rmdir/and-made-again")
def rmdir_again(t):
    t.mkdir("d")
    t.write("d/f", OLD)
    t.settle()
    yield
    t.unlink("d/f")
    t.rmdir("d")
    t.mkdir("d")
    t.write("d/g", NEW)


@act("rmdir/and-a-file-instead")
def rmdir_file_instead(t):
    t.mkdir("d")
    yield
    t.rmdir("d")
    t.write("d", NEW)


@act("rmdir/tree")
def remove_tree(t):
    make(t, "dir", "d")
    t.settle()
    yield
    t.remove_tree("d")


@act("rmdir/tree-with-shared-names", objects_only=True)
def remove_shared_tree(t):
    t.mkdir("d")
    t.shared("d/a")
    t.shared_link("d/l")
    yield
    t.remove_tree("d")


@act("rmdir/dir-of-a-shared-name")
def remove_dir_of_shared(t):
    name = t.shared("a")
    yield
    t.names()
    t.unlink("a/x")
    t.rmdir("a")
    t.unlink(name)
