"""Looks at a bucket from outside, with boto3: ENDPOINT and BUCKET and the AWS variables say which.

keys [PREFIX]          every key, one a line
get KEY                the object's bytes
put KEY FILE           stores a file
create                 makes the bucket
compare DIR [PREFIX]   fails unless the bucket holds exactly the tree: a file an object of the same bytes, a symbolic
                       link `name.rclonelink` with the target, a directory nothing or an empty `name/`
"""

import os
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError

client = boto3.client(
    "s3",
    endpoint_url=os.environ["ENDPOINT"],
    region_name="us-east-1",
    config=Config(s3={"addressing_style": "path"}),
)
bucket = os.environ["BUCKET"]


def keys(prefix=""):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def get(key):
    return client.get_object(Bucket=bucket, Key=key)["Body"].read()


def create():
    """A server that has just started may refuse for a while."""
    for _ in range(120):
        try:
            client.create_bucket(Bucket=bucket)
            client.put_object(Bucket=bucket, Key="first", Body=b"x")
            client.delete_object(Bucket=bucket, Key="first")
            return
        except (ClientError, EndpointConnectionError) as error:
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
    found = set(keys(prefix))
    wrong = [f"missing: {key}" for key in expected if key not in found]
    wrong += [f"not asked for: {key}" for key in found if key not in expected and key not in may_be and key != prefix]
    for key in found:
        if key in expected and get(key) != expected[key]:
            wrong.append(f"other bytes: {key}")
        if key in may_be and get(key) != b"":
            wrong.append(f"a directory marker with bytes: {key}")
    if wrong:
        sys.exit("\n".join(wrong))


def main(arguments):
    match arguments:
        case ["keys", *prefix]:
            print("".join(key + "\n" for key in keys(*prefix)), end="")
        case ["get", key]:
            sys.stdout.buffer.write(get(key))
        case ["put", key, path]:
            client.upload_file(path, bucket, key)
        case ["create"]:
            create()
        case ["compare", directory, *prefix]:
            compare(directory, *prefix)
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
