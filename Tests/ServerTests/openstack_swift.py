#!/usr/bin/env python3
"""usage: openstack_swift.py DIRECTORY: an OpenStack Swift as Debian packages it, on loopback ports and in one directory: a proxy
with TempAuth, and one server each for accounts, containers and objects. Prints the four ports, the proxy's first, and ends with its
own input. Its processes end with the process that started them.

In front of everything else the proxy has a filter that answers as another server would. What it does stands in the file `faults` of
the directory, a line each, and may change at any time:

    kind=refuse:OPERATION:STATUS   that status for each request of that kind; `operation` below names them
    kind=403-for-404               objects that are not there are forbidden
    kind=head-without-length       a HEAD of an object tells no length
    kind=rotate-key:USER:KEY       the user has another key from now on, and older tokens are not valid any more
"""

import ctypes
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

# Debian's Python, which has Swift's modules; the tests may run in an environment that has not.
PYTHON = "/usr/bin/python3"
SERVERS = ["account", "container", "object", "proxy"]
PROGRAMS = [f"/usr/bin/swift-{name}-server" for name in SERVERS]
# Who may do everything in the account `test`, and a user without a role: the access control lists of containers say what that
# one may do.
USER, KEY = "test:tester", "testing"
NARROW_USER, NARROW_KEY = "test:narrow", "narrow"
DEADLINE = 180

RINGS = """
import array, os, sys
from swift.common.ring import RingData
# One device in one zone, each part on it.
for name, port in zip(("account", "container", "object"), sys.argv[2:]):
    device = {"id": 0, "region": 1, "zone": 1, "weight": 1.0, "device": "d1", "meta": "",
              "ip": "127.0.0.1", "port": int(port),
              "replication_ip": "127.0.0.1", "replication_port": int(port)}
    ring = RingData([array.array("H", [0] * 16)], [device], 28)
    ring.save(os.path.join(sys.argv[1], name + ".ring.gz"))
"""

COMMON = """\
[DEFAULT]
bind_ip = 127.0.0.1
user = {user}
swift_dir = {work}/etc
devices = {work}/node
mount_check = false
workers = 0
disable_fallocate = true
bind_port = {port}
"""

STORAGE = """\
[pipeline:main]
pipeline = {name}-server
[app:{name}-server]
use = egg:swift#{name}
"""

PLAIN = ["catch_errors", "gatekeeper", "healthcheck", "listing_formats", "bulk", "tempurl", "copy", "slo", "dlo", "symlink"]
PROXY = """\
[pipeline:main]
pipeline = faults catch_errors gatekeeper healthcheck cache listing_formats bulk tempurl tempauth copy slo dlo symlink proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
conn_timeout = 20
node_timeout = 60
error_suppression_limit = 1000000
[filter:faults]
paste.filter_factory = openstack_swift:faults_factory
path = {work}/faults
[filter:cache]
paste.filter_factory = openstack_swift:cache_factory
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
user_test_narrow = narrow

""" + "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n" for name in PLAIN)


# In the proxy's process.


class Cache:
    """What memcached would do for the one proxy process: tokens live here."""

    def __init__(self):
        self.values = {}

    def get(self, key, raise_on_error=False):
        value, end = self.values.get(key, (None, 0))
        return None if end and end < time.time() else value and json.loads(value)

    def set(self, key, value, serialize=True, time=0, min_compress_len=0, raise_on_error=False):
        self.values[key] = (json.dumps(value), time and self.now() + time)

    def now(self):
        return time.time()

    def incr(self, key, delta=1, time=0):
        value = max(0, (self.get(key) or 0) + int(delta))
        self.set(key, value, time=time)
        return value

    def decr(self, key, delta=1, time=0):
        return self.incr(key, -int(delta), time)

    def delete(self, key, server_key=None):
        self.values.pop(key, None)

    def set_multi(self, mapping, server_key=None, serialize=True, time=0, min_compress_len=0):
        for key, value in mapping.items():
            self.set(key, value, time=time)

    def get_multi(self, keys, server_key=None):
        return [self.get(key) for key in keys]


def cache_factory(conf, **local):
    cache = Cache()

    def make(app):
        def serve(env, start_response):
            env["swift.cache"] = cache
            return app(env, start_response)
        return serve
    return make


def operation(env):
    """What a request is, in the words of the faults; None for those that no fault names."""
    parts = env["PATH_INFO"].rstrip("/").split("/", 4)[1:]
    query = urllib.parse.parse_qs(env.get("QUERY_STRING", ""), keep_blank_values=True)
    method = env["REQUEST_METHOD"]
    if parts[0] != "v1":
        return None
    if "bulk-delete" in query:
        return "bulkDelete"
    if len(parts) == 3:
        return {"GET": "getContainer"}.get(method)
    if len(parts) < 4:
        return None
    if method == "COPY" or method == "PUT" and "HTTP_X_COPY_FROM" in env:
        return "copyObject"
    if method == "PUT":
        return "putManifest" if query.get("multipart-manifest") == ["put"] else "putObject"
    return {"GET": "getObject", "HEAD": "headObject", "DELETE": "deleteObject", "POST": "postObject"}.get(method)


