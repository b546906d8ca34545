#!/usr/bin/env python3
"""Holds pailstore's COS dialect to what cos-python-sdk-v5 expects: every operation it can send, and refusals.

PAILSTORE names the built binary. Prints one line for each failure and "N passed, M failed" at the end;
exit status 0 only when nothing failed.
"""
import base64
import contextlib
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
import urllib.error
import urllib.parse
from unittest import mock

from qcloud_cos import CosConfig, CosS3Client
from qcloud_cos.cos_exception import CosClientError, CosServiceError

import conformance
from conformance import ACCESS_KEY, MIB, SECRET_KEY, equal, test

BUCKET, REGION = "test-1250000000", "ap-guangzhou"
HOST = f"{BUCKET}.cos.{REGION}.myqcloud.com"
ODD_KEYS = conformance.ODD_KEYS + ["x" * 850, "back\\slash"]


class Store(conformance.Store):
    dialect = "cos"


def connect(store, secret=SECRET_KEY, access=ACCESS_KEY, token=None, retry=0, by_name=False, **config):
    """A client that goes to the store for the hosts of COS: by its address, or as to a proxy."""
    config |= {"Proxies": {"http": store.endpoint}} if by_name else {"ServiceDomain": store.host}
    config = CosConfig(Region=REGION, SecretId=access, SecretKey=secret, Token=token, Scheme="http", **config)
    if not by_name:
        name, port = store.host.rsplit(":", 1)
        config.set_ip_port(name, int(port))
    return CosS3Client(config, retry=retry)


def refused(code, call, status=None):
    try:
        call()
    except CosServiceError as error:
        equal(error.get_error_code(), code, "error code")
        if status:
            equal(error.get_status_code(), status, "status")
        return error
    raise AssertionError(f"no {code}")


def clear(cos, bucket=BUCKET):
    while keys := [item["Key"] for item in cos.list_objects(bucket).get("Contents", [])]:
        for key in keys:
            cos.delete_object(bucket, key)
    for upload in cos.list_multipart_uploads(bucket).get("Upload", []):
        cos.abort_multipart_upload(bucket, upload["Key"], upload["UploadId"])


def body(cos, key, **arguments):
    return cos.get_object(BUCKET, key, **arguments)["Body"].get_raw_stream().read()


def source(key, **more):
    return {"Bucket": BUCKET, "Key": key, "Region": REGION, **more}


def tag(data):
    return '"' + hashlib.md5(data).hexdigest() + '"'


def raw(store, method, target, host=HOST, headers=None, data=None, parameters=()):
    """A request signed by the rules of the COS API documentation instead of the SDK; returns status, headers and body."""
    headers = {"Host": host, **(headers or {})}
    window = f"{int(time.time()) - 60};{int(time.time()) + 600}"
    path, _, query = target.partition("?")
    pairs = dict(item.partition("=")[::2] for item in query.split("&") if item)
    signed = {name: urllib.parse.unquote(pairs[name]) for name in parameters}
    quote = lambda text: urllib.parse.quote(text, safe="-_.~")
    join = lambda items: "&".join(f"{quote(n).lower()}={quote(v)}" for n, v in sorted(items.items(), key=lambda i: i[0].lower()))
    text = f"{method.lower()}\n{urllib.parse.unquote(path)}\n{join(signed)}\n{join(headers)}\n"
    sha1 = lambda key, message: hmac.new(key.encode(), message.encode(), hashlib.sha1).hexdigest()
    signature = sha1(sha1(SECRET_KEY, window), f"sha1\n{window}\n{hashlib.sha1(text.encode()).hexdigest()}\n")
    names = lambda items: ";".join(sorted(quote(name).lower() for name in items))
    headers["Authorization"] = (
        f"q-sign-algorithm=sha1&q-ak={ACCESS_KEY}&q-sign-time={window}&q-key-time={window}"
        f"&q-header-list={names(headers)}&q-url-param-list={names(signed)}&q-signature={signature}")
    return unsigned(store, method, target, headers, data)


def unsigned(store, method, target, headers, data=None):
    connection = http.client.HTTPConnection(store.host, timeout=20)
    connection.request(method, target, body=data, headers=headers)
    answer = connection.getresponse()
    result = answer.status, answer.headers, answer.read()
    connection.close()
    return result


# ---------------------------------------------------------------- objects

@test
def odd_keys_round_trip_and_list_in_byte_order(store, cos):
    for key in ODD_KEYS:
        cos.put_object(BUCKET, key.encode(), key)
    for key in ODD_KEYS:
        equal(body(cos, key), key.encode(), repr(key))
        equal(cos.head_object(BUCKET, key)["Content-Length"], str(len(key.encode())), repr(key))
    listed = [item["Key"] for item in cos.list_objects(BUCKET)["Contents"]]
    equal(listed, sorted(ODD_KEYS, key=lambda key: key.encode()), "order")
    for key in ODD_KEYS:
        cos.delete_object(BUCKET, key)
    equal("Contents" in cos.list_objects(BUCKET), False, "after deleting")


@test
def put_stores_headers_metadata_class_and_tags(store, cos):
    answer = cos.put_object(
        BUCKET, b"hello cos", "full", EnableMD5=True, ContentType="text/plain", CacheControl="no-cache",
        ContentDisposition="attachment", ContentEncoding="x-own", ContentLanguage="de",
        Expires="Tue, 14 Nov 2023 22:13:20 GMT", Metadata={"x-cos-meta-Mode": "0644", "x-cos-meta-owner": "ich+ü"},
        StorageClass="STANDARD_IA", Tagging="a=1&b=two%20words", ACL="public-read")
    equal(answer["ETag"], tag(b"hello cos"), "ETag")
    equal(bool(answer["x-cos-request-id"]), True, "request id")
    head = cos.head_object(BUCKET, "full")
    for name, value in {"Content-Type": "text/plain", "Cache-Control": "no-cache", "Content-Language": "de",
                        "Content-Disposition": "attachment", "Content-Encoding": "x-own", "Content-Length": "9",
                        "Expires": "Tue, 14 Nov 2023 22:13:20 GMT", "x-cos-meta-mode": "0644",
                        "x-cos-storage-class": "STANDARD_IA", "x-cos-object-type": "normal", "ETag": answer["ETag"],
                        "x-cos-hash-crc64ecma": answer["x-cos-hash-crc64ecma"]}.items():
        equal(head[name], value, name)
    equal(head["x-cos-meta-owner"].encode("latin-1").decode(), "ich+ü", "metadata in UTF-8")
    tags = cos.get_object_tagging(BUCKET, "full")["TagSet"]["Tag"]
    equal(tags, [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "two words"}], "tags")
    cos.put_object(BUCKET, b"", "bare")
    bare = cos.head_object(BUCKET, "bare")
    equal(bare["Content-Type"], "application/octet-stream", "default type")
    equal(("x-cos-storage-class" in bare, "x-cos-server-side-encryption" in bare), (False, False), "what is not told")
    equal((body(cos, "bare"), bare["x-cos-hash-crc64ecma"]), (b"", "0"), "empty body")


@test
def checksums_are_told_and_verified(store, cos):
    for data, sum in ((b"123456789", "11051210869376104954"), (b"abc", "3231342946509354535"), (b"", "0")):
        equal(cos.put_object(BUCKET, data, "sum")["x-cos-hash-crc64ecma"], sum, "CRC-64 of a write")
        answer = cos.get_object(BUCKET, "sum")
        equal(answer["x-cos-hash-crc64ecma"], sum, "CRC-64 of a read")
    cos.put_object(BUCKET, b"123456789", "sum")
    equal(cos.get_object(BUCKET, "sum", Range="bytes=1-2")["x-cos-hash-crc64ecma"], "11051210869376104954", "of a part")
    wrong = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    refused("BadDigest", lambda: cos.put_object(BUCKET, b"y", "bad", ContentMD5=wrong), 400)
    refused("InvalidDigest", lambda: cos.put_object(BUCKET, b"y", "bad", ContentMD5="short"), 400)
    sha1 = {"x-cos-content-sha1": hashlib.sha1(b"y").hexdigest()}
    refused("InvalidSHA1Digest", lambda: cos.put_object(BUCKET, b"x", "bad", Metadata=sha1), 400)
    cos.put_object(BUCKET, b"y", "good", Metadata=sha1)
    refused("NoSuchResource", lambda: cos.head_object(BUCKET, "bad"), 404)


@test
def every_body_kind_is_accepted(store, cos):
    data = os.urandom(300_000)
    cos.put_object(BUCKET, io.BytesIO(data), "k", EnableMD5=True)
    equal(body(cos, "k"), data, "stream")
    cos.put_object(BUCKET, (piece for piece in (data[:1000], data[1000:2000])), "k")
    equal(body(cos, "k"), data[:2000], "chunked")
    cos.put_object(BUCKET, "text ü", "k")
    equal(body(cos, "k"), "text ü".encode(), "text")
    upload = cos.create_multipart_upload(BUCKET, "mp")["UploadId"]
    refused("MissingContentLength", lambda: cos.upload_part(BUCKET, "mp", (b for b in (b"x",)), 1, upload), 411)


