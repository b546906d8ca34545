#!/usr/bin/env python3
"""Holds pailstore to its promise that all dialects see the same objects: what one official SDK stores, the others read
with the same bytes, headers, metadata, storage class, tags and access.

PAILSTORE names the built binary. Prints one line for each failure and "N passed, M failed" at the end;
exit status 0 only when nothing failed.
"""
import base64
import email.utils
import hashlib
import hmac
import http.client
import io
import json
import logging
import os
import shutil
import sys
import tempfile
import time
import urllib.parse

# qiniu's SDK keeps what it learns of regions in the directory for temporary files: one of our own, set before it is loaded.
SCRATCH = tempfile.mkdtemp(prefix="cross-conformance-")
tempfile.tempdir = SCRATCH

import boto3
import oss2
import oss2.exceptions
import oss2.models
import qiniu
from botocore.config import Config
from botocore.exceptions import ClientError
from qcloud_cos import CosConfig, CosS3Client
from qcloud_cos.cos_exception import CosServiceError
from qiniu.http.endpoint import Endpoint
from qiniu.http.region import Region, ServiceName

import conformance
from conformance import ACCESS_KEY, MIB, SECRET_KEY, equal, test

BUCKET = "cross-1250000000"
# Keys that every provider takes.
KEYS = ["plain", "dir/file", "dir/", "dir//double", "a b+c%d&e=f?g#h", "~!*'()", "ünïcode/中文", "percent%2Fslash",
        "quote\"<>&'", "co:lon:s", "back\\slash", "x" * 750, "emoji \U0001F642"]
HEADERS = {"content-type": "text/x-cross", "cache-control": "max-age=7", "content-disposition": "inline",
           "content-encoding": "x-own", "content-language": "de", "expires": "Tue, 14 Nov 2023 22:13:20 GMT"}
METADATA = {"mode": "0644", "owner": "me and you"}
TAGS = {"a": "1", "two words": "b+c"}


class Store(conformance.Store):
    dialect = "s3"


class Missing(Exception):
    """The key is not there."""


