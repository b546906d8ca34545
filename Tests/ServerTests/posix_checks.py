"""What POSIX promises of files and directories, one check a function. Each is given an empty directory of the mount."""

import contextlib
import errno
import os
import stat


def fails_with(number, act, *arguments, **more):
    try:
        act(*arguments, **more)
    except OSError as error:
        if error.errno == number:
            return
        raise AssertionError(f"{act.__name__} failed with {errno.errorcode[error.errno]}, not {errno.errorcode[number]}") from error
    raise AssertionError(f"{act.__name__} did not fail with {errno.errorcode[number]}")


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r:.200} is not {wanted!r:.200}")


@contextlib.contextmanager
def opened(path, flags, mode=0o644):
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def created_file_has_its_bytes(at):
    (at / "f").write_bytes(b"hello")
    equal((at / "f").read_bytes(), b"hello")
    equal((at / "f").stat().st_size, 5)


def empty_file_exists(at):
    (at / "f").touch()
    equal(((at / "f").stat().st_size, os.listdir(at)), (0, ["f"]))


def overwritten_file_has_the_new_bytes(at):
    (at / "f").write_bytes(b"something longer")
    (at / "f").write_bytes(b"short")
    equal((at / "f").read_bytes(), b"short")


def write_in_the_middle_keeps_the_rest(at):
    (at / "f").write_bytes(b"0123456789")
    with opened(at / "f", os.O_RDWR) as file:
        os.pwrite(file, b"ab", 4)
        equal(os.pread(file, 20, 0), b"0123ab6789")
    equal((at / "f").read_bytes(), b"0123ab6789")


def append_goes_to_the_end(at):
    (at / "f").write_bytes(b"one")
    for word in (b" two", b" three"):
        with opened(at / "f", os.O_WRONLY | os.O_APPEND) as file:
            os.write(file, word)
    equal((at / "f").read_bytes(), b"one two three")


def many_appends_are_all_kept(at):
    for number in range(12):
        with open(at / "f", "ab") as file:
            file.write(b"%d\n" % number)
    equal((at / "f").read_bytes(), b"".join(b"%d\n" % number for number in range(12)))


def truncate_cuts_and_extends_with_zeros(at):
    (at / "f").write_bytes(b"0123456789")
    os.truncate(at / "f", 3)
    equal((at / "f").read_bytes(), b"012")
    os.truncate(at / "f", 6)
    equal((at / "f").read_bytes(), b"012\0\0\0")
    with opened(at / "f", os.O_RDWR) as file:
        os.ftruncate(file, 0)
    equal((at / "f").read_bytes(), b"")


def open_with_truncation_empties(at):
    (at / "f").write_bytes(b"0123456789")
    with opened(at / "f", os.O_WRONLY | os.O_TRUNC):
        pass
    equal((at / "f").stat().st_size, 0)


def write_past_the_end_leaves_zeros(at):
    with opened(at / "f", os.O_RDWR | os.O_CREAT) as file:
        os.pwrite(file, b"x", 100_000)
    equal((at / "f").read_bytes(), bytes(100_000) + b"x")


def synchronised_bytes_are_read_by_another_descriptor(at):
    with opened(at / "f", os.O_RDWR | os.O_CREAT) as file:
        os.write(file, b"before")
        os.fsync(file)
        equal((at / "f").read_bytes(), b"before")
        os.write(file, b" after")
    equal((at / "f").read_bytes(), b"before after")


def rename_moves(at):
    (at / "a").write_bytes(b"bytes")
    os.rename(at / "a", at / "b")
    equal((os.listdir(at), (at / "b").read_bytes()), (["b"], b"bytes"))


def rename_replaces(at):
    (at / "a").write_bytes(b"new")
    (at / "b").write_bytes(b"old bytes")
    os.rename(at / "a", at / "b")
    equal((os.listdir(at), (at / "b").read_bytes()), (["b"], b"new"))


def rename_of_a_changed_file_takes_the_change(at):
    (at / "a").write_bytes(b"0123")
    with opened(at / "a", os.O_WRONLY) as file:
        os.pwrite(file, b"ab", 1)
    os.rename(at / "a", at / "b")
    equal((at / "b").read_bytes(), b"0ab3")


def replaced_file_stays_readable_while_open(at):
    (at / "a").write_bytes(b"new")
    (at / "b").write_bytes(b"old")
    with opened(at / "b", os.O_RDONLY) as file:
        os.rename(at / "a", at / "b")
        equal((os.pread(file, 10, 0), (at / "b").read_bytes()), (b"old", b"new"))


def rename_of_a_directory_takes_what_is_in_it(at):
    (at / "d/sub").mkdir(parents=True)
    (at / "d/f").write_bytes(b"1")
    (at / "d/sub/g").write_bytes(b"2")
    os.rename(at / "d", at / "e")
    equal(sorted(os.listdir(at)), ["e"])
    equal(((at / "e/f").read_bytes(), (at / "e/sub/g").read_bytes()), (b"1", b"2"))


def rename_over_a_full_directory_fails(at):
    (at / "d").mkdir()
    (at / "e").mkdir()
    (at / "e/f").touch()
    # rule: rename.directory
    fails_with(errno.ENOTEMPTY, os.rename, at / "d", at / "e")


