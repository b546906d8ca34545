#!/usr/bin/env python3
"""usage: quirks.py [KIND...]: credentials and servers as they really are, through one stand-in, and for Swift a real OpenStack
Swift with a filter before it.

A row for each kind and store: what the provider's own SDK does (boto3, oss2, cos-python-sdk-v5, qiniu, swiftclient; CSSP has none
in Python, so requests signed by its rule stand in), what rclone does where it speaks the protocol, and what a mount does. The
mount must do what its column says, the SDK what is expected of it here; the rest is shown. Prints the table and ends in
"N passed, M failed".

PAILSTORE_BIN and PAILFS_BIN name the built programs.
"""

import concurrent.futures
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("PAILSTORE", os.environ.get("PAILSTORE_BIN", "pailstore"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "EmulatorTests"))
import conformance
import cross_conformance as cross
import openstack_swift
import swiftclient

PAILFS = os.environ.get("PAILFS_BIN", "pailfs")
RCLONE = pathlib.Path(sys.executable).parent / "rclone"
OPTIONS = {"s3": ["region=us-east-1", "path-style"], "oss": ["region=us-east-1", "path-style"],
           "cos": ["region=ap-guangzhou"], "kodo": [], "cssp": [], "swift": []}
BIG = os.urandom(9 << 20)

# What the dialects call a request.
LISTS = ["ListObjectsV2", "ListObjects", "GetBucket", "list", "listV2", "listObjects", "getContainer"]
COPIES = ["CopyObject", "PutObjectCopy", "copy", "move", "copyObject"]
UPLOADS = ["CreateMultipartUpload", "InitiateMultipartUpload", "initiateMultipartUpload", "mkblk", "putManifest"]
BATCHES = ["DeleteObjects", "DeleteMultipleObjects", "batch", "bulkDelete"]
DELETES = ["DeleteObject", "delete", "deleteObject", *BATCHES]
WRITES = [*COPIES, *UPLOADS, *DELETES, "PutObject", "upload", "putObject"]


class Swift:
    """A container as python-swiftclient sees it."""

    name = "swift"

    def __init__(self, store):
        self.auth_url = store.ready["swift"]
        self.client = swiftclient.Connection(self.auth_url, *store.keys(), retries=0)

    def put(self, key, data):
        self.client.put_object(cross.BUCKET, key, data)

    def put_parts(self, key, pieces):
        manifest = []
        for number, piece in enumerate(pieces):
            part = f"parts/{key}/{number}"
            self.put(part, piece)
            manifest.append({"path": f"/{cross.BUCKET}/{part}"})
        self.client.put_object(cross.BUCKET, key, json.dumps(manifest), query_string="multipart-manifest=put")

    def get(self, key):
        return self.client.get_object(cross.BUCKET, key)[1]

    def describe(self, key):
        return {"size": int(self.client.head_object(cross.BUCKET, key)["content-length"])}

    def list(self):
        return [(item["name"], item["bytes"]) for item in self.client.get_container(cross.BUCKET)[1]]

    def delete(self, key):
        self.client.delete_object(cross.BUCKET, key)

    def delete_many(self, keys):
        body = "".join(f"/{cross.BUCKET}/{key}\n" for key in keys)
        self.client.post_account({"Content-Type": "text/plain"}, query_string="bulk-delete", data=body)

    def copy(self, key, to):
        self.client.copy_object(cross.BUCKET, key, f"/{cross.BUCKET}/{to}")


class SwiftStore:
    """A real OpenStack Swift with a container and one of its segments, and what a stand-in of the other stores can be told."""

    def __init__(self):
        self.work = tempfile.mkdtemp(prefix="quirk-swift-")
        self.server = openstack_swift.OpenStackSwift(self.work)
        self.server.await_listening()
        self.ready = {"swift": self.server.auth_url}
        client = swiftclient.Connection(self.server.auth_url, *self.keys(), retries=5)
        for container in (cross.BUCKET, cross.BUCKET + "_segments"):
            client.put_container(container)

    def keys(self):
        return openstack_swift.USER, openstack_swift.KEY

    def faults(self, *faults):
        self.server.faults(*faults)

    def remove(self):
        self.server.stop()
        shutil.rmtree(self.work, ignore_errors=True)


class Store(cross.Store):
    def __init__(self):
        super().__init__("--bucket", cross.BUCKET)

    def keys(self):
        return conformance.ACCESS_KEY, conformance.SECRET_KEY


