#!/usr/bin/env python3
"""Holds pailstore's S3 dialect to what boto3 expects: every operation it can send, and refusals.

PAILSTORE names the built binary. Prints one line for each failure and "N passed, M failed" at the end;
exit status 0 only when nothing failed.
"""
import base64
import hashlib
import http.client
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, HTTPClientError

import conformance
from conformance import ACCESS_KEY, BUCKET, MIB, SECRET_KEY, equal, test

ODD_KEYS = conformance.ODD_KEYS + ["x" * 1024, "/leading", "back\\slash"]


class Store(conformance.Store):
    dialect = "s3"

    def client(self, secret=SECRET_KEY, access=ACCESS_KEY, region="us-east-1", attempts=1, endpoint=None, token=None,
               **config):
        return boto3.client(
            "s3", endpoint_url=endpoint or self.endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
            aws_session_token=token, region_name=region,
            config=Config(retries={"total_max_attempts": attempts}, read_timeout=20, **config))


def refused(code, call, status=None):
    try:
        call()
    except ClientError as error:
        equal(error.response["Error"]["Code"], code, "error code")
        if status:
            equal(error.response["ResponseMetadata"]["HTTPStatusCode"], status, "status")
        return error.response
    raise AssertionError(f"no {code}")


def clear(s3, bucket=BUCKET):
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for item in page.get("Contents", []):
            s3.delete_object(Bucket=bucket, Key=item["Key"])
    for upload in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def crc32(data):
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def body(s3, key, **arguments):
    return s3.get_object(Bucket=BUCKET, Key=key, **arguments)["Body"].read()


# ---------------------------------------------------------------- objects

@test
def odd_keys_round_trip_and_list_in_byte_order(store, s3):
    for key in ODD_KEYS:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    for key in ODD_KEYS:
        equal(body(s3, key), key.encode(), repr(key))
        equal(s3.head_object(Bucket=BUCKET, Key=key)["ContentLength"], len(key.encode()), repr(key))
    listed = [o["Key"] for o in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    equal(listed, sorted(ODD_KEYS, key=lambda key: key.encode()), "order")
    for key in ODD_KEYS:
        s3.delete_object(Bucket=BUCKET, Key=key)
    equal(s3.list_objects_v2(Bucket=BUCKET)["KeyCount"], 0, "after deleting")


@test
def put_stores_headers_metadata_class_and_tags(store, s3):
    answer = s3.put_object(
        Bucket=BUCKET, Key="full", Body=b"hello s3", ContentType="text/plain", CacheControl="no-cache",
        ContentDisposition="attachment", ContentEncoding="gzip", ContentLanguage="de",
        Expires="Tue, 14 Nov 2023 22:13:20 GMT", Metadata={"Mode": "0644", "owner": "me"},
        StorageClass="STANDARD_IA", Tagging="a=1&b=two%20words", ACL="public-read", WebsiteRedirectLocation="/other")
    equal(answer["ETag"], '"' + hashlib.md5(b"hello s3").hexdigest() + '"', "ETag")
    equal(answer["ServerSideEncryption"], "AES256", "encryption")
    head = s3.head_object(Bucket=BUCKET, Key="full")
    equal(head["Metadata"], {"mode": "0644", "owner": "me"}, "metadata")
    for name, value in {"ContentType": "text/plain", "CacheControl": "no-cache", "ContentDisposition": "attachment",
                        "ContentEncoding": "gzip", "ContentLanguage": "de", "StorageClass": "STANDARD_IA",
                        "WebsiteRedirectLocation": "/other", "ContentLength": 8}.items():
        equal(head[name], value, name)
    equal(head["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"], "2", "tag count")
    tags = s3.get_object_tagging(Bucket=BUCKET, Key="full")["TagSet"]
    equal(tags, [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "two words"}], "tags")
    s3.put_object(Bucket=BUCKET, Key="bare", Body=b"")
    bare = s3.head_object(Bucket=BUCKET, Key="bare")
    equal(bare["ContentType"], "binary/octet-stream", "default type")
    equal("StorageClass" in bare, False, "STANDARD is not told")
    equal(body(s3, "bare"), b"", "empty body")


@test
def every_body_kind_is_accepted(store, s3):
    data = os.urandom(300_000)
    s3.put_object(Bucket=BUCKET, Key="k", Body=io.BytesIO(data))
    equal(body(s3, "k"), data, "stream")
    lean = store.client(request_checksum_calculation="when_required", response_checksum_validation="when_required")
    lean.put_object(Bucket=BUCKET, Key="k", Body=data[:100])
    equal(body(lean, "k"), data[:100], "lean")
    unsigned = store.client(s3={"payload_signing_enabled": False})
    unsigned.put_object(Bucket=BUCKET, Key="k", Body=data[:200])
    equal(body(unsigned, "k"), data[:200], "unsigned payload")


@test
def checksums_are_verified_and_returned(store, s3):
    data = b"123456789"
    known = {"CRC32": "y/Q5Jg==", "SHA1": "98O8HYCOBHMq32eZZczDTKeuNEE=",
             "SHA256": "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="}
    for algorithm, value in known.items():
        answer = s3.put_object(Bucket=BUCKET, Key="sum", Body=data, ChecksumAlgorithm=algorithm)
        equal(answer["Checksum" + algorithm], value, algorithm)
        got = s3.get_object(Bucket=BUCKET, Key="sum", ChecksumMode="ENABLED")
        equal(got["Checksum" + algorithm], value, algorithm)
        equal(got["ChecksumType"], "FULL_OBJECT", "type")
        equal(got["Body"].read(), data, "body")
    for name, value in {"ChecksumCRC32C": "4waSgw==", "ChecksumCRC64NVME": "rosUhgp5mIg="}.items():
        equal(s3.put_object(Bucket=BUCKET, Key="sum", Body=data, **{name: value})[name], value, name)
    refused("BadDigest", lambda: s3.put_object(Bucket=BUCKET, Key="bad", Body=data, ChecksumCRC32="AAAAAA=="), 400)
    refused("InvalidRequest", lambda: s3.put_object(Bucket=BUCKET, Key="bad", Body=data, ChecksumCRC32="nonsense"), 400)
    md5 = base64.b64encode(hashlib.md5(data).digest()).decode()
    s3.put_object(Bucket=BUCKET, Key="sum", Body=data, ContentMD5=md5)
    wrong = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    refused("BadDigest", lambda: s3.put_object(Bucket=BUCKET, Key="bad", Body=data, ContentMD5=wrong), 400)
    refused("InvalidDigest", lambda: s3.put_object(Bucket=BUCKET, Key="bad", Body=data, ContentMD5="short"), 400)
    refused("404", lambda: s3.head_object(Bucket=BUCKET, Key="bad"))


@test
def conditional_writes(store, s3):
    first = s3.put_object(Bucket=BUCKET, Key="c", Body=b"1", IfNoneMatch="*")["ETag"]
    refused("PreconditionFailed", lambda: s3.put_object(Bucket=BUCKET, Key="c", Body=b"2", IfNoneMatch="*"), 412)
    refused("PreconditionFailed", lambda: s3.put_object(Bucket=BUCKET, Key="c", Body=b"2", IfMatch='"beef"'), 412)
    refused("NoSuchKey", lambda: s3.put_object(Bucket=BUCKET, Key="none", Body=b"2", IfMatch=first), 404)
    refused("NotImplemented", lambda: s3.put_object(Bucket=BUCKET, Key="c", Body=b"2", IfNoneMatch=first), 501)
    second = s3.put_object(Bucket=BUCKET, Key="c", Body=b"2", IfMatch=first)["ETag"]
    refused("PreconditionFailed", lambda: s3.delete_object(Bucket=BUCKET, Key="c", IfMatch=first), 412)
    s3.delete_object(Bucket=BUCKET, Key="c", IfMatch=second)
    s3.delete_object(Bucket=BUCKET, Key="c")


