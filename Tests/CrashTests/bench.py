"""What the crash tests stand on: a pailstore, mounts that are killed, and the bucket as boto3 sees it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import boto3
import botocore.config

PAILFS = os.environ.get("PAILFS_BIN", "pailfs")
PAILSTORE = os.environ.get("PAILSTORE_BIN", "pailstore")
KEY, SECRET = "pailstore", "pailstore-secret"
DEADLINE = 60
# Whether the cache of each mount is deleted every second.
DELETE_CACHE = os.environ.get("PAILFS_TEST_DELETE_CACHE") == "1"


def wait_for(what, condition, deadline=DEADLINE):
    """Polls until `condition` is true; a test that waits in vain fails with the name of what it waited for."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"{what} did not happen within {deadline} s")


def s3_client(endpoint):
    """A pailstore as boto3 sees it."""
    return boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1",
        config=botocore.config.Config(s3={"addressing_style": "path"}, max_pool_connections=32))


class Store:
    """One pailstore process with one bucket. `before` is a command that runs it."""

    def __init__(self, work, *arguments, bucket="pail", listen="127.0.0.1:0", before=()):
        self.log_path = work / "requests.log"
        self.bucket = bucket
        self.command = [*before, PAILSTORE, str(work / "store"), "--listen", listen, "--bucket", bucket,
                        "--log-requests", str(self.log_path), "--seed", "1", *arguments]
        self.start()
        self.endpoint = self.endpoints["s3"]
        self.s3 = s3_client(self.endpoint)

    def start(self):
        """Starts the process, or another one on what the one before it has left."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"pailstore ended with {self.process.wait(DEADLINE)}")
        self.endpoints = json.loads(line)

    def objects(self, prefix):
        """Every key below `prefix`, without it, and its bytes."""
        found = {}
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix + "/"):
            for entry in page.get("Contents", []):
                body = self.s3.get_object(Bucket=self.bucket, Key=entry["Key"])["Body"].read()
                found[entry["Key"][len(prefix) + 1:]] = body
        return found

    def keys(self, prefix):
        """The keys below `prefix` that are no markers."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix + "/")
        keys = [entry["Key"][len(prefix) + 1:] for page in pages for entry in page.get("Contents", [])]
        return [key for key in keys if not key.endswith("/")]

    def put(self, prefix, key, body):
        self.s3.put_object(Bucket=self.bucket, Key=f"{prefix}/{key}", Body=body)

    def uploads(self, prefix):
        """Uploads that hold parts. One whose name the store had told and the disk did not have yet has none: it cannot be
        told from another program's, and is left alone."""
        answer = self.s3.list_multipart_uploads(Bucket=self.bucket, Prefix=prefix + "/")
        found = [(entry["Key"], entry["UploadId"]) for entry in answer.get("Uploads", [])]
        return [(key, upload) for key, upload in found
                if self.s3.list_parts(Bucket=self.bucket, Key=key, UploadId=upload).get("Parts")]

    def requests(self):
        with open(self.log_path, encoding="utf-8") as log:
            return [json.loads(line) for line in log if line.endswith("\n")]

    def faults(self, *specs):
        plan = "".join(spec + "\n" for spec in specs)
        subprocess.run(["curl", "-sS", "--fail", "-T", "-", f"{self.endpoint}/_pailstore/faults"],
                       input=plan, text=True, check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait(DEADLINE)


class Mount:
    """One cache directory and the processes that serve it, one after the other."""

    # What names the provider, and what a mount of it has to be told.
    scheme, own_options = "s3", ("region=us-east-1", "path-style")
    # With "yes" another process takes the place of one that is killed.
    restart = "no"

    def __init__(self, store, prefix, work, *options):
        self.store, self.prefix = store, prefix
        self.variables = {"PAILFS_ACCESS_KEY_ID": KEY, "PAILFS_SECRET_ACCESS_KEY": SECRET}
        self.path = work / "mount"
        self.cache = work / "cache"
        self.log = work / "pailfs.log"
        self.path.mkdir(parents=True)
        self.options = ["part-size=5M", *self.own_options, f"endpoint={store.endpoints[self.scheme]}",
                        f"cache-dir={self.cache}", f"restart={self.restart}", *options]
        if DELETE_CACHE:
            self.options.append(f"state-dir={work / 'state'}")
            threading.Thread(target=self.delete_cache, daemon=True).start()
        self.process = None
        self.environment = {}

    def delete_cache(self):
        """As somebody who is short of space, at any time."""
        while True:
            time.sleep(1)
            shutil.rmtree(self.cache, ignore_errors=True)

    def start(self, stop=None, check=True):
        environment = dict(os.environ, **self.variables, **self.environment)
        if stop:
            environment["PAILFS_STOP_POINT"] = stop
        before = self.mounted()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [PAILFS, "mount", f"{self.scheme}://{self.store.bucket}/{self.prefix}", str(self.path), "-f", "-o", ",".join(self.options)],
                env=environment, stdout=log, stderr=log)
        # Not before it says so: its own first look at the mount keeps it busy for whoever unmounts.
        wait_for("the mount", lambda: self.mounted() > before or self.process.poll() is not None)
        if check and self.process.poll() is not None:
            raise AssertionError(f"pailfs ended with {self.process.returncode}: {self.tail()}")

    def mounted(self):
        """How many mounts there were."""
        return self.log.read_text(errors="replace").count(" info mounted ") if self.log.exists() else 0

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.died()

    def died(self):
        """Waits for the process to be killed, and takes the dead mount away."""
        status = self.process.wait(DEADLINE)
        if status != -signal.SIGKILL:
            raise AssertionError(f"pailfs ended with {status} and not by the kill: {self.tail()}")
        subprocess.run(["fusermount3", "-u", "-z", str(self.path)], stderr=subprocess.DEVNULL, check=False)

    def unmount(self):
        """An orderly end; what pailfs says of it."""
        ended = subprocess.run([PAILFS, "unmount", str(self.path)], capture_output=True, text=True, timeout=DEADLINE,
                               check=False)
        if os.path.ismount(self.path):
            raise AssertionError(f"it stays mounted: {ended.stderr}")
        self.process.wait(DEADLINE)
        return ended

    def store_and_unmount(self):
        """An orderly end, after which the bucket has everything."""
        ended = self.unmount()
        if ended.returncode:
            raise AssertionError(f"the unmount said: {ended.stderr}")

    def tail(self):
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    def leave(self):
        """Leaves nothing behind, whatever happened."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE)
        subprocess.run(["fusermount3", "-u", "-z", str(self.path)], stderr=subprocess.DEVNULL, check=False)


class Bench:
    """Runs named cases, each below a prefix of its own, and counts."""

    mount_type = Mount

    def __init__(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="pailfs-crash-"))
        self.store = self.make_store()
        self.passed, self.failed, self.cases = 0, [], 0

    def make_store(self):
        return Store(self.work)

    def case(self, name, body, *options):
        self.cases += 1
        number = self.cases
        work = self.work / f"case{number}"
        work.mkdir()
        mount = self.mount_type(self.store, f"case{number}", work, *options)
        try:
            # A body of many checks returns how many.
            self.passed += body(mount) or 1
            shutil.rmtree(work, ignore_errors=True)
        except Exception as error:  # a case that breaks in any way has failed, and the others go on
            self.failed.append(name)
            print(f"FAILED {name}: {type(error).__name__}: {error}\n{mount.tail()}", flush=True)
        finally:
            mount.leave()

    def end(self):
        self.store.stop()
        shutil.rmtree(self.work, ignore_errors=True)
        print(f"{self.passed} passed, {len(self.failed)} failed", flush=True)
        return 1 if self.failed or not self.passed else 0
