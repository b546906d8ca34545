"""Looks at a bucket from outside: with boto3, for which ENDPOINT, BUCKET and the AWS variables say which, or as a
container of OpenStack Swift when ST_AUTH, ST_USER and ST_KEY say where to log in.

keys [PREFIX]          every key, one a line
get KEY                the object's bytes
put KEY FILE           stores a file
create                 makes the bucket
compare DIR [PREFIX]   fails unless the bucket holds exactly the tree: a file an object of the same bytes, a symbolic
                       link `name.rclonelink` with the target, a directory nothing or an empty `name/`
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

bucket = os.environ["BUCKET"]


class S3:
    def __init__(self):
        import boto3
        from botocore.config import Config

        self.client = boto3.client(
            "s3",
            endpoint_url=os.environ["ENDPOINT"],
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    def keys(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def get(self, key):
        return self.client.get_object(Bucket=bucket, Key=key)["Body"].read()

    def put(self, key, path):
        self.client.upload_file(path, bucket, key)

    def metadata(self, key):
        return self.client.head_object(Bucket=bucket, Key=key)["Metadata"]

    def put_described(self, key, metadata):
        self.client.put_object(Bucket=bucket, Key=key, Body=b"described", Metadata=metadata)

    def put_bytes(self, key, data):
        """When it was changed, in ns."""
        self.client.put_object(Bucket=bucket, Key=key, Body=data)
        return int(self.client.head_object(Bucket=bucket, Key=key)["LastModified"].timestamp()) * 10**9

    def create(self):
        self.client.create_bucket(Bucket=bucket)

    def delete(self, key):
        self.client.delete_object(Bucket=bucket, Key=key)


class Swift:
    def __init__(self):
        self.storage = None

    def ask(self, method, key="", body=None, headers=None, **query):
        if self.storage is None:
            login = urllib.request.Request(
                os.environ["ST_AUTH"],
                headers={"X-Auth-User": os.environ["ST_USER"], "X-Auth-Key": os.environ["ST_KEY"]})
            with urllib.request.urlopen(login, timeout=20) as answer:
                self.storage = answer.headers["X-Storage-Url"], answer.headers["X-Auth-Token"]
        address, token = self.storage
        url = f"{address}/{bucket}" + ("/" + urllib.parse.quote(key) if key else "")
        if query:
            url += "?" + urllib.parse.urlencode(query)
        request = urllib.request.Request(url, body, {"X-Auth-Token": token, **(headers or {})}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.headers = answer.headers
            return answer.read()

    def metadata(self, key):
        self.ask("HEAD", key)
        prefix = "x-object-meta-"
        return {name.lower().removeprefix(prefix): value for name, value in self.headers.items()
                if name.lower().startswith(prefix)}

    def put_described(self, key, metadata):
        self.ask("PUT", key, b"described", {f"X-Object-Meta-{name}": value for name, value in metadata.items()})

    def keys(self, prefix):
        found = []
        while page := json.loads(self.ask("GET", prefix=prefix, format="json", marker=found[-1] if found else "")):
            found += [entry["name"] for entry in page]
        return found

    def get(self, key):
        return self.ask("GET", key)

    def put(self, key, path):
        with open(path, "rb") as file:
            self.ask("PUT", key, file.read())

    def create(self):
        self.ask("PUT")

    def delete(self, key):
        self.ask("DELETE", key)


store = Swift() if "ST_AUTH" in os.environ else S3()


def create():
    """A server that has just started may refuse for a while."""
    with open("first", "wb") as file:
        file.write(b"x")
    for _ in range(240):
        try:
            store.create()
            store.put("first", "first")
            store.delete("first")
            return
        except Exception as error:  # whatever the client library has for it
            last = error
            time.sleep(0.25)
    sys.exit(f"the bucket cannot be made: {last}")


def compare(directory, prefix=""):
    expected, may_be = {}, set()
    for folder, folders, files in os.walk(directory):
        for name in folders + files:
            path = os.path.join(folder, name)
            key = prefix + os.path.relpath(path, directory)
            if os.path.islink(path):
                expected[key + ".rclonelink"] = os.fsencode(os.readlink(path))
            elif os.path.isdir(path):
                may_be.add(key + "/")
            else:
                with open(path, "rb") as file:
                    expected[key] = file.read()
    found = set(store.keys(prefix))
    wrong = [f"missing: {key}" for key in expected if key not in found]
    wrong += [f"not asked for: {key}" for key in found if key not in expected and key not in may_be and key != prefix]
    for key in found:
        if key in expected and store.get(key) != expected[key]:
            wrong.append(f"other bytes: {key}")
        if key in may_be and store.get(key) != b"":
            wrong.append(f"a directory marker with bytes: {key}")
    if wrong:
        sys.exit("\n".join(wrong))


def main(arguments):
    match arguments:
        case ["keys", *prefix]:
            print("".join(key + "\n" for key in store.keys("".join(prefix))), end="")
        case ["get", key]:
            sys.stdout.buffer.write(store.get(key))
        case ["put", key, path]:
            store.put(key, path)
        case ["metadata", key, name]:
            print(store.metadata(key).get(name, ""), end="")
        case ["describe", key, name, value]:
            store.put_described(key, {name: value})
        case ["create"]:
            create()
        case ["compare", directory, *prefix]:
            compare(directory, *prefix)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
