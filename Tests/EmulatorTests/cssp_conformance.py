#!/usr/bin/env python3
"""Holds pailstore's CSSP dialect to the vectors and flows of its provider's SDKs, which are not in Python: requests are
signed here by the provider's rule, and the recorded calls of the Java SDK are replayed.

PAILSTORE names the built binary. With SWIFT_AUTH, SWIFT_USER and SWIFT_KEY instead, the same is asked of an OpenStack
Swift, all but what is about signatures and other dialects: so the emulator is held to what the real one does. Prints one
line for each failure and "N passed, M failed" at the end; exit status 0 only when nothing failed.
"""
import base64
import email.utils
import functools
import hashlib
import hmac
import http.client
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree

import boto3
from botocore.config import Config

import conformance
from conformance import MIB

KEY, SECRET, CONTAINER, OTHER = "pailstore", "pailstore-secret", "photos", "other"
EMPTY = hashlib.md5(b"").hexdigest()
IS_REAL = "SWIFT_AUTH" in os.environ
ODD_KEYS = [
    "plain", "dir/file", "dir/", "dir//double", "/leading", "a b+c%d&e=f?g#h", "~!*'()", "ünïcode/中文", "./dot",
    "../dots", "a/../b", "trailing/", "percent%2Fslash", "tab\tkey", "quote\"<>&'", "back\\slash", "x" * 1024,
    "emoji \U0001F642", "猫/a b+c.txt",
]


def test(function):
    """There is no client besides the store's own requests."""
    return conformance.test(functools.wraps(function)(lambda store, _: function(store)))


def ours(function):
    """What only pailstore can show."""
    return function if IS_REAL else test(function)


def md5(data):
    return hashlib.md5(data).hexdigest()


def quote(name, safe="/"):
    return urllib.parse.quote(name, safe=safe + "-_.~")


class Answer:
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def __getitem__(self, name):
        return self.headers.get(name.lower())

    @property
    def json(self):
        return json.loads(self.body)