def rename_of_nothing_fails(at):
    fails_with(errno.ENOENT, os.rename, at / "none", at / "b")


def rename_of_a_directory_below_itself_fails(at):
    (at / "d").mkdir()
    # rule: rename.directory
    fails_with(errno.EINVAL, os.rename, at / "d", at / "d/e")


def rename_between_file_and_directory_fails(at):
    (at / "d").mkdir()
    (at / "f").touch()
    fails_with(errno.EISDIR, os.rename, at / "f", at / "d")
    fails_with(errno.ENOTDIR, os.rename, at / "d", at / "f")


def removed_file_is_gone(at):
    (at / "f").write_bytes(b"1")
    os.unlink(at / "f")
    equal(os.listdir(at), [])
    fails_with(errno.ENOENT, os.stat, at / "f")
    fails_with(errno.ENOENT, os.unlink, at / "f")


def removed_file_is_usable_while_open(at):
    (at / "f").write_bytes(b"kept")
    with opened(at / "f", os.O_RDWR) as file:
        os.unlink(at / "f")
        # rule: unlink
        equal((os.pread(file, 10, 0), os.listdir(at)), (b"kept", []))
        os.pwrite(file, b"more", 4)
        equal(os.pread(file, 10, 0), b"keptmore")
    equal(os.listdir(at), [])


def name_can_be_taken_again(at):
    (at / "f").write_bytes(b"first")
    os.unlink(at / "f")
    (at / "f").write_bytes(b"second")
    equal((at / "f").read_bytes(), b"second")


