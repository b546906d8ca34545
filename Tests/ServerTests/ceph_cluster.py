#!/usr/bin/env python3
"""usage: ceph_cluster.py DIRECTORY: a Ceph of one monitor, one object server that keeps everything in memory, and a gateway, all on
loopback ports and in one directory that it makes: as Debian packages it. Prints the gateway's endpoint when it answers, and ends with
its own input. Its processes end with the process that started them."""

import ctypes
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

PROGRAMS = ["ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin"]
USER, KEY, SECRET = "tester", "tester", "tester-secret"
SWIFT_USER, SWIFT_SECRET = "tester:swift", "testing"
DEADLINE = 240

CONFIGURATION = """
[global]
fsid = {fsid}
mon_host = v2:127.0.0.1:{port}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_port_min = {first}
ms_bind_port_max = {last}
keyring = {work}/keyring
run_dir = {work}
crash_dir = {work}
log_file = {work}/$name.log
pid_file =
admin_socket =
mon_data = {work}/mon
mon_data_avail_crit = 1
mon_data_avail_warn = 1
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_data = {work}/osd
osd_objectstore = memstore
memstore_device_bytes = 8G
osd_class_dir = {classes}
osd_class_load_list = *
osd_class_default_list = *
rgw_data = {work}/rgw
rgw_frontends = beast endpoint=127.0.0.1:{gateway}
rgw_gc_obj_min_wait = 5
rgw_gc_processor_period = 10
"""

CAPABILITIES = {
    "mon.": ("mon", "allow *"),
    "client.admin": ("mon", "allow *", "osd", "allow *", "mgr", "allow *"),
    "client.rgw": ("mon", "allow *", "osd", "allow *", "mgr", "allow *"),
    "osd.0": ("mon", "allow profile osd", "osd", "allow *", "mgr", "allow profile osd"),
}


def unused_ports(count):
    """The first of so many neighbouring ports that no process listens on."""
    while True:
        # Below those that the Swift tests give to programs (`unusedPorts`), which may run at the same time.
        first = random.randrange(12_000, 19_900)
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            pass
        finally:
            for each in sockets:
                each.close()


def end_with_parent():
    """The kernel kills this process when its parent ends, prctl(2)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Ceph:
    """A running cluster with one user, who signs in to the S3 API and to the Swift API."""

    def __init__(self, work):
        work.mkdir(parents=True)
        self.work, self.processes = work, []
        port = unused_ports(20)
        self.gateway = port + 1
        self.endpoint = f"http://127.0.0.1:{self.gateway}"
        self.auth_url = f"{self.endpoint}/auth/v1.0"
        fsid = str(uuid.uuid4())
        self.configuration = work / "ceph.conf"
        self.configuration.write_text(CONFIGURATION.format(
            fsid=fsid, port=port, gateway=self.gateway, first=port + 2, last=port + 19, work=work,
            # Debian's Ceph 20 looks for it in the working directory.
            classes=next(pathlib.Path("/usr/lib").glob("*/rados-classes"))))
        self.environment = dict(os.environ, CEPH_CONF=str(self.configuration))
        try:
            self.start(fsid, port)
        except BaseException:
            self.stop()
            raise

    def start(self, fsid, port):
        keyring, monitors = self.work / "keyring", self.work / "monmap"
        for name, words in CAPABILITIES.items():
            caps = [word for pair in zip(words[::2], words[1::2]) for word in ("--cap", *pair)]
            create = [] if keyring.exists() else ["--create-keyring"]
            self.run("ceph-authtool", *create, keyring, "--gen-key", "-n", name, *caps)
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{port}]", monitors)
        self.run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monitors, "--keyring", keyring)
        self.spawn("ceph-mon", "-i", "a")
        (self.work / "osd").mkdir()
        (self.work / "rgw").mkdir()
        disk = str(uuid.uuid4())
        self.run("ceph", "osd", "new", disk, "0")
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk)
        self.spawn("ceph-osd", "-i", "0")
        self.spawn("radosgw", "-n", "client.rgw")
        self.await_gateway()
        self.run("radosgw-admin", "user", "create", f"--uid={USER}", "--display-name=Tester", f"--access-key={KEY}",
                 f"--secret-key={SECRET}")
        self.run("radosgw-admin", "subuser", "create", f"--uid={USER}", f"--subuser={SWIFT_USER}", "--access=full",
                 "--key-type=swift", f"--secret={SWIFT_SECRET}")

    def run(self, *command):
        ended = subprocess.run([str(word) for word in command], env=self.environment, capture_output=True, text=True,
                               timeout=DEADLINE, check=False)
        if ended.returncode:
            raise AssertionError(f"{' '.join(map(str, command[:4]))} ended with {ended.returncode}: {ended.stderr[-2000:]}")
        return ended.stdout

    def spawn(self, *command):
        with open(self.work / "output", "ab") as output:
            self.processes.append(subprocess.Popen(
                [*command, "-f"], env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                preexec_fn=end_with_parent))

    def await_gateway(self):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            for process in self.processes:
                if process.poll() is not None:
                    raise AssertionError(f"{process.args[0]} ended with {process.returncode}: {self.tail()}")
            try:
                with urllib.request.urlopen(self.endpoint, timeout=10) as answer:
                    answer.read()
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        raise AssertionError(f"the gateway did not answer within {DEADLINE} s: {self.tail()}")

    def tail(self):
        return (self.work / "output").read_text(errors="replace")[-2000:]

    def requests(self):
        """Method, target and status of each request that the gateway has answered."""
        log = (self.work / "client.rgw.log").read_text(errors="replace")
        return re.findall(r'beast: .*?"([A-Z]+) (\S+) HTTP/1\.1" (\d+)', log)

    def version(self):
        return self.run("radosgw", "--version").split()[2]

    def stop(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(DEADLINE)
        self.processes = []


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    ceph = Ceph(pathlib.Path(arguments[0]))
    try:
        print(ceph.endpoint, flush=True)
        sys.stdin.read()
    finally:
        ceph.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