class Faults:
    def __init__(self, app, path):
        self.app, self.path = app, pathlib.Path(path)
        # Tokens that were given out for a key that is not the first one.
        self.tokens = set()

    def read(self):
        try:
            lines = self.path.read_text().split("\n")
        except FileNotFoundError:
            return {}
        faults = [line.removeprefix("kind=").split(":") for line in lines if line]
        return {":".join(words[:2]) if words[0] == "refuse" else words[0]: words[1:] for words in faults}

    def __call__(self, env, start_response):
        faults = self.read()
        name = operation(env)
        if f"refuse:{name}" in faults:
            # Answered before the body was read: the next request cannot come over this connection.
            return self.refuse(start_response, faults[f"refuse:{name}"][1])
        if "rotate-key" in faults and not self.admit(env, *faults["rotate-key"]):
            return self.refuse(start_response, "401")
        is_object = name in ("headObject", "getObject")

        def started(status, headers, *rest):
            if is_object and "403-for-404" in faults and status.startswith("404"):
                status = "403 Forbidden"
            if name == "headObject" and "head-without-length" in faults:
                headers = [field for field in headers if field[0].lower() != "content-length"]
            self.tokens.update(value for field, value in headers if field.lower() == "x-auth-token")
            return start_response(status, headers, *rest)
        if "rotate-key" not in faults:
            self.tokens.clear()
        return self.app(env, started)

    def admit(self, env, user, key):
        """Whether the request comes from somebody who knows the new key; puts the one that TempAuth knows in its place."""
        if env["PATH_INFO"].startswith("/auth/"):
            if (env.get("HTTP_X_AUTH_USER"), env.get("HTTP_X_AUTH_KEY")) != (f"test:{user}", key):
                return False
            env["HTTP_X_AUTH_USER"], env["HTTP_X_AUTH_KEY"] = USER, KEY
            return True
        return env.get("HTTP_X_AUTH_TOKEN") in self.tokens

    @staticmethod
    def refuse(start_response, status):
        body = b"refused"
        start_response(f"{status} Refused", [("Content-Length", str(len(body))), ("Connection", "close")])
        return [body]


def faults_factory(conf, path, **local):
    return lambda app: Faults(app, path)


# In the process that starts the servers.


def held_ports(count):
    """Sockets with a port each. While they live, the kernel gives their ports neither to a connection nor to bind(2) with port 0;
    a server that sets SO_REUSEADDR, as Swift's do, listens on one all the same, ip(7) and socket(7)."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", 0))
    return sockets


def is_listening(port):
    with socket.socket() as each:
        return each.connect_ex(("127.0.0.1", port)) == 0


def end_with_parent():
    """The kernel kills this process when its parent ends, prctl(2)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class OpenStackSwift:
    """The four servers; they answer some seconds after they were started."""

    def __init__(self, work):
        self.work, self.processes = pathlib.Path(work), []
        # Held until `stop`: the servers listen seconds later, and a port that another socket took meanwhile ends one of them.
        self.sockets = held_ports(len(SERVERS))
        self.ports = [each.getsockname()[1] for each in self.sockets]
        self.port = self.ports[3]
        self.auth_url = f"http://127.0.0.1:{self.port}/auth/v1.0"
        self.configure()
        environment = {"HOME": str(self.work), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.work / "etc")}
        with open(self.work / "log", "ab") as log:
            for name, program in zip(SERVERS, PROGRAMS):
                self.processes.append(subprocess.Popen(
                    [program, str(self.work / "etc" / f"{name}-server.conf"), "-v"], env=environment, cwd=self.work,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent))

    def configure(self):
        etc = self.work / "etc"
        for path in (etc, self.work / "node" / "d1"):
            path.mkdir(parents=True)
        (etc / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = t1\nswift_hash_path_prefix = t2\n")
        # The proxy finds its filters there.
        shutil.copy(__file__, etc / "openstack_swift.py")
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        for name, port in zip(SERVERS, self.ports):
            text = COMMON.format(user=user, work=self.work, port=port)
            text += PROXY.format(work=self.work) if name == "proxy" else STORAGE.format(name=name)
            (etc / f"{name}-server.conf").write_text(text)
        subprocess.run([PYTHON, "-c", RINGS, str(etc), *map(str, self.ports[:3])], check=True)

    def await_listening(self):
        """A proxy that is up before the others answers 503."""
        end = time.monotonic() + DEADLINE
        while not all(map(is_listening, self.ports)):
            if time.monotonic() > end:
                raise AssertionError(f"the servers did not listen within {DEADLINE} s: {self.tail()}")
            ended = [name for name, process in zip(SERVERS, self.processes) if process.poll() is not None]
            if ended:
                raise AssertionError(f"servers that ended while they started: {ended}: {self.tail()}")
            time.sleep(0.1)

    def tail(self):
        return (self.work / "log").read_text(errors="replace")[-2000:]

    def faults(self, *faults):
        new = self.work / "faults.new"
        new.write_text("\n".join(faults))
        new.rename(self.work / "faults")

    def stop(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(DEADLINE)
        for each in self.sockets:
            each.close()
        self.processes = []


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    swift = OpenStackSwift(arguments[0])
    try:
        print(*[swift.port, *swift.ports[:3]], flush=True)
        sys.stdin.read()
    finally:
        swift.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