class S3:
    name = "s3"
    classes = {"standard": "STANDARD", "infrequent": "STANDARD_IA", "archive": "GLACIER", "deep": "DEEP_ARCHIVE",
               "intelligent": "INTELLIGENT_TIERING", "instant": "GLACIER_IR"}
    shows = {}
    names = {"content-type": "ContentType", "cache-control": "CacheControl", "content-language": "ContentLanguage",
             "content-disposition": "ContentDisposition", "content-encoding": "ContentEncoding", "expires": "Expires"}
    has_tags = has_access = True

    def __init__(self, store):
        self.client = boto3.client(
            "s3", endpoint_url=store.ready["s3"], aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1", config=Config(retries={"total_max_attempts": 1}))

    def put(self, key, data, headers={}, metadata={}, storage="standard", tags={}):
        self.client.put_object(Bucket=BUCKET, Key=key, Body=data, **self.arguments(headers, metadata, storage, tags))

    def arguments(self, headers, metadata, storage, tags):
        return {"Metadata": metadata, "StorageClass": self.classes[storage], "Tagging": urllib.parse.urlencode(tags),
                **{self.names[name]: value for name, value in headers.items()}}

    def put_parts(self, key, pieces, headers={}, metadata={}, storage="standard", tags={}):
        upload = self.begin(key, headers, metadata, storage, tags)
        parts = [{"PartNumber": number, "ETag": self.part(key, upload, number, piece)}
                 for number, piece in enumerate(pieces, 1)]
        self.client.complete_multipart_upload(
            Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})

    def begin(self, key, headers={}, metadata={}, storage="standard", tags={}):
        arguments = self.arguments(headers, metadata, storage, tags)
        return self.client.create_multipart_upload(Bucket=BUCKET, Key=key, **arguments)["UploadId"]

    def part(self, key, upload, number, piece):
        return self.client.upload_part(
            Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=number, Body=piece)["ETag"]

    def uploads(self):
        listed = self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        return [(upload["Key"], upload["UploadId"]) for upload in listed]

    def abort(self, key, upload):
        self.client.abort_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload)

    def get(self, key, range=None):
        arguments = {"Range": f"bytes={range[0]}-{range[1]}"} if range else {}
        return self.client.get_object(Bucket=BUCKET, Key=key, **arguments)["Body"].read()

    def describe(self, key):
        try:
            head = self.client.head_object(Bucket=BUCKET, Key=key)
        except ClientError as error:
            raise Missing(key) if error.response["Error"]["Code"] == "404" else error
        fields = {name: value for name, value in head["ResponseMetadata"]["HTTPHeaders"].items() if name in HEADERS}
        return {"size": head["ContentLength"], "headers": fields, "metadata": head["Metadata"],
                "storage": head.get("StorageClass", "STANDARD")}

    def tag(self, key):
        return self.client.head_object(Bucket=BUCKET, Key=key)["ETag"]

    def list(self):
        listed = self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [(item["Key"], item["Size"]) for item in listed]

    def groups(self):
        page = self.client.list_objects_v2(Bucket=BUCKET, Delimiter="/")
        return ([item["Key"] for item in page.get("Contents", [])],
                [item["Prefix"] for item in page.get("CommonPrefixes", [])])

    def delete(self, key):
        self.client.delete_object(Bucket=BUCKET, Key=key)

    def copy(self, key, to):
        self.client.copy_object(Bucket=BUCKET, Key=to, CopySource={"Bucket": BUCKET, "Key": key})

    def tags(self, key):
        listed = self.client.get_object_tagging(Bucket=BUCKET, Key=key)["TagSet"]
        return {tag["Key"]: tag["Value"] for tag in listed}

    def set_tags(self, key, tags):
        listed = [{"Key": name, "Value": value} for name, value in tags.items()]
        self.client.put_object_tagging(Bucket=BUCKET, Key=key, Tagging={"TagSet": listed})

    def is_public(self, key):
        grants = self.client.get_object_acl(Bucket=BUCKET, Key=key)["Grants"]
        return any(g["Grantee"].get("URI", "").endswith("AllUsers") and g["Permission"] == "READ" for g in grants)

    def set_public(self, key, is_public):
        self.client.put_object_acl(Bucket=BUCKET, Key=key, ACL="public-read" if is_public else "private")

    def restore(self, key):
        self.client.restore_object(
            Bucket=BUCKET, Key=key, RestoreRequest={"Days": 2, "GlacierJobParameters": {"Tier": "Standard"}})

    def is_restored(self, key):
        return "expiry-date" in self.client.head_object(Bucket=BUCKET, Key=key).get("Restore", "")

    def buckets(self):
        return [bucket["Name"] for bucket in self.client.list_buckets()["Buckets"]]