VIEWS = {"s3": cross.S3, "oss": cross.OSS, "cos": cross.COS, "kodo": cross.Kodo, "cssp": cross.CSSP, "swift": Swift}
STORES = list(VIEWS)


def refusing(operations, status):
    return [f"kind=refuse:{operation}:{status}" for operation in operations]


def delete_many(view):
    keys = ["data/one", "data/two"]
    for key in keys:
        view.put(key, b"x")
    if view.name == "s3":
        view.client.delete_objects(Bucket=cross.BUCKET, Delete={"Objects": [{"Key": key} for key in keys]})
    elif view.name == "oss":
        view.client.batch_delete_objects(keys)
    elif view.name == "cos":
        view.client.delete_objects(cross.BUCKET, {"Object": [{"Key": key} for key in keys]})
    elif view.name == "swift":
        view.delete_many(keys)
    else:
        view.done(*view.manager.batch(cross.qiniu.build_batch_delete(cross.BUCKET, keys)))


def replace(view):
    """A write that is to replace what was read; Amazon's alone compares."""
    view.client.put_object(Bucket=cross.BUCKET, Key="object", Body=b"new", IfMatch=view.tag("object"))


def put_and_compare(view):
    tag = view.client.put_object(Bucket=cross.BUCKET, Key="compared", Body=b"abc")["ETag"]
    conformance.equal(tag, view.tag("compared"), "the ETag of the answer and of HEAD")


@dataclasses.dataclass
class Kind:
    name: str
    faults: list
    # One request of the SDK, and what rclone is asked for: the arguments after its remote's name is put for R.
    sdk: object
    rclone: list
    # What the mount does, and a script in it that shows it. `refused COMMAND` expects EACCES.
    mount: str
    script: str
    # Whether the SDK's request fails; None where that depends on the SDK.
    fails: object = True
    stores: list = dataclasses.field(default_factory=lambda: STORES)
    prefix: str = ""
    options: tuple = ()
    # Faults that come when the script makes the file `now`.
    later: list = dataclasses.field(default_factory=list)


TREE = """
    mkdir -p tree/inner; echo 1 >tree/inner/file; echo 2 >>tree/inner/file; : >tree/empty; echo 3 >>tree/empty
    mv tree renamed; cp renamed/inner/file copy; mv copy renamed/copy; chmod 600 renamed/copy
    test "$(cat renamed/inner/file)" = "$(printf '1\\n2')"; test "$(cat renamed/copy)" = "$(printf '1\\n2')"
    test "$(cat renamed/empty)" = 3; rm -r renamed; test ! -e renamed; test ! -e tree
"""
ALL = "works"

