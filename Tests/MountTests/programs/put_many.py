"""put_many.py COUNT FORMAT: stores COUNT small objects, keys FORMAT % number, fast: ENDPOINT, BUCKET, AWS_*.

boto3 would need minutes for 100,000; this signs by hand (Signature Version 4, unsigned payload) and keeps connections.
"""

import hashlib
import hmac
import http.client
import os
import sys
import time
import urllib.parse
from multiprocessing import Pool

WORKERS = 4
address = os.environ["ENDPOINT"].removeprefix("http://")


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def put_range(numbers):
    first, last, form = numbers
    now = time.gmtime()
    stamp, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
    scope = f"{day}/us-east-1/s3/aws4_request"
    key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in scope.split("/"):
        key = sign(key, part)
    names = "host;x-amz-content-sha256;x-amz-date"
    values = f"host:{address}\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:{stamp}\n"
    connection = http.client.HTTPConnection(address)
    for number in range(first, last):
        path = "/" + urllib.parse.quote(f"{os.environ['BUCKET']}/{form % number}", safe="/~")
        request = f"PUT\n{path}\n\n{values}\n{names}\nUNSIGNED-PAYLOAD"
        digest = hashlib.sha256(request.encode()).hexdigest()
        signature = sign(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}").hex()
        credential = f"{os.environ['AWS_ACCESS_KEY_ID']}/{scope}"
        authorization = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
        connection.request(
            "PUT",
            path,
            body=str(number).encode(),
            headers={"x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": stamp, "Authorization": authorization},
        )
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:500]!r}")


if __name__ == "__main__":
    count, form = int(sys.argv[1]), sys.argv[2]
    step = -(-count // WORKERS)
    with Pool(WORKERS) as pool:
        pool.map(put_range, [(n, min(n + step, count), form) for n in range(0, count, step)])