class COS:
    name = "cos"
    classes = {"standard": "STANDARD", "infrequent": "STANDARD_IA", "archive": "ARCHIVE", "deep": "DEEP_ARCHIVE",
               "intelligent": "INTELLIGENT_TIERING"}
    shows = {"instant": "STANDARD_IA"}
    has_tags = has_access = True

    def __init__(self, store):
        host = store.ready["cos"].removeprefix("http://")
        config = CosConfig(Region="ap-guangzhou", SecretId=ACCESS_KEY, SecretKey=SECRET_KEY, Scheme="http",
                           ServiceDomain=host)
        config.set_ip_port(host.rsplit(":", 1)[0], int(host.rsplit(":", 1)[1]))
        self.client = CosS3Client(config, retry=0)

    def put(self, key, data, headers={}, metadata={}, storage="standard", tags={}):
        self.client.put_object(BUCKET, data, key, **self.arguments(headers, metadata, storage, tags))

    def arguments(self, headers, metadata, storage, tags):
        fields = {**headers, **{"x-cos-meta-" + name: value for name, value in metadata.items()}}
        return {"Metadata": fields, "StorageClass": self.classes[storage],
                "Tagging": urllib.parse.urlencode(tags, quote_via=urllib.parse.quote)}

    def put_parts(self, key, pieces, headers={}, metadata={}, storage="standard", tags={}):
        upload = self.begin(key, headers, metadata, storage, tags)
        parts = [{"PartNumber": number, "ETag": self.part(key, upload, number, piece)}
                 for number, piece in enumerate(pieces, 1)]
        self.client.complete_multipart_upload(BUCKET, key, upload, {"Part": parts})

    def begin(self, key, headers={}, metadata={}, storage="standard", tags={}):
        arguments = self.arguments(headers, metadata, storage, tags)
        return self.client.create_multipart_upload(BUCKET, key, **arguments)["UploadId"]

    def part(self, key, upload, number, piece):
        return self.client.upload_part(BUCKET, key, piece, number, upload)["ETag"]

    def uploads(self):
        listed = self.client.list_multipart_uploads(BUCKET).get("Upload", [])
        return [(upload["Key"], upload["UploadId"]) for upload in listed]

    def abort(self, key, upload):
        self.client.abort_multipart_upload(BUCKET, key, upload)

    def append(self, key, position, data):
        return int(self.client.append_object(BUCKET, key, position, data)["x-cos-next-append-position"])

    def link(self, key, target):
        self.client.put_symlink(BUCKET, key, urllib.parse.quote(target))

    def link_target(self, key):
        return urllib.parse.unquote(self.client.get_symlink(BUCKET, key)["x-cos-symlink-target"])

    def crc(self, key):
        return self.client.head_object(BUCKET, key)["x-cos-hash-crc64ecma"]

    def get(self, key, range=None):
        arguments = {"Range": f"bytes={range[0]}-{range[1]}"} if range else {}
        return self.client.get_object(BUCKET, key, **arguments)["Body"].get_raw_stream().read()

    def describe(self, key):
        try:
            head = self.client.head_object(BUCKET, key)
        except CosServiceError as error:
            raise Missing(key) if error.get_status_code() == 404 else error
        lower = {name.lower(): value for name, value in head.items()}
        return {"size": int(head["Content-Length"]),
                "headers": {name: value for name, value in lower.items() if name in HEADERS},
                "metadata": {name.removeprefix("x-cos-meta-"): value for name, value in lower.items()
                             if name.startswith("x-cos-meta-")},
                "storage": head.get("x-cos-storage-class", "STANDARD")}

    def tag(self, key):
        return self.client.head_object(BUCKET, key)["ETag"]

    def list(self):
        return [(item["Key"], int(item["Size"])) for item in self.client.list_objects(BUCKET).get("Contents", [])]

    def groups(self):
        page = self.client.list_objects(BUCKET, Delimiter="/")
        return ([item["Key"] for item in page.get("Contents", [])],
                [item["Prefix"] for item in page.get("CommonPrefixes", [])])

    def delete(self, key):
        self.client.delete_object(BUCKET, key)

    def copy(self, key, to):
        self.client.copy_object(BUCKET, to, {"Bucket": BUCKET, "Key": key, "Region": "ap-guangzhou"})

    def tags(self, key):
        try:
            listed = self.client.get_object_tagging(BUCKET, key)["TagSet"]["Tag"]
        except CosServiceError as error:
            equal(error.get_error_code(), "NoSuchTagSet", "error")
            return {}
        return {tag["Key"]: tag["Value"] for tag in listed}

    def set_tags(self, key, tags):
        listed = [{"Key": name, "Value": value} for name, value in tags.items()]
        self.client.put_object_tagging(BUCKET, key, {"TagSet": {"Tag": listed}})

    def is_public(self, key):
        return self.client.get_object_acl(BUCKET, key)["CannedACL"] == "public-read"

    def set_public(self, key, is_public):
        self.client.put_object_acl(BUCKET, key, ACL="public-read" if is_public else "private")

    def restore(self, key):
        self.client.restore_object(BUCKET, key, {"Days": 2, "CASJobParameters": {"Tier": "Standard"}})

    def is_restored(self, key):
        return "expiry-date" in self.client.head_object(BUCKET, key).get("x-cos-restore", "")

    def buckets(self):
        return [bucket["Name"] for bucket in self.client.list_buckets()["Buckets"]["Bucket"]]


