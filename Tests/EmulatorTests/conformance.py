"""What the programs that hold pailstore's dialects to official SDKs share: a running store, assertions, the runner.

PAILSTORE names the built binary. A program prints one line for each failure and "N passed, M failed" at the end; its
exit status is 0 only when nothing failed.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import urllib.request

ACCESS_KEY, SECRET_KEY, BUCKET = "pailstore", "pailstore-secret", "test-bucket"
# Keys that every provider takes and every signature has to spell right.
ODD_KEYS = [
    "plain", "dir/file", "dir/", "dir//double", "a b+c%d&e=f?g#h", "~!*'()", "ünïcode/中文", "./dot", "../dots", "a/../b",
    "trailing/", "percent%2Fslash", "tab\tkey", "quote\"<>&'", "control\x01",
]
MIB = 1 << 20
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Store:
    """A running pailstore with a directory of its own, as the dialect of a subclass speaks."""
    dialect = ""

    def __init__(self, *arguments, directory=None):
        self.directory = directory or tempfile.mkdtemp(prefix="pailstore-")
        self.process = subprocess.Popen(
            [os.environ["PAILSTORE"], self.directory, "--listen", "127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("pailstore did not start")
        self.ready = json.loads(line)
        self.endpoint = self.ready[self.dialect]
        self.host = self.endpoint.removeprefix("http://")
        self.port = int(self.host.rsplit(":", 1)[1])

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def faults(self, *lines):
        request = urllib.request.Request(
            self.endpoint + "/_pailstore/faults", data="\n".join(lines).encode(), method="PUT")
        urllib.request.urlopen(request, timeout=10).read()


def equal(got, wanted, what=""):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


def main(store_class, clients, clear, bucket=BUCKET, arguments=()):
    """Runs every test, or those named on the command line, with every client, each in a clean bucket; the exit status.

    `clients` maps what a client is called to what makes it of a store, which is started with `arguments`.
    """
    for variable in list(os.environ):
        if variable.startswith(("AWS_", "OSS_", "COS_", "QINIU_")) or variable.lower().endswith("_proxy"):
            del os.environ[variable]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    os.environ["NO_PROXY"] = "127.0.0.1"
    store = store_class("--bucket", bucket, *arguments)
    chosen = [function for function in TESTS if len(sys.argv) < 2 or function.__name__ in sys.argv[1:]]
    passed = failed = 0
    try:
        for name, make in clients.items():
            client = make(store)
            for function in chosen:
                try:
                    clear(client)
                    function(store, client)
                    passed += 1
                except Exception:
                    failed += 1
                    store.faults()
                    print(f"FAILED {function.__name__} with {name}")
                    traceback.print_exc(file=sys.stdout)
    finally:
        store.remove()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
