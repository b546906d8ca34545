"""What the fault runs stand on: stores that fail as told, go away and come back; mounts of every provider; real trees;
a service that gives out credentials which end."""

import collections
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "CrashTests"))
import bench

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG = os.environ.get("PAILFS_TEST_LONG") == "1"
if LONG:
    # An unmount waits for what is left of an upload of gigabytes.
    bench.DEADLINE = 600
PROVIDERS = ["s3", "oss", "cos", "kodo", "cssp"]
# COS's buckets end with the account's number.
BUCKET = "pail-1250000000"
OWN_OPTIONS = {
    "s3": ("region=us-east-1", "path-style"), "oss": ("region=us-east-1", "path-style"),
    "cos": ("region=ap-guangzhou",), "kodo": (), "cssp": (),
}
# What the dialects call reading an object, and sending bytes of one.
READS = {"s3": "GetObject", "oss": "GetObject", "cos": "GetObject", "kodo": "get", "cssp": "getObject"}
WRITES = {
    "s3": ("PutObject", "UploadPart"), "oss": ("PutObject", "UploadPart"), "cos": ("PutObject", "UploadPart"),
    "kodo": ("upload", "uploadPart"), "cssp": ("putObject",),
}


def unused_ports(count):
    """The first of so many neighbouring ports that nobody listens on."""
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


class Store(bench.Store):
    """A pailstore with ports of its own, so that it can be started again where it was."""

    def __init__(self, work, *arguments, host="127.0.0.1", before=()):
        work.mkdir(parents=True, exist_ok=True)
        for attempt in range(5):
            try:
                super().__init__(
                    work, *arguments, bucket=BUCKET, listen=f"{host}:{unused_ports(5)}", before=before)
                return
            except AssertionError:  # somebody else took one of the ports meanwhile
                if attempt == 4:
                    raise

    def tokens(self, *tokens):
        subprocess.run(
            ["curl", "-sS", "--fail", "-T", "-", f"{self.endpoint}/_pailstore/session-tokens"],
            input="".join(token + "\n" for token in tokens), text=True, check=True, stdout=subprocess.DEVNULL)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(bench.DEADLINE)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process.poll() is None:
            self.thaw()
            super().stop()

    def hits(self, since=0):
        """How many requests there were, and how often each fault fired."""
        faults, requests = collections.Counter(), self.requests()[since:]
        for request in requests:
            faults.update(name.split(":")[0] if not name.startswith("status") else name
                          for name in request.get("faults", []))
        return len(requests), faults

    def sent(self, provider, since=0):
        """Bytes of objects that arrived at the store and stayed."""
        return sum(request["bytes_in"] for request in self.requests()[since:]
                   if request["operation"] in WRITES[provider] and 200 <= request["status"] < 300)


def mount_of(provider, store, prefix, work, *options):
    """A mount of the store as `provider` speaks; nothing is started yet."""
    work.mkdir(parents=True, exist_ok=True)
    kind = type("Mount", (bench.Mount,), {"scheme": provider, "own_options": OWN_OPTIONS[provider]})
    mount = kind(store, prefix, work, *options)
    # Nothing of this machine's own users is to be found.
    mount.variables["HOME"] = str(work)
    return mount


def run(*command, deadline=600, **more):
    """What a program says, that must not fail and must not complain."""
    ended = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=deadline, check=False, **more)
    if ended.returncode or ended.stderr:
        raise AssertionError(f"{' '.join(map(str, command[:3]))}... ended with {ended.returncode}: {ended.stderr[:2000]} {ended.stdout[:1500]}")
    return ended.stdout


def make_tree(path, files, big):
    """Real source files, links, odd names and modes, and a file of so many bytes that takes parts."""
    path.mkdir(parents=True)
    sources = sorted((ROOT / "Sources").rglob("*.swift"))[:files]
    for source in sources:
        target = path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    (path / "empty").write_bytes(b"")
    (path / "ümläut %41 ~").write_bytes(b"x")
    (path / "big").write_bytes(random.Random(big).randbytes(big))
    os.symlink("Sources/nowhere", path / "link")
    os.chmod(path / "empty", 0o640)
    # Long ago: rsync does not see that a directory it has made in this second got another time.
    for directory, _, _ in os.walk(path):
        os.utime(directory, (1_000_000_000, 1_000_000_000))


def shape(path):
    """Every entry with its kind, mode, size, time and target."""
    return run("find", ".", "(", "-type", "d", "-printf", "%P d %m %T@\\n", ")", "-o", "(", "-type", "l", "-printf",
               "%P l %l\\n", ")", "-o", "-printf", "%P %y %m %s %T@\\n", cwd=path).split("\n")


def compare(left, right):
    run("diff", "--recursive", "--no-dereference", left, right)
    differences = set(shape(left)) ^ set(shape(right))
    # The trees' own directories are nobody's copy.
    differences = {line for line in differences if line and not line.startswith(" d ")}
    if differences:
        raise AssertionError(f"the trees differ: {sorted(differences)[:10]}")


def files_below(path):
    return {str(file.relative_to(path)): file.read_bytes()
            for file in path.rglob("*") if file.is_file() and not file.is_symlink()}


class CredentialService:
    """Gives out credentials that end, as a container's host does, and tells the store which tokens are valid. New ones
    come before the old ones go, and the old ones go long before the end that was told."""

    def __init__(self, store, work, seconds):
        self.store, self.work, self.seconds = store, work, seconds
        self.number, self.asked, self.renewed = 0, 0, threading.Event()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                service.asked += 1
                body = service.document()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/credentials"
        store.tokens(self.token())
        self.write_file()
        self.threads = [threading.Thread(target=self.server.serve_forever, daemon=True),
                        threading.Thread(target=self.rotate, daemon=True)]
        for thread in self.threads:
            thread.start()

    def token(self):
        return f"token-{self.number}"

    def document(self):
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3 * self.seconds))
        return json.dumps({
            "Code": "Success", "AccessKeyId": bench.KEY, "SecretAccessKey": bench.SECRET,
            "AccessKeySecret": bench.SECRET, "Token": self.token(), "SecurityToken": self.token(),
            "Expiration": end}).encode()

    def write_file(self):
        """COS's tools keep them in a file, that is written anew."""
        new = self.work / ".cos.conf.new"
        new.write_text(f"[common]\nsecret_id = {bench.KEY}\nsecret_key = {bench.SECRET}\ntoken = {self.token()}\n")
        os.rename(new, self.work / ".cos.conf")

    def rotate(self):
        while not self.renewed.wait(self.seconds):
            before = self.token()
            self.store.tokens(before, f"token-{self.number + 1}")
            self.number += 1
            self.write_file()
            self.store.tokens(self.token())

    def use(self, mount):
        """Lets the mount find its credentials here, each provider in its own way."""
        for name in ("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY"):
            del mount.variables[name]
        mount.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = self.url
        mount.variables["ALIBABA_CLOUD_CREDENTIALS_URI"] = self.url

    def stop(self):
        self.renewed.set()
        self.threads[1].join()
        self.server.shutdown()
        self.server.server_close()
        self.store.tokens()