@test
def reads_with_ranges_and_conditions(store, s3):
    etag = s3.put_object(Bucket=BUCKET, Key="r", Body=b"0123456789")["ETag"]
    for requested, wanted, shown in [("bytes=2-4", b"234", "bytes 2-4/10"), ("bytes=7-", b"789", "bytes 7-9/10"),
                                     ("bytes=-3", b"789", "bytes 7-9/10"), ("bytes=8-99", b"89", "bytes 8-9/10")]:
        answer = s3.get_object(Bucket=BUCKET, Key="r", Range=requested)
        equal(answer["Body"].read(), wanted, requested)
        equal(answer["ContentRange"], shown, requested)
        equal(answer["ResponseMetadata"]["HTTPStatusCode"], 206, requested)
    equal(body(s3, "r", Range="bytes=1-2,4-5"), b"0123456789", "several ranges")
    answer = refused("InvalidRange", lambda: s3.get_object(Bucket=BUCKET, Key="r", Range="bytes=10-"), 416)
    equal(answer["Error"]["ActualObjectSize"], "10", "size in the refusal")
    s3.put_object(Bucket=BUCKET, Key="empty", Body=b"")
    refused("InvalidRange", lambda: s3.get_object(Bucket=BUCKET, Key="empty", Range="bytes=0-0"), 416)
    equal(s3.head_object(Bucket=BUCKET, Key="r", Range="bytes=2-4")["ContentLength"], 3, "HEAD with a range")
    equal(body(s3, "r", IfMatch=etag), b"0123456789", "If-Match")
    refused("PreconditionFailed", lambda: s3.get_object(Bucket=BUCKET, Key="r", IfMatch='"x"'), 412)
    refused("304", lambda: s3.get_object(Bucket=BUCKET, Key="r", IfNoneMatch=etag), 304)
    modified = s3.head_object(Bucket=BUCKET, Key="r")["LastModified"]
    refused("304", lambda: s3.get_object(Bucket=BUCKET, Key="r", IfModifiedSince=modified), 304)
    refused("PreconditionFailed", lambda: s3.get_object(Bucket=BUCKET, Key="r", IfUnmodifiedSince="2001-01-01"), 412)
    equal(body(s3, "r", IfMatch=etag, IfUnmodifiedSince="2001-01-01"), b"0123456789", "If-Match wins")
    refused("304", lambda: s3.head_object(Bucket=BUCKET, Key="r", IfNoneMatch=etag, IfModifiedSince="2001-01-01"), 304)


@test
def answers_can_be_overridden(store, s3):
    s3.put_object(Bucket=BUCKET, Key="o", Body=b"x", ContentType="text/plain")
    answer = s3.get_object(
        Bucket=BUCKET, Key="o", ResponseContentType="image/png", ResponseCacheControl="max-age=1",
        ResponseContentDisposition="inline", ResponseContentLanguage="en", ResponseContentEncoding="br")
    equal(answer["ContentType"], "image/png", "type")
    equal((answer["CacheControl"], answer["ContentDisposition"]), ("max-age=1", "inline"), "others")
    equal((answer["ContentLanguage"], answer["ContentEncoding"]), ("en", "br"), "others")


@test
def missing_things_are_told_apart(store, s3):
    refused("NoSuchKey", lambda: s3.get_object(Bucket=BUCKET, Key="missing"), 404)
    refused("404", lambda: s3.head_object(Bucket=BUCKET, Key="missing"), 404)
    refused("NoSuchBucket", lambda: s3.list_objects_v2(Bucket="no-such-bucket"), 404)
    refused("404", lambda: s3.head_bucket(Bucket="no-such-bucket"), 404)
    refused("NoSuchVersion", lambda: s3.get_object(Bucket=BUCKET, Key="missing", VersionId="abc"), 404)
    s3.put_object(Bucket=BUCKET, Key="v", Body=b"v")
    equal(body(s3, "v", VersionId="null"), b"v", "null version")
    s3.delete_object(Bucket=BUCKET, Key="v", VersionId="null")
    refused("404", lambda: s3.head_object(Bucket=BUCKET, Key="v"))


@test
def limits_are_enforced(store, s3):
    refused("KeyTooLongError", lambda: s3.put_object(Bucket=BUCKET, Key="k" * 1025, Body=b""), 400)
    refused("MetadataTooLarge", lambda: s3.put_object(
        Bucket=BUCKET, Key="m", Body=b"", Metadata={"a": "x" * 2048}), 400)
    s3.put_object(Bucket=BUCKET, Key="m", Body=b"", Metadata={"a": "x" * 2047})
    refused("InvalidStorageClass", lambda: s3.put_object(Bucket=BUCKET, Key="m", Body=b"", StorageClass="WARM"), 400)
    tags = "&".join(f"k{i}=v" for i in range(11))
    refused("BadRequest", lambda: s3.put_object(Bucket=BUCKET, Key="m", Body=b"", Tagging=tags), 400)


@test
def delete_many_reports_each_key(store, s3):
    keys = [f"d{i:04}" for i in range(1000)]
    for key in keys[:20]:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    answer = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys]})
    equal(len(answer["Deleted"]), 1000, "deleted")
    s3.put_object(Bucket=BUCKET, Key="a&b <c>", Body=b"")
    answer = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "a&b <c>"}], "Quiet": True})
    equal("Deleted" in answer, False, "quiet")
    etag = s3.put_object(Bucket=BUCKET, Key="e", Body=b"1")["ETag"]
    answer = s3.delete_objects(Bucket=BUCKET, Delete={
        "Objects": [{"Key": "e", "ETag": '"other"'}, {"Key": "gone"}], "Quiet": True})
    equal([e["Code"] for e in answer["Errors"]], ["PreconditionFailed"], "conditional delete")
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "e", "ETag": etag}]})
    refused("404", lambda: s3.head_object(Bucket=BUCKET, Key="e"))
    refused("MalformedXML", lambda: s3.delete_objects(
        Bucket=BUCKET, Delete={"Objects": [{"Key": f"{i}"} for i in range(1001)]}), 400)


# ---------------------------------------------------------------- listings

@test
def listings_page_and_group(store, s3):
    keys = [f"{a}/{b}/{c}" for a in "ab" for b in "xyz" for c in range(3)] + ["a", "a/", "top", "zz"]
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    ordered = sorted(keys)
    for size in (1, 2, 3, 7, 1000):
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, PaginationConfig={"PageSize": size})
        equal([o["Key"] for p in pages for o in p.get("Contents", [])], ordered, f"v2 pages of {size}")
        pages = s3.get_paginator("list_objects").paginate(Bucket=BUCKET, PaginationConfig={"PageSize": size})
        equal([o["Key"] for p in pages for o in p.get("Contents", [])], ordered, f"v1 pages of {size}")
        pages = s3.get_paginator("list_object_versions").paginate(Bucket=BUCKET, PaginationConfig={"PageSize": size})
        equal([o["Key"] for p in pages for o in p.get("Versions", [])], ordered, f"version pages of {size}")
        for name in ("list_objects_v2", "list_objects", "list_object_versions"):
            items = []
            for page in s3.get_paginator(name).paginate(
                    Bucket=BUCKET, Delimiter="/", Prefix="a/", PaginationConfig={"PageSize": size}):
                items += [o["Key"] for o in page.get("Contents", page.get("Versions", []))]
                items += [p["Prefix"] for p in page.get("CommonPrefixes", [])]
            equal(sorted(items), ["a/", "a/x/", "a/y/", "a/z/"], f"{name} grouped, pages of {size}")
    top = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    equal([p["Prefix"] for p in top["CommonPrefixes"]], ["a/", "b/"], "prefixes")
    equal([o["Key"] for o in top["Contents"]], ["a", "top", "zz"], "files")
    equal(top["KeyCount"], 5, "count")
    equal((top["IsTruncated"], top["MaxKeys"], top["Name"]), (False, 1000, BUCKET), "rest")
    after = s3.list_objects_v2(Bucket=BUCKET, StartAfter="b/z/1")
    equal([o["Key"] for o in after["Contents"]], ["b/z/2", "top", "zz"], "start-after")
    equal(s3.list_objects_v2(Bucket=BUCKET, MaxKeys=0).get("Contents"), None, "max-keys 0")
    owner = s3.list_objects_v2(Bucket=BUCKET, FetchOwner=True, MaxKeys=1)["Contents"][0]["Owner"]
    equal(owner["DisplayName"], "pailstore", "owner")
    multi = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/x/")
    equal([p["Prefix"] for p in multi["CommonPrefixes"]], ["a/x/", "b/x/"], "long delimiter")
    marker = s3.list_objects(Bucket=BUCKET, Delimiter="/", MaxKeys=2)
    equal((marker["IsTruncated"], marker["NextMarker"]), (True, "a/"), "marker may be a prefix")
    version = s3.list_object_versions(Bucket=BUCKET, Prefix="top")["Versions"][0]
    equal((version["VersionId"], version["IsLatest"]), ("null", True), "version")