@test
def limits_are_held(store, cos):
    put = lambda key, **more: lambda: cos.put_object(BUCKET, b"x", key, **more)
    refused("KeyTooLong", put("x" * 851), 400)
    refused("KeyTooLong", put("ü" * 425 + "x"), 400)
    refused("InvalidObjectName", put("\\leading"), 400)
    refused("InvalidObjectName", put("escape\x1b"), 400)
    equal(raw(store, "PUT", "//leading", data=b"x")[0], 400, "a leading slash")
    refused("InvalidArgument", put("k", Metadata={"x-cos-meta-under_score": "1"}), 400)
    put("k", Metadata={"x-cos-meta-" + "n" * 48: "v" * 2000})()
    refused("MetadataTooLarge", put("k", Metadata={"x-cos-meta-" + "n" * 48: "v" * 2001}), 400)
    refused("NotSupportedStorageClass", put("k", StorageClass="GLACIER"), 400)
    refused("InvalidTag", put("k", Tagging="&".join(f"t{i}=1" for i in range(11))), 400)
    refused("InvalidArgument", put("k", TrafficLimit="100"), 400)
    put("k", TrafficLimit="819200")()
    refused("InvalidArgument", put("k", ACL="open"), 400)


@test
def overwriting_can_be_forbidden(store, cos):
    once = {"Metadata": {"x-cos-forbid-overwrite": "true"}}
    cos.put_object(BUCKET, b"1", "c", **once)
    refused("FileAlreadyExists", lambda: cos.put_object(BUCKET, b"2", "c", **once), 409)
    equal(body(cos, "c"), b"1", "what was there")
    upload = cos.create_multipart_upload(BUCKET, "c")["UploadId"]
    parts = {"Part": [{"PartNumber": 1, "ETag": cos.upload_part(BUCKET, "c", b"3", 1, upload)["ETag"]}]}
    refused("FileAlreadyExists", lambda: cos.complete_multipart_upload(BUCKET, "c", upload, parts, **once), 409)
    cos.complete_multipart_upload(BUCKET, "c", upload, parts)
    equal(body(cos, "c"), b"3", "without the header")
    # The conditions of HTTP do not guard writes here, and clients must not believe it.
    cos.put_object(BUCKET, b"4", "c", IfNoneMatch="*")
    equal(body(cos, "c"), b"4", "If-None-Match")


@test
def reads_with_ranges_and_conditions(store, cos):
    etag = cos.put_object(BUCKET, b"0123456789", "r")["ETag"]
    for requested, wanted, shown in [("bytes=2-4", b"234", "bytes 2-4/10"), ("bytes=7-", b"789", "bytes 7-9/10"),
                                     ("bytes=-3", b"789", "bytes 7-9/10"), ("bytes=8-99", b"89", "bytes 8-9/10")]:
        answer = cos.get_object(BUCKET, "r", Range=requested)
        equal(answer["Body"].get_raw_stream().read(), wanted, requested)
        equal((answer["Content-Range"], answer["Accept-Ranges"]), (shown, "bytes"), requested)
    refused("InvalidRange", lambda: cos.get_object(BUCKET, "r", Range="bytes=10-"), 416)
    equal(body(cos, "r", IfMatch=etag), b"0123456789", "If-Match")
    refused("PreconditionFailed", lambda: cos.get_object(BUCKET, "r", IfMatch='"x"'), 412)
    modified = cos.head_object(BUCKET, "r")["Last-Modified"]
    old = "Mon, 01 Jan 2001 00:00:00 GMT"
    # The SDK takes 304 for a success, and then misses a length on it.
    for condition in ({"If-None-Match": etag}, {"If-Modified-Since": modified}):
        status, headers, answer = raw(store, "GET", "/r", headers=condition)
        equal((status, headers["ETag"], answer), (304, etag, b""), f"304 for {condition}")
    for condition in ({"IfNoneMatch": etag}, {"IfModifiedSince": modified}):
        head = cos.head_object(BUCKET, "r", **condition)
        equal(("x-cos-object-type" in head, head["ETag"]), (False, etag), f"304 for {condition}")
    refused("PreconditionFailed", lambda: cos.get_object(BUCKET, "r", IfUnmodifiedSince=old), 412)
    equal(body(cos, "r", IfMatch=etag, IfUnmodifiedSince=old), b"0123456789", "If-Match wins")
    equal(body(cos, "r", IfModifiedSince=old), b"0123456789", "modified")


@test
def answers_can_be_overridden(store, cos):
    cos.put_object(BUCKET, b"x", "o", ContentType="text/plain")
    answer = cos.get_object(
        BUCKET, "o", ResponseContentType="image/png", ResponseCacheControl="max-age=1", ResponseExpires="never",
        ResponseContentDisposition="inline; a b", ResponseContentLanguage="en", ResponseContentEncoding="x-br")
    wanted = {"Content-Type": "image/png", "Cache-Control": "max-age=1", "Expires": "never",
              "Content-Disposition": "inline; a b", "Content-Language": "en", "Content-Encoding": "x-br"}
    equal({name: answer[name] for name in wanted}, wanted, "overridden")


@test
def missing_things_are_told_apart(store, cos):
    error = refused("NoSuchKey", lambda: cos.get_object(BUCKET, "missing"), 404)
    equal(error.get_resource_location(), f"{HOST}/missing", "resource")
    equal((bool(error.get_request_id()), error.get_trace_id() != "Unknown"), (True, True), "ids")
    refused("NoSuchResource", lambda: cos.head_object(BUCKET, "missing"), 404)
    refused("NoSuchBucket", lambda: cos.list_objects("none-1250000000"), 404)
    refused("NoSuchResource", lambda: cos.head_bucket("none-1250000000"), 404)
    refused("NoSuchVersion", lambda: cos.get_object(BUCKET, "missing", VersionId="abc"), 404)
    equal((cos.object_exists(BUCKET, "missing"), cos.bucket_exists(BUCKET)), (False, True), "existence")
    cos.put_object(BUCKET, b"v", "v")
    equal(body(cos, "v", VersionId="null"), b"v", "null version")
    cos.delete_object(BUCKET, "v", VersionId="null")
    refused("NoSuchResource", lambda: cos.head_object(BUCKET, "v"))
    cos.delete_object(BUCKET, "v")


@test
def objects_are_appended_to(store, cos):
    answer = cos.append_object(BUCKET, "log", 0, b"one", ContentType="text/log", StorageClass="STANDARD_IA")
    equal(answer["x-cos-next-append-position"], "3", "next")
    answer = cos.append_object(BUCKET, "log", 3, b"two", ContentType="text/other")
    equal(answer["x-cos-next-append-position"], "6", "next")
    head = cos.head_object(BUCKET, "log")
    equal((head["x-cos-object-type"], head["x-cos-next-append-position"]), ("appendable", "6"), "type")
    equal((head["Content-Type"], head["x-cos-storage-class"]), ("text/log", "STANDARD_IA"), "of the first append")
    equal(head["x-cos-hash-crc64ecma"], cos.put_object(BUCKET, b"onetwo", "whole")["x-cos-hash-crc64ecma"], "CRC-64")
    equal((body(cos, "log"), head["ETag"]), (b"onetwo", answer["ETag"]), "content")
    refused("AppendPositionErr", lambda: cos.append_object(BUCKET, "log", 3, b"x"), 409)
    refused("AppendPositionErr", lambda: cos.append_object(BUCKET, "new", 3, b"x"), 409)
    refused("ObjectNotAppendable", lambda: cos.append_object(BUCKET, "whole", 6, b"x"), 409)
    refused("InvalidArgument", lambda: cos.append_object(BUCKET, "log", "", b"x"), 400)
    refused("MissingContentLength", lambda: cos.append_object(BUCKET, "log", 6, (b for b in (b"x",))), 411)
    cos.copy_object(BUCKET, "copy", source("log"))
    equal(cos.head_object(BUCKET, "copy")["ETag"], tag(b"onetwo"), "a copy is one piece")
    cos.put_object(BUCKET, b"plain", "log")
    equal(cos.head_object(BUCKET, "log")["x-cos-object-type"], "normal", "put over")


@test
def deleting_many(store, cos):
    keys = ["a b", "c+d", "e&<f>", "ü"]
    for key in keys:
        cos.put_object(BUCKET, b"", key)
    answer = cos.delete_objects(BUCKET, {"Object": [{"Key": key} for key in keys + ["none"]]})
    equal([item["Key"] for item in answer["Deleted"]], keys + ["none"], "deleted")
    cos.put_object(BUCKET, b"", "q")
    answer = cos.delete_objects(BUCKET, {"Quiet": "true", "Object": [{"Key": "q"}, {"Key": "r", "VersionId": "v"}]})
    equal("Deleted" in answer, False, "quiet")
    equal([(item["Key"], item["Code"]) for item in answer["Error"]], [("r", "NoSuchVersion")], "errors")
    equal("Contents" in cos.list_objects(BUCKET), False, "gone")
    refused("MalformedXML", lambda: cos.delete_objects(BUCKET, {"Object": [{"Key": f"{i}"} for i in range(1001)]}), 400)
    document = b"<Delete><Object><Key>k</Key></Object></Delete>"
    status, _, answer = raw(store, "POST", "/?delete", data=document, parameters=["delete"])
    equal((status, b"Content-MD5" in answer), (400, True), "without Content-MD5")
    wrong = {"Content-MD5": base64.b64encode(hashlib.md5(b"x").digest()).decode()}
    status, _, answer = raw(store, "POST", "/?delete=", headers=wrong, data=document, parameters=["delete"])
    equal((status, b"<Code>BadDigest</Code>" in answer), (400, True), "altered")


