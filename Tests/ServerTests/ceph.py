#!/usr/bin/env python3
"""usage: ceph.py [NAME...]: mounts of a real Ceph, through its S3 API and through its Swift API, with both durabilities:
what POSIX promises, a big file that is changed, workers that are killed, and a slice of the crash matrix. NAME picks cases whose
name has it. PAILFS_TEST_LONG=1 for a bigger file and many more kills.

Needs Debian's ceph-mon, ceph-osd and radosgw, which run from a directory of their own."""

import shutil
import sys

from ceph_cluster import KEY, PROGRAMS, SECRET, SWIFT_SECRET, SWIFT_USER, Ceph
from server_bench import Bench, S3Bucket, SwiftContainer
import server_cases


def main(names):
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        print(f"{', '.join(missing)} not found: scripts/setup test", flush=True)
        return 1
    bench = Bench()
    ceph = None
    try:
        ceph = Ceph(bench.work / "ceph")
        stores = [S3Bucket(ceph.endpoint, KEY, SECRET, "pail-s3"),
                  SwiftContainer(ceph.auth_url, SWIFT_USER, SWIFT_SECRET, "pail-swift")]
        print("| Ceph | durable | checks | requests | failed |", flush=True)
        for store in stores:
            for durable in ("remote", "local"):
                passed, failed, requests = bench.passed, len(bench.failed), len(ceph.requests())
                server_cases.run(bench, store, durable, names)
                print(f"| {ceph.version()} {store.scheme} | {durable} | {bench.passed - passed} | "
                      f"{len(ceph.requests()) - requests} | {len(bench.failed) - failed} |", flush=True)
    finally:
        if ceph:
            ceph.stop()
    return bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