@test
def odd_names_in_listings(store, s3):
    for key in ("a+b c/ü", "a+b c/\x01", "x%y"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    page = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/", Prefix="a+")
    equal(page["CommonPrefixes"], [{"Prefix": "a+b c/"}], "prefix")
    equal(page["Prefix"], "a+", "echo")
    page = s3.list_objects(Bucket=BUCKET, Marker="a+b c/\x01")
    equal([o["Key"] for o in page["Contents"]], ["a+b c/ü", "x%y"], "marker")


# ---------------------------------------------------------------- copies

@test
def copies_keep_or_replace(store, s3):
    s3.put_object(Bucket=BUCKET, Key="src a+b", Body=b"data", ContentType="text/x", Metadata={"k": "v"},
                  Tagging="t=1", StorageClass="STANDARD_IA")
    answer = s3.copy_object(Bucket=BUCKET, Key="dst", CopySource={"Bucket": BUCKET, "Key": "src a+b"})
    equal(answer["CopyObjectResult"]["ETag"], '"' + hashlib.md5(b"data").hexdigest() + '"', "ETag")
    head = s3.head_object(Bucket=BUCKET, Key="dst")
    equal((head["ContentType"], head["Metadata"], head.get("StorageClass")), ("text/x", {"k": "v"}, None), "kept")
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="dst")["TagSet"], [{"Key": "t", "Value": "1"}], "tags kept")
    s3.copy_object(Bucket=BUCKET, Key="dst", CopySource=f"{BUCKET}/src a+b", MetadataDirective="REPLACE",
                   Metadata={"n": "w"}, ContentType="text/y", TaggingDirective="REPLACE", Tagging="u=2")
    head = s3.head_object(Bucket=BUCKET, Key="dst")
    equal((head["ContentType"], head["Metadata"]), ("text/y", {"n": "w"}), "replaced")
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="dst")["TagSet"], [{"Key": "u", "Value": "2"}], "tags replaced")
    refused("InvalidRequest", lambda: s3.copy_object(
        Bucket=BUCKET, Key="dst", CopySource={"Bucket": BUCKET, "Key": "dst"}), 400)
    s3.copy_object(Bucket=BUCKET, Key="dst", CopySource={"Bucket": BUCKET, "Key": "dst"},
                   MetadataDirective="REPLACE", Metadata={"self": "1"})
    equal(s3.head_object(Bucket=BUCKET, Key="dst")["Metadata"], {"self": "1"}, "onto itself")
    equal(body(s3, "dst"), b"data", "bytes")
    refused("NoSuchKey", lambda: s3.copy_object(Bucket=BUCKET, Key="z", CopySource=f"{BUCKET}/none"), 404)
    etag = head["ETag"]
    source = {"Bucket": BUCKET, "Key": "src a+b"}
    for arguments in ({"CopySourceIfMatch": '"x"'}, {"CopySourceIfNoneMatch": etag},
                      {"CopySourceIfModifiedSince": "2099-01-01"}, {"CopySourceIfUnmodifiedSince": "2001-01-01"}):
        refused("PreconditionFailed", lambda: s3.copy_object(Bucket=BUCKET, Key="z", CopySource=source, **arguments), 412)
    refused("PreconditionFailed", lambda: s3.copy_object(
        Bucket=BUCKET, Key="dst", CopySource=source, IfNoneMatch="*"), 412)
    s3.delete_object(Bucket=BUCKET, Key="src a+b")
    equal(body(s3, "dst"), b"data", "after the source is gone")


@test
def copies_between_buckets(store, s3):
    s3.create_bucket(Bucket="second-bucket")
    s3.put_object(Bucket=BUCKET, Key="s", Body=b"over")
    s3.copy_object(Bucket="second-bucket", Key="t", CopySource={"Bucket": BUCKET, "Key": "s"})
    equal(s3.get_object(Bucket="second-bucket", Key="t")["Body"].read(), b"over", "bytes")
    refused("BucketNotEmpty", lambda: s3.delete_bucket(Bucket="second-bucket"), 409)
    s3.delete_object(Bucket="second-bucket", Key="t")
    s3.delete_bucket(Bucket="second-bucket")
    refused("404", lambda: s3.head_bucket(Bucket="second-bucket"))


# ---------------------------------------------------------------- multipart

@test
def multipart_follows_the_book(store, s3):
    first, second = b"a" * (5 * MIB), b"b"
    upload = s3.create_multipart_upload(
        Bucket=BUCKET, Key="mp", ContentType="text/mp", Metadata={"m": "p"}, ChecksumAlgorithm="CRC32")["UploadId"]
    tags = []
    for number, data in ((1, first), (2, second)):
        answer = s3.upload_part(Bucket=BUCKET, Key="mp", UploadId=upload, PartNumber=number, Body=data,
                                ChecksumAlgorithm="CRC32")
        equal(answer["ETag"].strip('"'), hashlib.md5(data).hexdigest(), "part tag")
        tags.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32": answer["ChecksumCRC32"]})
    equal([t["ChecksumCRC32"] for t in tags], ["r/zBbw==", "cb7v+Q=="], "part checksums")
    page = s3.list_parts(Bucket=BUCKET, Key="mp", UploadId=upload, MaxParts=1)
    equal((page["IsTruncated"], page["NextPartNumberMarker"], len(page["Parts"])), (True, 1, 1), "paging")
    page = s3.list_parts(Bucket=BUCKET, Key="mp", UploadId=upload, PartNumberMarker=1)
    equal([(p["PartNumber"], p["Size"]) for p in page["Parts"]], [(2, 1)], "second page")
    answer = s3.complete_multipart_upload(
        Bucket=BUCKET, Key="mp", UploadId=upload, MultipartUpload={"Parts": tags}, IfNoneMatch="*")
    equal(answer["ETag"], '"e5a8c5272b26fc10581a21089559b006-2"', "ETag")
    equal(answer["ChecksumCRC32"], "dYPmEQ==-2", "composite checksum")
    again = s3.complete_multipart_upload(
        Bucket=BUCKET, Key="mp", UploadId=upload, MultipartUpload={"Parts": tags})
    equal(again["ETag"], answer["ETag"], "repeated completion")
    refused("NoSuchUpload", lambda: s3.list_parts(Bucket=BUCKET, Key="mp", UploadId=upload), 404)
    head = s3.head_object(Bucket=BUCKET, Key="mp")
    equal((head["ContentLength"], head["ContentType"], head["Metadata"]), (5 * MIB + 1, "text/mp", {"m": "p"}), "head")
    equal(body(s3, "mp"), first + second, "bytes")
    equal(body(s3, "mp", Range=f"bytes={5 * MIB - 2}-"), b"aab", "across parts")
    part = s3.get_object(Bucket=BUCKET, Key="mp", PartNumber=2)
    equal((part["Body"].read(), part["PartsCount"]), (b"b", 2), "one part")
    refused("InvalidPartNumber", lambda: s3.get_object(Bucket=BUCKET, Key="mp", PartNumber=3), 416)
    attributes = s3.get_object_attributes(
        Bucket=BUCKET, Key="mp", ObjectAttributes=["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"])
    equal(attributes["ETag"], "e5a8c5272b26fc10581a21089559b006-2", "attributes")
    equal((attributes["ObjectSize"], attributes["StorageClass"]), (5 * MIB + 1, "STANDARD"), "attributes")
    equal(attributes["ObjectParts"]["TotalPartsCount"], 2, "attributes")
    equal(attributes["Checksum"]["ChecksumCRC32"], "dYPmEQ==-2", "attributes")
    s3.copy_object(Bucket=BUCKET, Key="mp", CopySource={"Bucket": BUCKET, "Key": "mp"}, MetadataDirective="REPLACE")
    equal(s3.head_object(Bucket=BUCKET, Key="mp")["ETag"].strip('"'), hashlib.md5(first + second).hexdigest(),
          "a copy is one piece")


@test
def full_object_checksums_are_combined(store, s3):
    for algorithm, wanted in (("CRC32", "rBxv8Q=="), ("CRC64NVME", None)):
        upload = s3.create_multipart_upload(
            Bucket=BUCKET, Key="full", ChecksumAlgorithm=algorithm, ChecksumType="FULL_OBJECT")["UploadId"]
        parts = []
        for number, data in ((1, b"a" * (5 * MIB)), (2, b"b")):
            # boto3 has no CRC64NVME without its native library; the store computes it then.
            extra = {"ChecksumAlgorithm": "CRC32"} if algorithm == "CRC32" else {}
            client = s3 if extra else store.client(request_checksum_calculation="when_required")
            answer = client.upload_part(
                Bucket=BUCKET, Key="full", UploadId=upload, PartNumber=number, Body=data, **extra)
            parts.append({"PartNumber": number, "ETag": answer["ETag"]})
        answer = s3.complete_multipart_upload(
            Bucket=BUCKET, Key="full", UploadId=upload, MultipartUpload={"Parts": parts})
        equal(answer["ChecksumType"], "FULL_OBJECT", algorithm)
        if wanted:
            equal(answer["ChecksumCRC32"], wanted, algorithm)
            equal(len(body(s3, "full")), 5 * MIB + 1, "boto3 verifies the whole")