KINDS = [
    Kind("no list", refusing(LISTS, 403), lambda view: view.list(), ["lsf", "R"],
         "finds names one by one; readdir is EACCES",
         "test \"$(cat data/object)\" = text; refused ls data; echo x >data/new; mv data/new data/moved; rm data/moved"),
    Kind("no list, 403 for 404", [*refusing(LISTS, 403), "kind=403-for-404"], lambda view: view.describe("missing"),
         ["cat", "R/missing"], "finds names one by one; readdir is EACCES",
         "test ! -e data/new; refused ls data; echo x >data/new; mv data/new data/moved; rm data/moved"),
    Kind("list below data/ only", ["kind=prefix:data/", "kind=403-for-404"], lambda view: view.list(), ["lsf", "R"], ALL,
         "test \"$(cat object)\" = text; test ! -e missing; test \"$(ls)\" = object" + TREE,
         stores=["s3", "oss", "cos", "kodo"], prefix="/data"),
    Kind("403 for 404", ["kind=403-for-404"], lambda view: view.describe("missing"), ["cat", "R/missing"], ALL,
         "test ! -e missing" + TREE),
    Kind("no delete", refusing(DELETES, 403), lambda view: view.delete("object"), ["deletefile", "R/object"],
         "rm and mv are EACCES, before a directory is copied",
         "refused mv data/tree data/other; test ! -e data/other; refused rm object; refused mv object new; "
         "test \"$(cat object)\" = text; echo x >data/new", stores=["s3", "oss", "cos", "cssp", "swift"]),
    Kind("read only", refusing(WRITES, 403), lambda view: view.put("new", b"x"), ["copyto", "FILE", "R/new"],
         "reads; writes are EACCES",
         "test \"$(cat object)\" = text; refused cp \"$T/keys\" new; refused mkdir directory; refused rm object"),
    Kind("no delete of several: 501", refusing(BATCHES, 501), delete_many, ["purge", "R/data"], ALL, TREE,
         stores=["s3", "oss", "cos", "kodo", "swift"]),
    Kind("no copy: 501", refusing(COPIES, 501), lambda view: view.copy("object", "copied"),
         ["copyto", "R/object", "R/copied"], ALL, TREE),
    Kind("no copy: 403", refusing(COPIES, 403), lambda view: view.copy("object", "copied"),
         ["copyto", "R/object", "R/copied"], ALL, TREE),
    *(Kind(f"no upload in parts: {status}", refusing(UPLOADS, status),
           lambda view: view.put_parts("big", [BIG[:5 << 20], b"rest"]),
           ["copyto", "BIG", "R/big", "--s3-upload-cutoff=5M", "--swift-chunk-size=5M"], ALL,
           "cp \"$T/big\" big; cmp \"$T/big\" big; printf y | dd of=big bs=1 seek=5 conv=notrunc status=none; rm big",
           stores=["s3", "oss", "cos", "kodo", "swift"], options=("part-size=5M",)) for status in (501, 403)),
    Kind("copy of a directory: 400", ["op=CopyObject,key=*/,kind=status:400"], lambda view: view.copy("data/", "copied/"),
         ["moveto", "R/data", "R/moved"], ALL, TREE, stores=["s3"]),
    Kind("HEAD without a length", ["kind=head-without-length"], lambda view: view.describe("object")["size"],
         ["cat", "R/object"], ALL, "test \"$(cat object)\" = text" + TREE, options=("attrs=exact",), fails=None),
    Kind("ETag is no MD5", ["kind=opaque-etag"], lambda view: view.put("new", b"x"), ["copyto", "FILE", "R/new"], ALL, TREE,
         fails=False, stores=["s3"]),
    Kind("answer's ETag is not the object's", ["kind=foreign-etag"], put_and_compare, ["copyto", "FILE", "R/new"], ALL,
         TREE, stores=["s3"]),
    Kind("If-Match with quotes fails", ["kind=if-match-unquoted"], replace, [], ALL,
         "echo more >>object; test \"$(cat object)\" = \"$(printf 'textmore')\"", stores=["s3"]),
    Kind("clock is 2 h ahead", ["kind=clock:2h"], lambda view: view.put("new", b"x"), ["copyto", "FILE", "R/new"], ALL,
         TREE, stores=["s3", "oss", "cos", "cssp"], fails=None),
    Kind("key is replaced", [], lambda view: view.get("object"), ["cat", "R/object"], "reads its file again",
         "echo 1 >one; : >\"$T/now\"; while [ -e \"$T/now\" ]; do sleep 0.05; done; echo 2 >two; test \"$(cat two)\" = 2",
         later=["kind=rotate-key:second:two"]),
]



def sdk_outcome(kind, view):
    """What the SDK does, and whether it is what is expected of it."""
    try:
        kind.sdk(view)
    except Exception as error:
        return type(error).__name__, kind.fails is not False
    return "works", kind.fails is not True


def rclone_outcome(kind, view, work):
    if view.name not in ("s3", "swift") or not kind.rclone or not RCLONE.exists():
        return "-"
    (work / "file").write_bytes(b"text")
    names = {"R": f"r:{cross.BUCKET}", "FILE": str(work / "file"), "BIG": str(work / "big")}
    arguments = [next((text.replace(name, value, 1) for name, value in names.items()
                       if text == name or text.startswith(name + "/")), text) for text in kind.rclone]
    remote = {
        "type": "swift", "auth": view.auth_url, "user": openstack_swift.USER, "key": openstack_swift.KEY, "auth_version": "1",
    } if view.name == "swift" else {
        "type": "s3", "provider": "Other", "endpoint": view.client.meta.endpoint_url, "region": "us-east-1",
        "access_key_id": conformance.ACCESS_KEY, "secret_access_key": conformance.SECRET_KEY, "no_check_bucket": "true",
    }
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(work), "RCLONE_CONFIG": str(work / "none")}
    environment |= {f"RCLONE_CONFIG_R_{name.upper()}": value for name, value in remote.items()}
    command = [str(RCLONE), "--retries=1", "--low-level-retries=1", *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=30)
    except subprocess.TimeoutExpired:
        return "no end within 30 s"
    return "works" if done.returncode == 0 else "fails"