class OSS:
    name = "oss"
    classes = {"standard": "Standard", "infrequent": "IA", "archive": "Archive", "deep": "ColdArchive"}
    shows = {"intelligent": "Standard", "instant": "IA"}
    has_tags = has_access = True

    def __init__(self, store):
        self.client = oss2.Bucket(oss2.AuthV4(ACCESS_KEY, SECRET_KEY), store.ready["oss"], BUCKET, region="us-east-1")
        self.service = oss2.Service(oss2.AuthV4(ACCESS_KEY, SECRET_KEY), store.ready["oss"], region="us-east-1")

    def fields(self, headers, metadata, storage, tags):
        fields = {**headers, **{"x-oss-meta-" + name: value for name, value in metadata.items()},
                  "x-oss-storage-class": self.classes[storage]}
        return fields | ({"x-oss-tagging": urllib.parse.urlencode(tags)} if tags else {})

    def put(self, key, data, headers={}, metadata={}, storage="standard", tags={}):
        self.client.put_object(key, data, headers=self.fields(headers, metadata, storage, tags))

    def put_parts(self, key, pieces, headers={}, metadata={}, storage="standard", tags={}):
        upload = self.begin(key, headers, metadata, storage, tags)
        parts = [oss2.models.PartInfo(number, self.part(key, upload, number, piece))
                 for number, piece in enumerate(pieces, 1)]
        self.client.complete_multipart_upload(key, upload, parts)

    def begin(self, key, headers={}, metadata={}, storage="standard", tags={}):
        fields = self.fields(headers, metadata, storage, tags)
        return self.client.init_multipart_upload(key, headers=fields).upload_id

    def part(self, key, upload, number, piece):
        return self.client.upload_part(key, upload, number, piece).etag

    def uploads(self):
        return [(upload.key, upload.upload_id) for upload in oss2.MultipartUploadIterator(self.client)]

    def abort(self, key, upload):
        self.client.abort_multipart_upload(key, upload)

    def append(self, key, position, data):
        return self.client.append_object(key, position, data).next_position

    def link(self, key, target):
        self.client.put_symlink(target, key)

    def link_target(self, key):
        return self.client.get_symlink(key).target_key

    def get(self, key, range=None):
        return self.client.get_object(key, byte_range=range).read()

    def describe(self, key):
        try:
            head = self.client.head_object(key).headers
        except oss2.exceptions.NotFound:
            raise Missing(key)
        lower = {name.lower(): value for name, value in head.items()}
        return {"size": int(lower["content-length"]),
                "headers": {name: value for name, value in lower.items() if name in HEADERS},
                "metadata": {name.removeprefix("x-oss-meta-"): value for name, value in lower.items()
                             if name.startswith("x-oss-meta-")},
                "storage": lower["x-oss-storage-class"]}

    def tag(self, key):
        return self.client.head_object(key).headers["ETag"]

    def crc(self, key):
        return self.client.head_object(key).headers["x-oss-hash-crc64ecma"]

    def list(self):
        return [(item.key, item.size) for item in oss2.ObjectIteratorV2(self.client)]

    def groups(self):
        page = self.client.list_objects_v2(delimiter="/")
        return [item.key for item in page.object_list], page.prefix_list

    def delete(self, key):
        self.client.delete_object(key)

    def copy(self, key, to):
        self.client.copy_object(BUCKET, key, to)

    def tags(self, key):
        return self.client.get_object_tagging(key).tag_set.tagging_rule

    def set_tags(self, key, tags):
        rule = oss2.models.TaggingRule()
        for name, value in tags.items():
            rule.add(name, value)
        self.client.put_object_tagging(key, oss2.models.Tagging(rule))

    def is_public(self, key):
        return self.client.get_object_acl(key).acl == "public-read"

    def set_public(self, key, is_public):
        self.client.put_object_acl(key, "public-read" if is_public else "private")

    def restore(self, key):
        self.client.restore_object(key)

    def is_restored(self, key):
        return "expiry-date" in self.client.head_object(key).headers.get("x-oss-restore", "")

    def buckets(self):
        return [bucket.name for bucket in oss2.BucketIterator(self.service)]