@test
def multipart_refusals(store, s3):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="mr")["UploadId"]

    def part(number, data):
        return {"PartNumber": number, "ETag": s3.upload_part(
            Bucket=BUCKET, Key="mr", UploadId=upload, PartNumber=number, Body=data)["ETag"]}

    def complete(*parts, **arguments):
        return s3.complete_multipart_upload(
            Bucket=BUCKET, Key="mr", UploadId=upload, MultipartUpload={"Parts": list(parts)}, **arguments)

    small, last = part(1, b"small"), part(3, b"last")
    answer = refused("EntityTooSmall", lambda: complete(small, last), 400)
    equal((answer["Error"]["PartNumber"], answer["Error"]["MinSizeAllowed"]), ("1", str(5 * MIB)), "details")
    refused("InvalidPartOrder", lambda: complete(last, small), 400)
    refused("InvalidPart", lambda: complete({"PartNumber": 2, "ETag": last["ETag"]}), 400)
    refused("InvalidPart", lambda: complete({"PartNumber": 3, "ETag": small["ETag"]}), 400)
    refused("InvalidArgument", lambda: part(10001, b""), 400)
    refused("NoSuchUpload", lambda: s3.upload_part(
        Bucket=BUCKET, Key="mr", UploadId="nonsense", PartNumber=1, Body=b""), 404)
    replaced = part(3, b"replaced")
    refused("InvalidPart", lambda: complete(last), 400)
    s3.put_object(Bucket=BUCKET, Key="mr", Body=b"in the way")
    refused("PreconditionFailed", lambda: complete(replaced, IfNoneMatch="*"), 412)
    complete(replaced)
    equal(body(s3, "mr"), b"replaced", "gaps are allowed")
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="mr")["UploadId"]
    part(1, b"x")
    s3.abort_multipart_upload(Bucket=BUCKET, Key="mr", UploadId=upload)
    refused("NoSuchUpload", lambda: s3.abort_multipart_upload(Bucket=BUCKET, Key="mr", UploadId=upload), 404)


@test
def part_copies(store, s3):
    data = os.urandom(6 * MIB)
    s3.put_object(Bucket=BUCKET, Key="pc", Body=data)
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="pd")["UploadId"]
    source = {"Bucket": BUCKET, "Key": "pc"}
    parts = []
    for number, extra in ((1, {}), (2, {"CopySourceRange": "bytes=10-19"})):
        answer = s3.upload_part_copy(
            Bucket=BUCKET, Key="pd", UploadId=upload, PartNumber=number, CopySource=source, **extra)
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    refused("InvalidArgument", lambda: s3.upload_part_copy(
        Bucket=BUCKET, Key="pd", UploadId=upload, PartNumber=3, CopySource=source,
        CopySourceRange=f"bytes=0-{len(data)}"), 400)
    refused("PreconditionFailed", lambda: s3.upload_part_copy(
        Bucket=BUCKET, Key="pd", UploadId=upload, PartNumber=3, CopySource=source, CopySourceIfMatch='"x"'), 412)
    s3.delete_object(Bucket=BUCKET, Key="pc")
    s3.complete_multipart_upload(Bucket=BUCKET, Key="pd", UploadId=upload, MultipartUpload={"Parts": parts})
    equal(body(s3, "pd"), data + data[10:20], "bytes")


@test
def uploads_are_listed_in_order(store, s3):
    begun = []
    for key in ("u/a", "u/b", "u/b", "v", "u/c/d"):
        begun.append((key, s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]))
    wanted = sorted(begun, key=lambda item: item[0])
    for size in (1, 2, 1000):
        listed, markers = [], {}
        while True:
            page = s3.list_multipart_uploads(Bucket=BUCKET, MaxUploads=size, **markers)
            listed += [(u["Key"], u["UploadId"]) for u in page.get("Uploads", [])]
            if not page["IsTruncated"]:
                break
            markers = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
        equal(listed, wanted, f"pages of {size}")
    page = s3.list_multipart_uploads(Bucket=BUCKET, Prefix="u/", Delimiter="/")
    equal([p["Prefix"] for p in page["CommonPrefixes"]], ["u/c/"], "prefixes")
    equal(len(page["Uploads"]), 3, "uploads")


@test
def managed_transfers(store, s3):
    config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=4)
    data = os.urandom(20 * MIB + 123)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "up")
        with open(path, "wb") as file:
            file.write(data)
        s3.upload_file(path, BUCKET, "managed", Config=config)
        s3.download_file(BUCKET, "managed", path + "2", Config=config)
        with open(path + "2", "rb") as file:
            equal(file.read() == data, True, "download")
    s3.copy({"Bucket": BUCKET, "Key": "managed"}, BUCKET, "managed copy", Config=config)
    equal(body(s3, "managed copy") == data, True, "copy")
    equal(s3.head_object(Bucket=BUCKET, Key="managed")["ETag"].endswith('-3"'), True, "three parts")


# ---------------------------------------------------------------- properties

@test
def tags_can_be_changed(store, s3):
    s3.put_object(Bucket=BUCKET, Key="t", Body=b"bytes")
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="t")["TagSet"], [], "none")
    s3.put_object_tagging(Bucket=BUCKET, Key="t", Tagging={"TagSet": [{"Key": "a&", "Value": "<1>"}]})
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="t")["TagSet"], [{"Key": "a&", "Value": "<1>"}], "set")
    refused("InvalidTag", lambda: s3.put_object_tagging(
        Bucket=BUCKET, Key="t", Tagging={"TagSet": [{"Key": "k" * 129, "Value": ""}]}), 400)
    s3.delete_object_tagging(Bucket=BUCKET, Key="t")
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="t")["TagSet"], [], "deleted")
    equal(body(s3, "t"), b"bytes", "bytes stay")
    refused("NoSuchKey", lambda: s3.get_object_tagging(Bucket=BUCKET, Key="none"), 404)


