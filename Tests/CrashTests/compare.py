"""Snapshots of trees, and the differences between two of them."""

import os
import stat

from act_side import short

# The bytes that another host stores.
OTHER = b"of another host"
# Names that stand for keys which several names would have. Without the other key, they have the plain name.
ESCAPES = ("%%file", "%%link")


def plain(name, others):
    for escape in ESCAPES:
        if name.endswith(escape) and name[:-len(escape)] not in others:
            return name[:-len(escape)]
    return name


def entry(path, timed):
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return ("link", os.readlink(path))
    owner, mode = (status.st_uid, status.st_gid), oct(stat.S_IMODE(status.st_mode))
    attributes = sorted((name, os.getxattr(path, name)) for name in os.listxattr(path)
                        if name.startswith("user.") and not name.startswith("user.pailfs."))
    if stat.S_ISDIR(status.st_mode):
        return ("directory", mode, owner, attributes)
    with open(path, "rb", buffering=0) as file:
        body = file.readall()
    if len(body) != status.st_size:
        body += b" of %d" % status.st_size
    seconds = int(status.st_mtime) if timed else None
    return ("file", short(body), mode, owner, attributes, seconds)


def snapshot(root, timed=(), below=""):
    """Every path below `root` with what it is. Paths in `timed` have their time compared as well."""
    found = {}
    names = os.listdir(os.path.join(root, below))
    for name in names:
        shown = plain(name, set(names) - {name})
        inner = os.path.join(below, name)
        try:
            what = entry(os.path.join(root, inner), inner in timed)
            if what[0] == "directory":
                found.update({os.path.join(below, shown) + path[len(inner):]: each
                              for path, each in snapshot(root, timed, inner).items()})
        except OSError as error:
            what = ("listed, but", error.strerror)
        path = os.path.join(below, shown)
        found[path if path not in found else path + " twice"] = what
    return found


def differences(label, expected, found):
    """One line for each path or call that differs."""
    lines = []
    for path in sorted(expected.keys() | found.keys()):
        if expected.get(path) != found.get(path):
            lines.append(f"{label}: {path} is {found.get(path)}, locally {expected.get(path)}")
    return lines


def result_differences(expected, found):
    lines = [f"{mine[0]} answered {mine[1]}, locally {theirs[1]}" for theirs, mine in zip(expected, found) if theirs != mine]
    if len(expected) != len(found):
        lines.append(f"{len(found)} calls, locally {len(expected)}: {found[len(expected) - 1:]}")
    return lines[:6]


def another_hosts_bytes(tree):
    """The tree without what is beside the bytes of another host's files. A store that does not compare gives the headers of a change
    to it (conflict.gap), and a mount shows them when it has asked for them: by itself with attrs=exact only."""
    return {path: what[:2] if what[0] == "file" and what[1] == OTHER else what for path, what in tree.items()}


def after_another_host(point, request, expected, results, tree):
    """Problems that no change of another host may cause. The order of its change and the act's is not promised."""
    # rule: error.reason, conflict
    lines = [f"{label} answered {result}" for label, result in results
             if result in ("EIO", "ETIMEDOUT", "EINVAL") and (label, result) not in expected]
    lines += [f"in the mount: {path} is {what}" for path, what in tree.items() if what[0] == "listed, but"]
    kept = [path for path, what in tree.items()
            if what[0] == "file" and isinstance(what[1], bytes) and what[1].startswith(OTHER)]
    # Between a copy and the removal of its source; and where the store does not compare, between the look and the write, with what
    # is asked before that to be restated.
    # rule: conflict.gap
    gap = {"DELETE", "BATCH"}
    if point.variant.store != "s3":
        gap |= {"PUT", "PUTLINK", "COMPLETE", "GETACL", "GETTAGGING"}
    # A listing of CSSP ends with a page that is empty, after the one that was the look before the removal.
    is_last_page = point.variant.store == "cssp" and point.target[0] == "LIST" and "marker=" in request
    is_in_gap = point.target[0] in gap or is_last_page
    if point.what.endswith("-overwritten") and point.act.startswith("rename/") and not kept and not is_in_gap:
        # rule: rename.directory
        lines.append("what the other host stored is gone")
    return lines
