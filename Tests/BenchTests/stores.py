"""The store of the measurements: one pailstore, what boto3 and plain connections do to it, and its request log."""

import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import time
import urllib.parse

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

BUCKET = "bench"
KEY, SECRET = "pailstore", "pailstore-secret"
# What a store some way off is like: 30 ms to the first byte of every answer, 80 MB/s a connection.
FAR = ("kind=first-byte:30ms", "op=GetObject,kind=bandwidth:80MB", "op=PutObject,kind=bandwidth:80MB",
       "op=UploadPart,kind=bandwidth:80MB")


def wait_for(condition, what, patience=600):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.005)


def family(pid):
    """A process and those it has started."""
    found = [pid]
    for parent in found:
        for task in os.listdir(f"/proc/{parent}/task"):
            # A thread may end between the two.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{parent}/task/{task}/children") as children:
                    found += [int(child) for child in children.read().split()]
    return found


def processor_seconds(pid):
    """What a process and those it has started have used so far, in user and kernel mode."""
    ticks = 0
    for member in family(pid):
        with open(f"/proc/{member}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Store:
    def __init__(self, work):
        self.directory, self.log = f"{work}/store", f"{work}/requests.log"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["pailstore", self.directory, "--listen", "127.0.0.1:0", "--bucket", BUCKET, "--log-requests", self.log],
            stdout=subprocess.PIPE, text=True)
        self.endpoint = json.loads(self.process.stdout.readline())["s3"]
        self.client = boto3.client(
            "s3", endpoint_url=self.endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            region_name="us-east-1", config=Config(s3={"addressing_style": "path"}, max_pool_connections=32))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def faults(self, *specs):
        parts = urllib.parse.urlsplit(self.endpoint)
        connection = http.client.HTTPConnection(parts.hostname, parts.port)
        connection.request("PUT", "/_pailstore/faults", body="".join(spec + "\n" for spec in specs))
        if connection.getresponse().status >= 300:
            raise RuntimeError("the store takes no faults")

    # MARK: what happened

    def mark(self):
        return os.path.getsize(self.log) if os.path.exists(self.log) else 0

    def requests(self, since):
        with open(self.log, "rb") as log:
            log.seek(since)
            return [json.loads(line) for line in log if line.endswith(b"\n")]

    # MARK: the bucket from outside

    def has(self, key, size):
        try:
            return self.client.head_object(Bucket=BUCKET, Key=key)["ContentLength"] == size
        except ClientError:
            return False

    def keys(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def count(self, prefix):
        return sum(not key.endswith("/") for key in self.keys(prefix))

    def remove(self, prefix):
        keys = self.keys(prefix)
        for start in range(0, len(keys), 1000):
            names = [{"Key": key} for key in keys[start:start + 1000]]
            self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": names})

    def url(self, operation, key):
        return self.client.generate_presigned_url(operation, Params={"Bucket": BUCKET, "Key": key}, ExpiresIn=86400)

    def put_many(self, keys, size):
        """Stores as many objects of random bytes, over a few connections."""
        def put(part):
            parts = urllib.parse.urlsplit(self.endpoint)
            connection = http.client.HTTPConnection(parts.hostname, parts.port)
            for key in part:
                connection.request("PUT", self.url("put_object", key), body=os.urandom(size))
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"PUT {key}: {answer.status}")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(put, [keys[start::4] for start in range(4)]))

    def put_seconds(self, size, count=50):
        """The median time of a PUT on a connection that is open, and nothing else under way."""
        parts = urllib.parse.urlsplit(self.endpoint)
        connection, times = http.client.HTTPConnection(parts.hostname, parts.port), []
        for number in range(count):
            url, body = self.url("put_object", f"single/{number}"), os.urandom(size)
            began = time.monotonic()
            connection.request("PUT", url, body=body)
            connection.getresponse().read()
            times.append(time.monotonic() - began)
        self.remove("single/")
        return statistics.median(times)

    def fill(self, keys):
        """Empty objects by the hundred thousand: as records on the store's disk, made from that of one which was stored."""
        self.client.put_object(Bucket=BUCKET, Key="template", Body=b"")
        self.stop()
        records = f"{self.directory}/{BUCKET}/objects"
        digest = hashlib.sha256(b"template").digest()[:20].hex()
        name = next(name for name in os.listdir(records) if name.startswith(digest))
        with open(f"{records}/{name}") as file:
            template = file.read()
        os.unlink(f"{records}/{name}")
        sequence = max([int(name[-16:], 16) for name in os.listdir(records)] + [int(name[-16:], 16)])
        if "\nkey template\n" not in template:
            raise RuntimeError("the store writes other records than this knows")
        for number, key in enumerate(keys, sequence + 1):
            record = template.replace("\nkey template\n", f"\nkey {key}\n").encode()
            name = f"{hashlib.sha256(key.encode()).digest()[:20].hex()}-{number:016x}"
            with open(os.open(f"{records}/{name}", os.O_WRONLY | os.O_CREAT, 0o644), "wb", 0) as file:
                file.write(record)
        self.start()
