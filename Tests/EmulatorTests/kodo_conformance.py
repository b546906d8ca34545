#!/usr/bin/env python3
"""Holds pailstore's Kodo dialect to what the official Python SDK (qiniu) expects: every operation it can send, and refusals.

PAILSTORE names the built binary. Prints one line for each failure and "N passed, M failed" at the end;
exit status 0 only when nothing failed.
"""
import base64
import datetime
import hashlib
import http.client
import io
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import zlib

# The SDK keeps what it learns of regions in the directory for temporary files: one of our own, set before it is loaded.
SCRATCH = tempfile.mkdtemp(prefix="kodo-conformance-")
tempfile.tempdir = SCRATCH

import boto3
import qiniu
import qiniu.auth
import qiniu.config
import requests
from botocore.config import Config
from qiniu import (Auth, BucketManager, build_batch_copy, build_batch_delete, build_batch_move, build_batch_rename,
                   build_batch_restore_ar, build_batch_stat, etag, put_data, put_file_v2, put_stream_v2)
from qiniu.http.endpoint import Endpoint
from qiniu.http.region import Region, ServiceName
from qiniu.services.storage.upload_progress_recorder import UploadProgressRecorder

import conformance
from conformance import ACCESS_KEY, MIB, SECRET_KEY, equal, test

BUCKET, OTHER = "kodo-bucket", "other-bucket"
ODD_KEYS = [
    "plain", "dir/file", "dir/", "dir//double", "/leading", "a b+c%d&e=f?g#h", "~!*'()", "ünïcode/中文", "./dot",
    "../dots", "a/../b", "trailing/", "percent%2Fslash", "tab\tkey", "quote\"<>&'", "co:lon:s", "back\\slash", "x" * 750,
    "emoji \U0001F642",
]