# ---------------------------------------------------------------- listings

@test
def listings_page_and_group(store, cos):
    keys = ["a/1", "a/2", "b", "c/1", "c/2/3", "d", "sp ace+plus", "z"]
    for key in keys:
        cos.put_object(BUCKET, key.encode(), key)
    for size in (1, 2, 3, 1000):
        got, marker = [], ""
        while True:
            page = cos.list_objects(BUCKET, MaxKeys=size, Marker=marker)
            got += [item["Key"] for item in page.get("Contents", [])]
            if page["IsTruncated"] == "false":
                break
            marker = page["NextMarker"]
        equal(got, keys, f"pages of {size}")
        got, marker = [], ""
        while True:
            page = cos.list_objects(BUCKET, Delimiter="/", MaxKeys=size, Marker=marker)
            equal(len(page.get("Contents", [])) + len(page.get("CommonPrefixes", [])) <= size, True, "page size")
            got += [item["Key"] for item in page.get("Contents", [])]
            got += [item["Prefix"] for item in page.get("CommonPrefixes", [])]
            if page["IsTruncated"] == "false":
                break
            marker = page["NextMarker"]
        equal(sorted(got), sorted(["a/", "b", "c/", "d", "sp ace+plus", "z"]), f"grouped pages of {size}")
    page = cos.list_objects(BUCKET, Prefix="c/", Delimiter="/")
    equal([item["Key"] for item in page["Contents"]], ["c/1"], "below a prefix")
    equal(page["CommonPrefixes"], [{"Prefix": "c/2/"}], "groups below a prefix")
    item = cos.list_objects(BUCKET, Prefix="b")["Contents"][0]
    equal((item["ETag"], item["Size"], item["StorageClass"]), (tag(b"b"), "1", "STANDARD"), "entry")
    equal((bool(item["Owner"]["ID"]), item["LastModified"][-5:]), (True, ".000Z"), "entry")
    coded = cos.list_objects(BUCKET, Prefix="sp", EncodingType="url")
    equal((coded["Contents"][0]["Key"], coded["EncodingType"]), ("sp%20ace%2Bplus", "url"), "encoded")
    page = cos.list_objects(BUCKET, MaxKeys=0)
    equal(("Contents" in page, page["IsTruncated"]), (False, "false"), "no keys")
    refused("InvalidDelimiter", lambda: cos.list_objects(BUCKET, Delimiter="ab"), 400)
    refused("InvalidArgument", lambda: cos.list_objects(BUCKET, MaxKeys="many"), 400)
    status, headers, answer = raw(store, "GET", "/?encoding-type=base64")
    equal((status, b"<Code>InvalidArgument</Code>" in answer), (400, True), "encoding")
    equal(raw(store, "GET", "/")[1]["x-cos-bucket-region"], "us-east-1", "region")


@test
def versions_are_listed_as_one_each(store, cos):
    for key in ("v/1", "v/2", "w"):
        cos.put_object(BUCKET, b"x", key)
    page = cos.list_objects_versions(BUCKET, MaxKeys=1, Delimiter="/")
    equal((page["CommonPrefixes"], page["IsTruncated"]), ([{"Prefix": "v/"}], "true"), "first page")
    page = cos.list_objects_versions(
        BUCKET, KeyMarker=page["NextKeyMarker"], VersionIdMarker=page["NextVersionIdMarker"], Delimiter="/")
    equal([(v["Key"], v["VersionId"], v["IsLatest"]) for v in page["Version"]], [("w", "null", "true")], "second page")
    equal("Status" in (cos.get_bucket_versioning(BUCKET) or {}), False, "versioning was never set")


# ---------------------------------------------------------------- copies

@test
def copies_keep_what_cos_keeps(store, cos):
    cos.put_object(BUCKET, b"source", "so urce+ü", ContentType="text/plain", Metadata={"x-cos-meta-a": "1"},
                   StorageClass="STANDARD_IA", Tagging="t=1", ServerSideEncryption="AES256", ACL="public-read")
    answer = cos.copy_object(BUCKET, "copy", source("so urce+ü"), ContentType="text/ignored")
    equal((answer["ETag"], answer["CRC64"]), (tag(b"source"), answer["x-cos-hash-crc64ecma"]), "answer")
    head = cos.head_object(BUCKET, "copy")
    equal((body(cos, "copy"), head["Content-Type"], head["x-cos-meta-a"]), (b"source", "text/plain", "1"), "kept")
    equal(("x-cos-storage-class" in head, "x-cos-server-side-encryption" in head), (False, False), "not kept")
    equal(cos.get_object_acl(BUCKET, "copy")["CannedACL"], "default", "access is not kept")
    equal(cos.get_object_tagging(BUCKET, "copy")["TagSet"]["Tag"], [{"Key": "t", "Value": "1"}], "tags")
    cos.copy_object(BUCKET, "copy", source("so urce+ü"), CopyStatus="Replaced", StorageClass="ARCHIVE",
                    Metadata={"x-cos-meta-b": "2", "x-cos-tagging-directive": "Replaced"}, Tagging="u=2")
    head = cos.head_object(BUCKET, "copy")
    equal((head["Content-Type"], "x-cos-meta-a" in head), ("application/octet-stream", False), "replaced")
    equal((head["x-cos-meta-b"], head["x-cos-storage-class"]), ("2", "ARCHIVE"), "replaced")
    equal(cos.get_object_tagging(BUCKET, "copy")["TagSet"]["Tag"], [{"Key": "u", "Value": "2"}], "replaced tags")
    refused("InvalidObjectState", lambda: cos.copy_object(BUCKET, "x", source("copy")), 403)
    cos.update_object_meta(BUCKET, "so urce+ü", ContentType="text/new")
    equal(cos.head_object(BUCKET, "so urce+ü")["Content-Type"], "text/new", "onto itself")
    cos.change_object_storage_class(BUCKET, "so urce+ü", "INTELLIGENT_TIERING")
    equal(cos.head_object(BUCKET, "so urce+ü")["x-cos-storage-tier"], "FREQUENT", "class")


@test
def copies_are_refused(store, cos):
    etag = cos.put_object(BUCKET, b"s", "s")["ETag"]
    copy = lambda key="d", **more: lambda: cos.copy_object(BUCKET, key, source("s"), **more)
    refused("InvalidRequest", copy("s"), 400)
    refused("PreconditionFailed", copy(CopySourceIfMatch='"x"'), 412)
    refused("PreconditionFailed", copy(CopySourceIfNoneMatch=etag), 412)
    refused("PreconditionFailed", copy(CopySourceIfUnmodifiedSince="Mon, 01 Jan 2001 00:00:00 GMT"), 412)
    refused("PreconditionFailed", copy(
        CopySourceIfModifiedSince=cos.head_object(BUCKET, "s")["Last-Modified"]), 412)
    copy(CopySourceIfMatch=etag)()
    refused("NoSuchKey", lambda: cos.copy_object(BUCKET, "d", source("none")), 404)
    refused("NoSuchBucket", lambda: cos.copy_object(BUCKET, "d", source("s", Bucket="none-1250000000")), 404)
    refused("NoSuchVersion", lambda: cos.copy_object(BUCKET, "d", source("s", VersionId="v")), 404)
    cos.copy_object(BUCKET, "d", source("s", VersionId="null"))
    for text in (f"{BUCKET}/s", f"/{BUCKET}/s", f"http://{HOST}/s", HOST, f"{HOST}/", "other.example.com/s"):
        status, _, answer = raw(store, "PUT", "/d", headers={"x-cos-copy-source": text})
        equal((status, b"<Code>InvalidCopySource</Code>" in answer), (400, True), text)
    status, _, answer = raw(store, "PUT", "/d", headers={
        "x-cos-copy-source": f"{HOST}/s", "x-cos-metadata-directive": "REPLACE"})
    equal((status, b"<Code>InvalidArgument</Code>" in answer), (400, True), "S3's word")
    for text in (f"{HOST}/s", f"{BUCKET}.localhost/s", f"cos.{REGION}.myqcloud.com/{BUCKET}/s",
                 f"{BUCKET}.cos.accelerate.myqcloud.com/s", f"{BUCKET}.cos-internal.{REGION}.tencentcos.cn/s"):
        status, _, answer = raw(store, "PUT", "/d", headers={"x-cos-copy-source": text})
        equal((status, b"CopyObjectResult" in answer), (200, True), text)


# ---------------------------------------------------------------- uploads in parts