@test
def access_control_is_stored(store, s3):
    s3.put_object(Bucket=BUCKET, Key="acl", Body=b"open")
    grants = s3.get_object_acl(Bucket=BUCKET, Key="acl")["Grants"]
    equal([g["Permission"] for g in grants], ["FULL_CONTROL"], "private")
    s3.put_object_acl(Bucket=BUCKET, Key="acl", ACL="public-read")
    policy = s3.get_object_acl(Bucket=BUCKET, Key="acl")
    equal(policy["Grants"][1]["Grantee"], {
        "Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}, "canned")
    url = f"{store.endpoint}/{BUCKET}/acl"
    equal(urllib.request.urlopen(url, timeout=10).read(), b"open", "anonymous read")
    policy["Grants"][1]["Permission"] = "READ_ACP"
    s3.put_object_acl(Bucket=BUCKET, Key="acl", AccessControlPolicy={
        "Owner": policy["Owner"], "Grants": policy["Grants"]})
    grants = s3.get_object_acl(Bucket=BUCKET, Key="acl")["Grants"]
    equal([g["Permission"] for g in grants], ["FULL_CONTROL", "READ_ACP"], "policy")
    try:
        urllib.request.urlopen(url, timeout=10)
        raise AssertionError("anonymous read of a private object")
    except urllib.error.HTTPError as error:
        equal(error.code, 403, "anonymous")
    s3.put_object(Bucket=BUCKET, Key="acl", Body=b"", GrantRead='id="somebody", emailAddress="a@b.c"')
    grants = s3.get_object_acl(Bucket=BUCKET, Key="acl")["Grants"]
    equal([g["Grantee"]["Type"] for g in grants], ["CanonicalUser", "CanonicalUser", "AmazonCustomerByEmail"], "grants")
    s3.put_bucket_acl(Bucket=BUCKET, ACL="public-read")
    equal(len(s3.get_bucket_acl(Bucket=BUCKET)["Grants"]), 2, "bucket")
    s3.put_bucket_acl(Bucket=BUCKET, ACL="private")


@test
def archived_objects_are_restored(store, s3):
    s3.put_object(Bucket=BUCKET, Key="cold", Body=b"cold", StorageClass="GLACIER")
    s3.put_object(Bucket=BUCKET, Key="ir", Body=b"ir", StorageClass="GLACIER_IR")
    equal(body(s3, "ir"), b"ir", "GLACIER_IR reads")
    answer = refused("InvalidObjectState", lambda: body(s3, "cold"), 403)
    equal(answer["Error"]["StorageClass"], "GLACIER", "class")
    equal(s3.head_object(Bucket=BUCKET, Key="cold")["StorageClass"], "GLACIER", "head works")
    refused("InvalidObjectState", lambda: s3.copy_object(
        Bucket=BUCKET, Key="warm", CopySource={"Bucket": BUCKET, "Key": "cold"}), 403)
    request = {"Days": 2, "GlacierJobParameters": {"Tier": "Expedited"}}
    refused("InvalidObjectState", lambda: s3.restore_object(Bucket=BUCKET, Key="ir", RestoreRequest=request), 403)
    endless = {**request, "Days": (1 << 63) - 1}
    refused("MalformedXML", lambda: s3.restore_object(Bucket=BUCKET, Key="cold", RestoreRequest=endless), 400)
    answer = s3.restore_object(Bucket=BUCKET, Key="cold", RestoreRequest=request)
    equal(answer["ResponseMetadata"]["HTTPStatusCode"], 202, "accepted")
    refused("RestoreAlreadyInProgress", lambda: s3.restore_object(
        Bucket=BUCKET, Key="cold", RestoreRequest=request), 409)
    equal(s3.head_object(Bucket=BUCKET, Key="cold")["Restore"], 'ongoing-request="true"', "on its way")
    status = s3.list_objects_v2(Bucket=BUCKET, Prefix="cold", OptionalObjectAttributes=["RestoreStatus"])
    equal(status["Contents"][0]["RestoreStatus"]["IsRestoreInProgress"], True, "listed")
    for _ in range(100):
        if "expiry-date" in s3.head_object(Bucket=BUCKET, Key="cold")["Restore"]:
            break
        time.sleep(0.1)
    equal(body(s3, "cold"), b"cold", "restored")
    answer = s3.restore_object(Bucket=BUCKET, Key="cold", RestoreRequest=request)
    equal(answer["ResponseMetadata"]["HTTPStatusCode"], 200, "extended")


@test
def encryption_modes(store, s3):
    key = b"0123456789ABCDEF0123456789ABCDEF"
    customer = {"SSECustomerKey": key, "SSECustomerAlgorithm": "AES256"}
    answer = s3.put_object(Bucket=BUCKET, Key="sse", Body=b"secret", **customer)
    equal(answer["SSECustomerKeyMD5"], "U5L61r7jcwdNvT7frmUG8g==", "key MD5")
    equal(answer["ETag"].strip('"') == hashlib.md5(b"secret").hexdigest(), False, "the tag is not the MD5")
    equal(body(s3, "sse", **customer), b"secret", "read")
    refused("InvalidRequest", lambda: body(s3, "sse"), 400)
    refused("400", lambda: s3.head_object(Bucket=BUCKET, Key="sse"), 400)
    refused("AccessDenied", lambda: body(s3, "sse", SSECustomerKey=key[::-1], SSECustomerAlgorithm="AES256"), 403)
    answer = s3.put_object(Bucket=BUCKET, Key="kms", Body=b"k", ServerSideEncryption="aws:kms", SSEKMSKeyId="my-key")
    equal((answer["ServerSideEncryption"], answer["SSEKMSKeyId"]), ("aws:kms", "my-key"), "KMS")
    equal(s3.head_object(Bucket=BUCKET, Key="kms")["SSEKMSKeyId"], "my-key", "KMS")
    s3.put_object(Bucket=BUCKET, Key="s3", Body=b"k", ServerSideEncryption="AES256")
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="ssemp", **customer)["UploadId"]
    refused("InvalidRequest", lambda: s3.upload_part(
        Bucket=BUCKET, Key="ssemp", UploadId=upload, PartNumber=1, Body=b"x"), 400)
    part = s3.upload_part(Bucket=BUCKET, Key="ssemp", UploadId=upload, PartNumber=1, Body=b"x", **customer)
    s3.complete_multipart_upload(Bucket=BUCKET, Key="ssemp", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    equal(body(s3, "ssemp", **customer), b"x", "multipart")


# ---------------------------------------------------------------- buckets and the service

@test
def buckets(store, s3):
    s3.head_bucket(Bucket=BUCKET)
    equal(s3.get_bucket_location(Bucket=BUCKET)["LocationConstraint"], None, "us-east-1")
    equal("Status" in s3.get_bucket_versioning(Bucket=BUCKET), False, "versioning")
    refused("BucketAlreadyOwnedByYou", lambda: s3.create_bucket(Bucket=BUCKET), 409)
    for name in ("page-a", "page-b", "page-c"):
        s3.create_bucket(Bucket=name)
    page = s3.list_buckets(MaxBuckets=2, Prefix="page-")
    equal([b["Name"] for b in page["Buckets"]], ["page-a", "page-b"], "first page")
    page = s3.list_buckets(MaxBuckets=2, Prefix="page-", ContinuationToken=page["ContinuationToken"])
    equal([b["Name"] for b in page["Buckets"]], ["page-c"], "second page")
    for name in ("page-a", "page-b", "page-c"):
        s3.delete_bucket(Bucket=name)
    refused("NoSuchBucketPolicy", lambda: s3.get_bucket_policy(Bucket=BUCKET), 404)
    refused("NoSuchLifecycleConfiguration", lambda: s3.get_bucket_lifecycle_configuration(Bucket=BUCKET), 404)
    refused("MalformedXML", lambda: s3.put_bucket_versioning(
        Bucket=BUCKET, VersioningConfiguration={"Status": "Disabled"}), 400)
    refused("AccessDenied", lambda: s3.list_objects_v2(Bucket=BUCKET, ExpectedBucketOwner="111122223333"), 403)


# ---------------------------------------------------------------- versions

VERSIONED = "versioned-bucket"


def keep_versions(s3, status="Enabled", name=VERSIONED):
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": status})


def versions(s3, **arguments):
    """(key, version, what) of each entry, where what is * for the latest and - for a delete marker; and the pages."""
    found, pages, markers = [], 0, {}
    while True:
        page = s3.list_object_versions(Bucket=VERSIONED, **arguments, **markers)
        pages += 1
        entries = [(v, "") for v in page.get("Versions", [])] + [(m, "-") for m in page.get("DeleteMarkers", [])]
        found += [(e["Key"], e["VersionId"], kind + ("*" if e["IsLatest"] else "")) for e, kind in entries]
        if not page["IsTruncated"]:
            return found, pages
        markers = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}


def emptied(s3):
    """Deletes every version, so that the bucket can be deleted."""
    for key, version, _ in versions(s3)[0]:
        s3.delete_object(Bucket=VERSIONED, Key=key, VersionId=version)
    s3.delete_bucket(Bucket=VERSIONED)


@test
def versions_are_kept_read_and_deleted(store, s3):
    s3.create_bucket(Bucket=VERSIONED)
    old = s3.put_object(Bucket=VERSIONED, Key="k", Body=b"before")
    equal("VersionId" in old, False, "version before versioning")
    keep_versions(s3)
    equal(s3.get_bucket_versioning(Bucket=VERSIONED)["Status"], "Enabled", "status")
    equal(s3.head_object(Bucket=VERSIONED, Key="k")["VersionId"], "null", "the object from before")
    first = s3.put_object(Bucket=VERSIONED, Key="k", Body=b"first", Metadata={"m": "1"})["VersionId"]
    second = s3.put_object(Bucket=VERSIONED, Key="k", Body=b"second!")["VersionId"]
    equal(len({first, second, "null"}), 3, "version IDs")
    answer = s3.get_object(Bucket=VERSIONED, Key="k", VersionId=first)
    equal((answer["Body"].read(), answer["VersionId"], answer["Metadata"]), (b"first", first, {"m": "1"}), "first")
    equal(s3.head_object(Bucket=VERSIONED, Key="k", VersionId="null")["ContentLength"], 6, "null")
    refused("NoSuchVersion", lambda: s3.get_object(Bucket=VERSIONED, Key="k", VersionId="other"), 404)
    marker = s3.delete_object(Bucket=VERSIONED, Key="k")
    equal(marker["DeleteMarker"], True, "delete marker")
    answer = refused("NoSuchKey", lambda: s3.get_object(Bucket=VERSIONED, Key="k"), 404)
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    equal((headers["x-amz-delete-marker"], headers["x-amz-version-id"]), ("true", marker["VersionId"]), "404")
    answer = refused(
        "MethodNotAllowed", lambda: s3.get_object(Bucket=VERSIONED, Key="k", VersionId=marker["VersionId"]), 405)
    equal(answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-delete-marker"], "true", "405")
    equal("Contents" in s3.list_objects_v2(Bucket=VERSIONED), False, "a listing without versions")
    equal(versions(s3)[0], [("k", second, ""), ("k", first, ""), ("k", "null", ""), ("k", marker["VersionId"], "-*")],
          "versions")
    refused("BucketNotEmpty", lambda: s3.delete_bucket(Bucket=VERSIONED), 409)
    gone = s3.delete_object(Bucket=VERSIONED, Key="k", VersionId=marker["VersionId"])
    equal((gone["DeleteMarker"], gone["VersionId"]), (True, marker["VersionId"]), "the marker is deleted")
    equal(s3.get_object(Bucket=VERSIONED, Key="k")["Body"].read(), b"second!", "undeleted")
    gone = s3.delete_object(Bucket=VERSIONED, Key="k", VersionId=second)
    equal(("DeleteMarker" in gone, gone["VersionId"]), (False, second), "a version is deleted")
    equal(s3.get_object(Bucket=VERSIONED, Key="k")["VersionId"], first, "the one before is the latest")
    # An ETag is compared with the latest version.
    s3.put_object(Bucket=VERSIONED, Key="k", Body=b"third", IfMatch=answer_tag(s3, "k"))
    refused("PreconditionFailed", lambda: s3.put_object(Bucket=VERSIONED, Key="k", Body=b"x", IfNoneMatch="*"), 412)
    s3.delete_object(Bucket=VERSIONED, Key="absent")
    equal([v for v in versions(s3)[0] if v[0] == "absent"][0][2], "-*", "a marker for a key that never was")
    emptied(s3)


def answer_tag(s3, key):
    return s3.head_object(Bucket=VERSIONED, Key=key)["ETag"]


@test
def versions_are_copied_tagged_and_made_of_parts(store, s3):
    s3.create_bucket(Bucket=VERSIONED)
    keep_versions(s3)
    first = s3.put_object(Bucket=VERSIONED, Key="k", Body=b"first", Metadata={"m": "1"})["VersionId"]
    second = s3.put_object(Bucket=VERSIONED, Key="k", Body=b"second")["VersionId"]
    source = {"Bucket": VERSIONED, "Key": "k", "VersionId": first}
    answer = s3.copy_object(Bucket=VERSIONED, Key="k", CopySource=source)
    equal(answer["CopySourceVersionId"], first, "source")
    equal(answer["VersionId"] in (first, second), False, "the copy is a version of its own")
    got = s3.get_object(Bucket=VERSIONED, Key="k")
    equal((got["Body"].read(), got["Metadata"], got["VersionId"]), (b"first", {"m": "1"}, answer["VersionId"]), "copy")
    marker = s3.delete_object(Bucket=VERSIONED, Key="k")["VersionId"]
    refused("InvalidRequest", lambda: s3.copy_object(
        Bucket=VERSIONED, Key="n", CopySource=dict(source, VersionId=marker)), 400)
    refused("NoSuchKey", lambda: s3.copy_object(
        Bucket=VERSIONED, Key="n", CopySource={"Bucket": VERSIONED, "Key": "k"}), 404)
    refused("NoSuchVersion", lambda: s3.copy_object(
        Bucket=VERSIONED, Key="n", CopySource=dict(source, VersionId="other")), 404)
    s3.put_object_tagging(Bucket=VERSIONED, Key="k", VersionId=first, Tagging={"TagSet": [{"Key": "t", "Value": "1"}]})
    tags = s3.get_object_tagging(Bucket=VERSIONED, Key="k", VersionId=first)["TagSet"]
    equal(tags, [{"Key": "t", "Value": "1"}], "tags of a version")
    equal(s3.get_object_tagging(Bucket=VERSIONED, Key="k", VersionId=second)["TagSet"], [], "of another")
    upload = s3.create_multipart_upload(Bucket=VERSIONED, Key="parts")["UploadId"]
    part = s3.upload_part_copy(Bucket=VERSIONED, Key="parts", UploadId=upload, PartNumber=1, CopySource=source)
    done = s3.complete_multipart_upload(Bucket=VERSIONED, Key="parts", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]})
    got = s3.get_object(Bucket=VERSIONED, Key="parts")
    equal((got["Body"].read(), got["VersionId"]), (b"first", done["VersionId"]), "parts")
    order = [v for k, v, _ in versions(s3)[0] if k == "k"]
    equal(order, [answer["VersionId"], second, first, marker], "changed tags leave a version at its age")
    # Deleting many: a key without a version, a version, and one that is not there.
    answer = s3.delete_objects(Bucket=VERSIONED, Delete={"Objects": [
        {"Key": "parts"}, {"Key": "k", "VersionId": first}, {"Key": "k", "VersionId": marker}]})
    made = [d for d in answer["Deleted"] if d["Key"] == "parts"][0]
    equal((made["DeleteMarker"], "VersionId" in made), (True, False), "a marker of many")
    refused("NoSuchKey", lambda: s3.get_object(Bucket=VERSIONED, Key="parts"))
    equal(s3.get_object(Bucket=VERSIONED, Key="parts", VersionId=done["VersionId"])["Body"].read(), b"first", "kept")
    plain = [d for d in answer["Deleted"] if d.get("VersionId") == first][0]
    equal("DeleteMarker" in plain, False, "a version of many")
    undone = [d for d in answer["Deleted"] if d.get("VersionId") == marker][0]
    equal((undone["DeleteMarker"], undone["DeleteMarkerVersionId"]), (True, marker), "a marker's version of many")
    equal(s3.head_object(Bucket=VERSIONED, Key="k")["ContentLength"], 5, "undeleted")
    emptied(s3)