class Store(conformance.Store):
    dialect = "kodo"

    def s3(self):
        return boto3.client(
            "s3", endpoint_url=self.ready["s3"], aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1", config=Config(retries={"total_max_attempts": 1}))

    def regions(self):
        """Every service here, so that nothing is asked for."""
        endpoint = [Endpoint.from_host(self.endpoint)]
        services = {name: endpoint for name in (
            ServiceName.UC, ServiceName.UP, ServiceName.IO, ServiceName.RS, ServiceName.RSF, ServiceName.API)}
        return [Region(region_id="z0", services=services)]


class Kodo:
    """The SDK signed in at a store."""

    def __init__(self, store, access=ACCESS_KEY, secret=SECRET_KEY):
        self.store = store
        self.auth = Auth(access, secret)
        self.regions = store.regions()
        self.manager = BucketManager(self.auth, regions=self.regions)

    def token(self, key=None, expires=3600, bucket=BUCKET, **policy):
        return self.auth.upload_token(bucket, key, expires, policy, strict_policy=False)

    def put(self, key, data, token=None, **arguments):
        return done(*put_data(token or self.token(key), key, data, regions=self.regions, **arguments))

    def stat(self, key):
        return done(*self.manager.stat(BUCKET, key))

    def keys(self, **arguments):
        return [item["key"] for item in done(*self.manager.list(BUCKET, **arguments)[::2])["items"]]

    def url(self, key, bucket=BUCKET):
        path = urllib.parse.quote(key.encode(), safe="/-_.~")
        return f"http://{bucket}.localhost:{self.store.port}/{path}"

    def get(self, key, headers=None, url=None, signed=True, method="GET"):
        """What a download domain answers; its name is resolved here, as no name server knows it."""
        url = url or self.url(key)
        if signed:
            url = self.auth.private_download_url(url)
        host, target = url.removeprefix("http://").split("/", 1)
        connection = http.client.HTTPConnection("127.0.0.1", self.store.port, timeout=20)
        connection.putrequest(method, "/" + target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", host)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return Download(answer.status, answer.headers, answer.read())


class Download:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


def done(result, info):
    if not info.ok():
        raise AssertionError(f"status {info.status_code}: {info.error}")
    equal(bool(info.req_id), True, "X-Reqid")
    return result


def refused(status, answer, text=None):
    info = answer[-1]
    equal(info.status_code, status, f"status of {info.text_body!r}")
    equal(bool(info.req_id), True, "X-Reqid")
    message = json.loads(info.text_body)["error"]
    if text:
        equal(text in message, True, f"{message!r} says {text!r}")


def clear(kodo):
    for bucket in (BUCKET, OTHER):
        while True:
            page = done(*kodo.manager.list(bucket)[::2])
            if not page["items"]:
                break
            done(*kodo.manager.batch(build_batch_delete(bucket, [item["key"] for item in page["items"]])))


def entry(key, bucket=BUCKET):
    return base64.urlsafe_b64encode(f"{bucket}:{key}".encode()).decode()


def content(count):
    block = hashlib.sha256(b"kodo").digest() + b"1234567"
    return (block * (count // len(block) + 1))[:count]


def qetag(data):
    return qiniu.utils.etag_stream(io.BytesIO(data))


# ---------------------------------------------------------------- objects

@test
def odd_keys_are_kept(store, kodo):
    for key in ODD_KEYS:
        equal(kodo.put(key, key.encode())["key"], key, repr(key))
    for key in ODD_KEYS:
        equal(kodo.stat(key)["fsize"], len(key.encode()), repr(key))
        answer = kodo.get(key)
        equal((answer.status, answer.body), (200, key.encode()), repr(key))
    equal(kodo.keys(), sorted(ODD_KEYS, key=lambda key: key.encode()), "listed")
    for key in ODD_KEYS:
        done(*kodo.manager.delete(BUCKET, key))
        refused(612, kodo.manager.stat(BUCKET, key))


@test
def keys_have_limits(store, kodo):
    refused(400, put_data(kodo.token("x" * 751), "x" * 751, b"1", regions=kodo.regions), "751 bytes")


@test
def stat_tells_everything(store, kodo):
    before = time.time()
    kodo.put("a.txt", b"hello", mime_type="text/plain", metadata={"x-qn-meta-k": "v w", "x-qn-meta-Two": "ü"})
    stat = kodo.stat("a.txt")
    equal((stat["fsize"], stat["hash"], stat["mimeType"], stat["type"]),
          (5, "Fqr0xh3cxeii2r7eDztILNmuqUNN", "text/plain", 0), "stat")
    equal(stat["md5"], hashlib.md5(b"hello").hexdigest(), "md5")
    equal(stat["x-qn-meta"], {"k": "v w", "two": "ü"}, "metadata")
    equal(before - 1 <= stat["putTime"] / 1e7 <= time.time() + 1, True, "putTime is in units of 100 ns")
    refused(612, kodo.manager.stat(BUCKET, "missing"), "no such file or directory")
    refused(631, kodo.manager.stat("no-such-bucket", "a"), "no such bucket")


@test
def hashes_are_those_of_the_sdk(store, kodo):
    # put_data takes no bytes for no data: the form that it would send.
    answer = form(store, {"token": kodo.token("empty"), "key": "empty"}, b"")
    equal((answer.json()["hash"], kodo.get("empty").body), ("Fto5o-5ea0sNMlW_75VgGJCv2AcJ", b""), "empty")
    for size in (1, 4 * MIB, 4 * MIB + 1, 9 * MIB + 17):
        data = content(size)
        equal(kodo.put("object", data)["hash"], qetag(data), f"{size} bytes")
        equal(kodo.stat("object")["hash"], qetag(data), f"{size} bytes")
    path = os.path.join(SCRATCH, "file")
    with open(path, "wb") as file:
        file.write(content(5 * MIB))
    equal(done(*put_file_v2(kodo.token("f"), "f", path, regions=kodo.regions))["hash"], etag(path), "a file's")


@test
def delete_of_nothing_is_an_error(store, kodo):
    kodo.put("a", b"1")
    done(*kodo.manager.delete(BUCKET, "a"))
    refused(612, kodo.manager.delete(BUCKET, "a"))


@test
def copies_keep_everything(store, kodo):
    kodo.put("from", b"hello", mime_type="text/x-a", metadata={"x-qn-meta-k": "v"})
    done(*kodo.manager.copy(BUCKET, "from", OTHER, "to"))
    stat = done(*kodo.manager.stat(OTHER, "to"))
    equal((stat["hash"], stat["mimeType"], stat["x-qn-meta"]), (qetag(b"hello"), "text/x-a", {"k": "v"}), "copy")
    equal(kodo.stat("from")["fsize"], 5, "source")
    refused(614, kodo.manager.copy(BUCKET, "from", OTHER, "to"), "exists")
    kodo.put("from", b"other")
    done(*kodo.manager.copy(BUCKET, "from", OTHER, "to", force="true"))
    equal(done(*kodo.manager.stat(OTHER, "to"))["hash"], qetag(b"other"), "forced")
    refused(612, kodo.manager.copy(BUCKET, "missing", BUCKET, "x"))
    refused(631, kodo.manager.copy(BUCKET, "from", "no-such-bucket", "x"))


@test
def moves_rename_in_one_step(store, kodo):
    kodo.put("from", b"hello", metadata={"x-qn-meta-k": "v"})
    time_before = kodo.stat("from")["putTime"]
    done(*kodo.manager.move(BUCKET, "from", BUCKET, "to"))
    refused(612, kodo.manager.stat(BUCKET, "from"))
    stat = kodo.stat("to")
    equal((stat["hash"], stat["x-qn-meta"], stat["putTime"]), (qetag(b"hello"), {"k": "v"}, time_before), "moved")
    equal(kodo.get("to").body, b"hello", "bytes")
    kodo.put("other", b"2")
    refused(614, kodo.manager.rename(BUCKET, "other", "to"))
    equal(kodo.get("to").body, b"hello", "the target stays")
    done(*kodo.manager.rename(BUCKET, "other", "to", force="true"))
    equal((kodo.get("to").body, kodo.keys()), (b"2", ["to"]), "forced")
    done(*kodo.manager.rename(BUCKET, "to", "to", force="true"))
    equal(kodo.get("to").body, b"2", "onto itself")
    done(*kodo.manager.move(BUCKET, "to", OTHER, "there"))
    equal((kodo.keys(), done(*kodo.manager.stat(OTHER, "there"))["fsize"]), ([], 1), "to another bucket")
    refused(612, kodo.manager.move(BUCKET, "missing", BUCKET, "x", force="true"))


@test
def metadata_changes_in_place(store, kodo):
    kodo.put("a", b"1", mime_type="text/a", metadata={"x-qn-meta-keep": "1", "x-qn-meta-change": "1"})
    before = kodo.stat("a")
    done(*kodo.manager.change_mime(BUCKET, "a", "text/b"))
    value = base64.urlsafe_b64encode("2 + ü".encode()).decode()
    change = f"chgm/{entry('a')}/mime/{base64.urlsafe_b64encode(b'text/c').decode()}/x-qn-meta-change/{value}"
    done(*kodo.manager.batch([change]))
    stat = kodo.stat("a")
    equal((stat["mimeType"], stat["x-qn-meta"]), ("text/c", {"keep": "1", "change": "2 + ü"}), "changed")
    equal((stat["hash"], stat["putTime"]), (before["hash"], before["putTime"]), "the rest stays")
    refused(612, kodo.manager.change_mime(BUCKET, "missing", "text/b"))
    for condition, code in ((f"hash={stat['hash']}&fsize=1", 200), ("hash=other", 608), ("fsize=2", 608)):
        text = base64.urlsafe_b64encode(condition.encode()).decode()
        result = kodo.manager.batch([change + "/cond/" + text])[0] if code == 200 else json.loads(
            kodo.manager.batch([change + "/cond/" + text])[1].text_body)
        equal(result[0]["code"], code, condition)


@test
def headers_change_as_the_sdks_change_them(store, kodo):
    kodo.put("a", b"1", metadata={"x-qn-meta-!Last-Modified": "then", "x-qn-meta-!Cache-Control": "no-cache"})
    value = base64.urlsafe_b64encode(b"max-age=5").decode()
    kind = base64.urlsafe_b64encode(b"text/z").decode()
    done(*kodo.manager.batch([f"chgm/{entry('a')}/x-qn-meta-!Cache-Control/{value}/x-qn-meta-!Content-Type/{kind}"]))
    headers = kodo.get("a").headers
    equal((headers["Cache-Control"], headers["Content-Type"]), ("max-age=5", "text/z"), "headers of a download")
    stat = kodo.stat("a")
    equal((stat["mimeType"], stat["x-qn-meta"]),
          ("text/z", {"!cache-control": "max-age=5", "!last-modified": "then"}), "stat")


@test
def metadata_has_limits(store, kodo):
    refused(400, put_data(kodo.token("a"), "a", b"1", regions=kodo.regions, metadata={"x-qn-meta-k": "v" * 1024}),
            "1024")
    refused(400, put_data(kodo.token("a"), "a", b"1", regions=kodo.regions, metadata={"x-qn-meta-a b": "v"}))
    refused(400, put_data(kodo.token("a"), "a", b"1", regions=kodo.regions, metadata={"x-qn-meta-" + "k" * 41: "v"}))


@test
def storage_classes_change_and_archives_are_restored(store, kodo):
    kodo.put("a", b"1")
    for number in (1, 4, 5, 0, 2):
        done(*kodo.manager.change_type(BUCKET, "a", number))
        equal(kodo.stat("a")["type"], number, "type")
    refused(400, kodo.manager.change_type(BUCKET, "a", 9))
    equal(kodo.get("a").status, 403, "an archive is not read")
    refused(403, kodo.manager.change_type(BUCKET, "a", 0), "restored")
    refused(400, kodo.manager.restore_ar(BUCKET, "a", 8))
    done(*kodo.manager.restore_ar(BUCKET, "a", 1))
    equal(kodo.stat("a")["restoreStatus"] in (1, 2), True, "restoring")
    deadline = time.time() + 20
    while kodo.stat("a")["restoreStatus"] != 2:
        if time.time() > deadline:
            raise AssertionError("never restored")
    equal(kodo.get("a").body, b"1", "restored")
    done(*kodo.manager.change_type(BUCKET, "a", 0))
    equal(kodo.get("a").body, b"1", "standard")
    refused(400, kodo.manager.restore_ar(BUCKET, "a", 1))
    kodo.put("ia", b"1", token=kodo.token("ia", fileType=1))
    equal(kodo.stat("ia")["type"], 1, "by policy")


@test
def days_and_status(store, kodo):
    kodo.put("a", b"1")
    done(*kodo.manager.delete_after_days(BUCKET, "a", 3))
    equal(abs(kodo.stat("a")["expiration"] - time.time() - 3 * 86400) < 60, True, "expiration")
    done(*kodo.manager.delete_after_days(BUCKET, "a", 0))
    equal("expiration" in kodo.stat("a"), False, "cancelled")
    done(*kodo.manager.set_object_lifecycle(BUCKET, "a", 10, 20, 30, 40, {"hash": kodo.stat("a")["hash"]}, 15))
    stat = kodo.stat("a")
    for name, days in (("transitionToIA", 10), ("transitionToARCHIVE", 20), ("transitionToDeepArchive", 30),
                       ("expiration", 40), ("transitionToArchiveIR", 15)):
        equal(abs(stat[name] - time.time() - days * 86400) < 60, True, name)
    done(*kodo.manager.set_object_lifecycle(BUCKET, "a", -1, 0, 0, -1))
    equal([name in kodo.stat("a") for name in ("transitionToIA", "expiration", "transitionToARCHIVE")],
          [False, False, True], "rules that are cancelled and kept")
    refused(608, kodo.manager.set_object_lifecycle(BUCKET, "a", 1, cond={"hash": "other"}))
    done(*kodo.manager.change_status(BUCKET, "a", 1, None))
    equal((kodo.stat("a")["status"], kodo.get("a").status), (1, 403), "disabled")
    done(*kodo.manager.change_status(BUCKET, "a", 0, {"fsize": "1"}))
    equal(kodo.get("a").status, 200, "enabled")


@test
def batches_mix_operations(store, kodo):
    for key in ("a", "b", "c", "d"):
        kodo.put(key, key.encode())
    operations = (build_batch_stat(BUCKET, ["a"]) + build_batch_copy(BUCKET, {"a": "a2"}, BUCKET, "true")
                  + build_batch_move(BUCKET, {"b": "b2"}, BUCKET, "true") + build_batch_rename(BUCKET, {"c": "c2"})
                  + build_batch_delete(BUCKET, ["d"]))
    result, info = kodo.manager.batch(operations)
    equal((info.status_code, [item["code"] for item in result]), (200, [200] * 5), "all done")
    equal(result[0]["data"]["hash"], qetag(b"a"), "stat in a batch")
    equal(kodo.keys(), ["a", "a2", "b2", "c2"], "after")
    _, info = kodo.manager.batch(build_batch_stat(BUCKET, ["a", "missing"]) + build_batch_delete(BUCKET, ["missing"])
                                 + build_batch_restore_ar(BUCKET, {"a": 1}))
    equal(info.status_code, 298, "partly failed")
    answers = json.loads(info.text_body)
    equal([item["code"] for item in answers], [200, 612, 612, 400], "codes")
    equal(answers[1]["data"], {"error": "no such file or directory"}, "an error in a batch")
    refused(400, kodo.manager.batch(build_batch_stat(BUCKET, ["a"] * 1001)))
    equal(len(done(*kodo.manager.batch(build_batch_stat(BUCKET, ["a"] * 1000)))), 1000, "a thousand")


# ---------------------------------------------------------------- listings

TREE = ["a", "a b", "b/1", "b/2", "b/c/3", "b0", "c", "d/e/f", "z/1", "z/2"]


@test
def listings_go_page_by_page(store, kodo):
    for key in TREE:
        kodo.put(key, key.encode())
    for limit in (1, 3, 1000):
        found, marker = [], None
        while True:
            page, eof, info = kodo.manager.list(BUCKET, marker=marker, limit=limit)
            found += [item["key"] for item in page["items"]]
            equal(eof, not page.get("marker"), "the end")
            if eof:
                break
            marker = page["marker"]
        equal(found, TREE, f"{limit} a page")
    item = done(*kodo.manager.list(BUCKET, prefix="b0")[::2])["items"][0]
    equal((item["fsize"], item["hash"], item["type"], item["md5"]),
          (2, qetag(b"b0"), 0, hashlib.md5(b"b0").hexdigest()), "an item")
    equal(kodo.keys(prefix="b"), ["b/1", "b/2", "b/c/3", "b0"], "prefix")
    for limit in (1, 2, 1000):
        found, prefixes, marker = [], [], None
        while True:
            page, eof, _ = kodo.manager.list(BUCKET, marker=marker, limit=limit, delimiter="/")
            found += [item["key"] for item in page["items"]]
            prefixes += page.get("commonPrefixes", [])
            if eof:
                break
            marker = page["marker"]
        equal((found, prefixes), (["a", "a b", "b0", "c"], ["b/", "d/", "z/"]), f"delimited, {limit} a page")
    marker = base64.urlsafe_b64encode(b'{"c":0,"k":"b/2"}').decode()
    equal(kodo.keys(marker=marker), TREE[4:], "from any key on")


@test
def listings_refuse_what_is_wrong(store, kodo):
    refused(400, kodo.manager.list(BUCKET, limit=1001))
    refused(400, kodo.manager.list(BUCKET, limit=-1))
    refused(640, kodo.manager.list(BUCKET, marker="nonsense"))
    refused(631, kodo.manager.list("no-such-bucket"))


@test
def listings_come_as_lines_too(store, kodo):
    for key in TREE:
        kodo.put(key, b"1")
    url = f"{store.endpoint}/v2/list?bucket={BUCKET}&delimiter=%2F&limit=4"
    answer = requests.post(url, auth=qiniu.auth.QiniuMacRequestsAuth(mac()), timeout=20)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    equal([(line["item"] or {}).get("key") or line["dir"] for line in lines], ["a", "a b", "b/", "b0"], "lines")
    equal(kodo.keys(marker=lines[2]["marker"], delimiter="/"), ["b0", "c"], "the marker of a line")


# ---------------------------------------------------------------- uploads in one request

@test
def forms_return_what_the_policy_wants(store, kodo):
    body = '{"key":"$(key)","hash":$(etag),"size":$(fsize),"mime":"$(mimeType)","foo":$(x:foo),"b":"$(bucket)",' \
           '"name":$(fname),"none":$(x:none)}'
    result = kodo.put('a"b', b"hello", token=kodo.token('a"b', returnBody=body), params={"x:foo": 'f"1', "y": "2"},
                      mime_type="text/plain", fname="näme", check_crc=True)
    equal(result, {"key": 'a"b', "hash": qetag(b"hello"), "size": 5, "mime": "text/plain", "foo": 'f"1',
                   "b": BUCKET, "name": "näme", "none": None}, "returnBody")


@test
def the_server_chooses_keys(store, kodo):
    result = done(*put_data(kodo.token(), None, b"hello", regions=kodo.regions))
    equal(result, {"hash": qetag(b"hello"), "key": qetag(b"hello")}, "named by its hash")
    token = kodo.token(saveKey="saved/$(etag)/$(fname)")
    result = done(*put_data(token, None, b"hello", fname="f.txt", regions=kodo.regions))
    equal(result["key"], f"saved/{qetag(b'hello')}/f.txt", "saveKey")
    token = kodo.token(saveKey="forced", forceSaveKey=True)
    equal(done(*put_data(token, "mine", b"1", regions=kodo.regions))["key"], "forced", "forceSaveKey")


@test
def types_are_detected(store, kodo):
    def stored(key, mime, **policy):
        kodo.put(key, b"1", token=kodo.token(key, **policy), mime_type=mime)
        return kodo.stat(key)["mimeType"]
    equal(stored("a.png", ""), "image/png", "by its name")
    equal(stored("a.png", "text/plain"), "text/plain", "as the client says")
    equal(stored("a.png", "text/plain", detectMime=1), "image/png", "not as the client says")
    equal(stored("nothing", ""), "application/octet-stream", "unknown")


@test
def scopes_bind(store, kodo):
    refused(403, put_data(kodo.token("a"), "b", b"1", regions=kodo.regions), "scope")
    kodo.put("pre/x", b"1", token=kodo.token("pre/", isPrefixalScope=1))
    refused(403, put_data(kodo.token("pre/", isPrefixalScope=1), "other", b"1", regions=kodo.regions), "scope")
    refused(614, put_data(kodo.token("pre/", isPrefixalScope=1), "pre/x", b"2", regions=kodo.regions), "exists")
    refused(631, put_data(kodo.token("a", bucket="no-such-bucket"), "a", b"1", regions=kodo.regions))


@test
def only_what_may_be_replaced_is(store, kodo):
    kodo.put("a", b"1", metadata={"x-qn-meta-k": "first"})
    refused(614, put_data(kodo.token(), "a", b"2", regions=kodo.regions), "exists")
    kodo.put("a", b"1", token=kodo.token(), metadata={"x-qn-meta-k": "second"})
    refused(614, put_data(kodo.token("a", insertOnly=1), "a", b"2", regions=kodo.regions), "exists")
    kodo.put("a", b"1", token=kodo.token("a", insertOnly=1), metadata={"x-qn-meta-k": "third"})
    equal(kodo.stat("a")["x-qn-meta"], {"k": "first"}, "the same bytes again change nothing")
    kodo.put("a", b"2", metadata={"x-qn-meta-k": "fourth"})
    equal((kodo.get("a").body, kodo.stat("a")["x-qn-meta"]), (b"2", {"k": "fourth"}), "replaced")


@test
def sizes_and_types_are_limited(store, kodo):
    refused(413, put_data(kodo.token("a", fsizeLimit=4), "a", b"12345", regions=kodo.regions))
    refused(403, put_data(kodo.token("a", fsizeMin=6), "a", b"12345", regions=kodo.regions))
    kodo.put("a", b"12345", token=kodo.token("a", fsizeLimit=5, fsizeMin=5))
    limited = kodo.token("a", mimeLimit="image/*;text/plain")
    kodo.put("a", b"1", token=limited, mime_type="image/png")
    refused(403, put_data(limited, "a", b"1", mime_type="text/html", regions=kodo.regions), "mimeType")
    refused(403, put_data(kodo.token("a", mimeLimit="!text/html"), "a", b"1", mime_type="text/html",
                          regions=kodo.regions))
    kodo.put("a", b"1", token=kodo.token("a", deleteAfterDays=7))
    equal(abs(kodo.stat("a")["expiration"] - time.time() - 7 * 86400) < 60, True, "deleteAfterDays")


@test
def a_failed_callback_stores_and_says_so(store, kodo):
    token = kodo.token("a", callbackUrl="http://127.0.0.1:1/", callbackBody="key=$(key)")
    refused(579, put_data(token, "a", b"hello", regions=kodo.regions), "callback")
    equal(kodo.get("a").body, b"hello", "stored all the same")


def form(store, fields, data, name="file_name"):
    return requests.post(store.endpoint + "/", data=fields, files={"file": (name, data, "text/plain")}, timeout=20)


@test
def altered_bodies_are_refused(store, kodo):
    token, crc = kodo.token("a"), zlib.crc32(b"hello world")
    equal(crc, 222957957, "the Kodo API documentation's number")
    answer = form(store, {"token": token, "key": "a", "crc32": str(crc)}, b"hello w0rld")
    equal((answer.status_code, "crc32" in answer.json()["error"]), (406, True), "altered")
    equal(form(store, {"token": token, "key": "a", "crc32": "0"}, b"hello").status_code, 406, "an explicit 0")
    equal(form(store, {"token": token, "key": "a", "crc32": "x"}, b"hello").status_code, 400, "no number")
    refused(612, kodo.manager.stat(BUCKET, "a"))
    equal(form(store, {"token": token, "key": "a", "crc32": str(crc)}, b"hello world").status_code, 200, "whole")
    equal(form(store, {"token": token, "key": "a", "crc32": "0"}, b"").status_code, 200, "empty")


@test
def forms_keep_headers_and_odd_bytes(store, kodo):
    fields = {"token": kodo.token("a"), "key": "a", "cacheControl": "max-age=1", "contentLanguage": "de",
              "contentEncoding": "br", "contentDisposition": "inline", "expires": "never"}
    data = b"\r\n--" + b"\r" * 100 + b"\r\n--x--\r\n" + bytes(range(256)) * 500
    equal(form(store, fields, data).status_code, 200, "stored")
    answer = kodo.get("a")
    equal(answer.body, data, "bytes that look like a boundary")
    equal([answer.headers[name] for name in ("Cache-Control", "Content-Language", "Content-Encoding",
                                             "Content-Disposition", "Expires")],
          ["max-age=1", "de", "br", "inline", "never"], "headers")


@test
def broken_forms_are_refused(store, kodo):
    equal(form(store, {"key": "a"}, b"1").status_code, 401, "no token")
    equal(requests.post(store.endpoint + "/", data={"token": "x"}, timeout=20).status_code, 400, "no form data")
    answer = requests.post(store.endpoint + "/", files={"token": (None, kodo.token("a"))}, timeout=20)
    equal((answer.status_code, "file" in answer.json()["error"]), (400, True), "no file")
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    cut = b'--b\r\nContent-Disposition: form-data; name="token"\r\n\r\nabc'
    equal(requests.post(store.endpoint + "/", data=cut, headers=headers, timeout=20).status_code, 400, "cut off")


# ---------------------------------------------------------------- uploads in parts, version 2

class Parts:
    """An upload in parts, request by request."""

    def __init__(self, kodo, key, token=None):
        self.kodo, self.token = kodo, token or kodo.token(key)
        name = "~" if key is None else base64.urlsafe_b64encode(key.encode()).decode()
        self.base = f"{kodo.store.endpoint}/buckets/{BUCKET}/objects/{name}/uploads"
        self.id = self.send("POST", self.base).json().get("uploadId")

    def send(self, method, url, data=None, **headers):
        return requests.request(method, url, data=data, timeout=60,
                                headers={"Authorization": "UpToken " + self.token, **headers})

    def part(self, number, data, md5=None):
        return self.send("PUT", f"{self.base}/{self.id}/{number}", data,
                         **{"Content-MD5": md5 or hashlib.md5(data).hexdigest()})

    def list(self, query=""):
        return self.send("GET", f"{self.base}/{self.id}{query}")

    def complete(self, parts, **more):
        return self.send("POST", f"{self.base}/{self.id}", json.dumps({"parts": parts, **more}))

    def abort(self):
        return self.send("DELETE", f"{self.base}/{self.id}")


def qetag_of_parts(*parts):
    digests = b""
    for part in parts:
        digests += base64.urlsafe_b64decode(qetag(part))[1:]
    return base64.urlsafe_b64encode(b"\x9e" + hashlib.sha1(digests).digest()).decode()


@test
def the_sdk_uploads_in_parts(store, kodo):
    for size, part in ((9 * MIB + 5, 4 * MIB), (5 * MIB, 1 * MIB), (12 * MIB, 5 * MIB)):
        data = content(size)
        result = done(*put_stream_v2(
            kodo.token("dir/big"), "dir/big", io.BytesIO(data), "big", size, params={"x:foo": "f"},
            mime_type="video/mp4", version="v2", part_size=part, bucket_name=BUCKET, regions=kodo.regions,
            metadata={"x-qn-meta-k": "v"}))
        parts = [data[start:start + part] for start in range(0, size, part)]
        wanted = qetag(data) if part == 4 * MIB else qetag_of_parts(*parts)
        equal(result, {"hash": wanted, "key": "dir/big"}, f"{size} bytes in parts of {part}")
        answer = kodo.get("dir/big")
        equal((answer.body == data, answer.headers["ETag"]), (True, f'"{wanted}"'), "read back")
        stat = kodo.stat("dir/big")
        equal((stat["mimeType"], stat["x-qn-meta"], stat["hash"]), ("video/mp4", {"k": "v"}, wanted), "stat")


@test
def hashes_of_parts_are_the_published_ones(store, kodo):
    zeros = bytes(10 * MIB)
    for sizes, wanted in (((8, 2), "njWAiy6aPsXZnOSJ74MjefgA0cxp"), ((4, 4, 2), "lrgta7Rm8vkyiaBmECBeS8jIYEuw"),
                          ((6,), "nphfcf8MKJoqC0xCkMVyxsrKJD8c")):
        upload = Parts(kodo, "zeros")
        parts = []
        for number, size in enumerate(sizes, 1):
            parts.append({"partNumber": number, "etag": upload.part(number, zeros[:size * MIB]).json()["etag"]})
        equal(upload.complete(parts).json()["hash"], wanted, sizes)
    done(*kodo.manager.copy(BUCKET, "zeros", BUCKET, "copy", force="true"))
    done(*kodo.manager.move(BUCKET, "copy", BUCKET, "moved", force="true"))
    equal(kodo.stat("moved")["hash"], "nphfcf8MKJoqC0xCkMVyxsrKJD8c", "copies and moves keep the hash")
    answer = requests.post(f"{store.endpoint}/stat/{entry('moved')}?needparts=true",
                           auth=qiniu.auth.QiniuMacRequestsAuth(mac()), timeout=20)
    equal(answer.json()["parts"], [6 * MIB], "needparts")


@test
def an_upload_is_resumed(store, kodo):
    path = os.path.join(SCRATCH, "resumed")
    data = content(9 * MIB)
    with open(path, "wb") as file:
        file.write(data)
    recorder = UploadProgressRecorder(SCRATCH)
    arguments = dict(upload_progress_recorder=recorder, version="v2", part_size=MIB, bucket_name=BUCKET,
                     regions=kodo.regions)
    # The fourth part is refused, as long as the SDK tries.
    store.faults("op=uploadPart,after=3,kind=status:400")
    _, info = put_file_v2(kodo.token("resumed"), "resumed", path, **arguments)
    equal(info.ok(), False, "the first try fails")
    equal(recorder.has_upload_record("resumed", "resumed"), True, "it is recorded")
    store.faults("op=uploadPart,after=6,kind=status:400", "op=initiateMultipartUpload,kind=status:400")
    done(*put_file_v2(kodo.token("resumed"), "resumed", path, **arguments))
    store.faults("")
    equal(kodo.get("resumed").body == data, True, "only missing parts were sent, and all is there")


@test
def parts_are_listed_and_replaced(store, kodo):
    upload = Parts(kodo, "a")
    etags = {}
    for number in (5, 1, 3):
        etags[number] = upload.part(number, bytes([number]) * MIB).json()["etag"]
    etags[3] = upload.part(3, b"new" * MIB).json()["etag"]
    page = upload.list().json()
    equal((page["uploadId"], page["partNumberMarker"]), (upload.id, 0), "the only page")
    equal([(part["partNumber"], part["size"], part["etag"]) for part in page["parts"]],
          [(1, MIB, etags[1]), (3, 3 * MIB, etags[3]), (5, MIB, etags[5])], "parts")
    equal(abs(page["expireAt"] - time.time() - 7 * 86400) < 60, True, "a week")
    page = upload.list("?max-parts=2").json()
    equal((page["partNumberMarker"], len(page["parts"])), (3, 2), "the first page")
    page = upload.list("?max-parts=2&part-number-marker=3").json()
    equal((page["partNumberMarker"], [part["partNumber"] for part in page["parts"]]), (0, [5]), "the second")
    equal([part["partNumber"] for part in upload.list("?part-number_marker=3").json()["parts"]], [5], "go's spelling")
    result = upload.complete([{"partNumber": number, "etag": etags[number]} for number in (1, 3)])
    equal(result.status_code, 200, "some of the parts")
    equal(kodo.get("a").body == b"\1" * MIB + b"new" * MIB, True, "the parts chosen")
    equal(upload.list().status_code, 612, "gone")


@test
def wrong_parts_are_refused(store, kodo):
    upload = Parts(kodo, "a")
    first = {"partNumber": 1, "etag": upload.part(1, b"1" * MIB).json()["etag"]}
    second = {"partNumber": 2, "etag": upload.part(2, b"2").json()["etag"]}
    answer = upload.part(3, b"altered", md5=hashlib.md5(b"whole").hexdigest())
    equal((answer.status_code, "md5" in answer.json()["error"]), (400, True), "an altered part")
    for parts, what in (([second, first], "order"), ([first, first], "twice"), ([], "none"),
                        ([dict(first, etag=second["etag"])], "another etag"),
                        ([first, dict(second, partNumber=3)], "never sent")):
        equal(upload.complete(parts).status_code, 400, what)
    equal(upload.part(0, b"1").status_code, 400, "part 0")
    equal(upload.part(10001, b"1").status_code, 400, "part 10001")
    small = Parts(kodo, "a")
    parts = [{"partNumber": number, "etag": small.part(number, b"1").json()["etag"]} for number in (1, 2)]
    answer = small.complete(parts)
    equal((answer.status_code, "1048576" in answer.json()["error"]), (400, True), "a small part")
    equal(small.abort().status_code, 200, "abort")
    for answer in (small.abort(), small.part(1, b"1"), small.complete(parts), small.list()):
        equal((answer.status_code, answer.json()["error"]), (612, "no such uploadId"), "gone")
    equal(upload.complete([first, second], mimeType="text/a", metadata={"x-qn-meta-k": "v"}, customVars={"x:a": "1"},
                          fname="f").json()["key"], "a", "in order")
    equal((kodo.stat("a")["mimeType"], kodo.stat("a")["x-qn-meta"]), ("text/a", {"k": "v"}), "said at the end")


@test
def policies_bind_parts_too(store, kodo):
    kodo.put("a", b"1")
    upload = Parts(kodo, "a", kodo.token("a", insertOnly=1))
    part = {"partNumber": 1, "etag": upload.part(1, b"2").json()["etag"]}
    equal(upload.complete([part]).status_code, 614, "exists")
    equal(Parts(kodo, "a", kodo.token("b")).id, None, "another key")
    equal(Parts(kodo, "a", kodo.token("a", bucket=OTHER)).id, None, "another bucket")
    upload = Parts(kodo, "a", kodo.token("a", fsizeLimit=1))
    part = {"partNumber": 1, "etag": upload.part(1, b"22").json()["etag"]}
    equal(upload.complete([part]).status_code, 413, "too large")
    upload = Parts(kodo, None, kodo.token(returnBody='{"k":$(key),"s":$(fsize)}'))
    part = {"partNumber": 1, "etag": upload.part(1, b"22").json()["etag"]}
    equal(upload.complete([part]).json(), {"k": qetag(b"22"), "s": 2}, "a key that the server chooses")
    short = Parts(kodo, "late", kodo.token("late", expires=2))
    part = {"partNumber": 1, "etag": short.part(1, b"1").json()["etag"]}
    short.token = kodo.token("late", expires=-1)
    answer = short.complete([part])
    equal((answer.status_code, answer.json()["error"]), (401, "token out of date"), "the deadline counts at the end")


# ---------------------------------------------------------------- uploads by blocks, version 1

def sent(kodo, path, data, token=None, **headers):
    return requests.post(kodo.store.endpoint + path, data=data, timeout=60,
                         headers={"Authorization": "UpToken " + (token or kodo.token("v1")), **headers})


@test
def the_sdk_uploads_by_blocks(store, kodo):
    data = content(9 * MIB + 3)
    result = done(*put_stream_v2(
        kodo.token("dir/v1"), "dir/v1", io.BytesIO(data), "näme", len(data), params={"x:foo": "f"},
        mime_type="video/mp4", version="v1", bucket_name=BUCKET, regions=kodo.regions, metadata={"x-qn-meta-k": "v"}))
    equal(result, {"hash": qetag(data), "key": "dir/v1"}, "stored")
    equal(kodo.get("dir/v1").body == data, True, "bytes")
    stat = kodo.stat("dir/v1")
    equal((stat["mimeType"], stat["x-qn-meta"]), ("video/mp4", {"k": "v"}), "what was said")


@test
def blocks_grow_by_chunks(store, kodo):
    data = content(4 * MIB + 10)
    block = sent(kodo, f"/mkblk/{4 * MIB}", data[:MIB]).json()
    equal((block["offset"], block["crc32"]), (MIB, zlib.crc32(data[:MIB])), "first chunk")
    checksum = base64.urlsafe_b64encode(hashlib.sha1(data[:MIB]).digest()).decode()
    equal((block["checksum"], block["host"]), (checksum, store.endpoint), "first chunk")
    equal(sent(kodo, f"/bput/{block['ctx']}/5", b"x").status_code, 701, "another offset")
    grown = sent(kodo, f"/bput/{block['ctx']}/{MIB}", data[MIB:4 * MIB]).json()
    equal(sent(kodo, f"/bput/{block['ctx']}/{MIB}", b"x").status_code, 701, "a context that was used up")
    last = sent(kodo, "/mkblk/10", data[4 * MIB:]).json()
    key = base64.urlsafe_b64encode(b"v1").decode()
    path = f"/mkfile/{len(data)}/key/{key}"
    equal(sent(kodo, path, "nonsense").status_code, 701, "no context")
    equal(sent(kodo, path, last["ctx"] + "," + grown["ctx"]).status_code, 701, "in the wrong order")
    equal(sent(kodo, f"/mkfile/5/key/{key}", grown["ctx"] + "," + last["ctx"]).status_code, 400, "another size")
    answer = sent(kodo, path, grown["ctx"] + "," + last["ctx"])
    equal((answer.status_code, answer.json()["hash"]), (200, qetag(data)), "made")
    equal(kodo.get("v1").body == data, True, "bytes")
    equal(sent(kodo, f"/mkblk/{4 * MIB + 1}", b"1").status_code, 400, "a block too large")
    equal(sent(kodo, "/mkblk/1", b"22").status_code, 400, "more than the block")


@test
def files_of_blocks_replace(store, kodo):
    kodo.put("v1", b"old")
    block = sent(kodo, "/mkblk/3", b"new").json()
    path = "/mkfile/3/key/" + base64.urlsafe_b64encode(b"v1").decode()
    equal(sent(kodo, path, block["ctx"], token=kodo.token(insertOnly=1)).status_code, 614, "insertOnly")
    equal(sent(kodo, path, block["ctx"], token=kodo.token()).status_code, 200, "a bucket's scope replaces here")
    equal(kodo.get("v1").body, b"new", "replaced")


# ---------------------------------------------------------------- downloads

@test
def downloads_answer_ranges_and_conditions(store, kodo):
    kodo.put("dir/a b.txt", b"0123456789", mime_type="text/plain", metadata={"x-qn-meta-k": "v"})
    answer = kodo.get("dir/a b.txt")
    headers = answer.headers
    equal((answer.status, answer.body, headers["ETag"]), (200, b"0123456789", f'"{qetag(b"0123456789")}"'), "whole")
    equal((headers["Content-Type"], headers["Accept-Ranges"], headers["X-Qn-Meta-K"], bool(headers["X-Reqid"])),
          ("text/plain", "bytes", "v", True), "headers")
    for text, body, where in (("bytes=2-4", b"234", "2-4"), ("bytes=8-", b"89", "8-9"), ("bytes=-3", b"789", "7-9"),
                              ("bytes=5-99", b"56789", "5-9"), ("bytes=0-0", b"0", "0-0")):
        part = kodo.get("dir/a b.txt", {"Range": text})
        equal((part.status, part.body, part.headers["Content-Range"]), (206, body, f"bytes {where}/10"), text)
    beyond = kodo.get("dir/a b.txt", {"Range": "bytes=10-11"})
    equal((beyond.status, beyond.headers["Content-Range"]), (416, "bytes */10"), "beyond")
    head = kodo.get("dir/a b.txt", method="HEAD")
    equal((head.status, head.headers["Content-Length"], head.body), (200, "10", b""), "HEAD")
    equal(kodo.get("dir/a b.txt", {"If-None-Match": headers["ETag"]}).status, 304, "the same")
    equal(kodo.get("dir/a b.txt", {"If-None-Match": '"other"'}).status, 200, "another")
    equal(kodo.get("dir/a b.txt", {"If-Modified-Since": headers["Last-Modified"]}).status, 304, "not since")
    equal(kodo.get("dir/a b.txt", {"If-Modified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"}).status, 200, "since")
    missing = kodo.get("missing")
    equal((missing.status, json.loads(missing.body)), (404, {"error": "Document not found"}), "missing")
    named = kodo.get("", url=kodo.url("dir/a b.txt") + "?attname=x.txt")
    equal((named.status, "x.txt" in named.headers["Content-Disposition"]), (200, True), "attname")


@test
def downloads_need_a_token(store, kodo):
    kodo.put("a", b"1")
    answer = kodo.get("a", signed=False)
    equal((answer.status, json.loads(answer.body)), (401, {"error": "download token not specified"}), "none")
    url = kodo.auth.private_download_url(kodo.url("a"))
    for changed, what in ((url[:-2], "cut"), (url.replace("/a?", "/b?"), "another key"),
                          (url.replace("e=", "e=9"), "another time")):
        equal(kodo.get("a", url=changed, signed=False).status, 401, what)
    answer = kodo.get("a", url=kodo.auth.private_download_url(kodo.url("a"), expires=-5), signed=False)
    equal((answer.status, json.loads(answer.body)), (401, {"error": "token out of date"}), "expired")
    equal(Kodo(store, secret="wrong").get("a").status, 401, "another secret")
    equal(kodo.get("a", url=url + "&more=1", signed=False).status, 200, "what comes behind the token does not count")
    done(*kodo.manager.change_bucket_permission(BUCKET, "0"))
    equal(done(*kodo.manager.bucket_info(BUCKET))["private"], 0, "public")
    equal(kodo.get("a", signed=False).body, b"1", "a public bucket")
    equal(Kodo(store, secret="wrong").get("a").status, 401, "a wrong token stays wrong")
    done(*kodo.manager.change_bucket_permission(BUCKET, "1"))
    equal(kodo.get("a", signed=False).status, 401, "private again")


@test
def getfile_needs_no_domain(store, kodo):
    kodo.put("dir/a b", b"12345")
    url = f"{store.endpoint}/getfile/{ACCESS_KEY}/{BUCKET}/dir/a%20b"
    equal(requests.get(kodo.auth.private_download_url(url), timeout=20).content, b"12345", "signed")
    equal(requests.get(url, timeout=20).status_code, 401, "unsigned")


# ---------------------------------------------------------------- buckets and regions

@test
def buckets_are_made_listed_and_dropped(store, kodo):
    done(*kodo.manager.mkbucketv3("made-here", "z2"))
    equal(done(*kodo.manager.buckets()), [BUCKET, "made-here", OTHER], "buckets")
    info = done(*kodo.manager.bucket_info("made-here"))
    equal((info["region"], info["private"]), ("z2", 1), "info")
    equal(store.s3().get_bucket_location(Bucket="made-here")["LocationConstraint"], "cn-south-1", "for S3")
    equal([item["name"] for item in done(*kodo.manager.list_bucket("z2"))], ["made-here"], "of a region")
    refused(614, kodo.manager.mkbucketv3("made-here", "z2"))
    refused(400, kodo.manager.mkbucketv3("No_Bucket", "z2"))
    equal(done(*kodo.manager.list_domains("made-here")), [f"made-here.localhost:{store.port}"], "domains")
    mac_auth = qiniu.auth.QiniuMacRequestsAuth(mac())
    page = requests.get(store.endpoint + "/buckets?apiVersion=v4&limit=2", auth=mac_auth, timeout=20).json()
    equal(([item["name"] for item in page["buckets"]], page["is_truncated"], page["next_marker"]),
          ([BUCKET, "made-here"], True, "made-here"), "page by page")
    equal(requests.post(store.endpoint + "/drop/made-here", auth=mac_auth, timeout=20).status_code, 200, "drop")
    refused(631, kodo.manager.bucket_info("made-here"))
    equal(requests.post(store.endpoint + f"/drop/{BUCKET}x", auth=mac_auth, timeout=20).status_code, 631, "no bucket")
    answer = requests.post(store.endpoint + f"/getbucketquota/{BUCKET}", auth=mac_auth, timeout=20)
    equal(answer.json(), {"size": -1, "count": -1}, "no quota")


@test
def the_sdk_finds_every_service_by_itself(store, kodo):
    qiniu.config.set_default(default_uc_host=store.endpoint, default_query_region_host=store.endpoint,
                             default_query_region_backup_hosts=[], default_uc_backup_hosts=[])
    manager = BucketManager(kodo.auth)
    done(*put_data(kodo.token("found"), "found", b"hello"))
    equal(done(*manager.stat(BUCKET, "found"))["fsize"], 5, "rs")
    equal([item["key"] for item in manager.list(BUCKET)[0]["items"]], ["found"], "rsf")
    data = content(5 * MIB)
    done(*put_stream_v2(kodo.token("big"), "big", io.BytesIO(data), "big", len(data), version="v2",
                        part_size=4 * MIB, bucket_name=BUCKET))
    equal(done(*manager.stat(BUCKET, "big"))["hash"], qetag(data), "up")
    answer = requests.get(f"{store.endpoint}/v4/query?ak={ACCESS_KEY}&bucket={BUCKET}", timeout=20).json()
    host = answer["hosts"][0]
    equal((host["up"]["domains"], host["io_src"]["domains"], host["ttl"]),
          ([store.host], [f"{BUCKET}.localhost:{store.port}"], 86400), "v4")
    answer = requests.get(f"{store.endpoint}/v2/query?ak={ACCESS_KEY}&bucket={BUCKET}", timeout=20).json()
    equal(answer["up"]["src"]["main"], [store.host], "v2")
    for query, code in ((f"ak={ACCESS_KEY}&bucket=no-such-bucket", 631), (f"ak=nobody&bucket={BUCKET}", 612)):
        equal(requests.get(f"{store.endpoint}/v4/query?{query}", timeout=20).status_code, code, query)


# ---------------------------------------------------------------- signatures

def mac(secret=SECRET_KEY, timestamp=True):
    return qiniu.auth.QiniuMacAuth(ACCESS_KEY, secret, disable_qiniu_timestamp_signature=not timestamp)


@test
def wrong_keys_are_refused(store, kodo):
    kodo.put("a", b"1")
    for stranger in (Kodo(store, secret="wrong"), Kodo(store, access="nobody")):
        refused(401, stranger.manager.stat(BUCKET, "a"), "bad token")
        refused(401, stranger.manager.list(BUCKET))
        refused(401, stranger.manager.delete(BUCKET, "a"))
        refused(401, stranger.manager.batch(build_batch_delete(BUCKET, ["a"])))
        refused(401, stranger.manager.buckets())
        refused(401, put_data(stranger.token("a"), "a", b"2", regions=kodo.regions), "bad token")
        equal(Parts(stranger, "a").id, None, "parts")
    equal(requests.post(f"{store.endpoint}/stat/{entry('a')}", timeout=20).status_code, 401, "unsigned")
    equal(kodo.get("a").body, b"1", "nothing happened")


@test
def upload_tokens_expire_and_cannot_be_changed(store, kodo):
    refused(401, put_data(kodo.token("a", expires=-1), "a", b"1", regions=kodo.regions), "out of date")
    access, sign, policy = kodo.token("a").split(":")
    other = base64.urlsafe_b64encode(
        json.dumps({"scope": BUCKET + ":b", "deadline": 1 << 40}).encode()).decode()
    refused(401, put_data(f"{access}:{sign}:{other}", "b", b"1", regions=kodo.regions), "bad token")
    nothing = kodo.auth.token_with_data("no json")
    equal(form(store, {"token": nothing, "key": "a"}, b"1").status_code, 401, "no policy")


@test
def clocks_may_differ_by_a_quarter_of_an_hour(store, kodo):
    kodo.put("a", b"1")
    real = qiniu.auth.datetime
    for minutes, code in ((-14, 200), (14, 200), (-16, 403), (16, 403)):
        class Skewed(datetime.datetime):
            @classmethod
            def utcnow(cls):
                return real.utcnow() + datetime.timedelta(minutes=minutes)
        qiniu.auth.datetime = Skewed
        try:
            answer = kodo.manager.stat(BUCKET, "a")
        finally:
            qiniu.auth.datetime = real
        if code == 200:
            done(*answer)
        else:
            refused(403, answer, "request time too skewed")
    undated = BucketManager(Auth(ACCESS_KEY, SECRET_KEY, disable_qiniu_timestamp_signature=True), regions=kodo.regions)
    equal(done(*undated.stat(BUCKET, "a"))["fsize"], 1, "without a time")


@test
def both_kinds_of_management_tokens_are_checked(store, kodo):
    kodo.put("a", b"1")
    path = f"/stat/{entry('a')}"
    old = qiniu.auth.RequestsAuth(kodo.auth)
    equal(requests.post(store.endpoint + path, auth=old, timeout=20).status_code, 200, "QBox")
    equal(requests.get(store.endpoint + path, auth=old, timeout=20).status_code, 200, "QBox, GET")
    body = {"op": path}
    equal(requests.post(store.endpoint + "/batch", data=body, auth=old, timeout=20).status_code, 200, "QBox and a form")
    wrong = qiniu.auth.RequestsAuth(Auth(ACCESS_KEY, "wrong"))
    equal(requests.post(store.endpoint + path, auth=wrong, timeout=20).status_code, 401, "QBox, another secret")

    def send(change):
        request = requests.Request("POST", store.endpoint + "/batch", data=body,
                                   auth=qiniu.auth.QiniuMacRequestsAuth(mac()), headers={"X-Qiniu-Extra": "1"})
        prepared = request.prepare()
        change(prepared)
        return requests.Session().send(prepared, timeout=20).status_code
    equal(send(lambda request: None), 200, "as it was signed")

    def alter_body(request):
        request.body = request.body.replace("stat", "stbt")
    def alter_type(request):
        request.headers["Content-Type"] = "text/plain"
    def alter_header(request):
        request.headers["X-Qiniu-Extra"] = "2"
    def add_header(request):
        request.headers["X-Qiniu-More"] = "2"
    def alter_path(request):
        request.url += "?x=1"
    def alter_method(request):
        request.method = "PUT"
    for change in (alter_body, alter_type, alter_header, add_header, alter_path, alter_method):
        equal(send(change), 401, change.__name__)
    json_auth = qiniu.auth.QiniuMacRequestsAuth(mac())
    answer = requests.post(store.endpoint + path, data=b"{}", headers={"Content-Type": "application/json"},
                           auth=json_auth, timeout=20)
    equal(answer.status_code, 200, "a JSON body is covered")


@test
def other_methods_and_paths_are_refused(store, kodo):
    auth = qiniu.auth.QiniuMacRequestsAuth(mac())
    equal(requests.put(f"{store.endpoint}/stat/{entry('a')}", auth=auth, timeout=20).status_code, 405, "PUT")
    equal(requests.post(f"{store.endpoint}/stat/!!", auth=auth, timeout=20).status_code, 400, "no entry")
    answer = requests.post(f"{store.endpoint}/no/such/service", auth=auth, timeout=20)
    equal((answer.status_code, "X-Reqid" in answer.headers), (404, True), "no service")
    refused(501, kodo.manager.fetch("http://127.0.0.1:1/", BUCKET, "a"))
    refused(478, kodo.manager.prefetch(BUCKET, "a"))


# ---------------------------------------------------------------- other dialects and other lives

@test
def objects_of_s3_are_seen(store, kodo):
    s3, data = store.s3(), content(9 * MIB)
    s3.put_object(Bucket=BUCKET, Key="whole", Body=data, ContentType="text/a", Metadata={"k": "v"},
                  CacheControl="no-cache", StorageClass="STANDARD_IA")
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
    sent_parts = []
    for number, part in enumerate((data[:5 * MIB], data[5 * MIB:]), 1):
        tag = s3.upload_part(Bucket=BUCKET, Key="parts", UploadId=upload, PartNumber=number, Body=part)["ETag"]
        sent_parts.append({"PartNumber": number, "ETag": tag})
    s3.complete_multipart_upload(Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload={"Parts": sent_parts})
    stat = kodo.stat("whole")
    equal((stat["hash"], stat["mimeType"], stat["type"], stat["x-qn-meta"]),
          (qetag(data), "text/a", 1, {"k": "v", "!cache-control": "no-cache"}), "whole")
    equal(kodo.get("whole").headers["Cache-Control"], "no-cache", "headers")
    equal(kodo.stat("parts")["hash"], qetag_of_parts(data[:5 * MIB], data[5 * MIB:]), "parts")
    equal([item["hash"] for item in done(*kodo.manager.list(BUCKET)[::2])["items"]],
          [kodo.stat("parts")["hash"], kodo.stat("whole")["hash"]], "the listing agrees")
    equal((kodo.get("parts").body == data, kodo.get("whole").body == data), (True, True), "bytes")


@test
def objects_of_kodo_are_seen_by_s3(store, kodo):
    s3 = store.s3()
    kodo.put("a", b"hello", mime_type="text/a", token=kodo.token("a", fileType=3), metadata={"x-qn-meta-k": "v"})
    head = s3.head_object(Bucket=BUCKET, Key="a")
    equal((head["ETag"], head["ContentType"], head["Metadata"], head["StorageClass"]),
          (f'"{hashlib.md5(b"hello").hexdigest()}"', "text/a", {"k": "v"}, "DEEP_ARCHIVE"), "head")
    data = content(9 * MIB)
    done(*put_stream_v2(kodo.token("big"), "big", io.BytesIO(data), "big", len(data), version="v2",
                        part_size=4 * MIB, bucket_name=BUCKET, regions=kodo.regions))
    answer = s3.get_object(Bucket=BUCKET, Key="big")
    equal((answer["Body"].read() == data, answer["ETag"].endswith('-3"')), (True, True), "parts")
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "big"})
    equal(kodo.stat("copy")["hash"], qetag(data), "a copy by S3 is in one piece")


@test
def everything_is_there_after_a_restart(store, kodo):
    directory = tempfile.mkdtemp(prefix="pailstore-")
    first = Store("--bucket", BUCKET, "--bucket", OTHER, directory=directory)
    try:
        one = Kodo(first)
        one.put("a", b"hello", metadata={"x-qn-meta-k": "v"})
        done(*one.manager.delete_after_days(BUCKET, "a", 3))
        upload = Parts(one, "parts")
        etags = [upload.part(number, bytes([number]) * 5 * MIB).json()["etag"] for number in (1, 2)]
        whole = Parts(one, "whole")
        answer = whole.part(1, b"1" * 6 * MIB).json()
        wanted = whole.complete([{"partNumber": 1, "etag": answer["etag"]}]).json()["hash"]
        before = one.stat("a")
        one.put("moving", b"m")
        done(*one.manager.move(BUCKET, "moving", BUCKET, "moved"))
    finally:
        first.stop()
    second = Store(directory=directory)
    try:
        two = Kodo(second)
        equal(two.stat("a"), before, "stat")
        equal(two.stat("whole")["hash"], wanted, "hash of parts")
        equal((two.keys(), two.get("moved").body), (["a", "moved", "whole"], b"m"), "a move lasts")
        upload.kodo, upload.base = two, upload.base.replace(first.endpoint, second.endpoint)
        equal([part["etag"] for part in upload.list().json()["parts"]], etags, "parts")
        parts = [{"partNumber": number, "etag": tag} for number, tag in enumerate(etags, 1)]
        equal(upload.complete(parts).json()["hash"], qetag_of_parts(b"\1" * 5 * MIB, b"\2" * 5 * MIB), "completed")
    finally:
        second.remove()


@test
def faults_are_spelled_as_kodo_does(store, kodo):
    kodo.put("a", b"1")
    for status in (573, 599, 503):
        store.faults(f"op=stat,kind=status:{status},retry-after=2")
        answer = requests.post(f"{store.endpoint}/stat/{entry('a')}", auth=qiniu.auth.QiniuMacRequestsAuth(mac()),
                               timeout=20)
        equal((answer.status_code, "error" in answer.json(), answer.headers["Retry-After"]), (status, True, "2"), "fault")
    store.faults("op=stat,kind=expired,count=1")
    refused(401, kodo.manager.stat(BUCKET, "a"), "out of date")
    # The SDK goes on to the next host of a service, where there is one.
    store.faults("op=stat,kind=status:503,count=1")
    hosts = [Endpoint.from_host(store.endpoint), Endpoint.from_host(f"http://localhost:{store.port}")]
    manager = BucketManager(kodo.auth, regions=[Region(region_id="z0", services={ServiceName.RS: hosts})])
    equal(done(*manager.stat(BUCKET, "a"))["fsize"], 1, "after a fault")
    store.faults("")


if __name__ == "__main__":
    try:
        sys.exit(conformance.main(Store, {"qiniu": Kodo}, clear, BUCKET, ["--bucket", OTHER]))
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