@test
def uploads_in_parts(store, cos):
    data = os.urandom(2 * MIB + 12345)
    upload = cos.create_multipart_upload(
        BUCKET, "mp ü", ContentType="text/big", StorageClass="STANDARD_IA", Metadata={"x-cos-meta-m": "1"}, Tagging="t=1")
    equal((upload["Bucket"], upload["Key"]), (BUCKET, "mp ü"), "what was begun")
    upload = upload["UploadId"]
    parts = []
    for number, start in ((3, 2 * MIB), (1, 0), (2, MIB)):
        piece = data[start:start + MIB]
        answer = cos.upload_part(BUCKET, "mp ü", piece, number, upload, EnableMD5=True)
        equal(answer["ETag"], tag(piece), "part")
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    parts.sort(key=lambda part: part["PartNumber"])
    parts[0]["ETag"] = parts[0]["ETag"].strip('"')
    listed = cos.list_parts(BUCKET, "mp ü", upload)
    equal((listed["Key"], listed["StorageClass"], listed["IsTruncated"]), ("mp ü", "STANDARD_IA", "false"), "list")
    equal([(p["PartNumber"], p["Size"]) for p in listed["Part"]],
          [("1", str(MIB)), ("2", str(MIB)), ("3", "12345")], "parts")
    page = cos.list_parts(BUCKET, "mp ü", upload, MaxParts=2)
    equal((len(page["Part"]), page["IsTruncated"], page["NextPartNumberMarker"]), (2, "true", "2"), "first page")
    page = cos.list_parts(BUCKET, "mp ü", upload, MaxParts=2, PartNumberMarker=2)
    equal(([p["PartNumber"] for p in page["Part"]], page["IsTruncated"]), (["3"], "false"), "second page")
    answer = cos.complete_multipart_upload(BUCKET, "mp ü", upload, {"Part": parts})
    digests = b"".join(hashlib.md5(data[start:start + MIB]).digest() for start in (0, MIB, 2 * MIB))
    equal(answer["ETag"], f'"{hashlib.md5(digests).hexdigest()}-3"', "ETag")
    equal((answer["Bucket"], answer["Key"], answer["Location"]),
          (BUCKET, "mp ü", f"http://{HOST}/mp%20%C3%BC"), "what was completed")
    head = cos.head_object(BUCKET, "mp ü")
    equal((head["Content-Type"], head["x-cos-storage-class"], head["x-cos-meta-m"]), ("text/big", "STANDARD_IA", "1"))
    equal(body(cos, "mp ü"), data, "content")
    whole = cos.put_object(BUCKET, data, "whole")
    equal(head["x-cos-hash-crc64ecma"], whole["x-cos-hash-crc64ecma"], "CRC-64 of the parts in a row")
    equal(answer["x-cos-hash-crc64ecma"], whole["x-cos-hash-crc64ecma"], "CRC-64 of the completion")
    refused("NoSuchUpload", lambda: cos.complete_multipart_upload(BUCKET, "mp ü", upload, {"Part": parts}), 404)


@test
def bad_completions_are_refused(store, cos):
    upload = cos.create_multipart_upload(BUCKET, "mp")["UploadId"]
    sizes = {1: MIB, 2: 1000, 3: MIB, 4: 1}
    tags = {n: cos.upload_part(BUCKET, "mp", b"x" * size, n, upload)["ETag"] for n, size in sizes.items()}
    chosen = lambda *numbers: {"Part": [{"PartNumber": n, "ETag": tags.get(n, tags[1])} for n in numbers]}
    complete = lambda parts: lambda: cos.complete_multipart_upload(BUCKET, "mp", upload, parts)
    refused("InvalidPartOrder", complete(chosen(3, 1)), 400)
    refused("InvalidPartOrder", complete(chosen(1, 1)), 400)
    refused("InvalidPart", complete(chosen(1, 3)), 400)
    refused("InvalidPart", complete(chosen(3)), 400)
    refused("InvalidPart", complete({"Part": [{"PartNumber": 1, "ETag": '"' + "0" * 32 + '"'}]}), 400)
    refused("InvalidPart", complete({"Part": chosen(1)["Part"] + [{"PartNumber": 5, "ETag": tags[1]}]}), 400)
    refused("EntityTooSmall", complete(chosen(1, 2, 3)), 400)
    refused("MalformedXML", complete({"Part": []}), 400)
    cos.upload_part(BUCKET, "mp", b"y" * MIB, 2, upload)
    tags[2] = tag(b"y" * MIB)
    complete(chosen(1, 2, 3, 4))()
    equal(body(cos, "mp"), b"x" * MIB + b"y" * MIB + b"x" * (MIB + 1), "in the end")
    refused("NoSuchUpload", lambda: cos.upload_part(BUCKET, "mp", b"x", 1, upload), 404)
    refused("NoSuchUpload", lambda: cos.list_parts(BUCKET, "mp", "nonsense"), 404)
    refused("NoSuchUpload", lambda: cos.abort_multipart_upload(BUCKET, "mp", upload), 404)
    upload = cos.create_multipart_upload(BUCKET, "mp")["UploadId"]
    for number in (0, 10_001, "x"):
        refused("InvalidArgument", lambda: cos.upload_part(BUCKET, "mp", b"x", number, upload), 400)
    cos.upload_part(BUCKET, "mp", b"x", 10_000, upload)
    wrong = base64.b64encode(hashlib.md5(b"y").digest()).decode()
    refused("BadDigest", lambda: cos.upload_part(BUCKET, "mp", b"x", 1, upload, ContentMD5=wrong), 400)
    cos.abort_multipart_upload(BUCKET, "mp", upload)
    refused("NoSuchUpload", lambda: cos.list_parts(BUCKET, "mp", upload), 404)


@test
def uploads_are_listed(store, cos):
    ids = {}
    for key in ("a/1", "a/2", "b", "b", "c d+ü"):
        ids.setdefault(key, []).append(cos.create_multipart_upload(BUCKET, key, StorageClass="ARCHIVE")["UploadId"])
    wanted = [(key, upload) for key in sorted(ids) for upload in ids[key]]
    listed = cos.list_multipart_uploads(BUCKET)
    equal([(u["Key"], u["UploadId"]) for u in listed["Upload"]], wanted, "all")
    equal((listed["Upload"][0]["StorageClass"], bool(listed["Upload"][0]["Initiator"]["ID"])), ("ARCHIVE", True), "entry")
    got, markers = [], ("", "")
    for _ in range(10):
        page = cos.list_multipart_uploads(BUCKET, MaxUploads=1, KeyMarker=markers[0], UploadIdMarker=markers[1])
        got += [(u["Key"], u["UploadId"]) for u in page["Upload"]]
        if page["IsTruncated"] == "false":
            break
        markers = (page["NextKeyMarker"], page["NextUploadIdMarker"])
    equal(got, wanted, "one by one")
    page = cos.list_multipart_uploads(BUCKET, Delimiter="/")
    equal(([u["Key"] for u in page["Upload"]], page["CommonPrefixes"]), (["b", "b", "c d+ü"], [{"Prefix": "a/"}]), "groups")
    equal([u["Key"] for u in cos.list_multipart_uploads(BUCKET, Prefix="a/2")["Upload"]], ["a/2"], "prefix")
    equal([u["Key"] for u in cos.list_multipart_uploads(BUCKET, KeyMarker="b")["Upload"]], ["c d+ü"], "behind a key")
    coded = cos.list_multipart_uploads(BUCKET, Prefix="c", EncodingType="url")
    equal((coded["Upload"][0]["Key"], coded["Encoding-Type"]), ("c%20d%2B%C3%BC", "url"), "encoded")
    refused("InvalidArgument", lambda: cos.list_multipart_uploads(BUCKET, MaxUploads=0), 400)


@test
def parts_are_copied(store, cos):
    data = os.urandom(3 * MIB + 100)
    cos.put_object(BUCKET, data, "big", StorageClass="STANDARD_IA")
    upload = cos.create_multipart_upload(BUCKET, "joined")["UploadId"]
    copy = lambda number, range="", **more: cos.upload_part_copy(
        BUCKET, "joined", number, upload, source("big"), range, **more)
    parts = [copy(1, f"bytes={MIB}-{2 * MIB - 1}"), copy(2, f"bytes=0-{MIB - 1}"), copy(3)]
    equal(parts[0]["ETag"], tag(data[MIB:2 * MIB]), "part")
    answer = cos.complete_multipart_upload(
        BUCKET, "joined", upload, {"Part": [{"PartNumber": i + 1, "ETag": p["ETag"]} for i, p in enumerate(parts)]})
    wanted = data[MIB:2 * MIB] + data[:MIB] + data
    equal(body(cos, "joined"), wanted, "content")
    equal(answer["x-cos-hash-crc64ecma"], cos.put_object(BUCKET, wanted, "same")["x-cos-hash-crc64ecma"], "CRC-64")
    upload = cos.create_multipart_upload(BUCKET, "joined")["UploadId"]
    for range in (f"bytes=0-{len(data)}", "bytes=5-", "0-5", "bytes=9-3"):
        refused("InvalidArgument", lambda: copy(1, range), 400)
    refused("PreconditionFailed", lambda: copy(1, CopySourceIfMatch='"x"'), 412)
    # The SDK asks the source's own host for its size.
    hosts = connect(store, by_name=True)
    hosts.get_conf().set_copy_part_threshold_size(MIB)
    answer = hosts.copy(BUCKET, "moved", source("big"), PartSize=1, StorageClass="ARCHIVE")
    equal(answer["ETag"][-3:], '-4"', "the SDK copied in parts")