@test
def suspended_versioning_keeps_one_null_version(store, s3):
    s3.create_bucket(Bucket=VERSIONED)
    keep_versions(s3)
    first = s3.put_object(Bucket=VERSIONED, Key="k", Body=b"first")["VersionId"]
    keep_versions(s3, "Suspended")
    equal(s3.get_bucket_versioning(Bucket=VERSIONED)["Status"], "Suspended", "status")
    s3.put_object(Bucket=VERSIONED, Key="k", Body=b"one")
    s3.put_object(Bucket=VERSIONED, Key="k", Body=b"two")
    equal(versions(s3)[0], [("k", "null", "*"), ("k", first, "")], "the null version is replaced")
    equal(s3.get_object(Bucket=VERSIONED, Key="k", VersionId="null")["Body"].read(), b"two", "null")
    equal(s3.delete_object(Bucket=VERSIONED, Key="k")["VersionId"], "null", "the marker")
    equal(versions(s3)[0], [("k", first, ""), ("k", "null", "-*")], "the null version became a marker")
    keep_versions(s3)
    third = s3.put_object(Bucket=VERSIONED, Key="k", Body=b"third")["VersionId"]
    equal(versions(s3)[0], [("k", third, "*"), ("k", first, ""), ("k", "null", "-")], "enabled again")
    equal(s3.get_object(Bucket=VERSIONED, Key="k", VersionId=first)["Body"].read(), b"first", "first")
    emptied(s3)


