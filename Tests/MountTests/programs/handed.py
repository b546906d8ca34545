"""Mounts as root, as the driver of a cluster does, and hands the connection to a program that runs as another user.

usage: handed.py run MOUNTPOINT OPTIONS UID COMMAND...
           The command gets the descriptor as number 3. It sees no /dev/fuse, no fusermount3, and not the mount; with
           "visible" before the command it sees the mount.
       handed.py open WHAT UID COMMAND...
           Descriptor 3 is without a mount (unmounted), of a mount that is gone (gone), of one that another server has
           initialised (served), also with a request that waits (waiting), or of which it has only read INIT (read), or a
           file (file). After the command, this process answers the waiting request.
       handed.py send MOUNTPOINT OPTIONS SOCKET JSON [COUNT]
           Waits for the socket, mounts, and sends JSON with the descriptor, or COUNT copies of it.
"""

import array
import ctypes
import errno
import os
import select
import socket
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_BIND = 0x20000, 0x4000, 0x40000, 0x1000


def call(status):
    if status != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(descriptor, mountpoint, options):
    text = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0" + ("," + options if options else "")
    call(libc.mount(b"handed", mountpoint.encode(), b"fuse", 0, text.encode()))


def become(uid, command, descriptor, hides):
    if hides:
        call(libc.unshare(CLONE_NEWNS))
        call(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        call(libc.mount(b"/dev/null", b"/dev/fuse", None, MS_BIND, None))
        os.environ["PATH"] = "/nowhere"
    os.dup2(descriptor, 3)
    os.set_inheritable(3, True)
    os.closerange(4, 256)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def run(mountpoint, options, uid, command):
    is_visible = command[0] == "visible"
    device = os.open("/dev/fuse", os.O_RDWR)
    (mine, theirs), (mounted, mounts) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        # With a mount namespace of its own from before the mount, as the containers of a pod have.
        if not is_visible:
            call(libc.unshare(CLONE_NEWNS))
            call(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        os.write(theirs, b"x")
        os.read(mounted, 1)
        become(uid, command, device, not is_visible)
        program = command[1:] if is_visible else command
        os.execv(program[0], program)
    os.read(mine, 1)
    mount(device, mountpoint, options)
    os.write(mounts, b"x")
    os.close(device)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def initialise(device):
    header = os.read(device, 8192)
    unique = struct.unpack_from("<Q", header, 8)[0]
    # struct fuse_init_out of protocol 7.31: minor, read-ahead, flags, background, threshold, largest write, and the rest.
    answer = struct.pack("<IIIIHHIIHHI7I", 7, 31, 131072, 0, 12, 9, 131072, 1, 32, 0, 0, *[0] * 7)
    os.write(device, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)


def open_as(what, uid, command):
    mountpoint = os.environ["M"]
    if what == "file":
        device = os.open("/etc/passwd", os.O_RDONLY)
    else:
        device = os.open("/dev/fuse", os.O_RDWR)
    if what in ("gone", "served", "waiting", "read"):
        mount(device, mountpoint, "allow_other")
    if what == "gone":
        call(libc.umount2(mountpoint.encode(), 0))
    if what in ("served", "waiting"):
        initialise(device)
    if what == "waiting":
        select.select([device], [], [])
    if what == "read":
        os.read(device, 8192)
    child = os.fork()
    if child == 0:
        become(uid, command, device, False)
        os.execv(command[0], command)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if what == "waiting":
        request = os.read(device, 1 << 18)
        os.write(device, struct.pack("<IiQ", 16, -errno.EIO, struct.unpack_from("<Q", request, 8)[0]))
        print("answered", flush=True)
    if what in ("served", "waiting", "read"):
        call(libc.umount2(mountpoint.encode(), 2))
    sys.exit(status)


def send(mountpoint, options, path, text, count="1"):
    device = os.open("/dev/fuse", os.O_RDWR)
    peer = socket.socket(socket.AF_UNIX)
    while True:
        try:
            peer.connect(path)
            break
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.01)
    if mountpoint:
        mount(device, mountpoint, options)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [device] * int(count)))] if int(count) else []
    peer.sendmsg([text.encode()], rights)
    peer.close()


act, rest = sys.argv[1], sys.argv[2:]
if act == "run":
    run(rest[0], rest[1], int(rest[2]), rest[3:])
elif act == "open":
    open_as(rest[0], int(rest[1]), rest[2:])
else:
    send(*rest)