@test
def files_go_up_and_down_and_resume(store, cos):
    data = os.urandom(5 * MIB + 77)
    directory = tempfile.mkdtemp(prefix="cos-")
    path = os.path.join(directory, "up")
    with open(path, "wb") as file:
        file.write(data)
    try:
        cos.upload_file(BUCKET, "file", path, PartSize=1, MAXThread=4, EnableMD5=True)
        equal(body(cos, "file"), data, "in parts")
        cos.download_file(BUCKET, "file", os.path.join(directory, "down"), PartSize=1, MAXThread=4, EnableCRC=True)
        with open(os.path.join(directory, "down"), "rb") as file:
            equal(file.read(), data, "down")
        upload = cos.create_multipart_upload(BUCKET, "resumed", ContentType="text/begun")["UploadId"]
        for number in (1, 2, 4):
            cos.upload_part(BUCKET, "resumed", data[(number - 1) * MIB:number * MIB], number, upload)
        cos.upload_file(BUCKET, "resumed", path, PartSize=1, MAXThread=4, ContentType="text/anew")
        equal((body(cos, "resumed"), cos.head_object(BUCKET, "resumed")["Content-Type"]), (data, "text/begun"), "resumed")
        equal("Upload" in cos.list_multipart_uploads(BUCKET), False, "no upload is left")
        cos.upload_file(BUCKET, "small", path, PartSize=10)
        equal(cos.head_object(BUCKET, "small")["ETag"], tag(data), "in one piece")
        cos.upload_file_from_buffer(BUCKET, "buffer", io.BytesIO(data), PartSize=1)
        equal(body(cos, "buffer"), data, "from memory")
    finally:
        shutil.rmtree(directory)


# ---------------------------------------------------------------- properties

@test
def access_control(store, cos):
    cos.put_object(BUCKET, b"open", "acl")
    acl = lambda: cos.get_object_acl(BUCKET, "acl")
    anonymous = lambda: unsigned(store, "GET", "/acl", {"Host": HOST})[::2]
    equal((acl()["CannedACL"], anonymous()[0]), ("default", 403), "at first")
    for canned, shown, status in (("public-read", "public-read", 200), ("private", "private", 403),
                                  ("authenticated-read", "private", 403), ("bucket-owner-read", "private", 403),
                                  ("bucket-owner-full-control", "private", 403), ("default", "default", 403)):
        cos.put_object_acl(BUCKET, "acl", ACL=canned)
        equal((acl()["CannedACL"], anonymous()[0]), (shown, status), canned)
    cos.put_bucket_acl(BUCKET, ACL="public-read")
    equal((anonymous(), cos.get_bucket_acl(BUCKET)["CannedACL"]), ((200, b"open"), "public-read"), "by its bucket")
    cos.put_object_acl(BUCKET, "acl", ACL="private")
    equal(anonymous()[0], 403, "private in a public bucket")
    equal(unsigned(store, "GET", "/?prefix=a", {"Host": HOST, "Authorization": ""})[0], 200, "listing")
    equal(unsigned(store, "PUT", "/new", {"Host": HOST}, b"x")[0], 403, "writing")
    cos.put_bucket_acl(BUCKET, ACL="public-read-write")
    equal(unsigned(store, "PUT", "/new", {"Host": HOST}, b"x")[0], 200, "writing")
    equal(unsigned(store, "GET", "/new?response-content-type=a/b", {"Host": HOST})[0], 400, "overriding")
    refused("InvalidArgument", lambda: cos.put_bucket_acl(BUCKET, ACL="default"), 400)
    cos.put_bucket_acl(BUCKET, ACL="private")
    cos.put_object_acl(BUCKET, "acl", GrantRead='id="100000000002",id="qcs::cam::uin/1:uin/2"',
                       GrantFullControl='id="100000000003"')
    grants = [(g["Grantee"]["ID"], g["Permission"]) for g in acl()["AccessControlList"]["Grant"]][1:]
    equal(grants, [("qcs::cam::uin/100000000002:uin/100000000002", "READ"), ("qcs::cam::uin/1:uin/2", "READ"),
                   ("qcs::cam::uin/100000000003:uin/100000000003", "FULL_CONTROL")], "grants")
    refused("InvalidArgument", lambda: cos.put_object_acl(BUCKET, "acl", GrantRead="somebody"), 400)
    schema = "http://www.w3.org/2001/XMLSchema-instance"
    policy = {"Owner": {"ID": acl()["Owner"]["ID"]}, "AccessControlList": {"Grant": [
        {"Grantee": {"@xmlns:xsi": schema, "@xsi:type": "Group",
                     "URI": "http://cam.qcloud.com/groups/global/AllUsers"}, "Permission": "READ"},
        {"Grantee": {"@xmlns:xsi": schema, "@xsi:type": "CanonicalUser", "ID": "qcs::cam::uin/5:uin/5"},
         "Permission": "WRITE_ACP"}]}}
    cos.put_object_acl(BUCKET, "acl", AccessControlPolicy=policy)
    equal((acl()["CannedACL"], anonymous()[0]), ("public-read", 200), "policy")
    equal([g["Permission"] for g in acl()["AccessControlList"]["Grant"]], ["FULL_CONTROL", "READ", "WRITE_ACP"], "policy")
    policy["AccessControlList"]["Grant"][0]["Permission"] = "NONSENSE"
    refused("MalformedACLError", lambda: cos.put_object_acl(BUCKET, "acl", AccessControlPolicy=policy), 400)
    refused("MissingSecurityHeader", lambda: cos.put_object_acl(BUCKET, "acl"), 400)


@test
def tags(store, cos):
    cos.put_object(BUCKET, b"", "t")
    refused("NoSuchTagSet", lambda: cos.get_object_tagging(BUCKET, "t"), 404)
    wanted = [{"Key": "k ü", "Value": "v&<1>"}, {"Key": "l", "Value": "2"}]
    cos.put_object_tagging(BUCKET, "t", {"TagSet": {"Tag": wanted}})
    equal(cos.get_object_tagging(BUCKET, "t")["TagSet"]["Tag"], wanted, "set")
    for bad in ([{"Key": f"k{i}", "Value": ""} for i in range(11)], [{"Key": "k" * 129, "Value": ""}],
                [{"Key": "k", "Value": "v" * 257}], [{"Key": "k", "Value": "1"}, {"Key": "k", "Value": "2"}]):
        refused("InvalidTag", lambda: cos.put_object_tagging(BUCKET, "t", {"TagSet": {"Tag": bad}}), 400)
    cos.delete_object_tagging(BUCKET, "t")
    refused("NoSuchTagSet", lambda: cos.get_object_tagging(BUCKET, "t"), 404)
    refused("NoSuchKey", lambda: cos.put_object_tagging(BUCKET, "none", {"TagSet": {"Tag": wanted}}), 404)


@test
def archived_objects_are_restored(store, cos):
    request = lambda tier, days=2: {"Days": days, "CASJobParameters": {"Tier": tier}}
    cos.put_object(BUCKET, b"cold", "cold", StorageClass="ARCHIVE")
    cos.put_object(BUCKET, b"deep", "deep", StorageClass="DEEP_ARCHIVE")
    cos.put_object(BUCKET, b"warm", "warm", StorageClass="MAZ_STANDARD_IA")
    refused("InvalidObjectState", lambda: body(cos, "cold"), 403)
    equal(cos.head_object(BUCKET, "cold")["x-cos-storage-class"], "ARCHIVE", "HEAD works")
    equal(body(cos, "warm"), b"warm", "what is not archived")
    refused("RestoreNonArchiveObject", lambda: cos.restore_object(BUCKET, "warm", request("Bulk")), 405)
    refused("InvalidArgument", lambda: cos.restore_object(BUCKET, "deep", request("Expedited")), 400)
    refused("InvalidArgument", lambda: cos.restore_object(BUCKET, "cold", request("Fast")), 400)
    for days in (0, (1 << 63) - 1, "many"):
        refused("InvalidArgument", lambda: cos.restore_object(BUCKET, "cold", request("Bulk", days)), 400)
    listed = lambda: cos.list_objects(BUCKET, Prefix="cold")["Contents"][0]["RestoreStatus"]
    equal(listed(), None, "listed before")
    document = b"<RestoreRequest><Days>2</Days><CASJobParameters><Tier>Expedited</Tier></CASJobParameters></RestoreRequest>"
    restore = lambda: raw(store, "POST", "/cold?restore", data=document)[0]
    equal(restore(), 202, "accepted")
    refused("RestoreAlreadyInProgress", lambda: cos.restore_object(BUCKET, "cold", request("Bulk")), 409)
    head = cos.head_object(BUCKET, "cold")
    equal((head["x-cos-restore"], listed()), ('ongoing-request="true"', "ONGOING"), "on its way")
    equal(head["x-cos-restore-status"].startswith('tier="expedited"; request-date="'), True, "order")
    for _ in range(100):
        if "expiry-date" in cos.head_object(BUCKET, "cold")["x-cos-restore"]:
            break
        time.sleep(0.1)
    equal((body(cos, "cold"), listed()), (b"cold", "DONE"), "restored")
    equal("16:00:00 GMT" in cos.head_object(BUCKET, "cold")["x-cos-restore"], True, "until midnight in China")
    equal(restore(), 200, "extended")
    cos.restore_object(BUCKET, "deep", request("Standard"))