@test
def versions_page_and_group(store, s3):
    s3.create_bucket(Bucket=VERSIONED)
    keep_versions(s3)
    wanted = []
    for key in ["a", "d/1", "d/2", "d/e/3", "z"]:
        ids = [s3.put_object(Bucket=VERSIONED, Key=key, Body=b"x")["VersionId"] for _ in range(3)]
        wanted += [(key, v, "*" if v == ids[-1] else "") for v in reversed(ids)]
    for size in (1, 2, 3, 4, 7, 1000):
        found, pages = versions(s3, MaxKeys=size)
        equal((found, pages), (wanted, -(-15 // size)), f"pages of {size}")
    page = s3.list_object_versions(Bucket=VERSIONED, Prefix="d/")
    equal({v["Key"] for v in page["Versions"]}, {"d/1", "d/2", "d/e/3"}, "prefix")
    for size in (1, 2, 3, 1000):
        found, groups, markers = [], [], {}
        while True:
            page = s3.list_object_versions(Bucket=VERSIONED, Delimiter="/", MaxKeys=size, **markers)
            found += [(v["Key"], v["VersionId"]) for v in page.get("Versions", [])]
            groups += [p["Prefix"] for p in page.get("CommonPrefixes", [])]
            if not page["IsTruncated"]:
                break
            markers = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
        equal(groups, ["d/"], f"groups in pages of {size}")
        equal(found, [(k, v) for k, v, _ in wanted if "/" not in k], f"keys in pages of {size}")
    page = s3.list_object_versions(Bucket=VERSIONED, KeyMarker="d/1")
    equal(page["Versions"][0]["Key"], "d/2", "a marker without a version is behind all of the key")
    # A group of which only delete markers are left is still one.
    s3.delete_object(Bucket=VERSIONED, Key="m/1")
    page = s3.list_object_versions(Bucket=VERSIONED, Delimiter="/")
    equal([p["Prefix"] for p in page["CommonPrefixes"]], ["d/", "m/"], "groups")
    equal([p["Prefix"] for p in s3.list_objects_v2(Bucket=VERSIONED, Delimiter="/")["CommonPrefixes"]], ["d/"], "plain")
    emptied(s3)


@test
def versions_survive_a_kill(store, s3):
    own = Store("--bucket", VERSIONED)
    try:
        client = own.client()
        client.put_object(Bucket=VERSIONED, Key="k", Body=b"before")
        keep_versions(client)
        first = client.put_object(Bucket=VERSIONED, Key="k", Body=b"first")["VersionId"]
        client.put_object(Bucket=VERSIONED, Key="k", Body=b"second")
        client.delete_object(Bucket=VERSIONED, Key="k")
        # A record that is written again keeps its age.
        client.put_object_tagging(Bucket=VERSIONED, Key="k", VersionId=first, Tagging={"TagSet": []})
        client.put_object_tagging(Bucket=VERSIONED, Key="k", VersionId="null", Tagging={"TagSet": []})
        client.put_object(Bucket=VERSIONED, Key="other", Body=b"other")
        wanted = versions(client)[0]
        own.process.kill()
        own.process.wait()
        own = Store(directory=own.directory)
        client = own.client()
        equal(client.get_bucket_versioning(Bucket=VERSIONED)["Status"], "Enabled", "status")
        equal(versions(client)[0], wanted, "versions")
        equal(client.get_object(Bucket=VERSIONED, Key="k", VersionId="null")["Body"].read(), b"before", "null")
        equal(client.get_object(Bucket=VERSIONED, Key="k", VersionId=first)["Body"].read(), b"first", "first")
        refused("NoSuchKey", lambda: client.get_object(Bucket=VERSIONED, Key="k"))
        equal(own.stop(), 0, "exit status")
    finally:
        own.remove()


@test
def regions_are_corrected(store, s3):
    s3.create_bucket(Bucket="far-bucket", CreateBucketConfiguration={"LocationConstraint": "ap-southeast-2"})
    equal(s3.get_bucket_location(Bucket="far-bucket")["LocationConstraint"], "ap-southeast-2", "location")
    s3.put_object(Bucket="far-bucket", Key="k", Body=b"far")
    equal(s3.get_object(Bucket="far-bucket", Key="k")["Body"].read(), b"far", "re-signed by boto3")
    connection = http.client.HTTPConnection(store.host, timeout=10)
    connection.request("HEAD", "/far-bucket")
    answer = connection.getresponse()
    answer.read()
    equal((answer.status, answer.getheader("x-amz-bucket-region")), (403, "ap-southeast-2"), "unsigned HEAD")
    s3.delete_object(Bucket="far-bucket", Key="k")
    s3.delete_bucket(Bucket="far-bucket")


@test
def preflights_follow_the_rules_of_the_bucket(store, s3):
    def asks(method):
        connection = http.client.HTTPConnection(store.host, timeout=10)
        connection.request("OPTIONS", f"/{BUCKET}/k", headers={
            "Origin": "http://a.example.com", "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "x-amz-meta-a"})
        answer = connection.getresponse()
        answer.read()
        return answer
    refused("NoSuchCORSConfiguration", lambda: s3.get_bucket_cors(Bucket=BUCKET), 404)
    equal(asks("PUT").status, 403, "without rules")
    rule = {"ID": "1", "AllowedOrigins": ["http://*.example.com"], "AllowedMethods": ["PUT"], "AllowedHeaders": ["*"],
            "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}
    s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [rule]})
    equal(s3.get_bucket_cors(Bucket=BUCKET)["CORSRules"], [rule], "rules")
    answer = asks("PUT")
    equal((answer.status, answer.headers["Access-Control-Allow-Origin"], answer.headers["Access-Control-Max-Age"]),
          (200, "http://a.example.com", "60"), "allowed")
    equal(asks("DELETE").status, 403, "another method")
    s3.delete_bucket_cors(Bucket=BUCKET)
    equal(asks("PUT").status, 403, "deleted")


# ---------------------------------------------------------------- signatures

@test
def wrong_credentials_are_refused(store, s3):
    answer = refused("SignatureDoesNotMatch", lambda: store.client(secret="wrong").list_buckets(), 403)
    equal("AWS4-HMAC-SHA256" in answer["Error"]["StringToSign"], True, "the string to sign is shown")
    refused("InvalidAccessKeyId", lambda: store.client(access="nobody").list_buckets(), 403)
    refused("InvalidToken", lambda: store.client(token="stray").list_buckets(), 400)
    refused("SignatureDoesNotMatch", lambda: store.client(
        secret="wrong", signature_version="s3").list_objects_v2(Bucket=BUCKET), 403)
    refused("SignatureDoesNotMatch", lambda: store.client(
        secret="wrong").put_object(Bucket=BUCKET, Key="k", Body=b"x" * MIB), 403)


@test
def session_tokens_are_wanted(store, s3):
    own = Store("--session-token", "TOKEN/abc==", "--bucket", BUCKET)
    try:
        client = own.client(token="TOKEN/abc==")
        client.put_object(Bucket=BUCKET, Key="k", Body=b"token")
        equal(client.get_object(Bucket=BUCKET, Key="k")["Body"].read(), b"token", "with the token")
        refused("InvalidToken", lambda: own.client().list_buckets(), 400)
        for version in ("s3v4", "s3"):
            signer = own.client(token="TOKEN/abc==", signature_version=version)
            url = signer.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "k"})
            equal(urllib.request.urlopen(url, timeout=10).read(), b"token", f"presigned, {version}")
    finally:
        own.remove()


@test
def signature_version_2(store, s3):
    v2 = store.client(signature_version="s3")
    for key in ODD_KEYS:
        if not any(ord(c) < 32 for c in key):
            v2.put_object(Bucket=BUCKET, Key=key, Body=b"v2", Metadata={"a": "b"})
            equal(v2.get_object(Bucket=BUCKET, Key=key)["Body"].read(), b"v2", repr(key))
    v2.get_object_tagging(Bucket=BUCKET, Key="plain")
    v2.get_object(Bucket=BUCKET, Key="plain", ResponseContentType="text/plain")
    v2.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "plain"}]})
    upload = v2.create_multipart_upload(Bucket=BUCKET, Key="v2mp")["UploadId"]
    part = v2.upload_part(Bucket=BUCKET, Key="v2mp", UploadId=upload, PartNumber=1, Body=b"x")
    v2.complete_multipart_upload(Bucket=BUCKET, Key="v2mp", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})


@test
def presigned_urls(store, s3):
    for version in ("s3v4", "s3"):
        signer = store.client(signature_version=version)
        key = "pre signed+ü"
        url = signer.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": key}, ExpiresIn=60)
        request = urllib.request.Request(url, data=b"by url", method="PUT", headers={"Content-Type": ""})
        urllib.request.urlopen(request, timeout=10).read()
        url = signer.generate_presigned_url(
            "get_object", Params={"Bucket": BUCKET, "Key": key, "ResponseContentType": "text/plain"}, ExpiresIn=60)
        answer = urllib.request.urlopen(url, timeout=10)
        equal((answer.read(), answer.headers["Content-Type"]), (b"by url", "text/plain"), version)
        try:
            urllib.request.urlopen(url.replace("text%2Fplain", "text%2Fhtml"), timeout=10)
            raise AssertionError("a changed URL was accepted")
        except urllib.error.HTTPError as error:
            equal(error.code, 403, version)
    url = store.client(signature_version="s3v4").generate_presigned_url(
        "get_object", Params={"Bucket": BUCKET, "Key": key}, ExpiresIn=1)
    time.sleep(2.1)
    try:
        urllib.request.urlopen(url, timeout=10)
        raise AssertionError("an expired URL was accepted")
    except urllib.error.HTTPError as error:
        equal((error.code, b"Request has expired" in error.read()), (403, True), "expired")