class Mount:
    """A mount of the store's bucket with its key in a file."""

    def __init__(self, kind, view, store, work):
        self.kind, self.store, self.work = kind, store, work
        self.path = work / "mount"
        self.path.mkdir()
        self.keys = work / "keys"
        self.write_keys(*store.keys())
        self.url = f"{view.name}://{cross.BUCKET}{kind.prefix}"
        self.options = [*OPTIONS[view.name], f"endpoint={store.ready[view.name]}", f"cache-dir={work}/cache",
                        f"credentials-file={self.keys}", "restart=no", *kind.options]
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(work), "T": str(work),
                            "XDG_RUNTIME_DIR": str(work)}

    def write_keys(self, key, secret):
        new = self.work / "keys.new"
        new.write_text(f"PAILFS_ACCESS_KEY_ID={key}\nPAILFS_SECRET_ACCESS_KEY={secret}\n")
        new.chmod(0o600)
        new.rename(self.keys)

    def command(self, *arguments):
        return subprocess.run([PAILFS, *arguments], env=self.environment, capture_output=True, text=True, timeout=60)

    def run(self):
        """None, or why the mount does not do what it should."""
        mounted = self.command("mount", self.url, str(self.path), "-o", ",".join(self.options))
        if mounted.returncode:
            return f"mount: {mounted.stderr}"
        try:
            return self.script()
        finally:
            ended = self.command("unmount", str(self.path))
            if ended.returncode:
                subprocess.run(["umount", "-l", str(self.path)], capture_output=True)

    def script(self):
        prelude = """
            set -euo pipefail
            refused() { if "$@" 2>"$T/errors"; then echo "not refused: $*" >&2; return 1; fi
                grep -q 'Permission denied' "$T/errors" || { cat "$T/errors" >&2; return 1; }; }
        """
        program = subprocess.Popen(["bash", "-c", prelude + self.kind.script], cwd=self.path, env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if self.kind.later:
            now = self.work / "now"
            wait_until(lambda: now.exists() or program.poll() is not None)
            self.store.faults(*self.kind.later)
            self.write_keys("test:second" if self.url.startswith("swift:") else "second", "two")
            now.unlink(missing_ok=True)
        try:
            output, _ = program.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            program.kill()
            return "the script did not end within 90 s"
        if program.returncode:
            log = sorted(self.work.glob("**/*.log"))
            return f"status {program.returncode}: {output} {log[-1].read_text()[-500:] if log else ''}"
        return None


def wait_until(condition, deadline=30):
    end = time.monotonic() + deadline
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def row(kind, name):
    """One row of the table, and the failures in it."""
    work = pathlib.Path(tempfile.mkdtemp(prefix=f"quirk-{name}-"))
    store = SwiftStore() if name == "swift" else Store()
    failures = []
    try:
        view = VIEWS[name](store)
        for key in ("object", "data/object", "data/", "data/tree/a", "data/tree/b"):
            if not (kind.prefix and key.startswith("data/tree")):
                view.put(key, b"" if key.endswith("/") else b"text")
        (work / "big").write_bytes(BIG)
        store.faults(*kind.faults)
        reason = Mount(kind, view, store, work).run()
        if reason:
            failures.append(f"{kind.name}, {name}: the mount: {reason}")
        # The SDK and rclone come after, with what they need.
        store.faults()
        view.put("object", b"text")
        store.faults(*(kind.faults + kind.later))
        sdk, expected = sdk_outcome(kind, view)
        if not expected:
            failures.append(f"{kind.name}, {name}: the SDK: {sdk}")
        return f"| {kind.name} | {name} | {sdk} | {rclone_outcome(kind, view, work)} | " \
               f"{'FAILS' if reason else kind.mount} |", failures
    finally:
        store.remove()
        shutil.rmtree(work, ignore_errors=True)


def main(names):
    logging.disable(logging.CRITICAL)
    for variable in list(os.environ):
        if variable.startswith(("AWS_", "OSS_", "COS_", "QINIU_", "ST_", "OS_")) or variable.lower().endswith("_proxy"):
            del os.environ[variable]
    os.environ.update(AWS_EC2_METADATA_DISABLED="true", NO_PROXY="127.0.0.1")
    pairs = [(kind, store) for kind in KINDS if not names or kind.name in names for store in kind.stores]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda pair: row(*pair), pairs))
    print("| kind | store | its SDK | rclone | the mount |")
    for text, failures in rows:
        print(text)
        failed += bool(failures)
        passed += not failures
    for _, failures in rows:
        for failure in failures:
            print(f"FAILED: {failure}", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    finally:
        shutil.rmtree(cross.SCRATCH, ignore_errors=True)
    sys.exit(status)