@test
def encryption_modes(store, cos):
    key = base64.b64encode(b"0123456789ABCDEF0123456789ABCDEF").decode()
    customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key, "SSECustomerKeyMD5": "U5L61r7jcwdNvT7frmUG8g=="}
    other = base64.b64encode(b"0" * 32).decode()
    wrong = {**customer, "SSECustomerKey": other,
             "SSECustomerKeyMD5": base64.b64encode(hashlib.md5(b"0" * 32).digest()).decode()}
    answer = cos.put_object(BUCKET, b"secret", "sse", **customer)
    equal(answer["x-cos-server-side-encryption-customer-key-MD5"], customer["SSECustomerKeyMD5"], "key MD5")
    equal(answer["ETag"] == tag(b"secret"), False, "the tag is not the MD5")
    equal(body(cos, "sse", **customer), b"secret", "read")
    equal(cos.head_object(BUCKET, "sse", **customer)["x-cos-server-side-encryption-customer-algorithm"], "AES256", "head")
    refused("SsecDecryptHeaderInvalid", lambda: body(cos, "sse"), 400)
    equal(refused("Unknown", lambda: cos.head_object(BUCKET, "sse")).get_status_code(), 400, "head without the key")
    refused("SsecDecryptHeaderInvalid", lambda: body(cos, "sse", **wrong), 400)
    refused("InvalidArgument", lambda: cos.put_object(BUCKET, b"x", "bad", **{**customer, "SSECustomerKey": other}), 400)
    refused("SsecDecryptHeaderInvalid", lambda: cos.copy_object(BUCKET, "copy", source("sse")), 400)
    cos.copy_object(BUCKET, "copy", source("sse"), **{"CopySource" + name: value for name, value in customer.items()})
    equal((body(cos, "copy"), cos.head_object(BUCKET, "copy")["ETag"]), (b"secret", tag(b"secret")), "copied out")
    refused("InvalidRequest", lambda: body(cos, "copy", **customer), 400)
    upload = cos.create_multipart_upload(BUCKET, "ssemp", **customer)["UploadId"]
    refused("SsecDecryptHeaderInvalid", lambda: cos.upload_part(BUCKET, "ssemp", b"x", 1, upload), 400)
    part = {"PartNumber": 1, "ETag": cos.upload_part(BUCKET, "ssemp", b"x", 1, upload, **customer)["ETag"]}
    cos.complete_multipart_upload(BUCKET, "ssemp", upload, {"Part": [part]}, **customer)
    equal(body(cos, "ssemp", **customer), b"x", "multipart")
    name = "x-cos-server-side-encryption"
    cos.put_object(BUCKET, b"k", "cos", ServerSideEncryption="AES256")
    equal((cos.head_object(BUCKET, "cos")[name], cos.head_object(BUCKET, "cos")["ETag"]), ("AES256", tag(b"k")), "SSE-COS")
    context = base64.b64encode(b'{"a":"b"}').decode()
    cos.put_object(BUCKET, b"k", "kms", ServerSideEncryption="cos/kms", SSEKMSKeyId="my-key", SSEKMSContext=context)
    head = cos.head_object(BUCKET, "kms")
    equal((head[name], head[name + "-cos-kms-key-id"]), ("cos/kms", "my-key"), "SSE-KMS")
    refused("InvalidArgument", lambda: cos.put_object(
        BUCKET, b"k", "kms", ServerSideEncryption="cos/kms", SSEKMSContext="{}"), 400)
    refused("InvalidArgument", lambda: cos.put_object(BUCKET, b"k", "kms", ServerSideEncryption="aws:kms"), 400)


@test
def symbolic_links(store, cos):
    cos.put_object(BUCKET, b"target", "dir/target", ContentType="text/target")
    cos.put_symlink(BUCKET, "link", "dir/target")
    equal(cos.get_symlink(BUCKET, "link")["x-cos-symlink-target"], "dir/target", "target")
    equal((body(cos, "link"), cos.head_object(BUCKET, "link")["Content-Type"]), (b"target", "text/target"), "followed")
    cos.delete_object(BUCKET, "dir/target")
    refused("NoSuchKey", lambda: body(cos, "link"), 404)
    cos.put_object(BUCKET, b"", "file")
    refused("NotSymlink", lambda: cos.get_symlink(BUCKET, "file"), 400)


# ---------------------------------------------------------------- buckets and the service

@test
def buckets(store, cos):
    equal(cos.head_bucket(BUCKET)["x-cos-bucket-region"], "us-east-1", "region")
    cos.create_bucket("other-1250000000", ACL="public-read")
    try:
        equal(cos.get_bucket_location("other-1250000000")["LocationConstraint"], REGION, "location")
        equal(cos.get_bucket_acl("other-1250000000")["CannedACL"], "public-read", "access")
        refused("BucketAlreadyOwnedByYou", lambda: cos.create_bucket("other-1250000000"), 409)
        refused("InvalidBucketName", lambda: cos.create_bucket("without-account"), 400)
        names = lambda **more: [b["Name"] for b in (cos.list_buckets(**more)["Buckets"] or {"Bucket": []})["Bucket"]]
        equal(names(), ["other-1250000000", BUCKET], "all")
        equal(names(Region=REGION), ["other-1250000000"], "of a region")
        equal(names(Marker="other-1250000000"), [BUCKET], "behind a marker")
        page = cos.list_buckets(MaxKeys=1)
        equal((page["IsTruncated"], page["NextMarker"]), ("true", "other-1250000000"), "page")
        equal(page["Buckets"]["Bucket"][0]["Location"], REGION, "entry")
        equal(names(TagKey="k", TagValue="v"), [], "by tag")
        now = str(int(time.time()) + 60)
        equal((names(CreateTime=now, Range="gt"), len(names(CreateTime=now, Range="lte"))), ([], 2), "by age")
        cos.put_object("other-1250000000", b"x", "k")
        refused("BucketNotEmpty", lambda: cos.delete_bucket("other-1250000000"), 409)
        cos.copy_object(BUCKET, "k", source("k", Bucket="other-1250000000"))
        equal(body(cos, "k"), b"x", "copied from the other")
        cos.delete_object("other-1250000000", "k")
    finally:
        cos.delete_bucket("other-1250000000")
    refused("NoSuchResource", lambda: cos.head_bucket("other-1250000000"), 404)
    refused("NotImplemented", lambda: cos.get_bucket_lifecycle(BUCKET), 501)


# ---------------------------------------------------------------- versions

VERSIONED = "versioned-1250000000"


def versions(cos, **arguments):
    """(key, version, is latest) of each version, then of each delete marker."""
    found, markers, place = [], [], {}
    while True:
        page = cos.list_objects_versions(VERSIONED, **arguments, **place)
        entry = lambda v: (v["Key"], v["VersionId"], v["IsLatest"] == "true")
        found += [entry(v) for v in page.get("Version", [])]
        markers += [entry(v) for v in page.get("DeleteMarker", [])]
        if page["IsTruncated"] != "true":
            return found, markers
        place = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}


@contextlib.contextmanager
def versioned(cos):
    cos.create_bucket(VERSIONED)
    try:
        cos.put_bucket_versioning(VERSIONED, "Enabled")
        yield
        found, markers = versions(cos)
        answer = cos.delete_objects(VERSIONED, Delete={
            "Object": [{"Key": key, "VersionId": version} for key, version, _ in found + markers]})
        equal(len(answer["Deleted"]), len(found + markers), "deleted")
    finally:
        cos.delete_bucket(VERSIONED)


@test
def versions_are_kept_read_and_deleted(store, cos):
    equal("Status" in (cos.get_bucket_versioning(BUCKET) or {}), False, "never versioned")
    with versioned(cos):
        equal(cos.get_bucket_versioning(VERSIONED)["Status"], "Enabled", "status")
        first, second = (cos.put_object(VERSIONED, data, "k")["x-cos-version-id"] for data in (b"first", b"second"))
        read = lambda **version: cos.get_object(VERSIONED, "k", **version)["Body"].get_raw_stream().read()
        equal((read(), read(VersionId=first)), (b"second", b"first"), "GET")
        equal(cos.head_object(VERSIONED, "k", VersionId=first)["x-cos-version-id"], first, "HEAD")
        refused("NoSuchVersion", lambda: read(VersionId="other"), 404)
        marker = cos.delete_object(VERSIONED, "k")
        equal(marker["x-cos-delete-marker"], "true", "marker")
        refused("NoSuchKey", read, 404)
        refused("NoSuchKey", lambda: read(VersionId=marker["x-cos-version-id"]), 404)
        wanted = [("k", second, False), ("k", first, False)], [("k", marker["x-cos-version-id"], True)]
        equal(versions(cos), wanted, "versions")
        equal(versions(cos, MaxKeys=1), wanted, "pages")
        equal("Contents" in cos.list_objects(VERSIONED), False, "plain listing")
        copied = cos.copy_object(VERSIONED, "k", source("k", Bucket=VERSIONED, VersionId=first))
        equal((read(), copied["x-cos-version-id"] in (first, second)), (b"first", False), "copy")
        for version in (copied["x-cos-version-id"], marker["x-cos-version-id"]):
            cos.delete_object(VERSIONED, "k", VersionId=version)
        equal(read(), b"second", "undeleted")
        upload = cos.create_multipart_upload(VERSIONED, "parts")["UploadId"]
        part = cos.upload_part_copy(
            VERSIONED, "parts", 1, upload, source("k", Bucket=VERSIONED, VersionId=first))
        cos.complete_multipart_upload(
            VERSIONED, "parts", upload, {"Part": [{"PartNumber": 1, "ETag": part["ETag"]}]})
        equal(cos.get_object(VERSIONED, "parts")["Body"].get_raw_stream().read(), b"first", "parts")
        answer = cos.delete_objects(VERSIONED, Delete={"Object": [{"Key": "parts"}]})
        equal(answer["Deleted"][0]["DeleteMarker"], "true", "a marker of many")