class Store(conformance.Store):
    dialect = "cssp"

    def raw(self, method, target, headers=(), body=b"", length=None):
        """Sends exactly these headers; `length` announces another length than the body has, or none when it is False."""
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            for name, value in dict(headers).items():
                connection.putheader(name, value.encode() if isinstance(value, str) else value)
            if length is not False and (body or length is not None or method in ("PUT", "POST")):
                connection.putheader("Content-Length", str(len(body) if length is None else length))
            connection.endheaders(body)
            if length:
                connection.sock.shutdown(1)
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def call(self, method, path, body=b"", query="", secret=SECRET, key=KEY, date=None, encoded=None, digest=None,
             resource=None, length=None, **headers):
        """A signed request; `path` is not encoded, keyword headers have underscores for hyphens."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Date"] = date or email.utils.formatdate(usegmt=True)
        text = string_to_sign(method, sent, resource or path, digest)
        code = base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()
        sent["Authorization"] = f"CSSP {key}:{code}"
        target = (encoded or quote(path)) + ("?" + query if query else "")
        return self.raw(method, target, sent, body, length)

    def put(self, name, body=b"", container=CONTAINER, **headers):
        answer = self.call("PUT", f"/{container}/{name}", body, **headers)
        assert answer.status == 201, (answer.status, answer.body)
        return answer

    def get(self, name, container=CONTAINER, **headers):
        return self.call("GET", f"/{container}/{name}", **headers)

    def head(self, name, container=CONTAINER, **headers):
        return self.call("HEAD", f"/{container}/{name}", **headers)

    def list(self, container=CONTAINER, **query):
        text = urllib.parse.urlencode({"format": "json", **query})
        answer = self.call("GET", f"/{container}", query=text)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def names(self, **query):
        return [entry.get("name") or entry["subdir"] for entry in self.list(**query)]

    def clear(self):
        for container in (CONTAINER, OTHER):
            for name in [entry["name"] for entry in self.list(container)]:
                assert self.call("DELETE", f"/{container}/{name}").status == 204


class RealSwift(Store):
    """An OpenStack Swift that runs already; a token stands for a signature."""

    def __init__(self, *_):
        url = urllib.parse.urlsplit(os.environ["SWIFT_AUTH"])
        self.host, self.account = url.netloc, ""
        answer = self.raw("GET", url.path, {"X-Auth-User": os.environ["SWIFT_USER"], "X-Auth-Key": os.environ["SWIFT_KEY"]})
        self.token, self.account = answer["x-auth-token"], urllib.parse.urlsplit(answer["x-storage-url"]).path
        for container in (CONTAINER, OTHER):
            assert self.call("PUT", f"/{container}").status in (201, 202)

    def remove(self):
        self.clear()
        for container in (CONTAINER, OTHER):
            self.call("DELETE", f"/{container}")

    def faults(self, *lines):
        assert not lines, "nobody tells it to fail"

    def raw(self, method, target, headers=(), body=b"", length=None):
        headers = dict(headers)
        if headers.pop("Authorization", None):
            headers["X-Auth-Token"] = self.token
        if target.split("?")[0] == "/":
            target = target[1:]
        return super().raw(method, self.account + target, headers, body, length)


def string_to_sign(method, headers, resource, digest=None):
    lowered = {name.lower(): value for name, value in headers.items()}
    lines = [method, lowered.get("etag", "") if digest is None else digest, lowered.get("content-type", ""),
             lowered["date"]]
    lines += [f"{name}:{lowered[name]}" for name in sorted(lowered) if name.startswith("x-object-meta-")]
    return "\n".join(lines + [resource])


# Signatures

@ours
def the_signer_here_is_the_providers(store):
    secret, date = b"secretkeyEXAMPLE0123456789abcdef", "Mon, 09 Feb 2015 08:00:00 GMT"
    tag = "5d41402abc4b2a76b9719d911017c592"
    meta = {"X-Object-Meta-Mtime": "1423468800.0"}
    form = {"Content-Type": "application/x-www-form-urlencoded", **meta}
    cat = "/photos/animals/cat.txt"
    two = {"ETag": tag, "Content-Type": "text/plain", "X-Object-Meta-User-Data-2": "v2", "x-object-meta-user-data-1": "v1"}
    vectors = [
        ("GET", "/photos", {}, "qyI5HNoc3Z+XM4l1qewo9VbLdKU="), ("HEAD", cat, {}, "oO7nyCx3yiH3hSgnsi7EGeoMfOM="),
        ("PUT", cat, two, "hxsJ8N7MwMZ7FE+HciI14SFbjTc="),
        ("PUT", "/photos/猫/a b+c.txt", {}, "h1xKkVwwfj5aJyGQJ9TV/M7RmzU="),
        ("PUT", "/photos/big", {"X-Object-Manifest": "a/b"}, "Lv1oSlIaZDjZ9/Nc8mJGgGbIZK4="),
        ("DELETE", cat, {}, "JrzAsGvw+waSYy1LRQuDaSHdlU0="), ("HEAD", "/photos", {}, "wsHrVmIIRAoUAdM/RRHm1dyHg4E="),
        ("POST", "/photos", {}, "qeKDTd+Ks7p05w7u0Ouv9oi3GZk="),
        ("PUT", "/photos/big/UID/00000001", {"ETag": tag}, "sVG8sf6GKwQ3EYo1DfUORIOrX18="),
        ("POST", cat, meta, "x/JoE0/MYZPjcU5zQzd9ad9QsHQ="), ("POST", cat, form, "f3vsZ/owYbaD7yyXmfff/Xe9TTA="),
        ("COPY", cat, {}, "Wn3ngSrhA1vJgZa/5ET8tUxegDc="),
    ]
    for method, resource, headers, expected in vectors:
        text = string_to_sign(method, {**headers, "Date": date}, resource)
        code = base64.b64encode(hmac.new(secret, text.encode(), hashlib.sha1).digest()).decode()
        assert code == expected, (method, resource, code)


@ours
def wrong_signatures_are_refused(store):
    store.put("a", b"hello")
    assert store.get("a", secret="wrong").status == 401
    assert store.get("a", key="stranger").status == 401
    for seconds in (-1200, 1200):
        assert store.get("a", date=email.utils.formatdate(time.time() + seconds, usegmt=True)).status == 401
    assert store.get("a", date=email.utils.formatdate(time.time() - 800, usegmt=True)).status == 200
    assert store.raw("GET", "/photos/a").status == 401
    assert store.raw("GET", "/photos/a", {"Authorization": "Bearer x", "Date": "now"}).status == 401
    answer = store.call("PUT", "/photos/b", b"x", resource="/photos/other")
    assert answer.status == 401 and b"<h1>Unauthorized</h1>" in answer.body
    assert store.head("b").status == 404
    assert answer["x-trans-id"] and answer["date"]


@ours
def what_is_signed_cannot_be_changed(store):
    date = email.utils.formatdate(usegmt=True)
    text = string_to_sign("PUT", {"Date": date, "X-Object-Meta-A": "1", "Content-Type": "a/b"}, "/photos/k")
    code = base64.b64encode(hmac.new(SECRET.encode(), text.encode(), hashlib.sha1).digest()).decode()
    good = {"Date": date, "Authorization": f"CSSP {KEY}:{code}", "X-Object-Meta-A": "1", "Content-Type": "a/b"}
    assert store.raw("PUT", "/photos/k", good).status == 201
    for change in ({"X-Object-Meta-A": "2"}, {"X-Object-Meta-B": "1"}, {"Content-Type": "a/c"}, {"Date": "x"}):
        assert store.raw("PUT", "/photos/k", {**good, **change}).status == 401, change
    # Neither the query nor other headers are covered.
    assert store.raw("PUT", "/photos/k?format=xml", {**good, "X-Delete-After": "60"}).status == 201


@ours
def each_sdks_own_reading_is_understood(store):
    body = b"part"
    for digest, header in ((md5(body), "Content-MD5"), ("", "ETag")):
        answer = store.call("PUT", "/photos/ios", body, digest=digest, **{header.replace("-", "_"): md5(body)})
        assert answer.status == 201, header
    assert store.call("PUT", "/photos/dir/", resource="/photos/dir").status == 201
    assert store.call("PUT", "/photos/猫", b"cpp", resource="/photos/%E7%8C%AB").status == 201
    assert store.get("猫").body == b"cpp"


# The recorded calls of the Java SDK

@test
def the_java_sdks_recorded_calls_work(store):
    assert store.call("HEAD", "/photos").status == 204
    name, path = "animals/cat 猫.txt", "/photos/animals%2Fcat%20%E7%8C%AB.txt"
    answer = store.call("PUT", f"/photos/{name}", b"hello", encoded=path, ETag=md5(b"hello"),
                        Content_Type="text/plain", X_Object_Meta_K1="v1")
    assert answer.status == 201 and answer["etag"] == "5d41402abc4b2a76b9719d911017c592"
    answer = store.call("HEAD", f"/photos/{name}", encoded=path)
    assert (answer.status, answer["content-length"], answer["x-object-meta-k1"]) == (200, "5", "v1")
    answer = store.call("GET", f"/photos/{name}", encoded=path, Range="bytes=1-3")
    assert (answer.status, answer.body, answer["content-range"]) == (206, b"ell", "bytes 1-3/5")
    upload = "20150209080000123456789012345678"
    parts = [b"part %02d" % number for number in range(1, 12)]
    for number, part in enumerate(parts, 1):
        answer = store.call("PUT", f"/photos/big.bin/{upload}/{number:04d}", part,
                            encoded=f"/photos/big.bin%2F{upload}%2F{number:04d}")
        assert answer.status == 201 and answer["etag"] == md5(part)
    answer = store.put("big.bin", X_Object_Manifest=f"photos/big.bin/{upload}")
    assert answer["etag"] == EMPTY
    answer = store.get("big.bin")
    tag = md5("".join(md5(part) for part in parts).encode())
    assert answer.body == b"".join(parts) and answer["etag"] == f'"{tag}"'
    assert answer["content-length"] == str(len(answer.body))
    entries = store.list(prefix="big.bin")
    assert len(entries) == 12 and entries[0]["name"] == "big.bin"
    assert (entries[0]["bytes"], entries[0]["hash"]) == (0, EMPTY)
    assert store.list(prefix="big.bin", marker=f"big.bin/{upload}/0011") == []
    answer = store.put("flat.bin", X_Copy_From="/photos/big.bin")
    assert answer["etag"] == md5(b"".join(parts))
    assert store.get("flat.bin").body == b"".join(parts)
    assert store.call("DELETE", "/photos/flat.bin").status == 204
    answer = store.get("nope")
    assert answer.status == 404 and b"<h1>Not Found</h1>" in answer.body


# Objects

@test
def keys_are_kept_byte_by_byte(store):
    for number, name in enumerate(ODD_KEYS):
        body = b"content %d" % number
        assert store.put(name, body)["etag"] == md5(body)
        assert store.get(name).body == body, name
        assert store.call("GET", f"/photos/{name}", encoded="/photos/" + quote(name, safe="")).body == body, name
    assert store.names() == sorted(ODD_KEYS, key=lambda name: name.encode())
    assert store.call("PUT", "/photos/" + "x" * 1025).status == 400
    assert store.raw("GET", "/photos/%FF", {}).status == 412


@test
def headers_and_metadata_come_back(store):
    store.put("a", b"x", Content_Type="text/x", Content_Encoding="gzip", Content_Disposition="inline",
              Cache_Control="no-cache", X_Object_Meta_User_Data_1="v1", X_Delete_After="100")
    answer = store.head("a")
    assert answer["content-type"] == "text/x" and answer["content-encoding"] == "gzip"
    assert answer["content-disposition"] == "inline" and answer["cache-control"] == "no-cache"
    assert answer["x-object-meta-user-data-1"] == "v1"
    assert abs(int(answer["x-delete-at"]) - time.time() - 100) < 30
    assert answer["etag"] == md5(b"x") and answer["accept-ranges"] == "bytes"
    assert abs(float(answer["x-timestamp"]) - time.time()) < 30
    for header, value in (("X_Object_Meta_" + "a" * 129, "1"), ("X_Object_Meta_A", "a" * 257), ("X_Delete_At", "1")):
        assert store.call("PUT", "/photos/b", b"x", **{header: value}).status == 400, header
    many = {f"X_Object_Meta_N{number}": "v" for number in range(91)}
    assert store.call("PUT", "/photos/b", b"x", **many).status == 400
    long = {f"X_Object_Meta_N{number}": "v" * 250 for number in range(20)}
    assert store.call("PUT", "/photos/b", b"x", **long).status == 400
    assert store.head("b").status == 404


@test
def an_altered_body_is_refused(store):
    store.put("a", b"old")
    assert store.call("PUT", "/photos/a", b"new", ETag=md5(b"other")).status == 422
    assert store.call("PUT", "/photos/a", b"new", length=False).status == 411
    assert store.call("PUT", "/photos/a", b"new", ETag=md5(b"new"), Content_MD5="ignored").status == 201
    try:
        answer = store.call("PUT", "/photos/a", b"short", length=100)
        assert answer.status == 499, answer.status
    except (http.client.HTTPException, OSError):
        pass
    assert store.get("a").body == b"new"


@test
def ranges_are_exact(store):
    store.put("a", bytes(range(100)))
    for text, expected in (("0-0", range(1)), ("10-19", range(10, 20)), ("90-200", range(90, 100)),
                           ("95-", range(95, 100)), ("-3", range(97, 100))):
        answer = store.get("a", Range=f"bytes={text}")
        assert answer.status == 206 and answer.body == bytes(expected), text
    answer = store.get("a", Range="bytes=100-")
    assert (answer.status, answer["content-range"]) == (416, "bytes */100")
    store.put("empty")
    answer = store.get("empty", Range="bytes=0-1")
    assert (answer.status, answer["content-range"]) == (416, "bytes */0")
    assert store.get("empty", Range="bytes=-1").status == 200


@test
def conditions_count_for_reads_and_creation_only(store):
    tag = store.put("a", b"1")["etag"]
    assert store.get("a", If_Match=tag).status == 200
    assert store.get("a", If_Match=f'"{tag}"').status == 200
    assert store.get("a", If_Match="other").status == 412
    assert store.get("a", If_None_Match=tag).status == 304
    future = email.utils.formatdate(time.time() + 100, usegmt=True)
    past = email.utils.formatdate(time.time() - 100, usegmt=True)
    assert store.get("a", If_Modified_Since=future).status == 304
    assert store.get("a", If_Unmodified_Since=past).status == 412
    assert store.call("PUT", "/photos/a", b"2", If_None_Match="*").status == 412
    assert store.call("PUT", "/photos/new", b"2", If_None_Match="*").status == 201
    assert store.call("PUT", "/photos/a", b"2", If_None_Match=tag).status == 400
    assert store.call("PUT", "/photos/a", b"3", If_Match="other").status == 201
    assert store.call("DELETE", "/photos/a", If_Match="other").status == 204
    assert store.call("DELETE", "/photos/a").status == 404


@test
def a_post_replaces_all_metadata(store):
    tag = store.put("a", b"x", Content_Type="text/x", X_Object_Meta_A="1", Cache_Control="no-cache",
                    X_Delete_After="100")["etag"]
    answer = store.call("POST", "/photos/a", X_Object_Meta_B="2")
    assert answer.status == 202
    answer = store.head("a")
    assert answer["x-object-meta-b"] == "2" and answer["x-object-meta-a"] is None
    assert answer["cache-control"] is None and answer["x-delete-at"] is None
    assert answer["content-type"] == "text/x" and answer["etag"] == tag
    store.call("POST", "/photos/a", Content_Type="text/y")
    assert store.head("a")["content-type"] == "text/y"
    assert store.get("a").body == b"x"
    assert store.call("POST", "/photos/none").status == 404


@test
def expired_objects_are_gone(store):
    store.put("a", b"x", X_Delete_At=str(int(time.time()) + 2))
    assert store.head("a").status == 200
    end = time.monotonic() + 15
    while store.head("a").status == 200:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert store.names() == ["a"]
    assert store.call("PUT", "/photos/a", b"y", If_None_Match="*").status == 201
    assert store.get("a").body == b"y"
    store.put("b", b"x", X_Delete_After="1")
    while store.head("b").status == 200:
        assert time.monotonic() < end
        time.sleep(0.2)
    # Whoever deletes it is told that it was not there, and it leaves the listing.
    assert store.call("DELETE", "/photos/b").status == 404
    assert store.names() == ["a"]


# Listings

@test
def listings_have_every_parameter(store):
    names = ["a", "a b", "b/1", "b/2", "b/c/3", "b0", "c", "d/e/f", "z"]
    for name in names:
        store.put(name, name.encode(), Content_Type="t/x")
    assert store.names() == names
    entry = store.list()[0]
    assert (entry["bytes"], entry["hash"], entry["content_type"]) == (1, md5(b"a"), "t/x")
    assert len(entry["last_modified"]) == 26 and entry["last_modified"][10] == "T"
    assert store.names(delimiter="/") == ["a", "a b", "b/", "b0", "c", "d/", "z"]
    assert store.names(prefix="b/", delimiter="/") == ["b/1", "b/2", "b/c/"]
    assert store.names(path="b") == ["b/1", "b/2"]
    assert store.names(marker="b/1", end_marker="c") == ["b/2", "b/c/3", "b0"]
    assert store.names(delimiter="/", marker="b/") == ["b0", "c", "d/", "z"]
    assert store.names(limit="2", marker="a") == ["a b", "b/1"]
    assert store.names(delimiter="/c") == ["a", "a b", "b/1", "b/2", "b/c", "b0", "c", "d/e/f", "z"]
    assert store.names(limit="0") == [] and store.names(limit="junk") == names
    assert store.call("GET", "/photos", query="limit=10001").status == 412
    collected, marker = [], ""
    while page := store.names(limit="2", delimiter="/", marker=marker):
        collected, marker = collected + page, page[-1]
    assert collected == store.names(delimiter="/")
    assert store.call("GET", "/photos").body == "".join(name + "\n" for name in names).encode()
    assert store.call("GET", "/photos", query="prefix=none").status == 204
    assert store.list(prefix="none") == []
    document = xml.etree.ElementTree.fromstring(store.call("GET", "/photos", query="format=xml&delimiter=/").body)
    assert document.tag == "container" and document.get("name") == "photos"
    assert [item.findtext("name") for item in document] == store.names(delimiter="/")
    assert store.call("GET", "/none").status == 404


# Containers

@test
def containers_tell_of_themselves(store):
    store.put("a", b"123")
    store.put("b", b"4567")
    answer = store.call("HEAD", "/photos")
    assert (answer["x-container-object-count"], answer["x-container-bytes-used"]) == ("2", "7")
    assert store.call("POST", "/photos", X_Container_Meta_Color="red", X_Container_Meta_Size="big").status == 204
    assert store.call("POST", "/photos", X_Container_Meta_Color="blue", X_Remove_Container_Meta_Size="x").status == 204
    answer = store.call("HEAD", "/photos")
    assert answer["x-container-meta-color"] == "blue" and answer["x-container-meta-size"] is None
    store.call("POST", "/photos", X_Container_Meta_Color="")
    assert store.call("HEAD", "/none").status == 404
    assert store.call("DELETE", "/photos").status == 409
    names = [entry["name"] for entry in store.call("GET", "/", query="format=json").json]
    assert {OTHER, CONTAINER} <= set(names) and names == sorted(names)


@test
def readers_are_whom_the_container_names(store):
    store.put("a", b"public")
    store.call("POST", "/photos", X_Container_Read=".r:*")
    assert store.raw("GET", "/photos/a").body == b"public"
    assert store.raw("GET", "/photos?format=json").status == 401
    assert store.raw("DELETE", "/photos/a").status == 401
    store.call("POST", "/photos", X_Container_Read=".r:*,.rlistings")
    assert store.raw("GET", "/photos?format=json").status == 200
    assert store.call("HEAD", "/photos")["x-container-read"] == ".r:*,.rlistings"
    store.call("POST", "/photos", X_Remove_Container_Read="x")
    assert store.raw("GET", "/photos/a").status == 401


# Copies

@test
def copies_take_bytes_and_headers(store):
    store.put("a b", b"hello", Content_Type="text/x", X_Object_Meta_A="1", X_Object_Meta_B="2")
    answer = store.put("c", X_Copy_From="/photos/a%20b", X_Object_Meta_B="3")
    assert answer["x-copied-from"] == "photos/a%20b" and answer["etag"] == md5(b"hello")
    answer = store.get("c")
    assert answer.body == b"hello" and answer["content-type"] == "text/x"
    assert (answer["x-object-meta-a"], answer["x-object-meta-b"]) == ("1", "3")
    assert store.call("COPY", "/photos/a b", Destination="/other/d").status == 201
    assert store.get("d", container=OTHER).body == b"hello"
    store.put("fresh", X_Copy_From="photos/c", X_Fresh_Metadata="true", X_Object_Meta_Z="9")
    answer = store.head("fresh")
    assert answer["x-object-meta-a"] is None and answer["x-object-meta-z"] == "9"
    store.put("cut", X_Copy_From="/photos/c", Range="bytes=1-3")
    assert store.get("cut").body == b"ell"
    call = lambda **headers: store.call("PUT", "/photos/x", **headers).status
    assert call(X_Copy_From="/photos/none") == 404 and call(X_Copy_From="/none/a") == 404
    assert call(X_Copy_From="nothing") == 412 and call(X_Copy_From="/photos/c", If_Match="other") == 412
    assert store.call("PUT", "/photos/x", b"body", X_Copy_From="/photos/c").status == 400
    assert store.head("x").status == 404


# Large objects

@test
def a_prefix_is_read_when_it_is_asked(store):
    for name in ("1", "2", "10"):
        store.put(f"seg/{name}", f"[{name}]".encode())
    store.put("big", Content_Type="a/b", X_Object_Manifest="photos/seg/", X_Object_Meta_A="1")
    answer = store.get("big")
    # In the order of names, which is not that of numbers.
    assert answer.body == b"[1][10][2]" and answer["content-type"] == "a/b"
    assert answer["x-object-manifest"] == "photos/seg/"
    tag = answer["etag"]
    assert tag == '"%s"' % md5("".join(md5(f"[{name}]".encode()) for name in ("1", "10", "2")).encode())
    assert store.get("big", Range="bytes=2-5").body == b"][10"
    assert store.get("big", If_Match=tag).status == 200 and store.get("big", If_Match="other").status == 412
    store.put("seg/3", b"[3]")
    assert store.get("big").body == b"[1][10][2][3]" and store.head("big")["etag"] != tag
    assert store.call("GET", "/photos/big", query="multipart-manifest=get").body == b""
    answer = store.call("DELETE", "/photos/big", query="multipart-manifest=delete", Accept="application/json")
    assert answer.status == 200 and answer.json["Response Status"] == "400 Bad Request"
    store.call("POST", "/photos/big", X_Object_Meta_A="2", X_Object_Manifest="photos/seg/")
    assert len(store.get("big").body) == 13
    store.call("POST", "/photos/big", X_Object_Meta_A="3")
    assert store.get("big").body == b"" and store.head("big")["etag"] == EMPTY
    store.put("dangling", X_Object_Manifest="photos/none/")
    answer = store.get("dangling")
    assert answer.status == 200 and answer.body == b""
    assert store.call("PUT", "/photos/bad", X_Object_Manifest="nothing").status == 400
    store.put("big", X_Object_Manifest="photos/seg/")
    store.put("big", b"plain")
    assert store.get("big").body == b"plain" and store.head("big")["x-object-manifest"] is None
    store.call("DELETE", "/photos/big")
    assert "seg/1" in store.names()


def manifest(store, name, elements, **headers):
    return store.call("PUT", f"/photos/{name}", json.dumps(elements).encode(), query="multipart-manifest=put", **headers)


@test
def named_segments_make_an_object(store):
    hello, world = md5(b"hello"), md5(b"world")
    store.put("s/1", b"hello")
    store.put("s/2", b"world", container=OTHER)
    elements = [{"path": "/photos/s/1", "etag": hello, "size_bytes": 5}, {"path": "other/s/2"}]
    answer = manifest(store, "big", elements, Content_Type="a/b", X_Object_Meta_A="1")
    assert answer.status == 201 and answer["etag"] == '"ae802c1f58f394d46485b7da18c56e9b"'
    answer = store.get("big")
    assert answer.body == b"helloworld" and answer["x-static-large-object"] == "True"
    assert answer["etag"] == '"ae802c1f58f394d46485b7da18c56e9b"' and answer["x-object-meta-a"] == "1"
    assert store.get("big", Range="bytes=4-5").body == b"ow"
    entry = [entry for entry in store.list() if entry["name"] == "big"][0]
    assert entry["bytes"] == 10 and entry["slo_etag"] == answer["etag"] and entry["hash"] != answer["etag"].strip('"')
    shown = store.call("GET", "/photos/big", query="multipart-manifest=get").json
    assert [(item["name"], item["bytes"], item["hash"]) for item in shown] == [
        ("/photos/s/1", 5, hello), ("/other/s/2", 5, world)]
    raw = store.call("GET", "/photos/big", query="multipart-manifest=get&format=raw").json
    assert manifest(store, "again", raw).status == 201 and store.get("again").body == b"helloworld"
    answer = manifest(store, "range", [{"path": "/photos/s/1", "range": "1-3"}])
    assert answer["etag"] == '"6640b6b0ed29150eb7dc0156d5ba2a5e"' and store.get("range").body == b"ell"
    assert manifest(store, "data", [{"path": "/photos/s/1"}, {"data": base64.b64encode(b"!").decode()}]).status == 201
    assert store.get("data").body == b"hello!"
    assert manifest(store, "nested", [{"path": "/photos/big"}, {"path": "/photos/s/1"}]).status == 201
    assert store.get("nested").body == b"helloworldhello"
    assert store.call("COPY", "/photos/big", query="multipart-manifest=get", Destination="photos/link").status == 201
    assert store.head("link")["x-static-large-object"] == "True" and store.get("link").body == b"helloworld"
    store.put("flat", X_Copy_From="/photos/big")
    assert store.head("flat")["etag"] == md5(b"helloworld")
    store.call("POST", "/photos/big", X_Object_Meta_A="2")
    assert store.get("big").body == b"helloworld"


@test
def bad_segments_are_refused(store):
    store.put("s/1", b"hello")
    bad = [{"path": "/photos/s/1", "etag": "0" * 32}, {"path": "/photos/s/1", "size_bytes": 6}, {"path": "/photos/none"}]
    answer = manifest(store, "big", bad, Accept="application/json")
    assert answer.status == 400
    assert sorted(answer.json["Errors"]) == [
        ["/photos/none", "404 Not Found"], ["/photos/s/1", "Etag Mismatch"], ["/photos/s/1", "Size Mismatch"]]
    assert b"/photos/s/1, Etag Mismatch\n" in manifest(store, "big", bad[:1]).body
    answer = manifest(store, "big", [{"path": "/photos/s/1", "foo": 1}])
    assert answer.status == 400 and b'Index 0: extraneous keys "foo"' in answer.body
    assert manifest(store, "big", [{"path": "/photos/s/1"}] * 1001).status == 413
    assert manifest(store, "big", {"no": "list"}).status == 400
    assert manifest(store, "big", [{"path": "/photos/s/1"}], ETag="0" * 32).status == 422
    assert manifest(store, "big", [{"path": "/photos/s/1"}], If_None_Match="*").status == 201
    assert manifest(store, "big", [{"path": "/photos/s/1"}], If_None_Match="*").status == 412
    # A segment that changed afterwards is noticed by whoever reads.
    store.put("s/1", b"other")
    assert store.get("big").status == 409


@test
def segments_go_when_they_are_asked_to(store):
    store.put("s/1", b"hello")
    manifest(store, "big", [{"path": "/photos/s/1"}])
    assert store.call("DELETE", "/photos/big").status == 204 and store.names() == ["s/1"]
    manifest(store, "big", [{"path": "/photos/s/1"}])
    answer = store.call("DELETE", "/photos/big", query="multipart-manifest=delete", Accept="application/json")
    assert answer.json["Number Deleted"] == 2 and answer.json["Response Status"] == "200 OK"
    assert store.names() == []


@test
def many_are_deleted_at_once(store):
    for name in ("a", "b c", "ü"):
        store.put(name, b"x")
    bulk = lambda body, **headers: store.call("POST", "/", body, query="bulk-delete", resource="/", encoded="/", **headers)
    body = b"photos/a\n/photos/b%20c\nphotos/%C3%BC\nphotos/none\nnone/x\n"
    answer = bulk(body, Content_Type="text/plain", Accept="application/json")
    assert answer.status == 200 and answer.json["Response Status"] == "200 OK"
    assert (answer.json["Number Deleted"], answer.json["Number Not Found"], answer.json["Errors"]) == (3, 2, [])
    assert store.names() == []
    store.put("a", b"x")
    answer = bulk(b"photos\n", Content_Type="text/plain", Accept="application/json")
    assert answer.json["Errors"] == [["photos", "409 Conflict"]] and answer.json["Response Status"] == "400 Bad Request"
    assert bulk(b"x\n" * 10001, Content_Type="text/plain", Accept="application/json").json[
        "Response Status"].startswith("413")
    assert bulk(b"x\n", Content_Type="a/b", Accept="application/json").json["Response Status"].startswith("406")
    assert b"Number Deleted: 1\n" in bulk(b"photos/a\n", Content_Type="text/plain").body


# Other dialects

def s3(store):
    return boto3.client("s3", endpoint_url=store.ready["s3"], aws_access_key_id=KEY, aws_secret_access_key=SECRET,
                        region_name="us-east-1", config=Config(retries={"total_max_attempts": 1}))


@ours
def others_see_what_is_stored_here(store):
    client = s3(store)
    pieces = [os.urandom(MIB), os.urandom(MIB), b"end"]
    for number, piece in enumerate(pieces):
        store.put(f"s/{number}", piece)
    whole = b"".join(pieces)
    headers = {"Content_Type": "text/x", "Cache_Control": "no-cache", "X_Object_Meta_Mode": "33188"}
    store.put("plain", whole, **headers)
    store.put("dlo", X_Object_Manifest="photos/s/", **headers)
    assert manifest(store, "slo", [{"path": f"/photos/s/{number}"} for number in range(3)], **headers).status == 201
    sizes = {item["Key"]: item["Size"] for item in client.list_objects_v2(Bucket=CONTAINER)["Contents"]}
    for name in ("plain", "dlo", "slo"):
        answer = client.get_object(Bucket=CONTAINER, Key=name)
        assert answer["Body"].read() == whole and sizes[name] == len(whole), name
        assert answer["ContentType"] == "text/x" and answer["CacheControl"] == "no-cache"
        assert answer["Metadata"] == {"mode": "33188"}
        # No ETag that looks like the MD5 of the bytes and is not.
        assert answer["ETag"] == f'"{md5(whole)}"' if name == "plain" else "-" in answer["ETag"]
        store.call("DELETE", f"/photos/{name}")
        assert "Contents" not in client.list_objects_v2(Bucket=CONTAINER, Prefix=name)


@ours
def what_others_store_is_seen_here(store):
    client = s3(store)
    client.put_object(Bucket=CONTAINER, Key="a", Body=b"hello", ContentType="text/x", Metadata={"mode": "1"})
    answer = store.get("a")
    assert answer.body == b"hello" and answer["etag"] == md5(b"hello") and answer["x-object-meta-mode"] == "1"
    upload = client.create_multipart_upload(Bucket=CONTAINER, Key="parts")["UploadId"]
    pieces = [os.urandom(5 * MIB), b"end"]
    parts = [{"PartNumber": number, "ETag": client.upload_part(
        Bucket=CONTAINER, Key="parts", UploadId=upload, PartNumber=number, Body=piece)["ETag"]}
        for number, piece in enumerate(pieces, 1)]
    client.complete_multipart_upload(
        Bucket=CONTAINER, Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    answer = store.get("parts")
    assert answer.body == b"".join(pieces) and answer["etag"] == md5(b"".join(pieces))
    assert [entry["hash"] for entry in store.list()] == [md5(b"hello"), answer["etag"]]
    client.put_object(Bucket=CONTAINER, Key="cold", Body=b"x", StorageClass="GLACIER")
    assert store.head("cold").status == 200 and store.get("cold").status == 403


@ours
def everything_is_there_after_a_restart(store):
    directory = tempfile.mkdtemp(prefix="pailstore-")
    try:
        first = Store("--bucket", CONTAINER, directory=directory)
        try:
            first.put("s/1", b"hello")
            first.put("dlo", X_Object_Manifest="photos/s/")
            assert manifest(first, "slo", [{"path": "/photos/s/1"}]).status == 201
            first.call("POST", "/photos", X_Container_Meta_Color="red", X_Container_Read=".r:*")
        finally:
            first.stop()
        second = Store(directory=directory)
        try:
            for name in ("dlo", "slo"):
                assert second.get(name).body == b"hello", name
            assert second.call("HEAD", "/photos")["x-container-meta-color"] == "red"
            assert second.raw("GET", "/photos/slo").body == b"hello"
        finally:
            second.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@test
def unknown_methods_are_refused(store):
    assert store.call("PATCH", "/photos/a").status == 405


if __name__ == "__main__":
    sys.exit(conformance.main(
        RealSwift if IS_REAL else Store, {"requests of the SDKs": lambda store: store}, Store.clear, CONTAINER,
        ["--bucket", OTHER]))