def exclusive_creation_fails_over_a_file(at):
    with opened(at / "f", os.O_WRONLY | os.O_CREAT | os.O_EXCL):
        pass
    fails_with(errno.EEXIST, os.open, at / "f", os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def open_without_creation_fails(at):
    fails_with(errno.ENOENT, os.open, at / "f", os.O_RDWR)


def directory_is_made_once(at):
    os.mkdir(at / "d")
    equal((stat.S_ISDIR((at / "d").stat().st_mode), os.listdir(at / "d")), (True, []))
    fails_with(errno.EEXIST, os.mkdir, at / "d")
    fails_with(errno.ENOENT, os.mkdir, at / "none/d")


def empty_directory_is_removed(at):
    os.mkdir(at / "d")
    os.rmdir(at / "d")
    equal(os.listdir(at), [])
    fails_with(errno.ENOENT, os.rmdir, at / "d")


def full_directory_is_not_removed(at):
    os.mkdir(at / "d")
    (at / "d/f").touch()
    # rule: rmdir
    fails_with(errno.ENOTEMPTY, os.rmdir, at / "d")
    os.unlink(at / "d/f")
    os.rmdir(at / "d")


def directory_that_was_emptied_stays(at):
    os.mkdir(at / "d")
    (at / "d/f").touch()
    os.unlink(at / "d/f")
    equal((os.listdir(at), os.listdir(at / "d")), (["d"], []))


def file_and_directory_are_told_apart(at):
    (at / "d").mkdir()
    (at / "f").touch()
    fails_with(errno.EISDIR, os.open, at / "d", os.O_WRONLY)
    fails_with(errno.ENOTDIR, os.listdir, at / "f")
    fails_with(errno.ENOTDIR, os.stat, at / "f/g")
    fails_with(errno.ENOTDIR, os.rmdir, at / "f")
    fails_with(errno.EISDIR, os.unlink, at / "d")


def listing_has_every_name_once(at):
    names = {f"name {number}" for number in range(40)} | {"ü", "q%41", "back\\slash", "plus+", "h#?&=", ".hidden", "a~", "'\""}
    for name in names:
        (at / name).write_bytes(name.encode())
    found = os.listdir(at)
    equal((len(found), set(found)), (len(names), names))
    for name in names:
        equal((at / name).read_bytes(), name.encode())


def name_with_a_line_break_is_a_name(at):
    (at / "two\nlines").write_bytes(b"1")
    (at / "two\nlines").write_bytes(b"12")
    os.rename(at / "two\nlines", at / "again\n")
    equal((os.listdir(at), (at / "again\n").read_bytes()), (["again\n"], b"12"))


def name_of_255_bytes_is_a_name(at):
    (at / ("n" * 255)).write_bytes(b"1")
    equal(os.listdir(at), ["n" * 255])
    # rule: name.length
    fails_with(errno.ENAMETOOLONG, os.open, at / ("n" * 256), os.O_WRONLY | os.O_CREAT)


def symbolic_link_leads_to_its_target(at):
    (at / "f").write_bytes(b"bytes")
    os.symlink("f", at / "link")
    equal((os.readlink(at / "link"), (at / "link").read_bytes()), ("f", b"bytes"))
    equal(stat.S_ISLNK(os.lstat(at / "link").st_mode), True)
    fails_with(errno.EEXIST, os.symlink, "f", at / "link")
    os.unlink(at / "link")
    equal(os.listdir(at), ["f"])


def link_to_nothing_is_a_link(at):
    os.symlink("no/where", at / "link")
    equal(os.readlink(at / "link"), "no/where")
    fails_with(errno.ENOENT, os.stat, at / "link")


def link_is_renamed_as_a_link(at):
    os.symlink("a", at / "one")
    os.rename(at / "one", at / "two")
    equal((os.listdir(at), os.readlink(at / "two")), (["two"], "a"))


def mode_is_kept(at):
    (at / "f").write_bytes(b"1")
    for mode in (0o640, 0o755, 0o400):
        os.chmod(at / "f", mode)
        equal(stat.S_IMODE((at / "f").stat().st_mode), mode)
    os.mkdir(at / "d")
    os.chmod(at / "d", 0o750)
    equal(stat.S_IMODE((at / "d").stat().st_mode), 0o750)
    equal((at / "f").read_bytes(), b"1")


def mode_of_an_open_file_is_kept(at):
    with opened(at / "f", os.O_WRONLY | os.O_CREAT, 0o600) as file:
        os.write(file, b"1")
        os.fchmod(file, 0o444)
    equal(stat.S_IMODE((at / "f").stat().st_mode), 0o444)


def owner_is_kept(at):
    (at / "f").touch()
    os.chown(at / "f", 12, 34)
    equal(((at / "f").stat().st_uid, (at / "f").stat().st_gid), (12, 34))


def times_are_kept(at):
    (at / "f").write_bytes(b"1")
    os.utime(at / "f", ns=(1_000_000_000_123_456_789, 1_100_000_000_987_654_321))
    equal((at / "f").stat().st_mtime_ns, 1_100_000_000_987_654_321)
    os.mkdir(at / "d")
    os.utime(at / "d", ns=(1_000_000_000_000_000_000, 1_000_000_000_000_000_000))
    equal((at / "d").stat().st_mtime_ns, 1_000_000_000_000_000_000)


def attributes_are_kept(at):
    (at / "f").write_bytes(b"1")
    os.setxattr(at / "f", "user.colour", b"blue")
    os.setxattr(at / "f", "user.bytes", bytes(range(256)))
    equal((os.getxattr(at / "f", "user.colour"), os.getxattr(at / "f", "user.bytes")), (b"blue", bytes(range(256))))
    fails_with(errno.EEXIST, os.setxattr, at / "f", "user.colour", b"red", os.XATTR_CREATE)
    os.setxattr(at / "f", "user.colour", b"red", os.XATTR_REPLACE)
    equal(os.getxattr(at / "f", "user.colour"), b"red")
    os.removexattr(at / "f", "user.colour")
    fails_with(errno.ENODATA, os.getxattr, at / "f", "user.colour")
    equal("user.bytes" in os.listxattr(at / "f"), True)


def attributes_of_a_directory_are_kept(at):
    os.mkdir(at / "d")
    os.setxattr(at / "d", "user.colour", b"blue")
    # rule: xattr.user
    equal(os.getxattr(at / "d", "user.colour"), b"blue")


def attribute_of_400_bytes_is_kept_or_refused_at_once(at):
    (at / "f").write_bytes(b"1")
    try:
        os.setxattr(at / "f", "user.long", b"x" * 400)
    except OSError as error:
        equal(error.errno in (errno.E2BIG, errno.ENOSPC), True)
        return
    equal(os.getxattr(at / "f", "user.long"), b"x" * 400)


def header_is_set_and_removed(at):
    (at / "f").write_bytes(b"1")
    os.setxattr(at / "f", "user.pailfs.cache-control", b"no-store")
    equal(os.getxattr(at / "f", "user.pailfs.cache-control"), b"no-store")
    os.removexattr(at / "f", "user.pailfs.cache-control")
    fails_with(errno.ENODATA, os.getxattr, at / "f", "user.pailfs.cache-control")


def attributes_survive_a_change_of_content(at):
    (at / "f").write_bytes(b"1")
    os.chmod(at / "f", 0o600)
    os.setxattr(at / "f", "user.colour", b"blue")
    with open(at / "f", "r+b") as file:
        file.write(b"2")
    equal((stat.S_IMODE((at / "f").stat().st_mode), os.getxattr(at / "f", "user.colour")), (0o600, b"blue"))


CHECKS = [value for value in list(globals().values())
          if callable(value) and getattr(value, "__module__", None) == __name__ and value.__code__.co_varnames[:1] == ("at",)]


def snapshot(root):
    """Every entry below `root` with what is to be the same after another mount."""
    found = {}
    for directory, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(directory, name)
            facts = os.lstat(path)
            shown = [stat.S_IFMT(facts.st_mode), stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid]
            if stat.S_ISLNK(facts.st_mode):
                shown = [shown[0], os.readlink(path)]
            else:
                shown += [sorted(
                    (key, os.getxattr(path, key)) for key in os.listxattr(path) if not key.startswith("user.pailfs."))]
            if stat.S_ISREG(facts.st_mode):
                # A directory's time is that of the last change in it, as far as the store tells it.
                shown.append(facts.st_mtime_ns)
                with open(path, "rb") as file:
                    shown.append(file.read())
            found[os.path.relpath(path, root)] = shown
    return found