@test
def suspended_versioning_keeps_one_null_version(store, cos):
    with versioned(cos):
        first = cos.put_object(VERSIONED, b"first", "k")["x-cos-version-id"]
        cos.put_bucket_versioning(VERSIONED, "Suspended")
        for data in (b"one", b"two"):
            equal(cos.put_object(VERSIONED, data, "k")["x-cos-version-id"], "null", "version ID")
        equal(versions(cos), ([("k", "null", True), ("k", first, False)], []), "one null version")
        cos.delete_object(VERSIONED, "k")
        equal(versions(cos), ([("k", first, False)], [("k", "null", True)]), "a null marker in its place")


@test
def every_way_to_address_a_bucket(store, cos):
    cos.put_object(BUCKET, b"here", "dir/k y")
    for host, path in ((HOST, "/dir/k%20y"), (f"{BUCKET}.cos.{REGION}.tencentcos.cn", "/dir/k%20y"),
                       (f"{BUCKET}.cos-internal.{REGION}.tencentcos.cn", "/dir/k%20y"),
                       (f"{BUCKET}.cos.accelerate.myqcloud.com", "/dir/k%20y"), (f"{BUCKET}.localhost:9002", "/dir/k%20y"),
                       (f"cos.{REGION}.myqcloud.com", f"/{BUCKET}/dir/k%20y"), ("127.0.0.1:9002", f"/{BUCKET}/dir/k%20y")):
        equal(raw(store, "GET", path, host=host)[::2], (200, b"here"), host + path)
    for host in ("service.cos.myqcloud.com", "service.cos.tencentcos.cn", "127.0.0.1", "cos.us-east-1.myqcloud.com"):
        equal(BUCKET.encode() in raw(store, "GET", "/", host=host)[2], True, host)
    equal(BUCKET.encode() in raw(store, "GET", "/", host=f"cos.{REGION}.myqcloud.com")[2], False, "another region")
    proxied = connect(store, by_name=True)
    equal(proxied.get_object(BUCKET, "dir/k y")["Body"].get_raw_stream().read(), b"here", "through a proxy")
    equal([b["Name"] for b in proxied.list_buckets()["Buckets"]["Bucket"]], [BUCKET], "through a proxy")


@test
def preflights_follow_the_rules_of_the_bucket(store, cos):
    def asks(origin, method, headers=None):
        asked = {"Host": HOST, "Origin": origin, "Access-Control-Request-Method": method}
        if headers:
            asked["Access-Control-Request-Headers"] = headers
        return unsigned(store, "OPTIONS", "/k", asked)
    status, _, answer = asks("http://a.example.com", "PUT")
    equal((status, b"<Code>AccessForbidden</Code>" in answer), (403, True), "without rules")
    refused("NoSuchCORSConfiguration", lambda: cos.get_bucket_cors(BUCKET), 404)
    rule = {"ID": "1", "AllowedOrigin": ["http://*.example.com", "https://one.org"], "AllowedMethod": ["PUT", "GET"],
            "AllowedHeader": ["x-cos-*", "Content-Type"], "ExposeHeader": ["ETag", "x-cos-request-id"],
            "MaxAgeSeconds": "600"}
    cos.put_bucket_cors(BUCKET, {"CORSRule": [rule]})
    try:
        equal(cos.get_bucket_cors(BUCKET)["CORSRule"], [rule], "rules")
        status, headers, _ = asks("http://a.example.com", "PUT", "X-Cos-Meta-a, content-type")
        equal((status, headers["Access-Control-Allow-Origin"], headers["Access-Control-Allow-Methods"]),
              (200, "http://a.example.com", "PUT,GET"), "allowed")
        equal((headers["Access-Control-Allow-Headers"], headers["Access-Control-Max-Age"],
               headers["Access-Control-Expose-Headers"]),
              ("X-Cos-Meta-a,content-type", "600", "ETag,x-cos-request-id"), "allowed")
        equal(asks("https://one.org", "GET")[0], 200, "the other origin")
        for origin, method, asked in (("http://example.org", "PUT", None), ("http://a.example.com", "DELETE", None),
                                      ("http://a.example.com", "PUT", "x-other"), ("http://.example.co", "PUT", None)):
            equal(asks(origin, method, asked)[0], 403, f"{method} from {origin} with {asked}")
        equal(unsigned(store, "OPTIONS", "/k", {"Host": HOST})[0], 403, "no question")
        cos.put_object(BUCKET, b"x", "k")
        _, headers, _ = raw(store, "GET", "/k", headers={"Origin": "https://one.org"})
        equal(headers["Access-Control-Allow-Origin"], "https://one.org", "an answer to a page")
        equal("Access-Control-Allow-Origin" in raw(store, "GET", "/k")[1], False, "an answer to others")
        for bad in ({**rule, "AllowedMethod": ["PATCH"]}, {**rule, "AllowedOrigin": ["*.*"]}, {"ID": "1"}):
            refused("MalformedXML", lambda: cos.put_bucket_cors(BUCKET, {"CORSRule": [bad]}), 400)
    finally:
        cos.delete_bucket_cors(BUCKET)
    equal(asks("https://one.org", "GET")[0], 403, "deleted")


# ---------------------------------------------------------------- signatures

@test
def wrong_credentials_are_refused(store, cos):
    error = refused("SignatureDoesNotMatch", lambda: connect(store, secret="wrong").list_objects(BUCKET), 403)
    equal("<StringToSign>sha1" in error.get_origin_msg(), True, "the string to sign is shown")
    refused("SignatureDoesNotMatch", lambda: connect(store, secret="wrong").list_buckets(), 403)
    refused("SignatureDoesNotMatch", lambda: connect(store, secret="wrong").put_object(BUCKET, b"x" * MIB, "k"), 403)
    refused("InvalidAccessKeyId", lambda: connect(store, access="nobody").list_objects(BUCKET), 403)
    refused("AccessDenied", lambda: connect(store, Anonymous=True).list_objects(BUCKET), 403)
    refused("NoSuchResource", lambda: cos.head_object(BUCKET, "k"), 404)