@test
def virtual_hosts(store, s3):
    virtual = store.client(
        endpoint="http://s3.us-east-1.amazonaws.com", proxies={"http": store.endpoint},
        s3={"addressing_style": "virtual"})
    # Through a proxy urllib3 removes dot segments after boto3 has signed them.
    keys = [key for key in ODD_KEYS if not {".", ".."} & set(key.split("/"))]
    for key in keys:
        virtual.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
        equal(virtual.get_object(Bucket=BUCKET, Key=key)["Body"].read(), key.encode(), repr(key))
    equal(virtual.list_objects_v2(Bucket=BUCKET)["KeyCount"], len(keys), "listing")
    virtual.head_bucket(Bucket=BUCKET)
    old = store.client(
        endpoint="http://s3.us-east-1.amazonaws.com", proxies={"http": store.endpoint}, signature_version="s3",
        s3={"addressing_style": "virtual"})
    equal(old.get_object(Bucket=BUCKET, Key="plain")["Body"].read(), b"plain", "SigV2")


# ---------------------------------------------------------------- the server

@test
def throttling_is_retried(store, s3):
    store.faults("op=PutObject,kind=status:503,count=1,retry-after=1")
    started = time.monotonic()
    store.client(attempts=3).put_object(Bucket=BUCKET, Key="slow", Body=b"x")
    equal(time.monotonic() - started >= 1, True, "boto3 waited as told")
    store.faults()


@test
def faults_fire(store, s3):
    s3.put_object(Bucket=BUCKET, Key="f", Body=b"0123456789" * 1000)
    try:
        store.faults("kind=status:503,op=GetObject,key=f*,count=1")
        refused("SlowDown", lambda: body(s3, "f"), 503)
        body(s3, "f")
        store.faults("kind=expired")
        refused("ExpiredToken", lambda: body(s3, "f"), 400)
        store.faults("op=CopyObject,kind=status:200,count=1")
        refused("InternalError", lambda: s3.copy_object(Bucket=BUCKET, Key="g", CopySource=f"{BUCKET}/f"))
        store.faults("op=CompleteMultipartUpload,kind=lost-reply,count=1")
        upload = s3.create_multipart_upload(Bucket=BUCKET, Key="lost")["UploadId"]
        part = s3.upload_part(Bucket=BUCKET, Key="lost", UploadId=upload, PartNumber=1, Body=b"x")
        store.client(attempts=3).complete_multipart_upload(Bucket=BUCKET, Key="lost", UploadId=upload, MultipartUpload={
            "Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
        equal(body(s3, "lost"), b"x", "completed although the reply was lost")
        for kind in ("reset", "cut:1000", "reset:1000", "lost-reply"):
            store.faults(f"op=GetObject,kind={kind}")
            try:
                body(s3, "f")
                raise AssertionError(f"{kind} did not show")
            except (HTTPClientError, ConnectionClosedError, EndpointConnectionError, ConnectionError, ClientError):
                pass
            except Exception as error:
                if type(error).__name__ not in ("IncompleteReadError", "ResponseStreamingError", "ProtocolError"):
                    raise
        store.faults("op=GetObject,kind=alter")
        lean = store.client(response_checksum_validation="when_required")
        equal(body(lean, "f") == b"0123456789" * 1000, False, "altered")
        store.faults("op=PutObject,kind=alter")
        refused("BadDigest", lambda: store.client(s3={"payload_signing_enabled": False}).put_object(
            Bucket=BUCKET, Key="h", Body=b"x" * 100), 400)
        for kind, wanted in (("latency:300ms", 0.3), ("first-byte:300ms", 0.3), ("bandwidth:20kB/s", 0.3)):
            store.faults(f"kind={kind},op=GetObject")
            started = time.monotonic()
            body(s3, "f")
            equal(time.monotonic() - started >= wanted, True, kind)
    finally:
        store.faults()
    body(s3, "f")
    try:
        store.faults("kind=nonsense")
        raise AssertionError("nonsense was taken")
    except urllib.error.HTTPError as error:
        equal(error.code, 400, "nonsense")


@test
def requests_are_logged(store, s3):
    log = os.path.join(tempfile.mkdtemp(prefix="pailstore-log-"), "log")
    own = Store("--bucket", BUCKET, "--log-requests", log)
    try:
        client = own.client()
        client.put_object(Bucket=BUCKET, Key='k"ü', Body=b"12345")
        client.get_object(Bucket=BUCKET, Key='k"ü', Range="bytes=1-2")["Body"].read()
        refused("NoSuchKey", lambda: client.get_object(Bucket=BUCKET, Key="none"))
        client.list_objects_v2(Bucket=BUCKET)
        with open(log) as file:
            lines = [json.loads(line) for line in file]
        wanted = [("PutObject", 'k"ü', 200, 5, 0), ("GetObject", 'k"ü', 206, 0, 2), ("GetObject", "none", 404, 0, None)]
        for line, (operation, key, status, received, sent) in zip(lines, wanted):
            equal((line["operation"], line["key"], line["status"], line["bytes_in"]), (operation, key, status, received))
            if sent is not None:
                equal(line["bytes_out"], sent, operation)
            equal(line["bucket"], BUCKET, "bucket")
        equal(lines[1]["range"], "bytes=1-2", "range")
        equal([line["operation"] for line in lines[3:]], ["ListObjectsV2"], "last")
    finally:
        own.remove()
        shutil.rmtree(os.path.dirname(log))


@test
def everything_survives_a_restart_and_a_kill(store, s3):
    own = Store("--bucket", BUCKET)
    try:
        client = own.client()
        for key in ODD_KEYS:
            client.put_object(Bucket=BUCKET, Key=key, Body=key.encode(), Metadata={"m": "1"}, Tagging="t=2")
        upload = client.create_multipart_upload(Bucket=BUCKET, Key="later", ContentType="text/later")["UploadId"]
        part = client.upload_part(Bucket=BUCKET, Key="later", UploadId=upload, PartNumber=7, Body=b"seven")
        done = client.create_multipart_upload(Bucket=BUCKET, Key="done")["UploadId"]
        other = client.upload_part(Bucket=BUCKET, Key="done", UploadId=done, PartNumber=1, Body=b"done")
        client.complete_multipart_upload(Bucket=BUCKET, Key="done", UploadId=done, MultipartUpload={
            "Parts": [{"PartNumber": 1, "ETag": other["ETag"]}]})
        client.delete_object(Bucket=BUCKET, Key="plain")
        own.process.kill()
        own.process.wait()
        own = Store(directory=own.directory)
        client = own.client()
        wanted = sorted([key for key in ODD_KEYS if key != "plain"] + ["done"], key=lambda key: key.encode())
        equal([o["Key"] for o in client.list_objects_v2(Bucket=BUCKET)["Contents"]], wanted, "keys")
        for key in wanted:
            equal(client.get_object(Bucket=BUCKET, Key=key)["Body"].read(), key.encode(), repr(key))
        client.complete_multipart_upload(Bucket=BUCKET, Key="later", UploadId=upload, MultipartUpload={
            "Parts": [{"PartNumber": 7, "ETag": part["ETag"]}]})
        answer = client.get_object(Bucket=BUCKET, Key="later")
        equal((answer["Body"].read(), answer["ContentType"]), (b"seven", "text/later"), "upload")
        equal(own.stop(), 0, "exit status")
    finally:
        own.remove()


@test
def connections_are_kept_and_early_refusals_do_not_break_them(store, s3):
    connection = http.client.HTTPConnection(store.host, timeout=10)
    for _ in range(3):
        connection.request("PUT", f"/{BUCKET}/k", body=b"x" * MIB)
        answer = connection.getresponse()
        answer.read()
        equal(answer.status, 403, "unsigned")
    sockets = connection.sock
    connection.request("GET", f"/{BUCKET}/k")
    answer = connection.getresponse()
    answer.read()
    equal((answer.status, connection.sock is sockets), (403, True), "same connection")
    connection.putrequest("PUT", f"/{BUCKET}/k")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    connection.send(b"0\r\n\r\n")
    equal(connection.getresponse().read() != b"", True, "chunked")


@test
def wrong_arguments_are_refused(store, s3):
    binary = os.environ["PAILSTORE"]
    for arguments, status in ((["--nonsense"], 2), ([], 2), ([store.directory, "--listen", "nowhere"], 2),
                              ([store.directory, "--fault", "kind=nonsense"], 2),
                              ([tempfile.gettempdir() + "/never", "--listen", "0.0.0.0:0"], 1),
                              ([store.directory, "--listen", "127.0.0.1:0"], 1),
                              ([tempfile.gettempdir() + "/never", "--bucket", "No"], 1)):
        run = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=20)
        equal((run.returncode, run.stdout, bool(run.stderr.strip())), (status, "", True), " ".join(arguments))


if __name__ == "__main__":
    sys.exit(conformance.main(Store, {"boto3": lambda store: store.client()}, clear))
