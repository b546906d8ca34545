"""What the runs against real servers stand on: a bucket as boto3 sees it, a container as HTTP shows it, mounts of each."""

import http.client
import json
import pathlib
import shutil
import sys
import urllib.parse

import boto3
import botocore.config

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "CrashTests"))
import bench


class S3Bucket(bench.Store):
    """A bucket of a server that speaks S3, made here."""

    scheme = "s3"

    def __init__(self, endpoint, key, secret, bucket="pail"):
        self.endpoint, self.key, self.secret, self.bucket = endpoint, key, secret, bucket
        self.endpoints = {"s3": endpoint}
        self.s3 = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1",
            config=botocore.config.Config(
                s3={"addressing_style": "path"}, max_pool_connections=32, request_checksum_calculation="when_required",
                response_checksum_validation="when_required"))
        self.s3.create_bucket(Bucket=bucket)

    def objects(self, prefix):
        """Every key below `prefix`, without it, and its bytes."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix + "/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return {key[len(prefix) + 1:]: self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys}

    def segments(self, _prefix):
        """The server keeps parts where no client sees them."""
        return []


class SwiftContainer:
    """A container of a server that speaks Swift with version 1 of its authentication, made here."""

    scheme = "swift"

    def __init__(self, auth_url, user, key, bucket="pail"):
        self.auth_url, self.key, self.secret, self.bucket = auth_url, user, key, bucket
        self.endpoints = {"swift": auth_url}
        address = urllib.parse.urlsplit(auth_url)
        self.host, self.port = address.hostname, address.port
        status, headers, _ = self.exchange("GET", address.path, {"X-Auth-User": user, "X-Auth-Key": key})
        if status // 100 != 2:
            raise AssertionError(f"the login was answered with {status}")
        self.token = {"X-Auth-Token": headers["X-Auth-Token"]}
        self.base = urllib.parse.urlsplit(headers["X-Storage-Url"]).path
        self.request("PUT", f"/{bucket}")

    def exchange(self, method, target, headers, body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=bench.DEADLINE)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def request(self, method, path, body=None, missing=None, **headers):
        status, _, content = self.exchange(method, self.base + path, {**self.token, **headers}, body)
        if status == 404 and missing is not None:
            return missing
        if status // 100 != 2:
            raise AssertionError(f"{method} {path} was answered with {status}: {content[:200]}")
        return content

    def path(self, key):
        return f"/{self.bucket}/{urllib.parse.quote(key)}"

    def names(self, container, prefix):
        found = []
        while True:
            query = urllib.parse.urlencode({"format": "json", "prefix": prefix, "marker": found[-1] if found else ""})
            page = json.loads(self.request("GET", f"/{container}?{query}", missing=b"[]"))
            if not page:
                return found
            found += [entry["name"] for entry in page]

    def objects(self, prefix):
        names = self.names(self.bucket, prefix + "/")
        return {name[len(prefix) + 1:]: self.request("GET", self.path(name)) for name in names}

    def put(self, prefix, key, body):
        self.request("PUT", self.path(f"{prefix}/{key}"), body)

    def uploads(self, prefix):
        """Uploads that have segments, as in a bucket of S3's: one without any may be another program's."""
        container = f"{self.bucket}_segments"
        found = self.names(container, f".pailfs/uploads/{prefix}/")
        return [name for name in found if self.names(container, f".pailfs/{name.rpartition('/')[2]}/")]

    def segments(self, _prefix):
        """Of every object: their names do not tell which one they are of."""
        names = self.names(f"{self.bucket}_segments", ".pailfs/")
        return [name for name in names if not name.startswith(".pailfs/uploads/")]


class Mount(bench.Mount):
    """A mount of such a bucket or container."""

    def __init__(self, store, prefix, work, *options):
        self.scheme = store.scheme
        self.own_options = ("region=us-east-1", "path-style") if store.scheme == "s3" else ()
        super().__init__(store, prefix, work, *options)
        self.variables = {"PAILFS_ACCESS_KEY_ID": store.key, "PAILFS_SECRET_ACCESS_KEY": store.secret}
        # No configuration of the machine's own users is to be found.
        self.environment["HOME"] = str(work)
        self.more = options

    def again(self, *options):
        """Another mount of the same, whose cache is empty."""
        return type(self)(self.store, self.prefix, self.path.parent / "again", *self.more, *options)

    def worker(self):
        """The process that serves the mount, where another one holds it."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None


class RestartingMount(Mount):
    restart = "yes"


class Bench(bench.Bench):
    """Runs cases on one store after the other."""

    mount_type = Mount

    def make_store(self):
        """Each case says which."""
        return None

    def end(self):
        shutil.rmtree(self.work, ignore_errors=True)
        print(f"{self.passed} passed, {len(self.failed)} failed", flush=True)
        return 1 if self.failed or not self.passed else 0

    def restarting_case(self, name, body, *options):
        self.mount_type = RestartingMount
        try:
            self.case(name, body, *options)
        finally:
            self.mount_type = Mount