@test
def clocks_and_windows_are_checked(store, cos):
    now = time.time()

    @contextlib.contextmanager
    def clock(seconds):
        with mock.patch("time.time", lambda: now + seconds):
            yield
    with clock(30):
        cos.list_objects(BUCKET)
    with clock(-3600):
        cos.list_objects(BUCKET)
    with clock(600):
        equal(refused("AccessDenied", lambda: cos.list_objects(BUCKET), 403).get_error_msg(), "Request has expired")
    with clock(3600):
        refused("RequestTimeTooSkewed", lambda: cos.list_objects(BUCKET), 403)
    with clock(-20_000):
        equal(refused("AccessDenied", lambda: cos.list_objects(BUCKET), 403).get_error_msg(), "Request has expired")
    with clock(3600):
        late = {"Metadata": {"Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now - 3600))}}
    refused("RequestTimeTooSkewed", lambda: cos.put_object(BUCKET, b"", "k", **late), 403)


@test
def session_tokens_are_wanted(store, cos):
    own = Store("--session-token", "TOKEN/abc==", "--bucket", BUCKET)
    try:
        client = connect(own, token="TOKEN/abc==")
        client.put_object(BUCKET, b"token", "k")
        equal(body(client, "k"), b"token", "with the token")
        refused("AccessDenied", lambda: connect(own).list_objects(BUCKET), 403)
        refused("ExpiredToken", lambda: connect(own, token="older").list_objects(BUCKET), 400)
        signer = connect(own, by_name=True)
        url = signer.get_presigned_url(BUCKET, "k", "GET", Params={"x-cos-security-token": "TOKEN/abc=="})
        equal(fetch(own, url), b"token", "presigned")
        refused_url(own, signer.get_presigned_url(BUCKET, "k", "GET"), "AccessDenied")
    finally:
        own.remove()
    refused("ExpiredToken", lambda: connect(store, token="stray").list_objects(BUCKET), 400)


def fetch(store, url, method="GET", data=None, headers=None):
    """The answer to a presigned URL whose host stands for the store."""
    parts = urllib.parse.urlsplit(url)
    headers = {"Host": parts.hostname, **(headers or {})}
    status, _, answer = unsigned(store, method, f"{parts.path}?{parts.query}", headers, data)
    if status >= 400:
        raise urllib.error.HTTPError(url, status, answer.decode(), None, None)
    return answer


def refused_url(store, url, code):
    try:
        fetch(store, url)
    except urllib.error.HTTPError as error:
        equal(f"<Code>{code}</Code>" in error.reason, True, f"{code} in {error.reason}")
        return error
    raise AssertionError(f"no {code}")


@test
def presigned_urls(store, cos):
    signer, key = connect(store, by_name=True), "pre signed+ü"
    fetch(store, signer.get_presigned_url(BUCKET, key, "PUT"), "PUT", b"by url")
    url = signer.get_presigned_url(BUCKET, key, "GET", Params={"response-content-type": "text/plain; a=b"})
    equal(fetch(store, url), b"by url", "read")
    refused_url(store, url.replace("text%2Fplain", "text%2Fhtml"), "SignatureDoesNotMatch")
    refused_url(store, url.replace("pre%20", "pro%20"), "SignatureDoesNotMatch")
    refused_url(store, signer.get_presigned_url(BUCKET, key, "PUT"), "SignatureDoesNotMatch")
    error = refused_url(store, signer.get_presigned_download_url(BUCKET, key, Expired=-30), "AccessDenied")
    equal("Request has expired" in error.reason, True, "expired")
    named = signer.get_presigned_url(BUCKET, key, "GET", Headers={"Range": "bytes=0-1"})
    equal(fetch(store, named, headers={"Range": "bytes=0-1"}), b"by", "a signed header")
    refused_url(store, named, "SignatureDoesNotMatch")


# ---------------------------------------------------------------- the server

@test
def faults_fire(store, cos):
    data = b"0123456789" * 1000
    cos.put_object(BUCKET, data, "f")
    try:
        store.faults("kind=status:503,op=GetObject,key=f*,count=1")
        refused("SlowDown", lambda: body(cos, "f"), 503)
        equal(body(cos, "f"), data, "once")
        store.faults("kind=status:503,op=PutObject,count=1")
        connect(store, retry=2).put_object(BUCKET, b"x", "g")
        store.faults("kind=expired,op=GetObject")
        refused("ExpiredToken", lambda: body(cos, "f"), 400)
        store.faults("op=PutObjectCopy,kind=status:200,count=1")
        refused("InternalError", lambda: cos.copy_object(BUCKET, "g", source("f")), 200)
        upload = cos.create_multipart_upload(BUCKET, "h")["UploadId"]
        parts = {"Part": [{"PartNumber": 1, "ETag": cos.upload_part(BUCKET, "h", b"x", 1, upload)["ETag"]}]}
        store.faults("op=CompleteMultipartUpload,kind=status:200,count=1", "op=UploadPartCopy,kind=status:200,count=1")
        refused("InternalError", lambda: cos.complete_multipart_upload(BUCKET, "h", upload, parts), 200)
        equal(cos.upload_part_copy(BUCKET, "h", 2, upload, source("f"))["Code"], "InternalError", "copy of a part")
        store.faults("op=CompleteMultipartUpload,kind=lost-reply,count=1")
        refused("NoSuchUpload", lambda: connect(store, retry=2).complete_multipart_upload(BUCKET, "h", upload, parts), 404)
        equal(body(cos, "h"), b"x", "completed although the reply was lost")
        store.faults("op=GetObject,kind=alter")
        equal(body(cos, "f") == data, False, "altered down")
        store.faults("op=PutObject,kind=alter")
        refused("BadDigest", lambda: cos.put_object(BUCKET, data, "i", EnableMD5=True), 400)
        answer = cos.put_object(BUCKET, data, "i")
        equal(answer["x-cos-hash-crc64ecma"] == cos.head_object(BUCKET, "f")["x-cos-hash-crc64ecma"], False, "altered up")
        store.faults("op=PutObject,kind=cut:100")
        try:
            cos.put_object(BUCKET, data, "j")
            raise AssertionError("a cut upload succeeded")
        except CosClientError:
            pass
        store.faults()
        refused("NoSuchResource", lambda: cos.head_object(BUCKET, "j"), 404)
    finally:
        store.faults()


@test
def numbers_out_of_range_are_refused_or_taken_and_nothing_else(store, cos):
    cos.put_object(BUCKET, b"x", "k")
    upload = cos.create_multipart_upload(BUCKET, "mp")["UploadId"]
    numbers = ["-1", "0", str((1 << 63) - 1), str(-(1 << 63)), str(1 << 63), "x", "1e9", " 1", ""]
    targets = ["/?max-keys={}", "/?versions&max-keys={}", "/?uploads&max-uploads={}", f"/mp?uploadId={upload}&max-parts={{}}",
               f"/mp?uploadId={upload}&part-number-marker={{}}", "/k?x-cos-traffic-limit={}"]
    for number in numbers:
        for target in targets:
            status = raw(store, "GET", target.format(urllib.parse.quote(number)))[0]
            equal(status in (200, 400), True, f"{status} for {target} with {number!r}")
        for target in ("/append?append&position={}", f"/mp?uploadId={upload}&partNumber={{}}"):
            method = "POST" if "append" in target else "PUT"
            status = raw(store, method, target.format(urllib.parse.quote(number)), data=b"")[0]
            equal(status in (200, 400, 409), True, f"{status} for {target} with {number!r}")
        for header in (f"bytes={number}-", f"bytes=0-{number}", f"bytes=-{number}"):
            status = raw(store, "GET", "/k", headers={"Range": header})[0]
            equal(status in (200, 206, 416), True, f"{status} for {header!r}")
        window = f"q-sign-algorithm=sha1&q-ak={ACCESS_KEY}&q-sign-time={number};{number}&q-key-time={number};{number}" \
                 "&q-header-list=&q-url-param-list=&q-signature=x"
        status = unsigned(store, "GET", "/", {"Host": HOST, "Authorization": window})[0]
        equal(status in (400, 403), True, f"{status} for a window of {number!r}")
    cos.head_bucket(BUCKET)


@test
def operations_are_logged_by_their_names(store, cos):
    log = os.path.join(tempfile.mkdtemp(prefix="pailstore-log-"), "log")
    own = Store("--bucket", BUCKET, "--log-requests", log)
    try:
        client = connect(own)
        client.put_object(BUCKET, b"12345", "k ü")
        body(client, "k ü", Range="bytes=1-2")
        client.head_object(BUCKET, "k ü")
        client.list_objects(BUCKET)
        client.copy_object(BUCKET, "c", source("k ü"))
        client.list_buckets()
        with open(log) as file:
            lines = [json.loads(line) for line in file]
        got = [(line["operation"], line["bucket"], line["key"], line["status"], line["bytes_in"]) for line in lines]
        equal(got, [("PutObject", BUCKET, "k ü", 200, 5), ("GetObject", BUCKET, "k ü", 206, 0),
                    ("HeadObject", BUCKET, "k ü", 200, 0), ("GetBucket", BUCKET, "", 200, 0),
                    ("PutObjectCopy", BUCKET, "c", 200, 0), ("GetService", "", "", 200, 0)], "log")
    finally:
        own.remove()
        shutil.rmtree(os.path.dirname(log))


@test
def everything_survives_a_kill(store, cos):
    own = Store("--bucket", BUCKET)
    try:
        client = connect(own)
        client.append_object(BUCKET, "log", 0, b"one", ContentType="text/log")
        client.put_symlink(BUCKET, "link", "log")
        client.put_object(BUCKET, b"x", "k", StorageClass="ARCHIVE", ACL="private", ServerSideEncryption="cos/kms")
        client.restore_object(BUCKET, "k", {"Days": 3, "CASJobParameters": {"Tier": "Bulk"}})
        client.put_object(BUCKET, b"x", "plain")
        upload = client.create_multipart_upload(BUCKET, "mp", StorageClass="STANDARD_IA")["UploadId"]
        part = client.upload_part(BUCKET, "mp", b"12345", 1, upload)
        own.process.kill()
        own.process.wait()
        own = Store(directory=own.directory)
        client = connect(own)
        equal(client.append_object(BUCKET, "log", 3, b"two")["x-cos-next-append-position"], "6", "append goes on")
        equal(body(client, "link"), b"onetwo", "link")
        head = client.head_object(BUCKET, "k")
        equal((head["x-cos-storage-class"], head["x-cos-server-side-encryption"]), ("ARCHIVE", "cos/kms"), "described")
        equal(head["x-cos-restore-status"].startswith('tier="bulk"'), True, "restoring")
        equal(client.get_object_acl(BUCKET, "k")["CannedACL"], "private", "access")
        equal(client.get_object_acl(BUCKET, "plain")["CannedACL"], "default", "access")
        equal("x-cos-server-side-encryption" in client.head_object(BUCKET, "plain"), False, "encryption")
        answer = client.complete_multipart_upload(
            BUCKET, "mp", upload, {"Part": [{"PartNumber": 1, "ETag": part["ETag"]}]})
        equal(answer["x-cos-hash-crc64ecma"], part["x-cos-hash-crc64ecma"], "CRC-64")
    finally:
        own.remove()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(conformance.main(Store, {"cos-python-sdk-v5": connect}, clear, BUCKET))