class Kodo:
    name = "kodo"
    classes = {"standard": 0, "infrequent": 1, "archive": 2, "deep": 3, "instant": 4, "intelligent": 5}
    # The SDK sends no other.
    sets = {"content-type"}
    shows = {}
    has_tags = has_access = False

    def __init__(self, store):
        self.port = int(store.ready["kodo"].rsplit(":", 1)[1])
        self.auth = qiniu.Auth(ACCESS_KEY, SECRET_KEY)
        endpoint = [Endpoint.from_host(store.ready["kodo"])]
        self.regions = [Region(region_id="z0", services={name: endpoint for name in (
            ServiceName.UC, ServiceName.UP, ServiceName.IO, ServiceName.RS, ServiceName.RSF, ServiceName.API)})]
        self.manager = qiniu.BucketManager(self.auth, regions=self.regions)

    def done(self, result, info):
        if info.status_code == 612:
            raise Missing(info.url)
        if not info.ok():
            raise AssertionError(f"status {info.status_code}: {info.error}")
        return result

    def token(self, key, storage):
        return self.auth.upload_token(BUCKET, key, 3600, {"fileType": self.classes[storage]}, strict_policy=False)

    def arguments(self, headers, metadata):
        return {"mime_type": headers.get("content-type", "application/octet-stream"), "regions": self.regions,
                "metadata": {"x-qn-meta-" + name: value for name, value in metadata.items()}}

    def put(self, key, data, headers={}, metadata={}, storage="standard", tags={}):
        if data:
            self.done(*qiniu.put_data(self.token(key, storage), key, data, **self.arguments(headers, metadata)))
            return
        with tempfile.NamedTemporaryFile() as empty:  # the SDK takes empty data for none
            self.done(*qiniu.put_file(self.token(key, storage), key, empty.name, **self.arguments(headers, metadata)))

    def put_parts(self, key, pieces, headers={}, metadata={}, storage="standard", tags={}):
        data = b"".join(pieces)
        self.done(*qiniu.put_stream_v2(
            self.token(key, storage), key, io.BytesIO(data), "name", len(data), version="v2", part_size=len(pieces[0]),
            bucket_name=BUCKET, **self.arguments(headers, metadata)))

    def download(self, key, headers={}):
        path = urllib.parse.quote(key.encode(), safe="/-_.~")
        url = self.auth.private_download_url(f"http://{BUCKET}.localhost:{self.port}/{path}")
        host, target = url.removeprefix("http://").split("/", 1)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest("GET", "/" + target, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": host, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer, data

    def get(self, key, range=None):
        answer, data = self.download(key, {"Range": f"bytes={range[0]}-{range[1]}"} if range else {})
        equal(answer.status, 206 if range else 200, f"status of {data[:200]!r}")
        return data

    def describe(self, key):
        stat = self.done(*self.manager.stat(BUCKET, key))
        fields = {"content-type": stat["mimeType"]}
        # Headers are told there too, as `!cache-control` and so on.
        metadata = {name: value for name, value in stat.get("x-qn-meta", {}).items() if name[0] != "!"}
        # An archive is not read, and tells its type alone.
        if stat["type"] not in (2, 3):
            answer, _ = self.download(key, {"Range": "bytes=0-0"})
            fields = {name.lower(): value for name, value in answer.getheaders() if name.lower() in HEADERS}
            equal(fields["content-type"], stat["mimeType"], "type of the download and of stat")
        return {"size": stat["fsize"], "headers": fields, "storage": stat["type"], "metadata": metadata}

    def list(self):
        page = self.done(*self.manager.list(BUCKET)[::2])
        return [(item["key"], item["fsize"]) for item in page["items"]]

    def groups(self):
        page = self.done(*self.manager.list(BUCKET, delimiter="/")[::2])
        return [item["key"] for item in page["items"]], page.get("commonPrefixes", [])

    def delete(self, key):
        self.done(*self.manager.delete(BUCKET, key))

    def copy(self, key, to):
        self.done(*self.manager.copy(BUCKET, key, BUCKET, to, force="true"))

    def restore(self, key):
        self.done(*self.manager.restore_ar(BUCKET, key, 2))

    def is_restored(self, key):
        return self.done(*self.manager.stat(BUCKET, key)).get("restoreStatus") == 2

    def buckets(self):
        return self.done(*self.manager.buckets())


class CSSP:
    """Without an SDK in Python: requests signed by the rule of the OSS API reference."""
    name = "cssp"
    classes, shows = {"standard": None}, {}
    has_tags = has_access = False

    def __init__(self, store):
        self.host = store.ready["cssp"].removeprefix("http://")

    def call(self, method, path, body=b"", query="", headers={}):
        headers = {**headers, "Date": email.utils.formatdate(usegmt=True)}
        lower = {name.lower(): value for name, value in headers.items()}
        lines = [method, "", lower.get("content-type", ""), headers["Date"]]
        lines += [f"{name}:{lower[name]}" for name in sorted(lower) if name.startswith("x-object-meta-")]
        text = "\n".join(lines + [path]).encode()
        code = base64.b64encode(hmac.new(SECRET_KEY.encode(), text, hashlib.sha1).digest()).decode()
        headers["Authorization"] = f"CSSP {ACCESS_KEY}:{code}"
        connection = http.client.HTTPConnection(self.host, timeout=20)
        connection.request(method, urllib.parse.quote(path, safe="/-_.~") + query, body or None, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if answer.status == 404:
            raise Missing(path)
        equal(answer.status in (200, 201, 204, 206), True, f"status {answer.status} of {method} {path}: {data[:200]!r}")
        return answer.headers, data

    def put(self, key, data, headers={}, metadata={}, storage="standard", tags={}):
        fields = {**headers, **{"X-Object-Meta-" + name: value for name, value in metadata.items()}}
        self.call("PUT", f"/{BUCKET}/{key}", data, headers={"Content-Length": str(len(data)), **fields})

    def get(self, key, range=None):
        headers = {"Range": f"bytes={range[0]}-{range[1]}"} if range else {}
        return self.call("GET", f"/{BUCKET}/{key}", headers=headers)[1]

    def describe(self, key):
        head = {name.lower(): value for name, value in self.call("HEAD", f"/{BUCKET}/{key}")[0].items()}
        return {"size": int(head["content-length"]), "storage": None,
                "headers": {name: value for name, value in head.items() if name in HEADERS},
                "metadata": {name.removeprefix("x-object-meta-"): value for name, value in head.items()
                             if name.startswith("x-object-meta-")}}

    def entries(self, query=""):
        return json.loads(self.call("GET", f"/{BUCKET}", query="?format=json" + query)[1])

    def list(self):
        return [(item["name"], item["bytes"]) for item in self.entries()]

    def groups(self):
        items = self.entries("&delimiter=%2F")
        return ([item["name"] for item in items if "name" in item], [item["subdir"] for item in items if "subdir" in item])

    def delete(self, key):
        self.call("DELETE", f"/{BUCKET}/{key}")

    def copy(self, key, to):
        source = urllib.parse.quote(f"{BUCKET}/{key}")
        self.call("PUT", f"/{BUCKET}/{to}", headers={"X-Copy-From": source, "Content-Length": "0"})

    def buckets(self):
        return [item["name"] for item in json.loads(self.call("GET", "/", query="?format=json")[1])]


def pairs(views, needs=lambda view: True):
    """Every view that writes with every one that reads."""
    return [(writer, reader) for writer in views for reader in views if needs(writer) and needs(reader)]


def kept(writer):
    """The headers of what the view stored."""
    return {name: value for name, value in HEADERS.items() if name in getattr(writer, "sets", HEADERS)}


def has_parts(view):
    return hasattr(view, "put_parts")


def shown(reader, storage):
    return reader.shows.get(storage) or reader.classes.get(storage)


# ---------------------------------------------------------------- objects

@test
def bytes_are_the_same_under_every_key(store, views):
    for writer in views:
        for key in KEYS:
            writer.put(key, f"{writer.name} {key}".encode())
        for reader in views:
            wanted = sorted(((key, len(f"{writer.name} {key}".encode())) for key in KEYS),
                            key=lambda item: item[0].encode())
            equal(reader.list(), wanted, f"{writer.name} listed by {reader.name}")
            for key in KEYS:
                equal(reader.get(key), f"{writer.name} {key}".encode(), f"{writer.name} read by {reader.name}")
            equal(reader.get("plain", (1, 3)), f"{writer.name} plain".encode()[1:4], f"a range by {reader.name}")


@test
def headers_and_metadata_are_the_same(store, views):
    for writer, reader in pairs(views):
        writer.put("described", b"12345", HEADERS, METADATA)
        wanted = {"size": 5, "headers": kept(writer), "metadata": METADATA, "storage": reader.classes["standard"]}
        equal(reader.describe("described"), wanted, f"{writer.name} described by {reader.name}")


@test
def storage_classes_are_the_same(store, views):
    for writer, reader in pairs(views):
        for storage in writer.classes:
            writer.put(storage, b"x", storage=storage)
            wanted = shown(reader, storage)
            equal(reader.describe(storage)["storage"], wanted, f"{storage} of {writer.name} shown by {reader.name}")


@test
def objects_in_parts_are_the_same(store, views):
    pieces = [os.urandom(5 * MIB), os.urandom(5 * MIB), os.urandom(12345)]
    for writer in filter(has_parts, views):
        writer.put_parts("big", pieces, HEADERS, METADATA, storage="infrequent")
        for reader in views:
            equal(reader.get("big") == b"".join(pieces), True, f"{writer.name} read by {reader.name}")
            wanted = {"size": 10 * MIB + 12345, "headers": kept(writer), "metadata": METADATA,
                      "storage": shown(reader, "infrequent")}
            equal(reader.describe("big"), wanted, f"{writer.name} described by {reader.name}")
        tagged = {reader.tag("big").strip('"').lower() for reader in views if hasattr(reader, "tag")}
        equal(len(tagged), 1, f"entity tags of what {writer.name} stored")


@test
def overwritten_and_deleted_is_so_for_all(store, views):
    for first, second in pairs(views):
        first.put("k", b"first", HEADERS, METADATA, "infrequent" if "infrequent" in first.classes else "standard")
        second.put("k", b"second")
        for reader in views:
            equal(reader.get("k"), b"second", f"{second.name} over {first.name} read by {reader.name}")
            described = reader.describe("k")
            equal((described["metadata"], described["storage"]), ({}, reader.classes["standard"]), "nothing of the first")
        second.delete("k")
        for reader in views:
            try:
                reader.describe("k")
                raise AssertionError(f"{reader.name} sees what {second.name} deleted")
            except Missing:
                pass
            equal(reader.list(), [], reader.name)


@test
def copies_by_one_keep_what_another_stored(store, views):
    for writer, copier in pairs(views):
        writer.put("from", b"copied", HEADERS, METADATA)
        copier.copy("from", "to")
        for reader in views:
            equal(reader.get("to"), b"copied", f"{writer.name} copied by {copier.name} read by {reader.name}")
            described = reader.describe("to")
            equal((described["headers"], described["metadata"]), (kept(writer), METADATA), "described")
        if has_parts(copier):
            copier.put_parts("parts", [b"p" * 5 * MIB, b"q"])
            writer.copy("parts", "to")
            equal(copier.get("to"), b"p" * 5 * MIB + b"q", f"parts of {copier.name} copied by {writer.name}")


@test
def listings_group_alike(store, views):
    for key in ("a/1", "a/2", "b", "c/d/e", "z"):
        views[0].put(key, b"x")
    for reader in views:
        equal(reader.groups(), (["b", "z"], ["a/", "c/"]), reader.name)


# ---------------------------------------------------------------- properties

@test
def tags_are_the_same(store, views):
    for writer, reader in pairs(views, lambda view: view.has_tags):
        writer.put("t", b"x", tags=TAGS)
        equal(reader.tags("t"), TAGS, f"{writer.name} read by {reader.name}")
        writer.set_tags("t", {"other": "ü"})
        equal(reader.tags("t"), {"other": "ü"}, f"{writer.name} set, read by {reader.name}")
        equal(reader.get("t"), b"x", "bytes")


@test
def access_is_the_same(store, views):
    for writer, reader in pairs(views, lambda view: view.has_access):
        writer.put("a", b"x")
        equal(reader.is_public("a"), False, "at first")
        for wanted in (True, False):
            writer.set_public("a", wanted)
            equal(reader.is_public("a"), wanted, f"{writer.name} set, read by {reader.name}")


@test
def what_one_restores_is_readable_for_all(store, views):
    views = [view for view in views if "archive" in view.classes]
    for writer, asker in pairs(views):
        writer.put("cold", b"cold", storage="archive")
        for reader in views:
            try:
                reader.get("cold")
                raise AssertionError(f"{reader.name} reads what is archived")
            except (ClientError, CosServiceError, oss2.exceptions.ServerError, AssertionError) as error:
                equal("reads what" in str(error), False, str(error))
        asker.restore("cold")
        deadline = time.monotonic() + 20
        while not asker.is_restored("cold"):
            if time.monotonic() > deadline:
                raise AssertionError("never restored")
        for reader in views:
            equal((reader.is_restored("cold"), reader.get("cold")), (True, b"cold"), f"restored by {asker.name}")
        writer.delete("cold")


@test
def what_one_appends_to_another_goes_on_with(store, views):
    pairs_that_append = pairs(views, lambda view: hasattr(view, "append"))
    equal(len(pairs_that_append) >= 4, True, "several dialects append")
    for first, second in pairs_that_append:
        equal(first.append("log", 0, b"one"), 3, first.name)
        equal(second.append("log", 3, b"two"), 6, second.name)
        equal((first.crc("log"), first.append("log", 6, b"")), (second.crc("log"), 6), "CRC-64")
        for reader in views:
            equal(reader.get("log"), b"onetwo", f"appended by {first.name} and {second.name}, read by {reader.name}")
        second.delete("log")


@test
def links_are_the_same(store, views):
    for writer, reader in pairs(views, lambda view: hasattr(view, "link")):
        writer.put("dir/tärget", b"target")
        writer.link("link", "dir/tärget")
        equal((reader.link_target("link"), reader.get("link")), ("dir/tärget", b"target"), f"{writer.name}, {reader.name}")
        reader.delete("link")


@test
def unfinished_uploads_are_the_same(store, views):
    for writer, reader in pairs(views, lambda view: hasattr(view, "uploads")):
        upload = writer.begin("unfinished", storage="infrequent")
        writer.part("unfinished", upload, 1, b"x")
        equal(reader.uploads(), [("unfinished", upload)], f"begun by {writer.name}, listed by {reader.name}")
        reader.abort("unfinished", upload)
        equal(writer.uploads(), [], f"aborted by {reader.name}")


@test
def buckets_are_the_same(store, views):
    for view in views:
        equal(view.buckets(), [BUCKET], view.name)


def clear(views):
    for key, _ in views[0].list():
        views[0].delete(key)
    for key, upload in views[0].uploads():
        views[0].abort(key, upload)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    try:
        status = conformance.main(
            Store, {"every SDK": lambda store: [view(store) for view in (S3, OSS, COS, Kodo, CSSP)]}, clear, BUCKET,
            ["--restore-delay", "10ms"])
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    sys.exit(status)
